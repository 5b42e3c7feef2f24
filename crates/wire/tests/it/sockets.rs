//! Callers of the HTTP face that come over real sockets, one connection per request.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{
    down::{Service, http::HttpFaceOptions},
    sse::{self, Event},
};

use crate::{
    callers::{notification, request},
    ways,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// A face behind a socket.
pub(crate) struct Served {
    authority: String,
    pub(crate) session: Option<String>,
    _stop: tokio_util::sync::DropGuard,
}

/// One response being read; letting go of it closes its connection.
pub(crate) struct Open {
    pub(crate) status: u16,
    headers: http::HeaderMap,
    body: Incoming,
    decoder: sse::Decoder,
    events: VecDeque<Event>,
    _connection: AbortOnDropHandle<()>,
}

impl Served {
    pub(crate) async fn start(service: Arc<dyn Service>, options: HttpFaceOptions) -> Self {
        let stop = CancellationToken::new();
        let address = ways::served(service, options, &stop).await;
        let authority = address.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        Self { authority, session: None, _stop: stop.drop_guard() }
    }

    /// A request on a connection of its own.
    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Open {
        let stream = TcpStream::connect(&self.authority).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::runtime::Handle::current().spawn(async move { drop(connection.await) });
        let mut request = Request::builder().method(method).uri("/mcp").header("host", &self.authority);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json").body(Full::new(body.into())).unwrap();
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("a response").unwrap();
        let (parts, body) = response.into_parts();
        Open {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            decoder: sse::Decoder::new(1 << 24),
            events: VecDeque::new(),
            _connection: AbortOnDropHandle::new(connection),
        }
    }

    /// As [`Served::send`], within the session.
    pub(crate) async fn in_session(&self, method: &str, headers: &[(&str, &str)], message: &Value) -> Open {
        let session = self.session.as_deref().map(|session| ("mcp-session-id", session));
        let headers: Vec<_> = headers.iter().copied().chain(session).collect();
        self.send(method, &headers, message.to_string()).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Open {
        self.in_session("POST", &[], message).await
    }

    pub(crate) async fn resume(&self, last: &str) -> Open {
        self.in_session("GET", &[("last-event-id", last)], &Value::Null).await
    }

    /// Begins a session and finishes its handshake.
    pub(crate) async fn begin(&mut self) {
        let capabilities = json!({ "elicitation": { "form": {} } });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
        let begun = self.post(&request(0, "initialize", params)).await;
        self.session = Some(begun.headers["mcp-session-id"].to_str().unwrap().to_owned());
        assert_eq!(self.post(&notification("notifications/initialized", json!({}))).await.status, 202);
    }
}

impl Open {
    /// The next event; none at the end.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        while self.events.is_empty() {
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a frame")?;
            let data = frame.unwrap().into_data().unwrap_or_default();
            self.events.extend(self.decoder.push(data).unwrap());
        }
        self.events.pop_front()
    }

    /// The next message; none at the end.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_slice(&event.data).unwrap());
            }
        }
    }
}
