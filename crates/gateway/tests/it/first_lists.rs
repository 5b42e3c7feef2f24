//! The first list of each set of capabilities: it contains what servers list to such clients, within a bound.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    revision::Era,
    up::{EraChoice, Peer},
};

use crate::test_gateway::TestGateway;

/// A server with sessions that lists one more tool to clients with forms, and takes its time for their lists.
struct Slow {
    /// Lists for clients with forms are answered once this is cancelled.
    gate: CancellationToken,
    /// Lists for all clients are.
    start: CancellationToken,
}

impl Slow {
    fn new() -> Arc<Self> {
        Arc::new(Self { gate: CancellationToken::new(), start: CancellationToken::new() })
    }

    async fn gateway(self: &Arc<Self>) -> TestGateway {
        let wanted = WantedServer::new(name("own"), Way::InProcess(Arc::clone(self) as _));
        TestGateway::with(TestHost::new().wanted(WantedServer { era: EraChoice::Legacy, ..wanted })).await
    }
}

impl Service for Slow {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = Raw::of(&json!({ "name": "slow", "version": "1" }));
        Profile { info, capabilities: Raw::of(&json!({ "tools": { "listChanged": true } })), instructions: None }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let forms = caller.capabilities.lacks("elicitation/create", None).is_none();
        let tool = |name: &str| json!({ "name": name, "description": "One", "inputSchema": { "type": "object" } });
        let tools: Vec<Value> = ["plain"].into_iter().chain(forms.then_some("form")).map(tool).collect();
        match request.method() {
            "tools/call" => Exchange::ended(Outcome::Answered(Raw::of(&json!({ "content": [] })))),
            "tools/list" => {
                let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 1);
                let gates = [Some(self.start.clone()), forms.then(|| self.gate.clone())];
                tokio::runtime::Handle::current().spawn(async move {
                    for gate in gates.into_iter().flatten() {
                        gate.cancelled().await;
                    }
                    feed.end(Outcome::Answered(Raw::of(&json!({ "tools": tools }))));
                });
                exchange
            }
            _ => Exchange::ended(Outcome::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown"))),
        }
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (_, notices) = tokio::sync::mpsc::channel(1);
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}

async fn tools(client: &Peer) -> Vec<String> {
    let listed = within("a list", client.list_tools()).await.unwrap();
    listed.items.into_iter().map(|tool| tool.name).collect()
}

/// Longer than a list waits for servers that have not listed yet.
async fn open_later(gate: &CancellationToken) {
    tokio::time::sleep(Duration::from_millis(400)).await;
    gate.cancel();
}

#[tokio::test]
async fn first_list_waits_for_the_view_of_the_caller() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Slow::new();
        server.start.cancel();
        let gateway = server.gateway().await;
        gateway.host.ready("own").await;
        let client = gateway.client("/mcp", era).await;
        let (listed, ()) = tokio::join!(tools(&client), open_later(&server.gate));
        assert_eq!(listed, ["own__plain", "own__form"], "{era:?}");
    }
}

#[tokio::test]
async fn first_list_during_the_start_waits_for_the_server_and_then_for_the_view() {
    let server = Slow::new();
    server.gate.cancel();
    let gateway = server.gateway().await;
    let client = gateway.client("/mcp", Era::Legacy).await;
    let (listed, ()) = tokio::join!(tools(&client), open_later(&server.start));
    assert_eq!(listed, ["own__plain", "own__form"]);
}

#[tokio::test]
async fn tool_of_a_view_that_is_not_known_yet_can_be_called() {
    let server = Slow::new();
    server.start.cancel();
    let gateway = server.gateway().await;
    gateway.host.ready("own").await;
    let client = gateway.client("/mcp", Era::Legacy).await;
    let call = async |tool: &str| {
        let request = Request::new("tools/call", Some(Raw::of(&json!({ "name": tool })))).unwrap();
        within("a call", client.open(request, ExchangeTimeouts::call()).outcome()).await
    };
    let (called, ()) = tokio::join!(call("own__form"), open_later(&server.gate));
    assert!(matches!(called, Outcome::Answered(_)), "{called:?}");
    let unknown = call("own__other").await;
    assert!(matches!(&unknown, Outcome::Refused(error) if error.message().contains("own__other")), "{unknown:?}");
}

#[tokio::test]
async fn view_that_takes_too_long_is_announced_later() {
    let server = Slow::new();
    server.start.cancel();
    let gateway = server.gateway().await;
    gateway.host.ready("own").await;
    let client = gateway.client("/mcp", Era::Legacy).await;
    let mut changes = within("a subscription", client.listen(SubscriptionFilter::lists())).await.unwrap();
    assert_eq!(tools(&client).await, ["own__plain"]);
    server.gate.cancel();
    let notice = within("a notice", changes.next()).await.unwrap();
    assert!(matches!(notice, Notice::Changed(List::Tools)), "{notice:?}");
    assert_eq!(tools(&client).await, ["own__plain", "own__form"]);
}
