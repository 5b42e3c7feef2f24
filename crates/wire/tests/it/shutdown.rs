//! Shutdown of downstreams with active requests, and services that panic.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{Caller, DownstreamOptions, Profile, Service, ServiceSubscription, http::HttpDownstreamOptions, stdio},
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome, Request},
    json::Raw,
    notice::SubscriptionFilter,
};

use crate::{
    raw_clients::{RawStdioClient, call, refused, request, stateless},
    socket_clients::SocketServer,
    test_service::TestService,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

fn listening(id: u64) -> Value {
    stateless(request(id, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })), MODERN)
}

#[tokio::test]
async fn active_requests_may_finish_during_shutdown() {
    let mut served = SocketServer::start(TestService::new(), HttpDownstreamOptions::default()).await;
    served.begin().await;
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "subscriptions/listen")];
    let mut listen = served.send("POST", &headers, listening(5).to_string()).await;
    assert_eq!(listen.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let mut standing = served.in_session("GET", &[], &Value::Null).await;
    let message = call(1, "slow");
    let (slow, ()) = tokio::join!(served.post(&message), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        served.stop();
    });
    assert_eq!(slow.status, 200, "the call was active");
    let end = listen.message().await.unwrap();
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(5), &json!("complete")));
    assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
    assert!(listen.message().await.is_none() && standing.message().await.is_none());
    assert!(tokio::net::TcpStream::connect(&served.authority).await.is_err(), "new connections are refused");
    served.stopped().await;
}

