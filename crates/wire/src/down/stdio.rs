//! The line downstream: one caller over a pair of byte streams, of either era or of both.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Downstream, DownstreamOptions, Service,
    accent::{self, Declared, Said},
    legacy, modern,
    session::{self, Session},
};
use crate::{
    json::{Raw, skim::Skimmed},
    line::{FramedLine, LineReader, LineWriter},
    message::{BadMessage, Envelope, Id, Kind, Problem, RpcError, compose},
    seal::NoRandomness,
};

/// Serves one caller until its side ends, or until `stop` is cancelled: then requests under way may end, in the time the
/// options give them, and nothing new is begun. When both has happened, nothing is waited for.
pub async fn serve<R, W>(
    read: R,
    write: W,
    service: Arc<dyn Service>,
    options: DownstreamOptions,
    stop: CancellationToken,
) -> Result<(), NoRandomness>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (limits, drain) = (options.limits.clone(), options.drain);
    let downstream = Downstream::new(service, options)?;
    let (writer, writing) = LineWriter::new(write, limits.unsent_bytes);
    let tasks = TaskTracker::new();
    tasks.spawn(writing);
    let line = Arc::new(StdioDownstream {
        downstream,
        writer: writer.clone(),
        session: Mutex::default(),
        modern: Mutex::default(),
        requests: TaskTracker::new(),
        tasks: tasks.clone(),
        stop: CancellationToken::new(),
    });
    let mut reader = LineReader::new(read, limits.message_bytes);
    let hung_up = tokio::select! {
        () = line.converse(&mut reader) => true,
        () = stop.cancelled() => false,
    };
    line.downstream.draining.cancel();
    line.requests.close();
    if hung_up {
        // Whoever has said everything may still read the answers, but gives none.
        line.session.lock().iter().for_each(|session| session.no_more_answers());
    }
    tokio::select! {
        () = line.converse(&mut reader), if !hung_up => {}
        () = stop.cancelled(), if hung_up => {}
        () = line.requests.wait() => {}
        () = tokio::time::sleep(drain) => {}
    }
    line.stop.cancel();
    line.requests.wait().await;
    writer.close();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

