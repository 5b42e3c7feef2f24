//! An HTTP server with scripted responses that records the messages it receives.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::task::AbortOnDropHandle;
use toolway_wire::up::{EraChoice, Peer};

use crate::routes;

/// A scripted server; dropping it stops it.
pub(crate) struct ScriptedServer {
    address: String,
    received: Arc<Mutex<Vec<Value>>>,
    _serving: AbortOnDropHandle<()>,
}

/// Scripted response to a message.
pub(crate) enum ScriptedReply {
    /// A JSON-RPC result.
    Result(Value),
    /// An HTTP status and a JSON-RPC error.
    Error(StatusCode, Value),
    /// A result as literal JSON text.
    Text(String),
    /// An HTTP status without a JSON-RPC response.
    Status(StatusCode),
    /// An event stream that ends at once.
    EmptyStream,
}

/// A GET is recorded as `{"method": "GET"}`; notifications are always answered with 202.
type Script = dyn Fn(Value) -> BoxFuture<'static, ScriptedReply> + Send + Sync;

impl ScriptedServer {
    pub(crate) async fn start(
        script: impl Fn(Value) -> BoxFuture<'static, ScriptedReply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let received = Arc::default();
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, Arc::new(script), Arc::clone(&received)));
        Self { address, received, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(crate) async fn connect(&self, era: EraChoice) -> Peer {
        Peer::connect(Arc::new(routes::http(&self.address)), routes::pinned(era)).await.unwrap()
    }

    /// Received methods, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.received.lock().iter().map(|message| message["method"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Params of each received message with this method.
    pub(crate) fn params(&self, method: &str) -> Vec<Value> {
        let received = self.received.lock();
        received.iter().filter(|message| message["method"] == method).map(|message| message["params"].clone()).collect()
    }
}

async fn serve(listener: TcpListener, script: Arc<Script>, received: Arc<Mutex<Vec<Value>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (script, received) = (Arc::clone(&script), Arc::clone(&received));
        let answer = service_fn(move |request| answer(request, Arc::clone(&script), Arc::clone(&received)));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    received: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_get = request.method() == Method::GET;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message = if is_get { json!({ "method": "GET" }) } else { serde_json::from_slice(&body).unwrap() };
    let reply = script(message.clone()).await;
    received.lock().push(message.clone());
    let (status, kind, body) = match reply {
        ScriptedReply::EmptyStream => (StatusCode::OK, "text/event-stream", String::new()),
        _ if message["id"].is_null() => (StatusCode::ACCEPTED, "text/plain", String::new()),
        ScriptedReply::Result(result) => (StatusCode::OK, "application/json", json_rpc(&message, "result", &result)),
        ScriptedReply::Text(result) => (StatusCode::OK, "application/json", json_rpc_text(&message, &result)),
        ScriptedReply::Status(status) => (status, "text/plain", "not a JSON-RPC response".to_owned()),
        ScriptedReply::Error(status, error) => (status, "application/json", json_rpc(&message, "error", &error)),
    };
    let response = Response::builder().status(status).header("content-type", kind);
    Ok(response.body(Full::from(body)).unwrap())
}

fn json_rpc(message: &Value, kind: &str, value: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": message["id"], kind: value }).to_string()
}

fn json_rpc_text(message: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"])
}