#[tokio::test]
async fn requests_that_exceed_the_drain_timeout_are_cancelled() {
    let parrot = TestService::new();
    let downstream = DownstreamOptions { drain: Duration::from_millis(200), ..DownstreamOptions::default() };
    let served =
        SocketServer::start(parrot.clone(), HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() })
            .await;
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "wait")];
    let _stuck = served.post_and_ignore(&headers, &stateless(call(1, "wait"), MODERN)).await;
    while parrot.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    served.stop();
    served.stopped().await;
    while parrot.cancelled() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn stdio_downstream_drains_as_well() {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(theirs);
    let stop = CancellationToken::new();
    let serving = stdio::serve(read, write, TestService::new(), DownstreamOptions::default(), stop.clone());
    let serving = tokio::runtime::Handle::current().spawn(serving);
    let (read, mut write) = tokio::io::split(ours);
    let mut lines = BufReader::new(read).lines();
    for message in [listening(1), stateless(call(2, "slow"), MODERN)] {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    assert!(lines.next_line().await.unwrap().unwrap().contains("acknowledged"));
    stop.cancel();
    let mut received = vec![serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap()];
    write.write_all(format!("{}\n", stateless(call(3, "echo"), MODERN)).as_bytes()).await.unwrap();
    while let Some(line) = lines.next_line().await.unwrap() {
        received.push(serde_json::from_str(&line).unwrap());
    }
    let of =
        |id: u64| received.iter().find(|message| message["id"] == id).unwrap_or_else(|| panic!("{id}: {received:?}"));
    assert_eq!(of(1)["result"]["resultType"], "complete");
    assert_eq!(of(2)["result"]["content"][0]["text"], "at last");
    assert_eq!(refused(of(3)), (json!(3), -32603), "new requests are refused");
    serving.await.unwrap().unwrap();
}

/// A client that sends its requests and closes its output gets every response that is ready within the drain timeout.
#[tokio::test(start_paused = true)]
async fn requests_before_end_of_input_are_answered_after_it() {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(theirs);
    let parrot = TestService::new();
    let options = DownstreamOptions { drain: Duration::from_secs(5), ..DownstreamOptions::default() };
    let serving = stdio::serve(read, write, Arc::clone(&parrot) as Arc<dyn Service>, options, CancellationToken::new());
    let serving = tokio::runtime::Handle::current().spawn(serving);
    let (read, mut write) = tokio::io::split(ours);
    let begin = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": { "form": {} } },
        "clientInfo": { "name": "by hand", "version": "1" } });
    let messages = [
        request(1, "initialize", begin),
        call(2, "slow"),
        call(3, "ask"),
        call(4, "wait"),
        stateless(call(5, "slow"), MODERN),
        listening(6),
    ];
    for message in messages {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    write.shutdown().await.unwrap();
    let began = tokio::time::Instant::now();
    let (mut lines, mut received) = (BufReader::new(read).lines(), Vec::new());
    while let Some(line) = lines.next_line().await.unwrap() {
        received.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    let of = |id: u64| received.iter().find(|message| message["id"] == id && message.get("method").is_none());
    assert_eq!(of(1).unwrap()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(of(2).unwrap()["result"]["content"][0]["text"], "at last");
    assert!(of(3).is_some(), "its server request is not answered, and the call continues: {received:?}");
    assert_eq!(of(5).unwrap()["result"]["content"][0]["text"], "at last");
    assert_eq!(of(6).unwrap()["result"]["resultType"], "complete");
    assert!(of(4).is_none(), "longer calls are cancelled");
    assert_eq!((began.elapsed().as_secs(), parrot.cancelled()), (5, 1));
    serving.await.unwrap().unwrap();
}

/// A service that panics where the name of the tool says.
struct Panicking;

#[derive(Debug)]
struct PanickingExchange;

impl ExchangeInterceptor for PanickingExchange {
    fn poll_next(&mut self, _context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        panic!("panic while polled")
    }

    fn cancel(&mut self, _reason: &str) {}

    fn missed(&self) -> u64 {
        0
    }
}

impl Service for Panicking {
    fn profile(&self, caller: &Caller) -> Profile {
        assert!(caller.info.is_none(), "panic in profile");
        Profile { info: Raw::empty_object(), capabilities: Raw::empty_object(), instructions: None }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        match request.param("name").and_then(|name| name.as_str().map(String::from)).as_deref() {
            Some("opened") => panic!("panic in open"),
            Some("polled") => Exchange::through(PanickingExchange),
            _ => Exchange::ended(Outcome::Answered(Raw::of(&json!({ "content": [] })))),
        }
    }

    fn listen<'a>(&'a self, _wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(async { panic!("panic in listen") })
    }
}

#[tokio::test]
async fn panic_of_a_service_is_answered_and_affects_no_other_request() {
    let mut wire = RawStdioClient::to(Arc::new(Panicking), DownstreamOptions::default());
    let introduced = request(9, "initialize", json!({ "protocolVersion": LEGACY, "clientInfo": { "name": "x" } }));
    assert_eq!(refused(&wire.request(&introduced).await), (json!(9), -32603));
    let anonymous = request(9, "initialize", json!({ "protocolVersion": LEGACY }));
    assert_eq!(wire.request(&anonymous).await["result"]["protocolVersion"], LEGACY);
    for name in ["opened", "polled"] {
        assert_eq!(refused(&wire.request(&call(1, name)).await), (json!(1), -32603), "{name}");
        assert_eq!(refused(&wire.request(&stateless(call(2, name), MODERN)).await), (json!(2), -32603), "{name}");
    }
    assert_eq!(refused(&wire.request(&listening(3)).await), (json!(3), -32603));
    let subscribe = request(4, "resources/subscribe", json!({ "uri": "memo://one" }));
    assert_eq!(refused(&wire.request(&subscribe).await), (json!(4), -32603));
    assert_eq!(
        wire.request(&call(1, "any")).await["result"]["content"],
        json!([]),
        "the id is free and the downstream works"
    );
    assert_eq!(wire.request(&stateless(call(2, "any"), MODERN)).await["result"]["content"], json!([]));
}

#[tokio::test]
async fn http_connection_survives_a_panic_of_the_service() {
    let served = SocketServer::start(Arc::new(Panicking), HttpDownstreamOptions::default()).await;
    for name in ["opened", "polled", "any"] {
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", name)];
        let reply = served.send("POST", &headers, stateless(call(1, name), MODERN).to_string()).await;
        let reply = reply.whole().await;
        assert_eq!(reply["error"]["code"].as_i64(), (name != "any").then_some(-32603), "{name}: {reply}");
    }
}
