//! The stream for what belongs to no request: there before the first request, where the server has one.
//!
//! The server at the other end is written by hand, because ours keeps what it has to say until the stream is there;
//! many others drop it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use toolway_wire::up::{EraChoice, Peer};

use crate::ways;

/// A stateful server that takes its time to answer a GET.
struct SlowToStand {
    address: String,
    heard: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

impl SlowToStand {
    async fn start(delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::default());
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, delay, Arc::clone(&heard)));
        Self { address, heard, _serving: AbortOnDropHandle::new(serving) }
    }

    async fn connect(&self) -> Peer {
        Peer::connect(Arc::new(ways::http(&self.address)), ways::pinned(EraChoice::Legacy)).await.unwrap()
    }
}

async fn serve(listener: TcpListener, delay: Duration, heard: Arc<Mutex<Vec<String>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let heard = Arc::clone(&heard);
        let answer = service_fn(move |request| answer(request, delay, Arc::clone(&heard)));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

async fn answer(
    request: Request<Incoming>,
    delay: Duration,
    heard: Arc<Mutex<Vec<String>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        tokio::time::sleep(delay).await;
        heard.lock().push("GET".to_owned());
        return Ok(Response::builder().header("content-type", "text/event-stream").body(Full::default()).unwrap());
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let Ok(message) = serde_json::from_slice::<Value>(&body) else { return Ok(Response::default()) };
    let method = message["method"].as_str().unwrap_or_default();
    heard.lock().push(method.to_owned());
    if message["id"].is_null() {
        return Ok(Response::builder().status(StatusCode::ACCEPTED).body(Full::default()).unwrap());
    }
    let result = match method {
        "initialize" => json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} }),
        _ => json!({}),
    };
    let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
    Ok(Response::builder().header("content-type", "application/json").body(Full::from(reply)).unwrap())
}

#[tokio::test]
async fn the_stream_is_there_before_the_first_request() {
    let server = SlowToStand::start(Duration::from_millis(200)).await;
    let peer = server.connect().await;
    peer.ping().await.unwrap();
    assert_eq!(server.heard.lock()[..4], ["initialize", "notifications/initialized", "GET", "ping"]);
}

#[tokio::test]
async fn a_server_that_never_answers_is_not_waited_for() {
    let server = SlowToStand::start(Duration::from_secs(600)).await;
    let peer = server.connect().await;
    peer.ping().await.unwrap();
    assert_eq!(*server.heard.lock(), ["initialize", "notifications/initialized", "ping"]);
}
