//! Callers that write each message by hand, over either downstream, and see exactly what comes back.

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
        http::{ResponseBody, HttpDownstream, HttpDownstreamOptions},
        stdio,
    },
    sse,
};

/// A message that does not come within this does not come.
const PATIENCE: Duration = Duration::from_secs(10);

/// An HTTP downstream, spoken to without a socket.
pub(crate) struct Door(pub(crate) Arc<HttpDownstream>);

/// What came back through it.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// A line downstream.
pub(crate) struct Wire {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    _stop: DropGuard,
}

// === impl Door ===

impl Door {
    pub(crate) fn to(service: Arc<dyn Service>, options: HttpDownstreamOptions) -> Self {
        Self(HttpDownstream::new(service, options).unwrap())
    }

    /// A door with only the options every downstream has.
    pub(crate) fn with(service: Arc<dyn Service>, downstream: DownstreamOptions) -> Self {
        Self::to(service, HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() })
    }

    /// Sends a request that is whole, and reads the reply to its end.
    pub(crate) async fn send(&self, request: request::Builder, body: impl Into<Bytes>) -> Reply {
        let request = request.body(Full::new(body.into())).unwrap();
        Reply::of(self.0.respond(request).await).await
    }

    /// Posts a message with these headers besides the usual ones.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        self.send(with(posting(), headers), message.to_string()).await
    }

    /// Begins a session in this revision; gives its name.
    pub(crate) async fn session(&self, revision: &str) -> String {
        let begun = self.post(&[], &initialize(revision)).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        begun.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }
}

/// A POST as a well-behaved caller begins it.
pub(crate) fn posting() -> request::Builder {
    Request::post("/mcp").header("host", "localhost").header("content-type", "application/json")
}

/// A request with these headers besides.
pub(crate) fn with(request: request::Builder, headers: &[(&str, &str)]) -> request::Builder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

// === impl Reply ===

impl Reply {
    async fn of(response: http::Response<ResponseBody>) -> Self {
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("the reply ends").unwrap();
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        Self { status: parts.status, headers: parts.headers, text }
    }

    /// The one message of a reply that is no stream.
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

// === impl Wire ===

impl Wire {
    pub(crate) fn to(service: Arc<dyn Service>, downstream: DownstreamOptions) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let stop = CancellationToken::new();
        tokio::runtime::Handle::current().spawn(stdio::serve(read, write, service, downstream, stop.clone()));
        let (read, write) = tokio::io::split(ours);
        Self { read: BufReader::new(read), write, _stop: stop.drop_guard() }
    }

    /// Writes a line, whatever it is.
    pub(crate) async fn write(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.read.read_line(&mut line)).await;
        assert_ne!(read.expect("a message comes").unwrap(), 0, "the downstream hung up");
        serde_json::from_str(&line).unwrap()
    }

    /// Says something and hears what comes next.
    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.say(message).await;
        self.hear().await
    }

    /// Begins a session in this revision.
    pub(crate) async fn session(&mut self, revision: &str) {
        let begun = self.ask(&initialize(revision)).await;
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

/// The same request as the stateless revision has it.
pub(crate) fn stateless(mut message: Value, revision: &str) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
    });
    message
}

fn initialize(revision: &str) -> Value {
    let info = json!({ "name": "by hand", "version": "1" });
    let capabilities = json!({ "elicitation": { "form": {} } });
    request(0, "initialize", json!({ "protocolVersion": revision, "capabilities": capabilities, "clientInfo": info }))
}

/// What an error is about: its id and code.
pub(crate) fn refused(message: &Value) -> (Value, i64) {
    (message["id"].clone(), message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {message}")))
}
