//! Approvals of gateway clients: by elicitation where the client declared it, else in the inbox of the gateway.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_config::{Config, document::Document};
use toolway_host::{
    inbox::{ElicitationModes, InboxAnswer, InboxAnswerer},
    policy::{ApprovalAnswer, Stance},
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, TestHostBuilder, within},
};
use toolway_wire::{
    exchange::{
        Answer, ExchangeEvent, ExchangeTimeouts, LogLevel, Outcome, Request, ServerRequestDetails, ServerRequestHandler,
    },
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
    call_with(client, user, &json!({ "path": "a.txt" })).await.0
}

/// Calls with these arguments; returns the result and the log messages before it.
async fn call_with(client: &Peer, user: Option<&Form>, arguments: &Value) -> (String, Vec<String>) {
    let params = Raw::of(&json!({ "name": "files__write", "arguments": arguments }));
    let mut request = Request::new("tools/call", Some(params)).unwrap();
    request.log_level = Some(LogLevel::Info);
    let exchange = client.open(request, ExchangeTimeouts::call());
    let user = user.map(|user| user as &dyn ServerRequestHandler);
    let mut logs = Vec::new();
    let see = |event: &ExchangeEvent| {
        if let ExchangeEvent::Log(log) = event {
            logs.push(log.to_string());
        }
    };
    match within("an outcome", exchange.outcome_with(user, see)).await {
        Outcome::Answered(result) => (result.to_string(), logs),
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
        inbox.answer(&item.id, InboxAnswer::Approval(ApprovalAnswer::declined(None, "test"))).unwrap_err();
    };
    let (result, ()) = tokio::join!(call(&client, None), within("an item", answer));
    assert!(!result.contains(r#""isError":true"#), "{result}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_a_form_wait_in_the_inbox_and_the_client_is_told() {
    for (era, value) in [
        (Era::Legacy, "x".repeat(9_000)),
        (Era::Modern, "x".repeat(9_000)),
        // Each takes eight bytes when it is shown.
        (Era::Legacy, "\u{202e}".repeat(1_500)),
        (Era::Legacy, "x".repeat(200_000)),
    ] {
        let server = FixtureServer::new("files").tool("write", "Write");
        let gateway = TestGateway::with(asking(&server)).await;
        gateway.host.ready("files").await;
        let user =
            Form::answering(Some(json!({ "action": "accept", "content": { "allow": true, "allowHidden": true } })));
        let client = gateway.client_of("/mcp", era, Arc::clone(&user) as _).await;
        let inbox = gateway.host.host.inbox().clone();
        let answer = async {
            let mut changes = inbox.changes();
            while inbox.list().is_empty() {
                changes.changed().await.unwrap();
            }
            inbox.answer(&inbox.list()[0].id, InboxAnswer::Approval(ApprovalAnswer::approved("inbox"))).unwrap();
        };
        let arguments = json!({ "path": value });
        let ((result, logs), ()) = tokio::join!(call_with(&client, Some(&user), &arguments), within("an item", answer));
        assert!(!result.contains(r#""isError":true"#), "{era:?}: {result}");
        assert_eq!(*user.shown.lock(), Vec::<String>::new(), "{era:?}");
        assert!(logs.iter().any(|log| log.contains("waits for approval in the inbox")), "{era:?}: {logs:?}");
    }
}

#[tokio::test]
async fn client_whose_operator_approves_is_told_that_its_call_waits_and_gets_no_form() {
    for era in [Era::Legacy, Era::Modern] {
        let server = FixtureServer::new("files").tool("write", "Write");
        let gateway = TestGateway::with(asking(&server)).await;
        gateway.host.ready("files").await;
        let user = Form::answering(Some(json!({ "action": "accept", "content": { "allow": true } })));
        let client = gateway.client_of("/mcp", era, Arc::clone(&user) as _).await;
        call(&client, Some(&user)).await;
        assert_eq!(user.shown.lock().drain(..).count(), 1, "{era:?}: it approves its own calls");
        gateway.host.host.reload(&configured(r#"{"approver": "inbox"}"#)).unwrap();
        let inbox = gateway.host.host.inbox().clone();
        let answer = async {
            let mut changes = inbox.changes();
            while inbox.list().is_empty() {
                changes.changed().await.unwrap();
            }
            inbox.answer(&inbox.list()[0].id, InboxAnswer::Approval(ApprovalAnswer::approved("inbox"))).unwrap();
        };
        let arguments = json!({ "path": "a.txt" });
        let ((result, logs), ()) = tokio::join!(call_with(&client, Some(&user), &arguments), within("an item", answer));
        assert!(!result.contains(r#""isError":true"#), "{era:?}: {result}");
        assert_eq!(*user.shown.lock(), Vec::<String>::new(), "{era:?}");
        let told = "waits for approval in the inbox of the gateway; the operator of the gateway approves";
        assert!(logs.iter().any(|log| log.contains(told)), "{era:?}: {logs:?}");
        gateway.host.host.reload(&configured(r#"{"approver": "client"}"#)).unwrap();
        call(&client, Some(&user)).await;
        assert_eq!(user.shown.lock().len(), 1, "{era:?}: it approves its own calls again");
    }
}

/// A configuration with these settings of the client with the temporary key.
fn configured(client: &str) -> Config {
    let text = format!(r#"{{"gateway": {{"clients": {{"@first": {client}}}}}}}"#);
    Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap()
}

#[tokio::test]
async fn hidden_characters_are_shown_in_the_form_and_need_a_second_yes() {
    for (content, sent) in [(json!({ "allow": true }), 0), (json!({ "allow": true, "allowHidden": true }), 1)] {
        let server = FixtureServer::new("files").tool("write", "Write");
        let gateway = TestGateway::with(asking(&server)).await;
        gateway.host.ready("files").await;
        let user = Form::answering(Some(json!({ "action": "accept", "content": content })));
        let client = gateway.client_of("/mcp", Era::Legacy, Arc::clone(&user) as _).await;
        let command = "ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}";
        call_with(&client, Some(&user), &json!({ "command": command })).await;
        let shown = user.shown.lock().join("\n");
        assert!(shown.contains(r"ls -la \\u{1b}]; rm -rf ~/important ; echo \\u{7}"), "{shown}");
        assert_eq!(server.seen("tools/call").len(), sent);
    }
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
