//! Servers that are told to stop while something is under way, and services that break.

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
    down::{Caller, DownstreamOptions, Heard, Profile, Service, http::HttpDownstreamOptions, stdio},
    exchange::{ExchangeInterceptor, Exchange, ExchangeEvent, Outcome, Request},
    json::Raw,
    notice::Wanted,
};

use crate::{
    callers::{Wire, call, refused, request, stateless},
    service::Parrot,
    sockets::Served,
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

fn listening(id: u64) -> Value {
    stateless(request(id, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })), MODERN)
}

#[tokio::test]
async fn what_is_under_way_may_end_when_a_server_stops() {
    let mut served = Served::start(Parrot::new(), HttpDownstreamOptions::default()).await;
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
    assert_eq!(slow.status, 200, "it was under way");
    let end = listen.message().await.unwrap();
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(5), &json!("complete")));
    assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
    assert!(listen.message().await.is_none() && standing.message().await.is_none());
    assert!(tokio::net::TcpStream::connect(&served.authority).await.is_err(), "nothing new comes in");
    served.stopped().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_off() {
    let parrot = Parrot::new();
    let downstream = DownstreamOptions { drain: Duration::from_millis(200), ..DownstreamOptions::default() };
    let served = Served::start(parrot.clone(), HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() }).await;
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
async fn a_line_ends_as_gently() {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(theirs);
    let stop = CancellationToken::new();
    let serving = stdio::serve(read, write, Parrot::new(), DownstreamOptions::default(), stop.clone());
    let serving = tokio::runtime::Handle::current().spawn(serving);
    let (read, mut write) = tokio::io::split(ours);
    let mut lines = BufReader::new(read).lines();
    for message in [listening(1), stateless(call(2, "slow"), MODERN)] {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    assert!(lines.next_line().await.unwrap().unwrap().contains("acknowledged"));
    stop.cancel();
    let mut said = vec![serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap()];
    write.write_all(format!("{}\n", stateless(call(3, "echo"), MODERN)).as_bytes()).await.unwrap();
    while let Some(line) = lines.next_line().await.unwrap() {
        said.push(serde_json::from_str(&line).unwrap());
    }
    let of = |id: u64| said.iter().find(|said| said["id"] == id).unwrap_or_else(|| panic!("{id}: {said:?}"));
    assert_eq!(of(1)["result"]["resultType"], "complete");
    assert_eq!(of(2)["result"]["content"][0]["text"], "at last");
    assert_eq!(refused(of(3)), (json!(3), -32603), "nothing new is begun");
    serving.await.unwrap().unwrap();
}

/// Whoever writes all it has to say and closes its side reads every answer that comes in time.
#[tokio::test(start_paused = true)]
async fn what_was_asked_before_the_end_of_a_line_is_answered_after_it() {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(theirs);
    let parrot = Parrot::new();
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
    let (mut lines, mut said) = (BufReader::new(read).lines(), Vec::new());
    while let Some(line) = lines.next_line().await.unwrap() {
        said.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    let of = |id: u64| said.iter().find(|said| said["id"] == id && said.get("method").is_none());
    assert_eq!(of(1).unwrap()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(of(2).unwrap()["result"]["content"][0]["text"], "at last");
    assert!(of(3).is_some(), "nobody answers its question, and it goes on: {said:?}");
    assert_eq!(of(5).unwrap()["result"]["content"][0]["text"], "at last");
    assert_eq!(of(6).unwrap()["result"]["resultType"], "complete");
    assert!(of(4).is_none(), "what takes longer is given up");
    assert_eq!((began.elapsed().as_secs(), parrot.cancelled()), (5, 1));
    serving.await.unwrap().unwrap();
}

/// Breaks where the name of the tool says.
struct Clumsy;

#[derive(Debug)]
struct Broken;

impl ExchangeInterceptor for Broken {
    fn poll_next(&mut self, _context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        panic!("while it was looked at")
    }

    fn cancel(&mut self, _reason: &str) {}

    fn missed(&self) -> u64 {
        0
    }
}

impl Service for Clumsy {
    fn profile(&self, caller: &Caller) -> Profile {
        assert!(caller.info.is_none(), "while it was asked who it is");
        Profile { info: Raw::empty_object(), capabilities: Raw::empty_object(), instructions: None }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        match request.param("name").and_then(|name| name.as_str().map(String::from)).as_deref() {
            Some("opened") => panic!("while it was opened"),
            Some("looked at") => Exchange::through(Broken),
            _ => Exchange::ended(Outcome::Answered(Raw::of(&json!({ "content": [] })))),
        }
    }

    fn listen<'a>(&'a self, _wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(async { panic!("while it was listened to") })
    }
}

#[tokio::test]
async fn a_service_that_panics_answers_its_caller_and_nobody_else_notices() {
    let mut wire = Wire::to(Arc::new(Clumsy), DownstreamOptions::default());
    let introduced = request(9, "initialize", json!({ "protocolVersion": LEGACY, "clientInfo": { "name": "x" } }));
    assert_eq!(refused(&wire.ask(&introduced).await), (json!(9), -32603));
    let anonymous = request(9, "initialize", json!({ "protocolVersion": LEGACY }));
    assert_eq!(wire.ask(&anonymous).await["result"]["protocolVersion"], LEGACY);
    for name in ["opened", "looked at"] {
        assert_eq!(refused(&wire.ask(&call(1, name)).await), (json!(1), -32603), "{name}");
        assert_eq!(refused(&wire.ask(&stateless(call(2, name), MODERN)).await), (json!(2), -32603), "{name}");
    }
    assert_eq!(refused(&wire.ask(&listening(3)).await), (json!(3), -32603));
    let subscribe = request(4, "resources/subscribe", json!({ "uri": "memo://one" }));
    assert_eq!(refused(&wire.ask(&subscribe).await), (json!(4), -32603));
    assert_eq!(wire.ask(&call(1, "any")).await["result"]["content"], json!([]), "the id is free, the downstream is well");
    assert_eq!(wire.ask(&stateless(call(2, "any"), MODERN)).await["result"]["content"], json!([]));
}

#[tokio::test]
async fn over_http_the_connection_survives_it_too() {
    let served = Served::start(Arc::new(Clumsy), HttpDownstreamOptions::default()).await;
    for name in ["opened", "looked at", "any"] {
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", name)];
        let reply = served.send("POST", &headers, stateless(call(1, name), MODERN).to_string()).await;
        let reply = reply.whole().await;
        assert_eq!(reply["error"]["code"].as_i64(), (name != "any").then_some(-32603), "{name}: {reply}");
    }
}
