//! Servers that shake hands and then lie, stall, flood and break off: each ends in a named error within its bound,
//! and where the protocol allows, the next call on the same connection works.

mod asking;
mod bodies;
mod floods;
mod heads;
mod lines;
mod listing;
mod oldest;
mod sessions;
mod slow;
mod streams;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use tokio::sync::broadcast;
use toolway_testkit::odd::http::{OddHttp, Reply, Seen, polite_http};
use toolway_testkit::odd::polite::Speaks;
use toolway_wire::{
    exchange::{Answer, AskHandler, Outcome, Question, Request, Terms},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    notice::Notice,
    up::{ConnectOptions, EraChoice, Peer},
};

use crate::dialling::{LONG, SHORT, address, patient};

/// Both eras.
pub(crate) const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

/// Answers what it is asked, and counts.
#[derive(Default)]
pub(crate) struct Ada {
    asked: AtomicUsize,
}

/// Bounds that a test reaches quickly.
pub(crate) fn small() -> Limits {
    Limits { message_bytes: 10_000, event_bytes: 11_000, unsent_bytes: 20_000, ..Limits::default() }
}

/// Options for an era that is known, with small bounds.
pub(crate) fn pinned(era: EraChoice) -> ConnectOptions {
    ConnectOptions { era, limits: small(), asks: Some(Arc::new(Ada::default())), ..patient() }
}

/// The same, for a call that is meant to run out of time.
pub(crate) fn hasty(era: EraChoice) -> ConnectOptions {
    let mut connect = pinned(era);
    connect.timeouts.call.idle = Some(SHORT);
    connect
}

/// Calls a tool to the end, without anybody who answers. Only `odd` is meant to run out of time.
pub(crate) async fn call(peer: &Peer, tool: &str) -> Outcome {
    if tool == "odd" {
        return peer.call_tool(tool, None).unwrap().outcome().await;
    }
    let request = Request::new("tools/call", Some(Raw::of(&json!({ "name": tool })))).unwrap();
    peer.open(request, Terms { idle: Some(LONG), total: Some(LONG) }).outcome().await
}

/// How a call ended, in a word: the code of an error where it failed.
pub(crate) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(error) => error.code(),
        Outcome::Cancelled => "cancelled",
        Outcome::TimedOut { .. } => "timed_out",
        Outcome::HandedOff(_) => "task",
    }
}

/// The codes of the faults that were noticed, each once.
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

/// A server over HTTP with manners, but for the tool `odd`.
pub(crate) async fn odd_call(odd: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> OddHttp {
    OddHttp::start(move |seen| if seen.tool() == "odd" { odd(seen) } else { polite_http(Speaks::Both, seen) })
        .await
        .unwrap()
}

/// Dials a server over HTTP that is expected to shake hands.
pub(crate) async fn connected(odd: &OddHttp, connect: ConnectOptions) -> Peer {
    address(odd, connect, None).await.unwrap()
}

/// One row of a table over HTTP: what the call of `odd` ends in, in which era; then `hello` works.
pub(crate) async fn check(
    name: &str,
    odd: impl Fn(&Seen) -> Reply + Send + Sync + Clone + 'static,
    connect: impl Fn(EraChoice) -> ConnectOptions,
    expected: &str,
) {
    join_all(ERAS.map(|era| {
        let (odd, connect) = (odd.clone(), connect(era));
        async move {
            let server = odd_call(odd).await;
            let peer = connected(&server, connect).await;
            let outcome = call(&peer, "odd").await;
            assert_eq!(word(&outcome), expected, "{name}, {era:?}: {outcome:?}");
            let outcome = call(&peer, "hello").await;
            assert_eq!(word(&outcome), "answered", "{name}, {era:?}, afterwards: {outcome:?}");
            let calls = server.seen().iter().filter(|seen| seen.tool() == "odd").count();
            assert_eq!(calls, 1, "{name}, {era:?}: a call was repeated");
        }
    }))
    .await;
}

impl Ada {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl AskHandler for Ada {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": { "form": {} }, "roots": {} })))
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = match question.method.as_str() {
            "roots/list" => json!({ "roots": [{ "uri": "file:///ada" }] }),
            _ => json!({ "action": "accept", "content": {} }),
        };
        Box::pin(async move { Answer::Given(Raw::of(&answer)) })
    }
}
