//! HTTP+SSE, the transport of 2024-11-05: a GET opens the one stream of a session, messages are posted beside it.
//!
//! The stream is the session: it ends with its connection, and nothing of it can be taken up again. Its name is
//! unguessable and bound to whoever opened it.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body;
use parking_lot::Mutex;

use super::{ResponseBody, HttpDownstream, accepts, reply};
use crate::{
    down::{
        accent::{self, Declared, Said},
        session::{self, Session},
        stream::{Bounds, Stream, Writer},
    },
    message::{Envelope, Kind, RpcError, compose},
    seal, sse,
};

/// Where the old transport is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoPaths {
    /// A GET here opens a stream.
    pub stream: String,
    /// Messages are posted here.
    pub messages: String,
}

/// Who is connected, by the name of the stream.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    // Nothing awaits under this lock.
    open: Mutex<HashMap<String, Arc<Conversation>>>,
}

/// One stream and the session on it.
#[derive(Debug)]
struct Conversation {
    principal: Arc<str>,
    session: Mutex<Option<Arc<Session>>>,
    /// Gone when the stream has ended.
    writer: Mutex<Option<Writer>>,
}

/// Ends the conversation when its connection does.
#[derive(Debug)]
pub(super) struct Hold {
    conversations: Arc<Conversations>,
    name: String,
}

impl HttpDownstream {
    /// Answers a request of the old transport, whose messages are posted to the path `messages`.
    pub async fn respond_on_two_paths<B>(
        &self,
        principal: &Arc<str>,
        request: Request<B>,
        messages: &str,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(reason) = self.guard.admit(request.headers()) {
            return reply::plain(StatusCode::FORBIDDEN, reason);
        }
        match *request.method() {
            Method::GET if !accepts(request.headers(), &["text/event-stream"]) => {
                reply::plain(StatusCode::NOT_ACCEPTABLE, "this is a stream: accept text/event-stream")
            }
            Method::GET => self.open_conversation(Arc::clone(principal), messages),
            Method::POST => self.post_beside(principal, request).await,
            _ => reply::not_allowed("GET, POST"),
        }
    }

    fn open_conversation(&self, principal: Arc<str>, messages: &str) -> Response<ResponseBody> {
        let limits = &self.downstream.options.limits;
        let bounds = Bounds { events: limits.stream_events, bytes: limits.stream_bytes };
        let (stream, writer) = Stream::new(0, bounds);
        let Ok(name) = seal::random_token() else { return reply::empty(StatusCode::INTERNAL_SERVER_ERROR) };
        let endpoint = sse::encode_endpoint(&format!("{messages}?session={name}"));
        let mut open = self.conversations.open.lock();
        let own = open.values().filter(|other| other.principal == principal).count();
        if limits.sessions <= open.len() || limits.sessions_per_caller <= own {
            return reply::plain(StatusCode::SERVICE_UNAVAILABLE, "too many streams");
        }
        let conversation = Conversation { principal, session: Mutex::default(), writer: Mutex::new(Some(writer)) };
        open.insert(name.clone(), Arc::new(conversation));
        drop(open);
        let hold = Hold { conversations: Arc::clone(&self.conversations), name };
        reply::stream(ResponseBody::conversation(hold, endpoint, stream.read_from(0), self.downstream.options.keep_alive))
    }

    async fn post_beside<B>(&self, principal: &Arc<str>, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let name = request.uri().query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("session="));
        let conversation = name.and_then(|name| self.conversations.open.lock().get(name).cloned());
        // CVE-2026-52869: a name alone authorises nothing.
        let Some(conversation) = conversation.filter(|conversation| conversation.principal == *principal) else {
            return reply::plain(StatusCode::NOT_FOUND, "no such stream");
        };
        let (_, text) = match self.body(request).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        match Envelope::read(text, &self.downstream.options.limits) {
            Ok(envelope) => self.take_beside(&conversation, &envelope),
            Err(problem) => reply::refusal(&problem, StatusCode::BAD_REQUEST),
        }
    }

    /// What is said back is said on the stream; this only says that the message was heard.
    fn take_beside(&self, conversation: &Conversation, envelope: &Envelope) -> Response<ResponseBody> {
        let Some(writer) = conversation.writer.lock().clone() else {
            return reply::plain(StatusCode::NOT_FOUND, "the stream is over");
        };
        let session = conversation.session.lock().clone();
        match (accent::declared(&self.downstream, envelope), session, envelope.kind()) {
            (Declared::Handshake, None, Kind::Request) => self.begin_beside(conversation, envelope, writer),
            (Declared::Nothing, Some(session), Kind::Request) => self.pump(&session, envelope, writer),
            (_, _, Kind::Request) => {
                let refusal = Said::error(envelope.id(), &session::no_session(), StatusCode::OK);
                self.say_later(writer, refusal);
            }
            (_, Some(session), _) => session.take(envelope),
            (_, None, _) => {}
        }
        reply::empty(StatusCode::ACCEPTED)
    }

    fn begin_beside(&self, conversation: &Conversation, envelope: &Envelope, writer: Writer) {
        let said = match Session::begin(&self.downstream, envelope, &conversation.principal) {
            Ok((session, result)) => {
                if let Some(standing) = session.standing.read() {
                    let writer = writer.clone();
                    self.tasks.spawn(async move {
                        while let Some(event) = standing.next().await {
                            writer.say(event.said).await;
                        }
                    });
                }
                *conversation.session.lock() = Some(session);
                let nameless = || RpcError::new(RpcError::INVALID_REQUEST, "a request has an id");
                match envelope.id() {
                    Some(id) => Said::last(compose::result(id, &result, &[])),
                    None => Said::error(None, &nameless(), StatusCode::OK),
                }
            }
            Err(error) => Said::error(envelope.id(), &error, StatusCode::OK),
        };
        self.say_later(writer, said);
    }
}

impl Conversations {
    /// Ends all streams.
    pub(super) fn end_all(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        open.into_values().for_each(|conversation| conversation.end());
    }
}

impl Conversation {
    fn end(&self) {
        self.writer.lock().take();
        if let Some(session) = self.session.lock().take() {
            session.end();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversations.open.lock().remove(&self.name) {
            conversation.end();
        }
    }
}
