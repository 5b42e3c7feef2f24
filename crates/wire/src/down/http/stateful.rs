//! Requests of sessions: they go on when the caller hangs up, and what is said meanwhile can be asked for again.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use super::{ResponseBody, HttpDownstream, reply, sessions::NoSession};
use crate::{
    down::{
        accent::Said,
        legacy,
        session::{Session, UnderWay},
        stream::{Reader, Writer},
    },
    header as mcp,
    message::{Envelope, Kind, RpcError, compose},
};

/// Where a caller says which event was the last it saw.
const LAST_EVENT_ID: &str = "last-event-id";
/// How long a question waits for somebody to read the stream it was asked on. Whoever lost a connection and wants to go
/// on is back sooner; for anybody else the server would wait, and its other callers for the server.
const UNHEARD: Duration = Duration::from_secs(30);

impl HttpDownstream {
    pub(super) fn initialize(&self, envelope: &Envelope, principal: &Arc<str>) -> Response<ResponseBody> {
        let begun = Session::begin(&self.downstream, envelope, principal);
        let (session, result) = match begun {
            Ok(begun) => begun,
            Err(error) => return reply::json(StatusCode::BAD_REQUEST, compose::error(envelope.id(), &error)),
        };
        let Some(id) = envelope.id() else { return reply::empty(StatusCode::BAD_REQUEST) };
        match self.sessions.keep(session) {
            Some(word) => {
                let mut response = reply::json(StatusCode::OK, compose::result(id, &result, &[]));
                response.headers_mut().insert(mcp::SESSION_ID, word);
                response
            }
            None => {
                let error = RpcError::new(RpcError::INTERNAL, "too many sessions");
                reply::json(StatusCode::SERVICE_UNAVAILABLE, compose::error(Some(id), &error))
            }
        }
    }

    /// Answers one request: with one message, if it does not take too long to come, else with a stream. It goes on
    /// when the caller hangs up: hanging up is not cancelling.
    pub(super) async fn answer_legacy(&self, session: &Arc<Session>, envelope: &Envelope) -> Response<ResponseBody> {
        let work = match Work::begin(session, envelope) {
            Ok(work) => work,
            Err(said) => return reply::json(said.status, said.message),
        };
        let mut waited = Waited { downstream: self, work: Some(work) };
        let first = waited.first().await;
        let Some(work) = waited.work.take() else { return reply::empty(StatusCode::NO_CONTENT) };
        match first {
            First::Said(said) if said.last => reply::json(said.status, said.message),
            // There is nothing to say.
            First::Cancelled => reply::empty(StatusCode::NO_CONTENT),
            First::Said(said) => self.stream_of(session, work, Some(said)),
            First::Nothing => self.stream_of(session, work, None),
        }
    }

    fn stream_of(&self, session: &Arc<Session>, work: Work, first: Option<Said>) -> Response<ResponseBody> {
        let (stream, writer) = session.streams.lock().begin();
        let reader = stream.read_from(0);
        session.streams.lock().announce(&stream);
        self.go_on(work, first, Some(writer));
        self.events(session, reader)
    }

    /// Answers the requests of one array, each when it is ready.
    fn answer_batch(&self, session: &Arc<Session>, envelopes: &[&Envelope]) -> Response<ResponseBody> {
        let (stream, writer) = session.streams.lock().begin();
        let reader = stream.read_from(0);
        session.streams.lock().announce(&stream);
        for envelope in envelopes {
            self.pump(session, envelope, writer.clone());
        }
        drop(writer);
        self.events(session, reader)
    }

    fn events(&self, session: &Arc<Session>, reader: Reader) -> Response<ResponseBody> {
        reply::stream(ResponseBody::stream(Arc::clone(session), reader, self.downstream.options.keep_alive))
    }

    /// Answers a request on a stream.
    pub(super) fn pump(&self, session: &Arc<Session>, envelope: &Envelope, writer: Writer) {
        match Work::begin(session, envelope) {
            Ok(work) => self.go_on(work, None, Some(writer)),
            // In a batch there can be more of them than the stream has room for.
            Err(said) => self.say_later(writer, said),
        }
    }

