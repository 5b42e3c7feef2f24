//! A server over HTTP whose every answer a story writes by hand, and which remembers what it heard.

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

use crate::ways;

/// The server; it ends with this value.
pub(crate) struct ByHand {
    address: String,
    heard: Arc<Mutex<Vec<Value>>>,
    _serving: AbortOnDropHandle<()>,
}

/// What is answered to a message.
pub(crate) enum Said {
    /// A result.
    Result(Value),
    /// A status and an error.
    Error(StatusCode, Value),
    /// A result that no JSON value can be, letter by letter.
    Text(String),
    /// A status that carries no answer.
    Status(StatusCode),
    /// A stream of events that ends at once.
    EmptyStream,
}

/// A GET is heard as `{"method": "GET"}`; to a notification nothing can be answered.
type Script = dyn Fn(Value) -> BoxFuture<'static, Said> + Send + Sync;

impl ByHand {
    pub(crate) async fn start(script: impl Fn(Value) -> BoxFuture<'static, Said> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heard = Arc::default();
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, Arc::new(script), Arc::clone(&heard)));
        Self { address, heard, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(crate) async fn connect(&self, era: EraChoice) -> Peer {
        Peer::connect(Arc::new(ways::http(&self.address)), ways::pinned(era)).await.unwrap()
    }

    /// The methods it has answered, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.heard.lock().iter().map(|message| message["method"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The params of each message with this method.
    pub(crate) fn params(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.lock();
        heard.iter().filter(|message| message["method"] == method).map(|message| message["params"].clone()).collect()
    }
}

async fn serve(listener: TcpListener, script: Arc<Script>, heard: Arc<Mutex<Vec<Value>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (script, heard) = (Arc::clone(&script), Arc::clone(&heard));
        let answer = service_fn(move |request| answer(request, Arc::clone(&script), Arc::clone(&heard)));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    heard: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_get = request.method() == Method::GET;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message = if is_get { json!({ "method": "GET" }) } else { serde_json::from_slice(&body).unwrap() };
    let said = script(message.clone()).await;
    heard.lock().push(message.clone());
    let (status, kind, body) = match said {
        Said::EmptyStream => (StatusCode::OK, "text/event-stream", String::new()),
        _ if message["id"].is_null() => (StatusCode::ACCEPTED, "text/plain", String::new()),
        Said::Result(result) => (StatusCode::OK, "application/json", reply(&message, "result", &result)),
        Said::Text(result) => (StatusCode::OK, "application/json", written(&message, &result)),
        Said::Status(status) => (status, "text/plain", "this is no answer".to_owned()),
        Said::Error(status, error) => (status, "application/json", reply(&message, "error", &error)),
    };
    let response = Response::builder().status(status).header("content-type", kind);
    Ok(response.body(Full::from(body)).unwrap())
}

fn reply(message: &Value, kind: &str, value: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": message["id"], kind: value }).to_string()
}

fn written(message: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"])
}
