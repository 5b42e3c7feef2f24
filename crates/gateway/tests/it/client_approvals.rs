//! Approvals of gateway clients: by elicitation where the client declared it, else in the inbox of the gateway.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_host::{
    inbox::{ElicitationModes, InboxAnswer, InboxAnswerer},
    policy::{ApprovalAnswer, Stance},
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, TestHostBuilder, within},
};
use toolway_wire::{
    exchange::{Answer, ExchangeTimeouts, Outcome, Request, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::ClientCapabilities,
    revision::Era,
    up::Peer,
};

use crate::test_gateway::TestGateway;

/// A client with a user who gives this answer to every form; `None`: never.
struct Form {
    answer: Option<Value>,
    shown: Mutex<Vec<String>>,
}

impl Form {
    fn answering(answer: Option<Value>) -> Arc<Self> {
        Arc::new(Self { answer, shown: Mutex::default() })
    }
}

impl ServerRequestHandler for Form {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": { "form": {} } })))
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        self.shown.lock().push(request.params.map(|params| params.to_string()).unwrap_or_default());
        let answer = self.answer.clone();
        Box::pin(async move {
            match answer {
                Some(answer) => Answer::Given(Raw::of(&answer)),
                None => std::future::pending().await,
            }
        })
    }
}

fn asking(server: &FixtureServer) -> TestHostBuilder {
    let mut builder = TestHost::with(server, "files");
    builder.options.stance = Stance::Ask;
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::Nothing });
    builder
}

async fn call(client: &Peer, user: Option<&Form>) -> String {
    let params = Raw::of(&json!({ "name": "files__write", "arguments": { "path": "a.txt" } }));
    let request = Request::new("tools/call", Some(params)).unwrap();
    let exchange = client.open(request, ExchangeTimeouts::call());
    let user = user.map(|user| user as &dyn ServerRequestHandler);
    match within("an outcome", exchange.outcome_with(user, |_| {})).await {
        Outcome::Answered(result) => result.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn client_that_supports_forms_approves_by_elicitation_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let server = FixtureServer::new("files").tool("write", "Write");
        let gateway = TestGateway::with(asking(&server)).await;
        gateway.host.ready("files").await;
        let user = Form::answering(Some(json!({ "action": "accept", "content": { "allow": true } })));
        let client = gateway.client_of("/mcp", era, Arc::clone(&user) as _).await;
        let result = call(&client, Some(&user)).await;
        assert!(!result.contains(r#""isError":true"#), "{era:?}: {result}");
        let shown = user.shown.lock().join("\n");
        assert!(shown.contains("`write` of `files`") && shown.contains("a.txt"), "{shown}");
        assert_eq!(server.seen("tools/call").len(), 1);
    }
}

#[tokio::test]
async fn anything_but_an_explicit_yes_of_the_client_refuses_the_call() {
    for answer in [
        json!({ "action": "accept", "content": { "allow": false } }),
        json!({ "action": "accept", "content": {} }),
        json!({ "action": "accept" }),
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
    ] {
        let server = FixtureServer::new("files").tool("write", "Write");
        let gateway = TestGateway::with(asking(&server)).await;
        gateway.host.ready("files").await;
        let user = Form::answering(Some(answer.clone()));
        let client = gateway.client_of("/mcp", Era::Legacy, Arc::clone(&user) as _).await;
        let result = call(&client, Some(&user)).await;
        assert!(result.contains("approval declined"), "{answer}: {result}");
        assert!(server.seen("tools/call").is_empty());
    }
}

#[tokio::test]
async fn call_of_a_client_without_forms_waits_in_the_inbox() {
    let server = FixtureServer::new("files").tool("write", "Write");
    let gateway = TestGateway::with(asking(&server)).await;
    gateway.host.ready("files").await;
    let client = gateway.client_without_user("/mcp", Era::Legacy).await;
    let inbox = gateway.host.host.inbox().clone();
    let answer = async {
        let mut changes = inbox.changes();
        let item = loop {
            if let Some(item) = inbox.list().pop() {
                break item;
            }
            changes.changed().await.unwrap();
        };
        assert!(item.summary().contains("`write` of `files`"), "{}", item.summary());
        inbox.answer(&item.id, InboxAnswer::Approval(ApprovalAnswer::approved("inbox"))).unwrap();
        // Only the first answer counts.
        inbox.answer(&item.id, InboxAnswer::Approval(ApprovalAnswer::declined(None))).unwrap_err();
    };
    let (result, ()) = tokio::join!(call(&client, None), within("an item", answer));
    assert!(!result.contains(r#""isError":true"#), "{result}");
}

#[tokio::test]
async fn inbox_may_answer_before_a_client_that_hesitates() {
    let server = FixtureServer::new("files").tool("write", "Write");
    let gateway = TestGateway::with(asking(&server)).await;
    gateway.host.ready("files").await;
    let user = Form::answering(None);
    let client = gateway.client_of("/mcp", Era::Legacy, Arc::clone(&user) as _).await;
    let inbox = gateway.host.host.inbox().clone();
    let answer = async {
        let mut changes = inbox.changes();
        while inbox.list().is_empty() {
            changes.changed().await.unwrap();
        }
        let id = inbox.list()[0].id.clone();
        inbox.answer(&id, InboxAnswer::Approval(ApprovalAnswer::approved("inbox"))).unwrap();
    };
    let (result, ()) = tokio::join!(call(&client, Some(&user)), within("an item", answer));
    assert!(!result.contains(r#""isError":true"#), "{result}");
}
