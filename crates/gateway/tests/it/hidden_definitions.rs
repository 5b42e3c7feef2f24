//! Definitions that are not what was seen first: what clients and models are shown, and what they can use.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_config::{Config, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    policy::{ApprovalAnswer, MemoryBaselines, Surface},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, TestHostBuilder, within},
};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    notice::{List, Notice, SubscriptionFilter},
    revision::Era,
    up::{CompletionTarget, Peer},
};

use crate::{scripted::Scripted, test_gateway::TestGateway};

fn configured(builder: TestHostBuilder, policy: &str, baselines: &Arc<MemoryBaselines>) -> TestHostBuilder {
    let config = Config::of(&Document::of("/toolway.json".as_ref(), policy).unwrap(), None).unwrap();
    let mut builder = builder.config(config);
    builder.ports.baselines = Arc::clone(baselines) as _;
    builder
}

async fn tools(client: &Peer) -> Vec<String> {
    within("a list", client.list_tools()).await.unwrap().items.into_iter().map(|tool| tool.name).collect()
}

async fn call(client: &Peer, method: &'static str, name: &str) -> Outcome {
    let request = Request::new(method, Some(Raw::of(&json!({ "name": name, "arguments": {} })))).unwrap();
    within("a call", client.open(request, ExchangeTimeouts::call()).outcome()).await
}

const HIDE: &str = r#"{"policy": {"changedTools": "hide", "newTools": "hide"}}"#;

#[tokio::test]
async fn a_changed_or_new_tool_leaves_the_lists_and_clients_are_told() {
    for era in [Era::Legacy, Era::Modern] {
        let server = FixtureServer::new("notes").tool("write", "Writes a note").tool("move", "Moves a note");
        let gateway = TestGateway::with(configured(TestHost::with(&server, "notes"), HIDE, &Arc::default())).await;
        gateway.host.ready("notes").await;
        let client = gateway.client("/mcp", era).await;
        assert_eq!(tools(&client).await, ["notes__write", "notes__move"], "{era:?}: the first sight");
        let mut changes = within("a subscription", client.listen(SubscriptionFilter::lists())).await.unwrap();
        server.describe("write", "Writes a note, and mails it");
        let notice = within("a notice", changes.next()).await.unwrap();
        assert!(matches!(notice, Notice::Changed(List::Tools)), "{notice:?}");
        server.add_tool("delete", "Deletes all notes");
        gateway.host.offers(&["notes__move"]).await;
        let both = async {
            while gateway.host.host.catalog().hidden().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        within("both hidden tools", both).await;
        assert_eq!(tools(&client).await, ["notes__move"], "{era:?}");
        let one = gateway.client("/servers/notes/mcp", era).await;
        assert_eq!(tools(&one).await, ["move"], "{era:?}");
        // What a client remembers is answered like what never was.
        for (client, hidden, unknown) in [
            (&client, "notes__write", "notes__other"),
            (&client, "notes__delete", "notes__other"),
            (&one, "write", "other"),
        ] {
            let [hidden, unknown] = [(hidden, hidden), (unknown, hidden)].map(|(name, put)| async move {
                let Outcome::Refused(error) = call(client, "tools/call", name).await else { panic!("{name}") };
                // What is suggested depends on the name alone, and is never hidden. At the address of one server an unknown
                // name is sent, and the server says that it does not know it.
                let message = error.message().replace(name, put);
                assert!(
                    !message.contains("mean `notes__write`") && !message.contains("mean `notes__delete`"),
                    "{message}"
                );
                (error.code(), message.replace("; did you mean `notes__move`?", "").replace("; not sent", ""))
            });
            assert_eq!(hidden.await, unknown.await, "{era:?}");
        }
        let catalog = gateway.host.host.catalog();
        assert!(catalog.search("mails deletes", 10).iter().all(|hit| hit.entry.item.name == "move"));
        let hidden: Vec<_> =
            catalog.hidden().iter().map(|item| (item.origin.raw_name.as_str(), &*item.reason)).collect();
        assert_eq!(
            hidden,
            [
                ("write", r#"description: was "Writes a note", is now "Writes a note, and mails it""#),
                ("delete", "the server did not have it when it was first seen"),
            ]
        );
        // The operator reads why.
        let refused = gateway.host.call("notes__write").await;
        assert!(refused.message().unwrap().as_str().contains("is now \"Writes a note, and mails it\""), "{refused:?}");
    }
}

#[tokio::test]
async fn another_policy_shows_at_once_what_was_hidden() {
    let server = FixtureServer::new("notes").tool("write", "Writes");
    let baselines = Arc::default();
    let host = configured(TestHost::with(&server, "notes"), HIDE, &baselines).start().await;
    host.ready("notes").await;
    host.offers(&["notes__write"]).await;
    server.describe("write", "Deletes");
    host.offers(&[]).await;
    let other = Config::of(&Document::of("/toolway.json".as_ref(), "{}").unwrap(), None).unwrap();
    host.host.reload(&other).unwrap();
    host.offers(&["notes__write"]).await;
}

/// A server with a prompt, and a tool for clients with forms, under this description.
fn described(description: &'static str) -> Arc<Scripted> {
    let declared = json!({ "tools": {}, "prompts": {}, "completions": {} });
    Scripted::new(declared, move |request, caller| {
        let forms = caller.capabilities.lacks("elicitation/create", None).is_none();
        let tool =
            |name: &str, text: &str| json!({ "name": name, "description": text, "inputSchema": { "type": "object" } });
        let form = if forms { vec![tool("form", description)] } else { Vec::new() };
        let listed: Vec<Value> = std::iter::once(tool("plain", "Plain")).chain(form).collect();
        Some(match request.method() {
            "tools/list" => json!({ "tools": listed }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "called" }] }),
            "prompts/list" => {
                json!({ "prompts": [{ "name": "greet", "description": description, "arguments": [{ "name": "who" }] }] })
            }
            "prompts/get" => json!({ "messages": [] }),
            "completion/complete" => json!({ "completion": { "values": ["ada"] } }),
            _ => return None,
        })
    })
}

