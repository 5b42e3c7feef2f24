//! A service whose every tool can run as a task.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use toolway_wire::{
    down::{Caller, HostedTaskOptions, HostedTasks, Profile, Service, ServiceSubscription, Tasks},
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Handover, Outcome, Request, ServerRequestDetails,
        ServerRequestId,
    },
    json::Raw,
    message::RpcError,
    notice::SubscriptionFilter,
};

/// The test service.
pub(super) struct TaskService(HostedTasks);

impl TaskService {
    pub(super) fn new() -> Arc<Self> {
        Self::polled_every(std::time::Duration::from_millis(100))
    }

    pub(super) fn polled_every(poll_interval: std::time::Duration) -> Arc<Self> {
        let keeping = HostedTaskOptions { poll_interval, ..HostedTaskOptions::default() };
        Arc::new(Self(HostedTasks::new(keeping)))
    }
}

impl Service for TaskService {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(&json!({ "name": "workshop", "version": "1" })),
            capabilities: Raw::of(&json!({ "tools": {} })),
            instructions: None,
        }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let name = request.param("name").and_then(|name| name.as_str().map(String::from)).unwrap_or_default();
        let work = work(name);
        match request.handover {
            Handover::Never => work,
            Handover::Allowed => self.hand_over(work, None, caller),
            Handover::Wanted(ttl) => self.hand_over(work, ttl, caller),
        }
    }

    fn listen<'a>(&'a self, _wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::ready(ServiceSubscription {
            accepted: SubscriptionFilter::default(),
            notices: mpsc::channel(1).1,
        }))
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        Some(&self.0)
    }
}

impl TaskService {
    fn hand_over(&self, work: Exchange, ttl: Option<std::time::Duration>, caller: &Caller) -> Exchange {
        // Stateless requests have no lifetime; the same one is used in both eras.
        let ttl = ttl.unwrap_or(std::time::Duration::from_secs(60));
        let task = self.0.start(work, Some(ttl), caller).unwrap();
        Exchange::ended(Outcome::HandedOff(Box::new(task)))
    }
}

fn work(tool: String) -> Exchange {
    let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 64);
    tokio::runtime::Handle::current().spawn(async move {
        let outcome = tokio::select! {
            outcome = run(&tool, &feed) => outcome,
            () = feed.cancelled() => Outcome::Cancelled,
        };
        feed.end(outcome);
    });
    exchange
}

async fn run(tool: &str, feed: &Feed) -> Outcome {
    let said = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    match tool {
        "ask" => match feed.ask(question()).await.into_result() {
            Ok(answer) => {
                let name = answer.get("content").and_then(|content| content.get("name"));
                let name = name.as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
                Outcome::Answered(Raw::of(&said(&format!("hello {name}"))))
            }
            Err(error) => Outcome::Refused(error),
        },
        "fail" => Outcome::Answered(Raw::of(&json!({ "content": [], "isError": true }))),
        "break" => Outcome::Refused(RpcError::new(RpcError::INTERNAL, "it broke")),
        _ => std::future::pending().await,
    }
}

fn question() -> ServerRequestDetails {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    ServerRequestDetails {
        id: ServerRequestId(1),
        key: Some("name".to_owned()),
        method: "elicitation/create".to_owned(),
        params: Some(Raw::of(&json!({ "message": "Who are you?", "requestedSchema": schema }))),
        cause: Cause::Request,
    }
}
