//! Test clients that send literal messages, over HTTP or stdio, and return the raw responses.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolway_wire::{
    down::{
        DownstreamOptions, Service,
        http::{HttpDownstream, HttpDownstreamOptions, ResponseBody},
        stdio,
    },
    sse,
};

/// Timeout for each response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Client of an HTTP downstream, without a socket.
pub(crate) struct RawHttpClient(pub(crate) Arc<HttpDownstream>);

/// An HTTP response with its whole body.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// Client of a stdio downstream.
pub(crate) struct RawStdioClient {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    _stop: DropGuard,
}

// === impl RawHttpClient ===

impl RawHttpClient {
    pub(crate) fn to(service: Arc<dyn Service>, options: HttpDownstreamOptions) -> Self {
        Self(HttpDownstream::new(service, options).unwrap())
    }

    /// Creates a client of a downstream with these options.
    pub(crate) fn with(service: Arc<dyn Service>, downstream: DownstreamOptions) -> Self {
        Self::to(service, HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() })
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&self, request: request::Builder, body: impl Into<Bytes>) -> Reply {
        let request = request.body(Full::new(body.into())).unwrap();
        Reply::of(self.0.respond(request).await).await
    }

    /// Posts a message with these additional headers.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        self.send(with(posting(), headers), message.to_string()).await
    }

    /// Starts a session in this revision; returns its id.
    pub(crate) async fn session(&self, revision: &str) -> String {
        let begun = self.post(&[], &initialize(revision)).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        begun.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }
}

/// A POST with the required headers.
pub(crate) fn posting() -> request::Builder {
    Request::post("/mcp").header("host", "localhost").header("content-type", "application/json")
}

/// Adds headers to a request.
pub(crate) fn with(request: request::Builder, headers: &[(&str, &str)]) -> request::Builder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

// === impl Reply ===

impl Reply {
    async fn of(response: http::Response<ResponseBody>) -> Self {
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(TIMEOUT, body.collect()).await.expect("the response ends").unwrap();
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        Self { status: parts.status, headers: parts.headers, text }
    }

    /// The message of a JSON response.
    pub(crate) fn message(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json", "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }

    /// The events of a stream.
    pub(crate) fn events(&self) -> Vec<sse::SseEvent> {
        assert_eq!(self.headers["content-type"], "text/event-stream", "{}", self.text);
        sse::SseDecoder::new(1 << 20).push(Bytes::from(self.text.clone())).unwrap()
    }

    /// The messages of a stream.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let events = self.events();
        events
            .iter()
            .filter(|event| !event.data.is_empty())
            .map(|event| serde_json::from_slice(&event.data).unwrap())
            .collect()
    }
}

// === impl RawStdioClient ===

impl RawStdioClient {
    pub(crate) fn to(service: Arc<dyn Service>, downstream: DownstreamOptions) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let stop = CancellationToken::new();
        tokio::runtime::Handle::current().spawn(stdio::serve(read, write, service, downstream, stop.clone()));
        let (read, write) = tokio::io::split(ours);
        Self { read: BufReader::new(read), write, _stop: stop.drop_guard() }
    }

    /// Writes a line of text.
    pub(crate) async fn write(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// Receives the next message.
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(TIMEOUT, self.read.read_line(&mut line)).await;
        assert_ne!(read.expect("a message comes").unwrap(), 0, "the downstream closed the connection");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a message and receives the next one.
    pub(crate) async fn request(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.receive().await
    }

    /// Starts a session in this revision.
    pub(crate) async fn session(&mut self, revision: &str) {
        let begun = self.request(&initialize(revision)).await;
        assert_eq!(begun["result"]["protocolVersion"], revision, "{begun}");
    }
}

// === messages ===

pub(crate) fn request(id: impl Into<Value>, method: &str, params: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params.into() })
}

pub(crate) fn notification(method: &str, params: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params.into() })
}

pub(crate) fn call(id: impl Into<Value>, tool: &str) -> Value {
    request(id, "tools/call", json!({ "name": tool }))
}

/// Adds the `_meta` of the stateless revision to a request.
pub(crate) fn stateless(mut message: Value, revision: &str) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
    });
    message
}

pub(crate) fn initialize(revision: &str) -> Value {
    let info = json!({ "name": "by hand", "version": "1" });
    let capabilities = json!({ "elicitation": { "form": {} } });
    request(0, "initialize", json!({ "protocolVersion": revision, "capabilities": capabilities, "clientInfo": info }))
}

/// Id and code of an error response.
pub(crate) fn refused(message: &Value) -> (Value, i64) {
    (message["id"].clone(), message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {message}")))
}