async fn gateway_of(description: &'static str, policy: &str, baselines: &Arc<MemoryBaselines>) -> TestGateway {
    let server = described(description);
    let gateway = TestGateway::with(configured(TestHost::new().wanted(server.wanted("own")), policy, baselines)).await;
    gateway.host.ready("own").await;
    gateway.host.answering(ApprovalAnswer::approved("test"));
    gateway
}

async fn agent_gets(gateway: &TestGateway, prompt: &str) -> CallOutcome {
    let request = CallRequest::prompt(Caller::Agent("a".into()), prompt.parse().unwrap(), None);
    gateway.host.call_of(CallRequest { surface: Surface::Chat, ..request }).await
}

#[tokio::test]
async fn a_changed_prompt_is_asked_about_and_hidden_like_a_tool() {
    let baselines = Arc::default();
    for _ in 0..2 {
        let gateway = gateway_of("Greets", "{}", &baselines).await;
        assert_eq!(agent_gets(&gateway, "own__greet").await.state(), CallState::Succeeded);
        assert!(gateway.host.asked().is_empty(), "{:?}", gateway.host.reasons());
    }
    let hiding = gateway_of("Greets and mails", HIDE, &baselines).await;
    let client = hiding.client_without_user("/mcp", Era::Legacy).await;
    let prompts = within("a list", client.list_prompts()).await.unwrap();
    assert!(prompts.items.is_empty(), "{prompts:?}");
    let refused = call(&client, "prompts/get", "own__greet").await;
    assert!(
        matches!(&refused, Outcome::Refused(error) if error.message().starts_with("unknown prompt `own__greet`")),
        "{refused:?}"
    );
    let target = CompletionTarget::Prompt("own__greet".to_owned());
    assert!(within("a completion", client.complete(&target, ("who", "a"), None)).await.is_err());
    assert_eq!(agent_gets(&hiding, "own__greet").await.state(), CallState::Refused);
    assert!(hiding.host.asked().is_empty());
    let asking = gateway_of("Greets and mails", "{}", &baselines).await;
    assert_eq!(agent_gets(&asking, "own__greet").await.state(), CallState::Succeeded);
    let reasons = asking.host.reasons();
    assert!(reasons[0].contains(r#"description: was "Greets", is now "Greets and mails""#), "{reasons:?}");
    assert_eq!(agent_gets(&asking, "own__greet").await.state(), CallState::Succeeded);
    assert_eq!(asking.host.asked().len(), 1, "what was approved is the baseline now");
}

/// The tools of a client with forms, once it gets its own list.
async fn own_tools(client: &Peer, expected: &[&str]) {
    let listed = async {
        while tools(client).await != expected {
            tokio::task::yield_now().await;
        }
    };
    within("the own list", listed).await;
}

#[tokio::test]
async fn what_only_some_clients_see_is_compared_too() {
    let baselines = Arc::default();
    for _ in 0..2 {
        let gateway = gateway_of("Asks", HIDE, &baselines).await;
        let client = gateway.client("/mcp", Era::Legacy).await;
        own_tools(&client, &["own__plain", "own__form"]).await;
        assert!(matches!(call(&client, "tools/call", "own__form").await, Outcome::Answered(_)));
    }
    let changed = gateway_of("Asks and mails", HIDE, &baselines).await;
    let client = changed.client("/mcp", Era::Legacy).await;
    let refused = call(&client, "tools/call", "own__form").await;
    assert!(matches!(&refused, Outcome::Refused(error) if error.message().contains("unknown tool")), "{refused:?}");
    assert_eq!(tools(&client).await, ["own__plain"]);
    let recorded = gateway_of("Asks and mails", "{}", &baselines).await;
    let client = recorded.client("/mcp", Era::Legacy).await;
    assert!(matches!(call(&client, "tools/call", "own__form").await, Outcome::Answered(_)), "recorded by default");
}
