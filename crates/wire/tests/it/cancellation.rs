//! Cancelled connections and calls, late answers, and retries in another spelling, over scripted streams.

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
    down::{self, Caller, DownstreamOptions, Profile, Service, ServiceSubscription},
    error::WireError,
    exchange::{
        self, Answer, Cause, Exchange, ExchangeEvent, ExchangeTimeouts, Outcome, Request, ServerRequestDetails,
        ServerRequestId,
    },
    json::Raw,
    limit::Limits,
    notice::SubscriptionFilter,
    up::{
        ConnectOptions, EraChoice, Peer,
        stdio::{ProcessHandle, ServerStreams, StdioTransport, StreamOpener},
    },
};

use crate::routes::pinned;

#[tokio::test]
async fn dropped_connection_attempt_closes_its_process() {
    let (theirs, ours) = tokio::io::duplex(1024);
    let closed = Arc::new(AtomicBool::new(false));
    let streams = RecordedStreams { stream: Mutex::new(Some(ours)), closed: Arc::clone(&closed) };
    let transport = Arc::new(StdioTransport::new(Arc::new(streams), Limits::default()));
    let connecting = Peer::connect(transport, ConnectOptions::default());
    assert!(tokio::time::timeout(Duration::from_millis(50), connecting).await.is_err(), "the server does not answer");
    let gone = async {
        while !closed.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the process is closed");
    drop(theirs);
}

/// A connection with a session to a scripted server.
async fn scripted() -> (Peer, Wire) {
    scripted_within(Limits::default()).await
}

/// The same, with these limits.
pub(crate) async fn scripted_within(limits: Limits) -> (Peer, Wire) {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let mut server = Wire::new(theirs);
    let streams = RecordedStreams { stream: Mutex::new(Some(ours)), closed: Arc::default() };
    let transport = Arc::new(StdioTransport::new(Arc::new(streams), limits.clone()));
    let greeted = async {
        let hello = server.next().await;
        server
            .send(json!({ "id": hello["id"], "result": { "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "x", "version": "1" } } }))
            .await;
        server.next().await;
    };
    let options = ConnectOptions { limits, ..pinned(EraChoice::Legacy) };
    let (peer, ()) = tokio::join!(Peer::connect(transport, options), greeted);
    (peer.unwrap(), server)
}

/// Ids of both sides may be equal: a server that cancels its request 3 does not mean our request 3.
#[tokio::test]
async fn cancellation_by_the_server_does_not_end_a_call() {
    let (peer, mut server) = scripted().await;
    let call = peer.call_tool("slow", None).unwrap();
    let asked = server.next().await;
    server.send(json!({ "method": "notifications/cancelled", "params": { "requestId": asked["id"] } })).await;
    server.send(json!({ "id": asked["id"], "result": { "content": [] } })).await;
    let outcome = call.outcome().await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
}

/// A server that continues a cancelled call would act on the answer, although its caller was told to call again.
#[tokio::test]
async fn answer_after_cancellation_is_not_sent() {
    let (peer, mut server) = scripted().await;
    for (method, expected) in [
        ("elicitation/create", json!({ "result": { "action": "cancel" } })),
        ("sampling/createMessage", json!({ "error": { "code": -1, "message": "no answer was given in time" } })),
    ] {
        let mut call = peer.call_tool("greet", None).unwrap();
        let made = server.next().await;
        server.send(json!({ "id": method, "method": method, "params": {} })).await;
        let Some(ExchangeEvent::ServerRequest(request)) = call.next().await else { panic!("no server request") };
        assert!(call.cancel_handle().cancel_if_awaiting_answer("its slot was needed"));
        let answer = server.next().await;
        assert_eq!((&answer["id"], &answer["result"]), (&json!(method), &expected["result"]), "{answer}");
        assert_eq!(answer["error"], expected["error"], "{answer}");
        let called_off = server.next().await;
        assert_eq!(called_off["method"], "notifications/cancelled", "{called_off}");
        assert_eq!(called_off["params"]["requestId"], made["id"]);
        request.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": {} }))));
        assert!(matches!(call.outcome().await, Outcome::Cancelled));
        // Everything for this call is sent by now; the next message is the next call.
        tokio::task::yield_now().await;
        drop(peer.call_tool("next", None).unwrap());
        let next = server.next().await;
        assert_eq!(next["params"]["name"], "next", "{next}");
        assert_eq!(server.next().await["method"], "notifications/cancelled");
    }
}

/// The answer to a request of a task names that task, not the one of the caller that gave it.
#[tokio::test]
async fn answer_to_a_request_of_a_task_names_the_task() {
    let (peer, mut server) = scripted().await;
    let result = Request::new("tasks/result", Some(Raw::of(&json!({ "taskId": "k1" })))).unwrap();
    let mut call = peer.open(result, ExchangeTimeouts::unbounded());
    server.next().await;
    let related = |task: &str| json!({ "io.modelcontextprotocol/related-task": { "taskId": task } });
    let params = json!({ "messages": [], "maxTokens": 1, "_meta": related("k1") });
    server.send(json!({ "id": "q", "method": "sampling/createMessage", "params": params })).await;
    let Some(ExchangeEvent::ServerRequest(request)) = call.next().await else { panic!("no server request") };
    let mut given = json!({ "role": "assistant", "model": "m", "content": [], "_meta": related("of a caller") });
    given["_meta"]["example.org/trace"] = json!("7");
    request.answer(Answer::Given(Raw::of(&given)));
    let answer = server.next().await;
    let mut expected = related("k1");
    expected["example.org/trace"] = json!("7");
    assert_eq!((&answer["id"], &answer["result"]["_meta"]), (&json!("q"), &expected), "{answer}");
}

/// An answer given before the caller cancels counts.
#[tokio::test]
async fn answer_before_cancellation_is_sent() {
    let (peer, mut server) = scripted().await;
    let mut call = peer.call_tool("greet", None).unwrap();
    server.next().await;
    server.send(json!({ "id": "q", "method": "elicitation/create", "params": {} })).await;
    let Some(ExchangeEvent::ServerRequest(request)) = call.next().await else { panic!("no server request") };
    request.answer(Answer::declined());
    drop(call);
    let both = [server.next().await, server.next().await];
    assert!(both.iter().any(|message| message["result"]["action"] == "decline"), "{both:?}");
    assert!(both.iter().any(|message| message["method"] == "notifications/cancelled"), "{both:?}");
}

/// A server that reads changed roots during a call need not do so for the call: the end of the call is not an answer.
#[tokio::test]
async fn roots_are_answered_outside_the_call_that_ended_before_its_caller_answered() {
    let (peer, mut server) = scripted().await;
    for cancelled in [false, true] {
        let mut call = peer.call_tool("greet", None).unwrap();
        let made = server.next().await;
        server.send(json!({ "id": "r", "method": "roots/list" })).await;
        let Some(ExchangeEvent::ServerRequest(request)) = call.next().await else { panic!("no server request") };
        if !cancelled {
            server.send(json!({ "id": made["id"], "result": { "content": [] } })).await;
            let Some(ExchangeEvent::Ended(_)) = call.next().await else { panic!("no outcome") };
        }
        drop(call);
        drop(request);
        if cancelled {
            assert_eq!(server.next().await["method"], "notifications/cancelled");
        }
        let answer = server.next().await;
        assert_eq!((&answer["id"], &answer["result"]), (&json!("r"), &json!({ "roots": [] })), "{answer}");
    }
}

/// Its input would stay open as long as a call waits for its caller.
#[tokio::test]
async fn input_of_a_server_that_closed_its_output_is_closed() {
    let (peer, mut server) = scripted().await;
    server.write.shutdown().await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(10), server.read.next_line());
    assert_eq!(end.await.expect("in time").unwrap(), None);
    assert!(peer.is_closed());
}

/// An answer in the last moment is processed, so the call must not be reported as cancelled.
#[tokio::test]
async fn call_that_was_just_answered_is_not_cancelled() {
    let (peer, mut server) = scripted().await;
    let mut call = peer.call_tool("greet", None).unwrap();
    let made = server.next().await;
    server.send(json!({ "id": "q", "method": "elicitation/create", "params": {} })).await;
    let Some(ExchangeEvent::ServerRequest(request)) = call.next().await else { panic!("no server request") };
    let handle = call.cancel_handle();
    request.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": {} }))));
    assert!(!handle.cancel_if_awaiting_answer("its slot was needed"));
    assert_eq!(server.next().await["result"]["action"], "accept");
    server.send(json!({ "id": made["id"], "result": { "content": [] } })).await;
    assert!(matches!(call.outcome().await, Outcome::Answered(_)));
}

#[tokio::test]
async fn server_request_is_relayed_byte_for_byte_and_its_retry_may_differ_in_spelling() {
    const ASKED: &str = r#"{"requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"default":123456789012345678901234567890}}},"message":"\u0041?","vendor":1.0}"#;
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(ours);
    let serving = down::stdio::serve(
        read,
        write,
        Arc::new(AskOnce(ASKED)),
        DownstreamOptions::default(),
        CancellationToken::new(),
    );
    tokio::runtime::Handle::current().spawn(serving);
    let mut client = Wire::new(theirs);
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"b":[1, 2],"a":"é"}},{meta}}}}}"#
    )).await;
    let line = client.line().await;
    assert!(line.contains(ASKED), "{line}");
    let reply: Value = serde_json::from_str(&line).unwrap();
    let state = reply["result"]["requestState"].as_str().unwrap();
    client.write_line(&format!(
        r#"{{"id":2,"jsonrpc":"2.0","params":{{{meta}, "arguments": {{"a": "\u00e9", "b": [1,2]}}, "name": "t", "requestState":"{state}","inputResponses":{{"k":{{"action":"decline"}}}}}},"method":"tools/call"}}"#
    )).await;
    let reply: Value = serde_json::from_str(&client.line().await).unwrap();
    assert_eq!(reply["result"]["said"], json!({ "action": "decline" }), "{reply}");
}

