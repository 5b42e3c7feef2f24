//! The HTTP face: both eras on one path, the era decided per request.
//!
//! A request is let in by [`guard`], answered with JSON when there is one message and with a stream as soon as there
//! is more; the status is committed only with the first message. Sessions are kept in [`sessions`]. Without a
//! session a closed connection cancels the request; with one it does not.

mod body;
mod guard;
mod serving;
mod sessions;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use body::FaceBody;
pub use guard::HostGuard;
/// The body of a request as it comes in.
pub use hyper::body::Incoming;
pub use serving::{Responder, serve};

use self::sessions::Sessions;
use super::{
    Face, FaceOptions, Service,
    accent::{self, Declared, Said},
    legacy, modern,
    session::{self, Session},
};
use crate::{
    header as mcp,
    limit::Limits,
    message::{BadMessage, Envelope, Kind, Problem, RpcError, compose},
    revision::{Era, Revision},
    seal::NoRandomness,
};

/// How the HTTP face behaves.
#[derive(Clone, Debug)]
pub struct HttpFaceOptions {
    /// What every face has.
    pub face: FaceOptions,
    /// The one path; none where whoever stands in front has looked at it already.
    pub path: Option<String>,
    /// Who may come in.
    pub guard: HostGuard,
}

/// Who a request is from, as whoever stands in front of the face found out; an extension of the request.
#[derive(Clone, Debug)]
pub struct Principal(pub Arc<str>);

/// A service over HTTP.
#[derive(Debug)]
pub struct HttpFace {
    face: Arc<Face>,
    path: Option<String>,
    guard: HostGuard,
    sessions: Sessions,
    tasks: TaskTracker,
    /// Ends the requests of sessions, which do not end with their connections.
    stop: CancellationToken,
}

/// Messages of one request that wait for its reader.
const UNREAD: usize = 16;
/// A caller that takes longer to send its body is not one.
const BODY_TIME: Duration = Duration::from_secs(120);

impl Default for HttpFaceOptions {
    fn default() -> Self {
        Self { face: FaceOptions::default(), path: Some("/mcp".to_owned()), guard: HostGuard::loopback() }
    }
}

impl Responder for HttpFace {
    fn respond(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<FaceBody>> {
        Box::pin(self.respond(request))
    }

    fn limits(&self) -> &Limits {
        &self.face.options.limits
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.stop.cancel();
            self.tasks.close();
            self.tasks.wait().await;
        })
    }
}

