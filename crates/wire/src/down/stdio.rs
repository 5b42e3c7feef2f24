//! The stdio downstream: one client over a pair of byte streams, framed by lines, in either era or in both.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Downstream, DownstreamOptions, Service,
    accent::{self, OutgoingMessage, RequestKind},
    legacy, modern,
    session::{self, DownstreamSession},
};
use crate::{
    error::WireError,
    json::{Raw, skim::Skimmed},
    line::{FramedLine, LineReader, LineWriter},
    message::{BadMessage, Envelope, Id, MessageKind, Problem, RpcError, compose},
    seal::NoRandomness,
};

/// Serves one client until it closes its side or `stop` is cancelled. After `stop`, requests in progress may finish
/// within `options.drain` and new ones are refused. If the client has closed its side too, nothing is waited for.
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
    let (writer, writing) = LineWriter::new(write, limits.unsent_bytes, limits.memory.clone());
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
    let client_closed = tokio::select! {
        () = line.read_messages(&mut reader) => true,
        () = stop.cancelled() => false,
    };
    line.downstream.draining.cancel();
    line.requests.close();
    if client_closed {
        // The client may still read responses, but cannot answer server requests.
        line.session.lock().iter().for_each(|session| session.stop_answers());
    }
    tokio::select! {
        () = line.read_messages(&mut reader), if !client_closed => {}
        () = stop.cancelled(), if client_closed => {}
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
    session: Mutex<Option<Arc<DownstreamSession>>>,
    /// Cancellation tokens of stateless requests in progress, by id.
    modern: Mutex<std::collections::HashMap<Id, CancellationToken>>,
    requests: TaskTracker,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Whether a request goes on after a message of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivered {
    Yes,
    /// The client got an error instead, which ends the request.
    No,
}

impl StdioDownstream {
    /// Handles messages until the client closes its side.
    async fn read_messages<R: AsyncRead + Unpin>(self: &Arc<Self>, reader: &mut LineReader<R>) {
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
            MessageKind::Request if self.downstream.draining.is_cancelled() => {
                let error =
                    RpcError::new(RpcError::INTERNAL, "the server is shutting down and accepts no new requests");
                self.answer(compose::error(envelope.id(), &error));
            }
            MessageKind::Request => self.request(envelope, session),
            MessageKind::Notification if envelope.method() == "notifications/cancelled" => {
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

    fn request(self: &Arc<Self>, envelope: &Envelope, session: Option<Arc<DownstreamSession>>) {
        match (accent::request_kind(&self.downstream, envelope), session) {
            (RequestKind::Modern, _) => self.answer_modern(envelope),
            (RequestKind::Handshake, None) => self.initialize(envelope),
            (RequestKind::Undeclared, Some(session)) => self.answer_legacy(envelope, &session),
            (RequestKind::Handshake, Some(_)) => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "the session is already initialized");
                self.answer(compose::error(envelope.id(), &error));
            }
            (RequestKind::Undeclared, None) => self.answer(compose::error(envelope.id(), &session::no_session())),
        }
    }

    fn initialize(self: &Arc<Self>, envelope: &Envelope) {
        let Some(id) = envelope.id() else { return };
        match DownstreamSession::begin(&self.downstream, envelope, &Arc::from("")) {
            Ok((session, result)) => {
                self.forward_standing(&session);
                *self.session.lock() = Some(session);
                self.answer(compose::result(id, &result, &[]));
            }
            Err(error) => self.answer(compose::error(Some(id), &error)),
        }
    }

    fn forward_standing(self: &Arc<Self>, session: &DownstreamSession) {
        let Some(standing) = session.standing.read() else { return };
        let me = Arc::clone(self);
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = me.stop.cancelled() => return,
                    event = standing.next() => match event {
                        Some(event) => me.send(event.message.bytes),
                        None => return,
                    },
                }
            }
        });
    }

    fn answer_legacy(self: &Arc<Self>, envelope: &Envelope, session: &Arc<DownstreamSession>) {
        let Some(id) = envelope.id() else { return };
        let in_flight = match session.begin_request(id) {
            Ok(in_flight) => in_flight,
            Err(error) => return self.answer(compose::error(Some(id), &error)),
        };
        let mut reply = match legacy::LegacyReply::begin(session, envelope, None) {
            Ok(reply) => reply,
            Err(message) => {
                self.deliver(id, message);
                return;
            }
        };
        let (me, id) = (Arc::clone(self), id.clone());
        self.requests.spawn(async move {
            loop {
                let message = tokio::select! {
                    () = me.stop.cancelled() => return,
                    () = in_flight.cancelled.cancelled() => return,
                    message = reply.next() => message,
                };
                if message.is_none_or(|message| me.deliver(&id, message) == Delivered::No) {
                    return;
                }
            }
        });
    }

    fn answer_modern(self: &Arc<Self>, envelope: &Envelope) {
        let Some(id) = envelope.id().cloned() else { return };
        let cancelled = CancellationToken::new();
        {
            let mut in_flight = self.modern.lock();
            let limit = self.downstream.options.limits.concurrent_requests;
            let refusal = match in_flight.contains_key(&id) {
                true => Some(accent::id_taken()),
                false => (limit <= in_flight.len()).then(|| accent::too_many(limit)),
            };
            if let Some(error) = refusal {
                drop(in_flight);
                return self.answer(compose::error(Some(&id), &error));
            }
            in_flight.insert(id.clone(), cancelled.clone());
        }
        let mut reply = match modern::ModernReply::begin(&self.downstream, envelope, &Arc::from(""), None) {
            Ok(reply) => reply,
            Err(message) => {
                self.modern.lock().remove(&id);
                return self.answer(message.bytes);
            }
        };
        let me = Arc::clone(self);
        self.requests.spawn(async move {
            loop {
                let message = tokio::select! {
                    () = me.stop.cancelled() => None,
                    () = cancelled.cancelled() => None,
                    message = reply.next() => message,
                };
                let Some(message) = message else { break };
                if message.is_response {
                    // The id is free as soon as the client can read the response.
                    me.modern.lock().remove(&id);
                }
                if me.deliver(&id, message) == Delivered::No {
                    break;
                }
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
        self.answer(compose::error(id.as_ref(), &error));
    }

    fn takes_batches(&self) -> bool {
        self.session.lock().as_ref().is_some_and(|session| session.caller.revision.has_batches())
    }

    /// Sends a message of a request. A notification that does not fit into the queue is dropped; instead of a response, or
    /// of a server request without which the call cannot go on, the client gets an error.
    fn deliver(&self, id: &Id, message: OutgoingMessage) -> Delivered {
        let is_notification = message.is_notification();
        match self.writer.send(message.bytes) {
            Err(error @ (WireError::TooLarge { .. } | WireError::OverBudget(_))) if !is_notification => {
                tracing::warn!(%error, request = %id, "a response cannot be kept for the client, which gets an error");
                let error = RpcError::new(RpcError::INTERNAL, &format!("the response cannot be sent: {error}"));
                self.answer(compose::error(Some(id), &error));
                Delivered::No
            }
            sent => {
                sent.unwrap_or_else(|error| self.unsent(&error));
                Delivered::Yes
            }
        }
    }

    /// Sends a small response, for which there is room while a large one waits to be read.
    fn answer(&self, response: bytes::Bytes) {
        self.writer.send_small(response).unwrap_or_else(|error| self.unsent(&error));
    }

    fn send(&self, message: bytes::Bytes) {
        self.writer.send(message).unwrap_or_else(|error| self.unsent(&error));
    }

    fn unsent(&self, error: &WireError) {
        tracing::debug!(%error, "the client stopped reading");
        // If it has closed its side too, no request needs a response.
        if self.downstream.draining.is_cancelled() {
            self.stop.cancel();
        }
    }
}