    /// Goes on with a request by itself: on this stream, or without anybody who hears of it.
    fn go_on(&self, work: Work, first: Option<Said>, writer: Option<Writer>) {
        let Work { mut answer, under_way } = work;
        let stop = self.stop.clone();
        let saying = async move {
            let mut next = first;
            loop {
                if let (Some(said), Some(writer)) = (next, &writer) {
                    writer.say(said).await;
                }
                next = next_heard(&mut answer, writer.as_ref()).await;
                if next.is_none() {
                    return;
                }
            }
        };
        // Also a caller that does not read can be stopped.
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = under_way.cancelled.cancelled() => {}
                () = saying => {}
            }
        });
    }

    /// Says something as soon as there is room for it.
    pub(super) fn say_later(&self, writer: Writer, said: Said) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = writer.say(said) => {}
            }
        });
    }

    /// An array of messages, in a session that has them; none where there is no such session.
    pub(super) async fn batch(
        &self,
        headers: &HeaderMap,
        text: &Bytes,
        principal: &Arc<str>,
    ) -> Option<Response<ResponseBody>> {
        let session = match self.sessions.find(&self.downstream, headers, principal) {
            Ok(session) if session.caller.revision.has_batches() => session,
            Ok(_) | Err(NoSession::Unnamed) => return None,
            Err(none) => return Some(reply::json(none.status(), compose::error(None, &none.error()))),
        };
        let limits = &self.downstream.options.limits;
        let parts = Envelope::split_batch(text, limits)?.ok()?;
        let read = parts.into_iter().map(|part| Envelope::read(part, limits)).collect::<Result<Vec<_>, _>>();
        let envelopes = match read {
            Ok(envelopes) => envelopes,
            Err(problem) => return Some(reply::refusal(&problem, StatusCode::BAD_REQUEST)),
        };
        let (requests, others): (Vec<_>, Vec<_>) = envelopes.iter().partition(|one| one.kind() == Kind::Request);
        others.into_iter().for_each(|envelope| session.take(envelope));
        if requests.is_empty() {
            return Some(reply::empty(StatusCode::ACCEPTED));
        }
        Some(self.answer_batch(&session, &requests))
    }

    /// The standing stream of a session, or one that was lost, from where it was lost.
    pub(super) fn stand(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<ResponseBody> {
        let session = match self.sessions.find(&self.downstream, headers, principal) {
            Ok(session) => session,
            Err(none) => return without_session(none),
        };
        let last = headers.get(LAST_EVENT_ID).map(|last| last.to_str().unwrap_or_default());
        let reader = match last {
            None => session.standing.read().ok_or((StatusCode::CONFLICT, "this session has its stream already")),
            Some(last) => session.resume(last).ok_or((StatusCode::GONE, "what followed this event is gone")),
        };
        match reader {
            Ok(reader) => self.events(&session, reader),
            Err((status, why)) => reply::plain(status, why),
        }
    }

    pub(super) fn end_session(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<ResponseBody> {
        match self.sessions.end(&self.downstream, headers, principal) {
            Ok(()) => reply::empty(StatusCode::OK),
            Err(none) => without_session(none),
        }
    }
}

/// A request of a session that is being answered.
struct Work {
    answer: legacy::Reply,
    under_way: UnderWay,
}

/// A request whose caller waits for the first message; without the caller it goes on by itself.
struct Waited<'a> {
    downstream: &'a HttpDownstream,
    work: Option<Work>,
}

/// What came of waiting.
enum First {
    Said(Said),
    /// It takes its time.
    Nothing,
    Cancelled,
}

impl Work {
    fn begin(session: &Arc<Session>, envelope: &Envelope) -> Result<Self, Said> {
        let nameless = || RpcError::new(RpcError::INVALID_REQUEST, "a request has an id");
        let id = envelope.id().ok_or_else(|| Said::error(None, &nameless(), StatusCode::BAD_REQUEST))?;
        let under_way = session.under_way(id).map_err(|error| Said::error(Some(id), &error, StatusCode::OK))?;
        let answer = legacy::Reply::begin(session, envelope)?;
        Ok(Self { answer, under_way })
    }
}

impl Waited<'_> {
    async fn first(&mut self) -> First {
        let Some(Work { answer, under_way }) = &mut self.work else { return First::Cancelled };
        tokio::select! {
            // Mostly it has been said when somebody looks again, and then nothing else need be looked for.
            biased;
            said = self.downstream.first_word(answer.next()) => match said {
                // Whoever has called it off hears no more of it.
                Some(_) if under_way.cancelled.is_cancelled() => First::Cancelled,
                Some(Some(said)) => First::Said(said),
                Some(None) => First::Cancelled,
                None => First::Nothing,
            },
            () = under_way.cancelled.cancelled() => First::Cancelled,
            () = self.downstream.stop.cancelled() => First::Cancelled,
        }
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // Nothing was said yet, so that there is no stream which the caller could ask for.
            self.downstream.go_on(Work { answer: work.answer.unheard(), ..work }, None, None);
        }
    }
}

/// What is said next. A question on a stream that nobody has read for a while is answered by nobody.
async fn next_heard(answer: &mut legacy::Reply, writer: Option<&Writer>) -> Option<Said> {
    if let Some(writer) = writer.filter(|_| answer.is_asking()) {
        tokio::select! {
            said = answer.next() => return said,
            () = writer.unheard(UNHEARD) => answer.leave_unanswered(),
        }
    }
    answer.next().await
}

/// Without a session there is nothing to read and nothing to end.
fn without_session(none: NoSession) -> Response<ResponseBody> {
    match none {
        NoSession::Unnamed => reply::not_allowed("POST"),
        NoSession::Unknown => reply::plain(none.status(), "no such session"),
        NoSession::ForeignVersion => reply::plain(none.status(), "no session here speaks this revision"),
    }
}
