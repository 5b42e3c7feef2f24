//! Clients of the HTTP downstream over real sockets, one connection per request.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{
    down::{
        Service,
        http::{HttpDownstream, HttpDownstreamOptions, serve},
    },
    sse::{self, SseEvent},
};

use crate::raw_clients::{notification, request};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A downstream behind a socket.
pub(crate) struct SocketServer {
    pub(crate) authority: String,
    pub(crate) session: Option<String>,
    stop: CancellationToken,
    serving: AbortOnDropHandle<std::io::Result<()>>,
}

/// A response being read; dropping it closes its connection.
pub(crate) struct OpenResponse {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    body: Incoming,
    decoder: sse::SseDecoder,
    events: VecDeque<SseEvent>,
    _connection: AbortOnDropHandle<()>,
}

impl SocketServer {
    pub(crate) async fn start(service: Arc<dyn Service>, options: HttpDownstreamOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (downstream, stop) = (HttpDownstream::new(service, options).unwrap(), CancellationToken::new());
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, downstream, stop.clone()));
        Self { authority, session: None, stop, serving: AbortOnDropHandle::new(serving) }
    }

    /// Signals the server to stop.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(self) {
        tokio::time::timeout(TIMEOUT, self.serving).await.expect("it stops").unwrap().unwrap();
    }

    /// Posts a message on a new connection and reads nothing of the response.
    pub(crate) async fn post_and_ignore(&self, headers: &[(&str, &str)], message: &Value) -> TcpStream {
        let session = self.session.as_deref().map(|session| ("mcp-session-id", session));
        let body = message.to_string();
        let mut text = format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", self.authority);
        for (name, value) in headers.iter().copied().chain(session) {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(&self.authority).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request on a new connection.
    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> OpenResponse {
        self.send_to("/mcp", method, headers, body).await
    }

    /// As [`SocketServer::send`], to this path; as JSON unless a header differs.
    pub(crate) async fn send_to(
        &self,
        path: &str,
        method: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> OpenResponse {
        let stream = TcpStream::connect(&self.authority).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::runtime::Handle::current().spawn(async move { drop(connection.await) });
        let mut request = Request::builder().method(method).uri(path).header("host", &self.authority);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = tokio::time::timeout(TIMEOUT, sender.send_request(request)).await.expect("a response").unwrap();
        let (parts, body) = response.into_parts();
        OpenResponse {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            decoder: sse::SseDecoder::new(1 << 24),
            events: VecDeque::new(),
            _connection: AbortOnDropHandle::new(connection),
        }
    }

    /// As [`SocketServer::send`], with the session id.
    pub(crate) async fn in_session(&self, method: &str, headers: &[(&str, &str)], message: &Value) -> OpenResponse {
        let session = self.session.as_deref().map(|session| ("mcp-session-id", session));
        let headers: Vec<_> = headers.iter().copied().chain(session).collect();
        self.send(method, &headers, message.to_string()).await
    }

    pub(crate) async fn post(&self, message: &Value) -> OpenResponse {
        self.in_session("POST", &[], message).await
    }

    pub(crate) async fn resume(&self, last: &str) -> OpenResponse {
        self.in_session("GET", &[("last-event-id", last)], &Value::Null).await
    }

    /// Begins a session and completes its handshake.
    pub(crate) async fn begin(&mut self) {
        let capabilities = json!({ "elicitation": { "form": {} } });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
        let begun = self.post(&request(0, "initialize", params)).await;
        self.session = Some(begun.headers["mcp-session-id"].to_str().unwrap().to_owned());
        assert_eq!(self.post(&notification("notifications/initialized", json!({}))).await.status, 202);
    }
}

impl OpenResponse {
    /// The next event; `None` at the end.
    pub(crate) async fn event(&mut self) -> Option<SseEvent> {
        while self.events.is_empty() {
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame()).await.expect("a frame")?;
            let data = frame.unwrap().into_data().unwrap_or_default();
            self.events.extend(self.decoder.push(data).unwrap());
        }
        self.events.pop_front()
    }

    /// The next piece of the body.
    pub(crate) async fn piece(&mut self) -> Option<Bytes> {
        let frame = tokio::time::timeout(TIMEOUT, self.body.frame()).await.expect("a frame")?;
        frame.unwrap().into_data().ok()
    }

    /// The next message; `None` at the end.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_slice(&event.data).unwrap());
            }
        }
    }

    /// The body of a response that is not a stream.
    pub(crate) async fn whole(self) -> Value {
        let body = tokio::time::timeout(TIMEOUT, self.body.collect()).await.expect("an end").unwrap();
        serde_json::from_slice(&body.to_bytes()).unwrap()
    }
}
