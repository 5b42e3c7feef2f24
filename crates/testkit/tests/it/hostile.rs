//! Servers that misbehave after the handshake: each ends in a named error within its limit, and where the protocol
//! allows it, the next call on the same connection works.

mod bodies;
mod floods;
mod heads;
mod http_sse;
mod listing;
mod server_requests;
mod sessions;
mod slow;
mod stdio;
mod streams;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use tokio::sync::broadcast;
use toolway_testkit::odd::compliant::SupportedEras;
use toolway_testkit::odd::http::{OddHttp, RecordedRequest, Reply, compliant_http};
use toolway_wire::{
    exchange::{Answer, ExchangeTimeouts, Outcome, Request, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    notice::Notice,
    up::{ConnectOptions, EraChoice, Peer},
};

use crate::dialling::{LONG, SHORT, address, patient};

/// Both eras.
pub(crate) const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

/// Answers server requests and counts them.
#[derive(Default)]
pub(crate) struct CountingHandler {
    asked: AtomicUsize,
}

/// Limits that a test reaches quickly.
pub(crate) fn small_limits() -> Limits {
    Limits { message_bytes: 10_000, event_bytes: 11_000, unsent_bytes: 20_000, ..Limits::default() }
}

/// Options with a pinned era and small limits.
pub(crate) fn pinned(era: EraChoice) -> ConnectOptions {
    ConnectOptions {
        era,
        limits: small_limits(),
        request_handler: Some(Arc::new(CountingHandler::default())),
        ..patient()
    }
}

/// The same, for a call that is meant to time out.
pub(crate) fn short_timeout(era: EraChoice) -> ConnectOptions {
    let mut connect = pinned(era);
    connect.timeouts.call.idle = Some(SHORT);
    connect
}

/// Calls a tool to the end without answering server requests. Only `odd` is meant to time out.
pub(crate) async fn call(peer: &Peer, tool: &str) -> Outcome {
    if tool == "odd" {
        return peer.call_tool(tool, None).unwrap().outcome().await;
    }
    let request = Request::new("tools/call", Some(Raw::of(&json!({ "name": tool })))).unwrap();
    peer.open(request, ExchangeTimeouts { idle: Some(LONG), total: Some(LONG) }).outcome().await
}

/// Outcome of a call as one word: the error code if it failed.
pub(crate) fn outcome_code(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(error) => error.code(),
        Outcome::Cancelled => "cancelled",
        Outcome::TimedOut { .. } => "timed_out",
        Outcome::HandedOff(_) => "task",
    }
}

/// Codes of the reported faults, each once.
pub(crate) fn faults(notices: &mut broadcast::Receiver<Notice>) -> Vec<&'static str> {
    let mut codes = Vec::new();
    while let Ok(notice) = notices.try_recv() {
        if let Notice::Fault(error) = notice {
            codes.push(error.code());
        }
    }
    codes.dedup();
    codes
}

/// An HTTP server that is correct except for the tool `odd`.
pub(crate) async fn odd_call(odd: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> OddHttp {
    OddHttp::start(move |seen| if seen.tool() == "odd" { odd(seen) } else { compliant_http(SupportedEras::Both, seen) })
        .await
        .unwrap()
}

/// Connects to a server over HTTP; the handshake must succeed.
pub(crate) async fn connected(odd: &OddHttp, connect: ConnectOptions) -> Peer {
    address(odd, connect, None).await.unwrap()
}

/// Checks the outcome of a call of `odd` in both eras; `hello` must work afterwards.
pub(crate) async fn check(
    name: &str,
    odd: impl Fn(&RecordedRequest) -> Reply + Send + Sync + Clone + 'static,
    connect: impl Fn(EraChoice) -> ConnectOptions,
    expected: &str,
) {
    join_all(ERAS.map(|era| {
        let (odd, connect) = (odd.clone(), connect(era));
        async move {
            let server = odd_call(odd).await;
            let peer = connected(&server, connect).await;
            let outcome = call(&peer, "odd").await;
            assert_eq!(outcome_code(&outcome), expected, "{name}, {era:?}: {outcome:?}");
            let outcome = call(&peer, "hello").await;
            assert_eq!(outcome_code(&outcome), "answered", "{name}, {era:?}, afterwards: {outcome:?}");
            let calls = server.seen().iter().filter(|seen| seen.tool() == "odd").count();
            assert_eq!(calls, 1, "{name}, {era:?}: a call was repeated");
        }
    }))
    .await;
}

impl CountingHandler {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl ServerRequestHandler for CountingHandler {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": { "form": {} }, "roots": {} })))
    }

    fn answer(&self, question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = match question.method.as_str() {
            "roots/list" => json!({ "roots": [{ "uri": "file:///handler" }] }),
            _ => json!({ "action": "accept", "content": {} }),
        };
        Box::pin(async move { Answer::Given(Raw::of(&answer)) })
    }
}