impl HttpFace {
    /// A face of this service.
    pub fn new(service: Arc<dyn Service>, options: HttpFaceOptions) -> Result<Arc<Self>, NoRandomness> {
        let sessions = Sessions::new(options.face.limits.sessions);
        let face = Face::new(service, options.face)?;
        Ok(Arc::new(Self {
            face,
            path: options.path,
            guard: options.guard,
            sessions,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Answers one HTTP request.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<FaceBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(reason) = self.guard.admit(request.headers()) {
            return plain(StatusCode::FORBIDDEN, reason);
        }
        if self.path.as_ref().is_some_and(|path| request.uri().path() != path) {
            return plain(StatusCode::NOT_FOUND, "nothing here");
        }
        let principal = request.extensions().get::<Principal>().map_or_else(|| Arc::from(""), |who| Arc::clone(&who.0));
        match *request.method() {
            Method::POST => self.post(request, &principal).await,
            Method::GET => self.stand(request.headers(), &principal),
            Method::DELETE => self.end_session(request.headers(), &principal),
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE"),
        }
    }

    async fn post<B>(&self, request: Request<B>, principal: &Arc<str>) -> Response<FaceBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // CVE-2026-33252: a cross-site form cannot send this type.
        if !is_json(request.headers()) {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json");
        }
        let (parts, body) = request.into_parts();
        let limits = &self.face.options.limits;
        let collected = tokio::time::timeout(BODY_TIME, Limited::new(body, limits.message_bytes).collect()).await;
        let Ok(collected) = collected else { return plain(StatusCode::REQUEST_TIMEOUT, "the body took too long") };
        let text = match collected {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return refusal(&bad(Problem::TooLarge { limit: limits.message_bytes }), StatusCode::PAYLOAD_TOO_LARGE);
            }
            Err(_) => return plain(StatusCode::BAD_REQUEST, "the body broke off"),
        };
        match Envelope::read(text.clone(), limits) {
            Ok(envelope) => self.take(&parts.headers, &envelope, principal).await,
            Err(problem) if problem.problem == Problem::Batch => self
                .batch(&parts.headers, &text, principal)
                .await
                .unwrap_or_else(|| refusal(&problem, StatusCode::BAD_REQUEST)),
            Err(problem) => refusal(&problem, StatusCode::BAD_REQUEST),
        }
    }

    async fn take(&self, headers: &HeaderMap, envelope: &Envelope, principal: &Arc<str>) -> Response<FaceBody> {
        let version = headers.get(mcp::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        let era = version.map(|version| version.parse::<Revision>().map_or(Era::Modern, Revision::era));
        let era = era.filter(|_| !self.face.revisions(Era::Modern).is_empty());
        match (accent::declared(&self.face, envelope), envelope.kind()) {
            (Declared::Modern, Kind::Request) => self.answer_modern(headers, envelope, principal).await,
            (Declared::Handshake, Kind::Request) => self.initialize(envelope, principal),
            (_, Kind::Request) if era == Some(Era::Modern) => self.answer_modern(headers, envelope, principal).await,
            (_, Kind::Notification) if era == Some(Era::Modern) => empty(StatusCode::ACCEPTED),
            (_, kind) => match self.sessions.find(headers, principal) {
                Ok(session) if kind == Kind::Request => self.answer_legacy(&session, &[envelope]).await,
                Ok(session) => {
                    session.take(envelope);
                    empty(StatusCode::ACCEPTED)
                }
                Err(status) => self.no_session(status, envelope),
            },
        }
    }

    fn no_session(&self, status: StatusCode, envelope: &Envelope) -> Response<FaceBody> {
        let error = match status {
            StatusCode::NOT_FOUND => RpcError::new(RpcError::INVALID_REQUEST, "no such session; begin a new one"),
            _ => session::no_session(),
        };
        json(status, compose::error(envelope.id(), &error))
    }

    fn initialize(&self, envelope: &Envelope, principal: &Arc<str>) -> Response<FaceBody> {
        let begun = Session::begin(&self.face, envelope, principal);
        let (session, result) = match begun {
            Ok(begun) => begun,
            Err(error) => return json(StatusCode::BAD_REQUEST, compose::error(envelope.id(), &error)),
        };
        let Some(id) = envelope.id() else { return empty(StatusCode::BAD_REQUEST) };
        match self.sessions.keep(session) {
            Some(word) => {
                let mut response = json(StatusCode::OK, compose::result(id, &result, &[]));
                response.headers_mut().insert(mcp::SESSION_ID, word);
                response
            }
            None => {
                let error = RpcError::new(RpcError::INTERNAL, "too many sessions");
                json(StatusCode::SERVICE_UNAVAILABLE, compose::error(Some(id), &error))
            }
        }
    }

    async fn answer_modern(
        &self,
        headers: &HeaderMap,
        envelope: &Envelope,
        principal: &Arc<str>,
    ) -> Response<FaceBody> {
        let mut reply = match modern::Reply::begin(&self.face, envelope, principal, Some(headers)) {
            Ok(reply) => reply,
            Err(said) => return json(said.status, said.message),
        };
        // Let go of here, the reply is dropped and the request cancelled.
        let first = match reply.next().await {
            Some(said) if said.last => return json(said.status, said.message),
            Some(said) => said,
            None => return empty(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let (sender, receiver) = mpsc::channel(UNREAD);
        self.tasks.spawn(async move {
            loop {
                let said = tokio::select! {
                    () = sender.closed() => return,
                    said = reply.next() => said,
                };
                let Some(said) = said else { return };
                if sender.send(said).await.is_err() {
                    return;
                }
            }
        });
        stream(FaceBody::events(first, receiver, self.face.options.keep_alive))
    }

    /// Answers the requests of one POST. They go on when the caller hangs up: hanging up is not cancelling.
    async fn answer_legacy(&self, session: &Arc<Session>, envelopes: &[&Envelope]) -> Response<FaceBody> {
        let (sender, mut receiver) = mpsc::channel(UNREAD);
        for envelope in envelopes {
            self.pump(session, envelope, sender.clone());
        }
        drop(sender);
        match receiver.recv().await {
            Some(said) if said.last && envelopes.len() == 1 => json(said.status, said.message),
            Some(said) => stream(FaceBody::events(said, receiver, self.face.options.keep_alive)),
            // Cancelled: there is nothing to say.
            None => empty(StatusCode::NO_CONTENT),
        }
    }

    fn pump(&self, session: &Arc<Session>, envelope: &Envelope, sender: mpsc::Sender<Said>) {
        let Some(id) = envelope.id() else { return };
        let stop = self.stop.clone();
        let under_way = match session.under_way(id) {
            Ok(under_way) => under_way,
            Err(error) => {
                // In a batch there can be more of them than places in the queue.
                let refusal = Said::error(Some(id), &error, StatusCode::OK);
                self.tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        _sent = sender.send(refusal) => {}
                    }
                });
                return;
            }
        };
        let begun = legacy::Reply::begin(session, envelope);
        let saying = async move {
            let mut reply = match begun {
                Ok(reply) => reply,
                Err(said) => return drop(sender.send(said).await),
            };
            while let Some(said) = reply.next().await {
                // A caller that hung up misses what is said from then on.
                drop(sender.send(said).await);
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

    /// An array of messages, in a session that has them.
    async fn batch(&self, headers: &HeaderMap, text: &Bytes, principal: &Arc<str>) -> Option<Response<FaceBody>> {
        let session = self.sessions.find(headers, principal).ok()?;
        if !session.caller.revision.has_batches() {
            return None;
        }
        let limits = &self.face.options.limits;
        let parts = Envelope::split_batch(text, limits)?.ok()?;
        let read = parts.into_iter().map(|part| Envelope::read(part, limits)).collect::<Result<Vec<_>, _>>();
        let envelopes = match read {
            Ok(envelopes) => envelopes,
            Err(problem) => return Some(refusal(&problem, StatusCode::BAD_REQUEST)),
        };
        let (requests, others): (Vec<_>, Vec<_>) = envelopes.iter().partition(|one| one.kind() == Kind::Request);
        others.into_iter().for_each(|envelope| session.take(envelope));
        if requests.is_empty() {
            return Some(empty(StatusCode::ACCEPTED));
        }
        Some(self.answer_legacy(&session, &requests).await)
    }

    /// The standing stream of a session.
    fn stand(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<FaceBody> {
        match self.sessions.find(headers, principal) {
            Ok(session) => match session.standing_stream() {
                Some(messages) => stream(FaceBody::standing(session, messages, self.face.options.keep_alive)),
                None => plain(StatusCode::CONFLICT, "this session has its stream already"),
            },
            Err(StatusCode::NOT_FOUND) => plain(StatusCode::NOT_FOUND, "no such session"),
            Err(_) => plain(StatusCode::METHOD_NOT_ALLOWED, "POST"),
        }
    }

    fn end_session(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<FaceBody> {
        match self.sessions.end(headers, principal) {
            Ok(()) => empty(StatusCode::OK),
            Err(StatusCode::NOT_FOUND) => plain(StatusCode::NOT_FOUND, "no such session"),
            Err(_) => plain(StatusCode::METHOD_NOT_ALLOWED, "POST"),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn bad(problem: Problem) -> BadMessage {
    BadMessage { problem, id: None, is_request: true }
}

fn refusal(problem: &BadMessage, status: StatusCode) -> Response<FaceBody> {
    let (id, error) = accent::bad_message(problem);
    json(status, compose::error(id.as_ref(), &error))
}

fn json(status: StatusCode, message: Bytes) -> Response<FaceBody> {
    respond(status, "application/json", FaceBody::whole(message))
}

fn plain(status: StatusCode, text: &'static str) -> Response<FaceBody> {
    respond(status, "text/plain; charset=utf-8", FaceBody::whole(Bytes::from_static(text.as_bytes())))
}

fn empty(status: StatusCode) -> Response<FaceBody> {
    let mut response = Response::new(FaceBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn stream(body: FaceBody) -> Response<FaceBody> {
    let mut response = respond(StatusCode::OK, "text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn respond(status: StatusCode, kind: &'static str, body: FaceBody) -> Response<FaceBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