struct StdioDownstream {
    downstream: Arc<Downstream>,
    writer: LineWriter,
    // Nothing awaits under these locks.
    session: Mutex<Option<Arc<Session>>>,
    /// Stateless requests under way, by id.
    modern: Mutex<std::collections::HashMap<Id, CancellationToken>>,
    requests: TaskTracker,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl StdioDownstream {
    /// Takes what the caller says until it hangs up.
    async fn converse<R: AsyncRead + Unpin>(self: &Arc<Self>, reader: &mut LineReader<R>) {
        loop {
            match reader.next().await {
                Ok(Some(FramedLine::Message(text))) => self.take(&text),
                Ok(Some(FramedLine::TooLong(skimmed))) => self.too_long(skimmed),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn take(self: &Arc<Self>, text: &bytes::Bytes) {
        match Envelope::read(text.clone(), &self.downstream.options.limits) {
            Ok(envelope) => self.read(&envelope),
            Err(bad) if bad.problem == Problem::Batch && self.takes_batches() => {
                match Envelope::split_batch(text, &self.downstream.options.limits) {
                    Some(Ok(parts)) => parts.iter().for_each(|part| self.take(part)),
                    _ => self.refuse(&bad),
                }
            }
            Err(bad) => self.refuse(&bad),
        }
    }

    fn read(self: &Arc<Self>, envelope: &Envelope) {
        let session = self.session.lock().clone();
        match envelope.kind() {
            Kind::Request if self.downstream.draining.is_cancelled() => {
                let error = RpcError::new(RpcError::INTERNAL, "this server is about to end; nothing new is begun");
                self.say(compose::error(envelope.id(), &error));
            }
            Kind::Request => self.request(envelope, session),
            Kind::Notification if envelope.method() == "notifications/cancelled" => {
                self.cancel(envelope.params().as_ref());
                if let Some(session) = session {
                    session.take(envelope);
                }
            }
            _ => {
                if let Some(session) = session {
                    session.take(envelope);
                }
            }
        }
    }

    fn request(self: &Arc<Self>, envelope: &Envelope, session: Option<Arc<Session>>) {
        match (accent::declared(&self.downstream, envelope), session) {
            (Declared::Modern, _) => self.answer_modern(envelope),
            (Declared::Handshake, None) => self.initialize(envelope),
            (Declared::Nothing, Some(session)) => self.answer_legacy(envelope, &session),
            (Declared::Handshake, Some(_)) => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "the session has begun already");
                self.say(compose::error(envelope.id(), &error));
            }
            (Declared::Nothing, None) => self.say(compose::error(envelope.id(), &session::no_session())),
        }
    }

    fn initialize(self: &Arc<Self>, envelope: &Envelope) {
        let Some(id) = envelope.id() else { return };
        match Session::begin(&self.downstream, envelope, &Arc::from("")) {
            Ok((session, result)) => {
                self.forward_standing(&session);
                *self.session.lock() = Some(session);
                self.say(compose::result(id, &result, &[]));
            }
            Err(error) => self.say(compose::error(Some(id), &error)),
        }
    }

    fn forward_standing(self: &Arc<Self>, session: &Session) {
        let Some(standing) = session.standing.read() else { return };
        let me = Arc::clone(self);
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = me.stop.cancelled() => return,
                    event = standing.next() => match event {
                        Some(event) => me.say(event.said.message),
                        None => return,
                    },
                }
            }
        });
    }

    fn answer_legacy(self: &Arc<Self>, envelope: &Envelope, session: &Arc<Session>) {
        let Some(id) = envelope.id() else { return };
        let under_way = match session.under_way(id) {
            Ok(under_way) => under_way,
            Err(error) => return self.say(compose::error(Some(id), &error)),
        };
        let mut reply = match legacy::Reply::begin(session, envelope) {
            Ok(reply) => reply,
            Err(said) => return self.say(said.message),
        };
        let me = Arc::clone(self);
        self.requests.spawn(async move {
            loop {
                let said = tokio::select! {
                    () = me.stop.cancelled() => return,
                    () = under_way.cancelled.cancelled() => return,
                    said = reply.next() => said,
                };
                match said {
                    Some(Said { message, .. }) => me.say(message),
                    None => return,
                }
            }
        });
    }

    fn answer_modern(self: &Arc<Self>, envelope: &Envelope) {
        let Some(id) = envelope.id().cloned() else { return };
        let cancelled = CancellationToken::new();
        {
            let mut under_way = self.modern.lock();
            let limit = self.downstream.options.limits.concurrent_requests;
            let refusal = match under_way.contains_key(&id) {
                true => Some(accent::id_taken()),
                false => (limit <= under_way.len()).then(|| accent::too_many(limit)),
            };
            if let Some(error) = refusal {
                drop(under_way);
                return self.say(compose::error(Some(&id), &error));
            }
            under_way.insert(id.clone(), cancelled.clone());
        }
        let mut reply = match modern::Reply::begin(&self.downstream, envelope, &Arc::from(""), None) {
            Ok(reply) => reply,
            Err(said) => {
                self.modern.lock().remove(&id);
                return self.say(said.message);
            }
        };
        let me = Arc::clone(self);
        self.requests.spawn(async move {
            loop {
                let said = tokio::select! {
                    () = me.stop.cancelled() => None,
                    () = cancelled.cancelled() => None,
                    said = reply.next() => said,
                };
                let Some(said) = said else { break };
                if said.last {
                    // The id is free as soon as the caller can read the answer.
                    me.modern.lock().remove(&id);
                }
                me.say(said.message);
            }
            me.modern.lock().remove(&id);
        });
    }

    fn cancel(&self, params: Option<&Raw>) {
        let id = params.and_then(|params| params.get("requestId")).and_then(Id::from_raw);
        if let Some(token) = id.and_then(|id| self.modern.lock().remove(&id)) {
            token.cancel();
        }
    }

    fn too_long(&self, Skimmed { id, is_request }: Skimmed) {
        let limit = self.downstream.options.limits.message_bytes;
        self.refuse(&BadMessage { problem: Problem::TooLarge { limit }, id, is_request });
    }

    fn refuse(&self, bad: &BadMessage) {
        let (id, error) = accent::bad_message(bad);
        self.say(compose::error(id.as_ref(), &error));
    }

    fn takes_batches(&self) -> bool {
        self.session.lock().as_ref().is_some_and(|session| session.caller.revision.has_batches())
    }

    fn say(&self, message: bytes::Bytes) {
        if let Err(error) = self.writer.send(message) {
            tracing::debug!(%error, "the caller no longer reads");
            // Once it has no more to say either, there is nobody to answer.
            if self.downstream.draining.is_cancelled() {
                self.stop.cancel();
            }
        }
    }
}
