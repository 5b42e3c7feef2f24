//! A service for the tests of this crate: reports progress, asks, waits, and echoes its arguments byte for byte.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Outcome, Request, ServerRequestDetails, ServerRequestId,
    },
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
};

/// The test service. Clones share their state.
#[derive(Clone)]
pub(crate) struct TestService {
    seen: Arc<parking_lot::Mutex<Vec<Request>>>,
    cancelled: Arc<AtomicUsize>,
    notices: broadcast::Sender<Notice>,
}

impl TestService {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { seen: Arc::default(), cancelled: Arc::default(), notices: broadcast::Sender::new(64) })
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().clone()
    }

    /// Number of cancelled calls.
    pub(crate) fn cancelled(&self) -> usize {
        self.cancelled.load(Ordering::Relaxed)
    }

    async fn call(self, name: String, request: Request, feed: Feed) {
        let outcome = match name.as_str() {
            "echo" => Outcome::Answered(request.param("arguments").unwrap_or_else(Raw::empty_object)),
            "count" => {
                for step in 1..=3 {
                    feed.progress(Raw::of(&json!({ "progress": step, "total": 3 })));
                    feed.log(Raw::of(&json!({ "level": "info", "data": format!("step {step}") })));
                }
                Outcome::Answered(text("counted"))
            }
            "ask" => ask(&feed).await,
            "wait" => {
                feed.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::Relaxed);
                return;
            }
            "change" => {
                // There may be no listener.
                drop(self.notices.send(Notice::Changed(List::Tools)));
                let params = Raw::of(&json!({ "uri": "memo://one" }));
                drop(self.notices.send(Notice::Updated { uri: "memo://one".to_owned(), params }));
                Outcome::Answered(text("changed"))
            }
            "slow" => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Outcome::Answered(text("at last"))
            }
            "flood" => {
                for step in 1..=10_000 {
                    feed.log(Raw::of(&json!({ "level": "info", "data": format!("{step} {}", "x".repeat(2_000)) })));
                    tokio::task::yield_now().await;
                }
                if tokio::time::timeout(Duration::from_secs(5), feed.cancelled()).await.is_ok() {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Answered(text("flooded"))
            }
            "bulk" => {
                let size = request.param("arguments").and_then(|arguments| arguments.get("size"));
                let size = size.and_then(|size| size.as_u64()).unwrap_or(1_000_000);
                Outcome::Answered(text(&"x".repeat(usize::try_from(size).unwrap())))
            }
            other => Outcome::Refused(RpcError::new(RpcError::INVALID_PARAMS, &format!("no tool `{other}`"))),
        };
        feed.end(outcome);
    }
}

impl Service for TestService {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(&json!({ "name": "parrot", "version": "1" })),
            capabilities: Raw::of(&json!({
                "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true }, "logging": {}
            })),
            instructions: Some("repeat after me".to_owned()),
        }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        self.seen.lock().push(request.clone());
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 64);
        match request.method() {
            "tools/call" => {
                let name = request.param("name").and_then(|name| name.as_str().map(String::from)).unwrap_or_default();
                tokio::runtime::Handle::current().spawn(self.clone().call(name, request, feed));
            }
            "tools/list" => {
                feed.end(Outcome::Answered(Raw::of(&json!({ "tools": [
                    { "name": "echo", "inputSchema": { "type": "object" } },
                    { "name": "broken", "inputSchema": 7 },
                ] }))));
            }
            _ => {
                feed.end(Outcome::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown method")));
            }
        }
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(64);
        let (mut source, filter) = (self.notices.subscribe(), wanted.clone());
        tokio::runtime::Handle::current().spawn(async move {
            loop {
                let notice = tokio::select! {
                    () = sender.closed() => return,
                    notice = source.recv() => notice,
                };
                match notice {
                    Ok(notice) if filter.covers(&notice) => drop(sender.send(notice).await),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}

async fn ask(feed: &Feed) -> Outcome {
    let question = ServerRequestDetails {
        id: ServerRequestId(1),
        key: Some("name".to_owned()),
        method: "elicitation/create".to_owned(),
        params: Some(Raw::of(&json!({ "message": "Who are you?", "requestedSchema": { "type": "object" } }))),
        cause: Cause::Request,
    };
    match feed.ask(question).await.into_result() {
        Ok(answer) => Outcome::Answered(text(&answer.to_string())),
        Err(error) => Outcome::Refused(error),
    }
}

fn text(text: &str) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }] }))
}
