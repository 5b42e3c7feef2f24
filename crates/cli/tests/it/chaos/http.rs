//! A minimal HTTP client with one connection per request, which reports broken connections.

use std::{collections::VecDeque, net::SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;
use toolway_wire::sse::{self, SseEvent};

/// The connection broke before the end of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// A response that is being read.
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// ID of the last event, if the response is a stream.
    pub(super) last_event: Option<String>,
    body: Incoming,
    decoder: sse::SseDecoder,
    events: VecDeque<SseEvent>,
    _connection: AbortOnDropHandle<()>,
}

/// Body of the response to a request that the proxy cut while the way back stays open.
const HALF: &str = "the request body is incomplete";

/// Sends a request and reads the head of the response.
pub(super) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Result<HttpResponse, Broken> {
    let stream = TcpStream::connect(address).await.map_err(|_| Broken)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| Broken)?;
    let connection = tokio::runtime::Handle::current().spawn(async move { drop(connection.await) });
    let mut request = Request::builder().method(method).uri(path).header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let (parts, body) = sender.send_request(request).await.map_err(|_| Broken)?.into_parts();
    Ok(HttpResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        last_event: None,
        body,
        decoder: sse::SseDecoder::new(1 << 26),
        events: VecDeque::new(),
        _connection: AbortOnDropHandle::new(connection),
    })
}

impl HttpResponse {
    pub(super) fn is_stream(&self) -> bool {
        self.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream")
    }

    /// The next message of a stream, or the only one; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Broken> {
        if !self.is_stream() {
            let text = self.text().await?;
            // The server received a truncated request and rejects it.
            if text == HALF {
                return Err(Broken);
            }
            return Ok((!text.is_empty()).then(|| serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))));
        }
        loop {
            while let Some(event) = self.events.pop_front() {
                self.last_event = event.id.or(self.last_event.take());
                if !event.data.is_empty() {
                    return Ok(Some(serde_json::from_slice(&event.data).unwrap()));
                }
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let data = frame.map_err(|_| Broken)?.into_data().unwrap_or_default();
            self.events.extend(self.decoder.push(data).unwrap());
        }
    }

    /// The rest of the response as text.
    pub(super) async fn text(&mut self) -> Result<String, Broken> {
        let mut text = Vec::new();
        while let Some(frame) = self.body.frame().await {
            text.extend_from_slice(&frame.map_err(|_| Broken)?.into_data().unwrap_or_default());
        }
        Ok(String::from_utf8(text).unwrap())
    }
}