/// A service that sends one server request and returns its answer.
struct AskOnce(&'static str);

impl Service for AskOnce {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile { info: Raw::empty_object(), capabilities: Raw::empty_object(), instructions: None }
    }

    fn open(&self, _request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 8);
        let details = ServerRequestDetails {
            id: ServerRequestId(1),
            key: Some("k".to_owned()),
            method: "elicitation/create".to_owned(),
            params: Some(Raw::parse(self.0).unwrap()),
            cause: Cause::Request,
        };
        tokio::runtime::Handle::current().spawn(async move {
            if let Answer::Given(answer) = feed.ask(details).await {
                let said = Raw::parse(format!("{{\"said\":{answer}}}")).unwrap();
                feed.end(Outcome::Answered(said));
            }
        });
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices: tokio::sync::mpsc::channel(1).1 }))
    }
}

/// Streams that can be opened once and record when their process is closed.
#[derive(Debug)]
struct RecordedStreams {
    stream: Mutex<Option<DuplexStream>>,
    closed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct RecordedProcess(Arc<AtomicBool>);

impl StreamOpener for RecordedStreams {
    fn target(&self) -> String {
        "a scripted server".to_owned()
    }

    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>> {
        let (read, write) = tokio::io::split(self.stream.lock().take().expect("opened once"));
        let process: Box<dyn ProcessHandle> = Box::new(RecordedProcess(Arc::clone(&self.closed)));
        Box::pin(
            async move { Ok(ServerStreams { read: Box::new(read), write: Box::new(write), process: Some(process) }) },
        )
    }
}

impl ProcessHandle for RecordedProcess {
    fn exit_reason(&self) -> BoxFuture<'_, String> {
        Box::pin(async { "exited".to_owned() })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.store(true, Ordering::Relaxed);
        Box::pin(async {})
    }
}

/// One end of a newline-delimited stream.
pub(crate) struct Wire {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Wire {
    fn new(stream: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read: BufReader::new(read).lines(), write }
    }

    pub(crate) async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.write_line(&message.to_string()).await;
    }

    async fn write_line(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(10), self.read.next_line());
        line.await.expect("in time").unwrap().expect("a line")
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }
}
