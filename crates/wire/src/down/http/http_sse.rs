//! HTTP+SSE, the transport of 2024-11-05: a GET opens the stream of a session, messages are posted to another path.
//!
//! The session ends with the connection of its stream and cannot be resumed. Its id is unguessable and bound to the
//! principal that opened it.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Body;
use parking_lot::Mutex;

use super::{HttpDownstream, ResponseBody, accepts, responses, sessions::HttpSseSlot};
use crate::{
    down::{
        accent::{self, OutgoingMessage, RequestKind},
        session::{self, DownstreamSession},
        stream::{SessionStream, StreamLimits, StreamWriter},
    },
    message::{Envelope, MessageKind, RpcError, compose},
    seal, sse,
};

/// Paths of the HTTP+SSE transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSsePaths {
    /// Path of the GET that opens a stream.
    pub stream: String,
    /// Path for posted messages.
    pub messages: String,
}

/// Open sessions by id.
#[derive(Debug, Default)]
pub(super) struct SseSessions {
    // Nothing awaits under this lock.
    open: Mutex<HashMap<String, Arc<SseSession>>>,
}

/// One stream and its session.
#[derive(Debug)]
struct SseSession {
    principal: Arc<str>,
    session: Mutex<Option<Arc<DownstreamSession>>>,
    /// `None` when the stream has ended.
    writer: Mutex<Option<StreamWriter>>,
    _slot: HttpSseSlot,
}

/// Ends the session when its connection is dropped.
#[derive(Debug)]
pub(super) struct SseSessionGuard {
    sse_sessions: Arc<SseSessions>,
    name: String,
}

impl HttpDownstream {
    /// Answers a request of the HTTP+SSE transport; `messages` is the path for posted messages.
    pub async fn respond_http_sse<B>(
        &self,
        principal: &Arc<str>,
        request: Request<B>,
        messages: &str,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(refusal) = self.guard.admit(request.headers()) {
            return responses::plain(refusal.status, refusal.reason);
        }
        match *request.method() {
            Method::GET if !accepts(request.headers(), &["text/event-stream"]) => {
                responses::plain(StatusCode::NOT_ACCEPTABLE, "the `Accept` header must include `text/event-stream`")
            }
            Method::GET => self.open_sse_stream(Arc::clone(principal), messages),
            Method::POST => self.post_sse_message(principal, request).await,
            _ => responses::not_allowed("GET, POST"),
        }
    }

    fn open_sse_stream(&self, principal: Arc<str>, messages: &str) -> Response<ResponseBody> {
        let limits = &self.downstream.options.limits;
        let stream_limits = StreamLimits { events: limits.stream_events, bytes: limits.stream_bytes };
        let (stream, writer) = SessionStream::new(0, stream_limits, limits.memory.of_principal(&principal));
        let Ok(name) = seal::random_token() else { return responses::empty(StatusCode::INTERNAL_SERVER_ERROR) };
        let endpoint = sse::encode_endpoint(&format!("{messages}?session={name}"));
        let Some(slot) = self.sessions.add_http_sse(&principal) else {
            return responses::plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; end one or try again later");
        };
        let sse_session =
            SseSession { principal, session: Mutex::default(), writer: Mutex::new(Some(writer)), _slot: slot };
        self.sse_sessions.open.lock().insert(name.clone(), Arc::new(sse_session));
        let guard = SseSessionGuard { sse_sessions: Arc::clone(&self.sse_sessions), name };
        responses::stream(ResponseBody::http_sse(
            guard,
            endpoint,
            stream.read_from(0),
            self.downstream.options.keep_alive,
        ))
    }

    async fn post_sse_message<B>(&self, principal: &Arc<str>, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let name = request.uri().query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("session="));
        let sse_session = name.and_then(|name| self.sse_sessions.open.lock().get(name).cloned());
        // CVE-2026-52869: a session id alone authorises nothing.
        let Some(sse_session) = sse_session.filter(|sse_session| sse_session.principal == *principal) else {
            return responses::plain(StatusCode::NOT_FOUND, "session not found; open a new stream");
        };
        let (parts, text) = match self.body(request, principal).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        match Envelope::read(text, &self.downstream.options.limits) {
            Ok(envelope) => self.take_sse_message(&sse_session, &envelope, &parts.headers),
            Err(problem) => responses::refusal(&problem, StatusCode::BAD_REQUEST),
        }
    }

    /// Handles a posted message; responses go to the stream, the POST is only acknowledged.
    fn take_sse_message(
        &self,
        sse_session: &SseSession,
        envelope: &Envelope,
        headers: &HeaderMap,
    ) -> Response<ResponseBody> {
        let Some(writer) = sse_session.writer.lock().clone() else {
            return responses::plain(StatusCode::NOT_FOUND, "the stream has ended; open a new one");
        };
        let session = sse_session.session.lock().clone();
        match (accent::request_kind(&self.downstream, envelope), session, envelope.kind()) {
            (RequestKind::Handshake, None, MessageKind::Request) => self.initialize_sse(sse_session, envelope, writer),
            (RequestKind::Undeclared, Some(session), MessageKind::Request) => {
                self.pump(&session, envelope, headers, writer);
            }
            (_, _, MessageKind::Request) => {
                let refusal = OutgoingMessage::error(envelope.id(), &session::no_session(), StatusCode::OK);
                self.send_later(writer, refusal);
            }
            (_, Some(session), _) => session.take(envelope),
            (_, None, _) => {}
        }
        responses::empty(StatusCode::ACCEPTED)
    }

    fn initialize_sse(&self, sse_session: &SseSession, envelope: &Envelope, writer: StreamWriter) {
        let message = match DownstreamSession::begin(&self.downstream, envelope, &sse_session.principal) {
            Ok((session, result)) => {
                if let Some(standing) = session.standing.read() {
                    let writer = writer.clone();
                    self.tasks.spawn(async move {
                        while let Some(event) = standing.next().await {
                            writer.send(event.message).await;
                        }
                    });
                }
                *sse_session.session.lock() = Some(session);
                let missing_id = || RpcError::new(RpcError::INVALID_REQUEST, "a request must have an `id`");
                match envelope.id() {
                    Some(id) => OutgoingMessage::response(compose::result(id, &result, &[])),
                    None => OutgoingMessage::error(None, &missing_id(), StatusCode::OK),
                }
            }
            Err(error) => OutgoingMessage::error(envelope.id(), &error, StatusCode::OK),
        };
        self.send_later(writer, message);
    }
}

impl SseSessions {
    /// Ends the sessions of one principal, or all of them.
    pub(super) fn expel(&self, principal: Option<&str>) {
        let theirs = |sse_session: &SseSession| principal.is_none_or(|principal| *sse_session.principal == *principal);
        let own: Vec<_> = self.open.lock().extract_if(|_, sse_session| theirs(sse_session)).collect();
        own.iter().for_each(|(_, sse_session)| sse_session.end());
    }

    /// Number of open sessions.
    pub(super) fn count(&self) -> usize {
        self.open.lock().len()
    }
}

impl SseSession {
    fn end(&self) {
        self.writer.lock().take();
        if let Some(session) = self.session.lock().take() {
            session.end();
        }
    }
}

impl Drop for SseSessionGuard {
    fn drop(&mut self) {
        if let Some(sse_session) = self.sse_sessions.open.lock().remove(&self.name) {
            sse_session.end();
        }
    }
}
