//! What is left behind, crossed on the way or written down differently, over lines and by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{self, Caller, DownstreamOptions, Heard, Profile, Service},
    error::WireError,
    exchange::{self, Answer, ServerRequestId, Cause, Exchange, ExchangeEvent, Outcome, ServerRequestDetails, Request, ExchangeTimeouts},
    json::Raw,
    limit::Limits,
    notice::Wanted,
    up::{
        ConnectOptions, EraChoice, Peer,
        stdio::{ProcessHandle, StreamOpener, StdioTransport, ServerStreams},
    },
};

use crate::ways::pinned;

#[tokio::test]
async fn a_connection_that_is_given_up_half_way_leaves_nothing_open() {
    let (theirs, ours) = tokio::io::duplex(1024);
    let closed = Arc::new(AtomicBool::new(false));
    let streams = Watched { stream: Mutex::new(Some(ours)), closed: Arc::clone(&closed) };
    let transport = Arc::new(StdioTransport::new(Arc::new(streams), Limits::default()));
    let connecting = Peer::connect(transport, ConnectOptions::default());
    assert!(tokio::time::timeout(Duration::from_millis(50), connecting).await.is_err(), "nobody answers");
    let gone = async {
        while !closed.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the process behind it is let go");
    drop(theirs);
}

/// A connection with a session to a server whose every word a story writes.
async fn scripted() -> (Peer, Wire) {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let mut server = Wire::new(theirs);
    let streams = Watched { stream: Mutex::new(Some(ours)), closed: Arc::default() };
    let transport = Arc::new(StdioTransport::new(Arc::new(streams), Limits::default()));
    let greeted = async {
        let hello = server.next().await;
        server
            .says(json!({ "id": hello["id"], "result": { "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "x", "version": "1" } } }))
            .await;
        server.next().await;
    };
    let (peer, ()) = tokio::join!(Peer::connect(transport, pinned(EraChoice::Legacy)), greeted);
    (peer.unwrap(), server)
}

/// Both sides count from one: a server that takes back its question 3 does not mean our request 3.
#[tokio::test]
async fn a_servers_cancellation_never_ends_a_call_of_ours() {
    let (peer, mut server) = scripted().await;
    let call = peer.call_tool("slow", None).unwrap();
    let asked = server.next().await;
    server.says(json!({ "method": "notifications/cancelled", "params": { "requestId": asked["id"] } })).await;
    server.says(json!({ "id": asked["id"], "result": { "content": [] } })).await;
    let outcome = call.outcome().await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
}

/// A server that goes on with a call that was called off would act on the answer, and its caller is told to call again.
#[tokio::test]
async fn what_is_answered_after_a_call_was_called_off_is_not_sent() {
    let (peer, mut server) = scripted().await;
    for (method, told) in [
        ("elicitation/create", json!({ "result": { "action": "cancel" } })),
        ("sampling/createMessage", json!({ "error": { "code": -1, "message": "nobody came back with an answer" } })),
    ] {
        let mut call = peer.call_tool("greet", None).unwrap();
        let made = server.next().await;
        server.says(json!({ "id": method, "method": method, "params": {} })).await;
        let Some(ExchangeEvent::ServerRequest(ask)) = call.next().await else { panic!("not asked") };
        assert!(call.cancel_handle().cancel_if_awaiting_answer("its place was needed"));
        let answer = server.next().await;
        assert_eq!((&answer["id"], &answer["result"]), (&json!(method), &told["result"]), "{answer}");
        assert_eq!(answer["error"], told["error"], "{answer}");
        let called_off = server.next().await;
        assert_eq!(called_off["method"], "notifications/cancelled", "{called_off}");
        assert_eq!(called_off["params"]["requestId"], made["id"]);
        ask.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": {} }))));
        assert!(matches!(call.outcome().await, Outcome::Cancelled));
        // Whatever there is to be sent for it has been by now: what comes next is the next call.
        tokio::task::yield_now().await;
        drop(peer.call_tool("next", None).unwrap());
        let next = server.next().await;
        assert_eq!(next["params"]["name"], "next", "{next}");
        assert_eq!(server.next().await["method"], "notifications/cancelled");
    }
}

/// Whoever says no and leaves has said no.
#[tokio::test]
async fn what_was_answered_before_its_caller_left_is_sent_as_it_is() {
    let (peer, mut server) = scripted().await;
    let mut call = peer.call_tool("greet", None).unwrap();
    server.next().await;
    server.says(json!({ "id": "q", "method": "elicitation/create", "params": {} })).await;
    let Some(ExchangeEvent::ServerRequest(ask)) = call.next().await else { panic!("not asked") };
    ask.answer(Answer::declined());
    drop(call);
    let both = [server.next().await, server.next().await];
    assert!(both.iter().any(|message| message["result"]["action"] == "decline"), "{both:?}");
    assert!(both.iter().any(|message| message["method"] == "notifications/cancelled"), "{both:?}");
}

/// What was answered in the last moment is worked on, and is not to be done twice.
#[tokio::test]
async fn a_call_that_was_just_answered_is_not_called_off_for_want_of_an_answer() {
    let (peer, mut server) = scripted().await;
    let mut call = peer.call_tool("greet", None).unwrap();
    let made = server.next().await;
    server.says(json!({ "id": "q", "method": "elicitation/create", "params": {} })).await;
    let Some(ExchangeEvent::ServerRequest(ask)) = call.next().await else { panic!("not asked") };
    let call_off = call.cancel_handle();
    ask.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": {} }))));
    assert!(!call_off.cancel_if_awaiting_answer("its place was needed"));
    assert_eq!(server.next().await["result"]["action"], "accept");
    server.says(json!({ "id": made["id"], "result": { "content": [] } })).await;
    assert!(matches!(call.outcome().await, Outcome::Answered(_)));
}

#[tokio::test]
async fn a_question_reaches_a_stateless_caller_byte_for_byte_and_its_retry_may_be_written_differently() {
    const ASKED: &str = r#"{"requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"default":123456789012345678901234567890}}},"message":"\u0041?","vendor":1.0}"#;
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(ours);
    let serving =
        down::stdio::serve(read, write, Arc::new(Asks(ASKED)), DownstreamOptions::default(), CancellationToken::new());
    tokio::runtime::Handle::current().spawn(serving);
    let mut caller = Wire::new(theirs);
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    caller.writes(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"b":[1, 2],"a":"é"}},{meta}}}}}"#
    )).await;
    let line = caller.line().await;
    assert!(line.contains(ASKED), "{line}");
    let reply: Value = serde_json::from_str(&line).unwrap();
    let state = reply["result"]["requestState"].as_str().unwrap();
    caller.writes(&format!(
        r#"{{"id":2,"jsonrpc":"2.0","params":{{{meta}, "arguments": {{"a": "\u00e9", "b": [1,2]}}, "name": "t", "requestState":"{state}","inputResponses":{{"k":{{"action":"decline"}}}}}},"method":"tools/call"}}"#
    )).await;
    let reply: Value = serde_json::from_str(&caller.line().await).unwrap();
    assert_eq!(reply["result"]["said"], json!({ "action": "decline" }), "{reply}");
}

