//! A client that writes raw HTTP requests, each on its own connection.

use std::{collections::VecDeque, net::SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;
use toolway_testkit::test_host::within;
use toolway_wire::sse::{self, SseEvent};

use crate::test_gateway::TestGateway;

/// A client with a path and an optional key.
#[derive(Clone)]
pub(crate) struct RawClient {
    address: SocketAddr,
    path: String,
    key: Option<String>,
    session: Option<String>,
}

/// A response that is being read; closes its connection on drop.
pub(crate) struct Open {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    decoder: sse::SseDecoder,
    events: VecDeque<SseEvent>,
    _connection: AbortOnDropHandle<()>,
}

impl TestGateway {
    /// A client with this key.
    pub(crate) fn raw_client(&self, path: &str, key: Option<&str>) -> RawClient {
        RawClient { address: self.address, path: path.to_owned(), key: key.map(str::to_owned), session: None }
    }
}

impl RawClient {
    /// The same key at another path, without a session.
    pub(crate) fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), session: None, ..self.clone() }
    }

    /// The same client in the session of another.
    pub(crate) fn in_session_of(&self, other: &Self) -> Self {
        Self { session: other.session.clone(), path: other.path.clone(), ..self.clone() }
    }

    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap()
    }

    /// Posts in a session that was started at another path.
    pub(crate) async fn post_in(&self, session: &Self, message: &Value) -> u16 {
        let elsewhere = Self { session: session.session.clone(), ..self.clone() };
        elsewhere.post(message).await.status
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    pub(crate) fn session(&self) -> &str {
        self.session.as_deref().unwrap()
    }

    /// A request with exactly these headers besides host, key and session.
    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Open {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::runtime::Handle::current().spawn(async move { drop(connection.await) });
        let mut request = Request::builder().method(method).uri(&self.path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = within("a response", sender.send_request(request)).await.unwrap();
        let (parts, body) = response.into_parts();
        Open {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            decoder: sse::SseDecoder::new(1 << 26),
            events: VecDeque::new(),
            _connection: AbortOnDropHandle::new(connection),
        }
    }

    pub(crate) async fn get(&self) -> Open {
        self.send("GET", &[("accept", "text/event-stream")], "").await
    }

    /// Posts a message unchanged.
    pub(crate) async fn post(&self, message: &Value) -> Open {
        self.send("POST", &[("content-type", "application/json")], message.to_string()).await
    }

    /// Posts a stateless request.
    pub(crate) async fn open_request(&self, method: &str, params: Value) -> Open {
        let params = with_meta(params);
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut headers =
            vec![("content-type", "application/json"), ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        self.send("POST", &headers, message.to_string()).await
    }

    /// Posts a stateless request and returns its result or error.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        self.open_request(method, params).await.answer().await
    }

    /// Starts a session of a client that supports forms.
    pub(crate) async fn start_session(self) -> Self {
        self.start_session_with(json!({ "elicitation": { "form": {} } })).await
    }

    /// Starts a session with these client capabilities.
    pub(crate) async fn start_session_with(mut self, capabilities: Value) -> Self {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "story", "version": "1" } });
        let begun = self.post(&request(0, "initialize", params)).await;
        assert_eq!(begun.status, 200);
        self.session = Some(begun.headers["mcp-session-id"].to_str().unwrap().to_owned());
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&ready).await.status, 202);
        self
    }
}

impl Open {
    /// The next message of a stream; `None` at its end.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            while self.events.is_empty() {
                let frame = within("a frame", self.body.frame()).await?;
                // An aborted stream counts as its end.
                let data = frame.ok()?.into_data().unwrap_or_default();
                self.events.extend(self.decoder.push(data).unwrap());
            }
            if let Some(event) = self.events.pop_front().filter(|event| !event.data.is_empty()) {
                return Some(serde_json::from_slice(&event.data).unwrap());
            }
        }
    }

    /// The last message of a stream, or the JSON body.
    pub(crate) async fn answer(mut self) -> Value {
        if self.headers.get("content-type").is_none_or(|kind| kind != "text/event-stream") {
            let text = self.text().await;
            return serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        }
        let mut last = Value::Null;
        while let Some(message) = self.message().await {
            last = message;
        }
        last
    }

    pub(crate) async fn text(self) -> String {
        let body = within("an end", self.body.collect()).await.unwrap();
        String::from_utf8(body.to_bytes().to_vec()).unwrap()
    }
}

/// A request without `_meta`.
pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    message["params"] = params;
    message
}

/// Adds the `_meta` of stateless requests.
pub(crate) fn with_meta(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "story", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
    });
    params
}
