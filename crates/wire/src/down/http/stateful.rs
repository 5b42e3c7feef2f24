//! Requests of sessions: they go on when the caller hangs up, and what is said meanwhile can be asked for again.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use super::{FaceBody, HttpFace, reply, sessions::NoSession};
use crate::{
    down::{
        accent::Said,
        legacy,
        session::Session,
        stream::{Reader, Writer},
    },
    header as mcp,
    message::{Envelope, Kind, RpcError, compose},
};

/// Where a caller says which event was the last it saw.
const LAST_EVENT_ID: &str = "last-event-id";

impl HttpFace {
    pub(super) fn initialize(&self, envelope: &Envelope, principal: &Arc<str>) -> Response<FaceBody> {
        let begun = Session::begin(&self.face, envelope, principal);
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

    /// Answers the requests of one POST. They go on when the caller hangs up: hanging up is not cancelling.
    pub(super) async fn answer_legacy(&self, session: &Arc<Session>, envelopes: &[&Envelope]) -> Response<FaceBody> {
        let (stream, writer) = session.streams.lock().begin();
        let reader = stream.read_from(0);
        for envelope in envelopes {
            self.pump(session, envelope, writer.clone());
        }
        drop(writer);
        // One message is no stream, if it does not take too long to come.
        let first = tokio::time::timeout(self.face.options.keep_alive, reader.peek()).await;
        match first {
            Ok(Some(event)) if event.said.last && envelopes.len() == 1 => {
                reply::json(event.said.status, event.said.message)
            }
            // Cancelled: there is nothing to say.
            Ok(None) => reply::empty(StatusCode::NO_CONTENT),
            Ok(Some(_)) | Err(_) => {
                session.streams.lock().announce(&stream);
                self.events(session, reader)
            }
        }
    }

    fn events(&self, session: &Arc<Session>, reader: Reader) -> Response<FaceBody> {
        reply::stream(FaceBody::stream(Arc::clone(session), reader, self.face.options.keep_alive))
    }

    pub(super) fn pump(&self, session: &Arc<Session>, envelope: &Envelope, writer: Writer) {
        let Some(id) = envelope.id() else { return };
        let stop = self.stop.clone();
        let under_way = match session.under_way(id) {
            Ok(under_way) => under_way,
            Err(error) => {
                // In a batch there can be more of them than the stream has room for.
                return self.say_later(writer, Said::error(Some(id), &error, StatusCode::OK));
            }
        };
        let begun = legacy::Reply::begin(session, envelope);
        let saying = async move {
            let mut answer = match begun {
                Ok(answer) => answer,
                Err(said) => return writer.say(said).await,
            };
            while let Some(said) = answer.next().await {
                writer.say(said).await;
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
    ) -> Option<Response<FaceBody>> {
        let session = match self.sessions.find(&self.face, headers, principal) {
            Ok(session) if session.caller.revision.has_batches() => session,
            Ok(_) | Err(NoSession::Unnamed) => return None,
            Err(none) => return Some(reply::json(none.status(), compose::error(None, &none.error()))),
        };
        let limits = &self.face.options.limits;
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
        Some(self.answer_legacy(&session, &requests).await)
    }

    /// The standing stream of a session, or one that was lost, from where it was lost.
    pub(super) fn stand(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<FaceBody> {
        let session = match self.sessions.find(&self.face, headers, principal) {
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

    pub(super) fn end_session(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<FaceBody> {
        match self.sessions.end(&self.face, headers, principal) {
            Ok(()) => reply::empty(StatusCode::OK),
            Err(none) => without_session(none),
        }
    }
}

/// Without a session there is nothing to read and nothing to end.
fn without_session(none: NoSession) -> Response<FaceBody> {
    match none {
        NoSession::Unnamed => reply::not_allowed("POST"),
        NoSession::Unknown => reply::plain(none.status(), "no such session"),
        NoSession::ForeignVersion => reply::plain(none.status(), "no session here speaks this revision"),
    }
}