/// A service that asks one question and says what it was told.
struct Asks(&'static str);

impl Service for Asks {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile { info: Raw::empty_object(), capabilities: Raw::empty_object(), instructions: None }
    }

    fn open(&self, _request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 8);
        let question = ServerRequestDetails {
            id: ServerRequestId(1),
            key: Some("k".to_owned()),
            method: "elicitation/create".to_owned(),
            params: Some(Raw::parse(self.0).unwrap()),
            cause: Cause::Request,
        };
        tokio::runtime::Handle::current().spawn(async move {
            if let Answer::Given(answer) = feed.ask(question).await {
                let said = Raw::parse(format!("{{\"said\":{answer}}}")).unwrap();
                feed.end(Outcome::Answered(said));
            }
        });
        exchange
    }

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(std::future::ready(Heard { honoured: wanted, notices: tokio::sync::mpsc::channel(1).1 }))
    }
}

/// Streams that can be opened once, and note when they are let go.
#[derive(Debug)]
struct Watched {
    stream: Mutex<Option<DuplexStream>>,
    closed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Watch(Arc<AtomicBool>);

impl StreamOpener for Watched {
    fn target(&self) -> String {
        "a scripted server".to_owned()
    }

    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>> {
        let (read, write) = tokio::io::split(self.stream.lock().take().expect("opened once"));
        let keeper: Box<dyn ProcessHandle> = Box::new(Watch(Arc::clone(&self.closed)));
        Box::pin(async move { Ok(ServerStreams { read: Box::new(read), write: Box::new(write), process: Some(keeper) }) })
    }
}

impl ProcessHandle for Watch {
    fn exit_reason(&self) -> BoxFuture<'_, String> {
        Box::pin(async { "it is gone".to_owned() })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.store(true, Ordering::Relaxed);
        Box::pin(async {})
    }
}

/// One end of a line-framed wire.
struct Wire {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Wire {
    fn new(stream: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read: BufReader::new(read).lines(), write }
    }

    async fn says(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.writes(&message.to_string()).await;
    }

    async fn writes(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(10), self.read.next_line());
        line.await.expect("in time").unwrap().expect("a line")
    }

    async fn next(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }
}
