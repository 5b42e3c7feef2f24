//! `server-everything` of the MCP project: one session that uses all of its features, over each transport.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::LogLevel,
    notice::{Notice, SubscriptionFilter},
    revision::{Era, Revision},
    up::{CompletionTarget, EraChoice, transport::HttpMode},
};

use crate::{
    peers,
    stage::{Listener, Server, Stage, next, within},
};

#[tokio::test]
async fn server_everything_over_stdio() {
    let stage = Stage::new();
    let server = stage.start(peers::everything(), EraChoice::Auto).await;
    offers_everything(&server).await;
}

#[tokio::test]
async fn server_everything_over_streamable_http() {
    let stage = Stage::new();
    let listener = listen(&stage, "streamableHttp", "mcp").await;
    let server = stage.reach(&listener, EraChoice::Auto).await;
    assert_eq!(server.peer.protocol().http_mode, HttpMode::Session);
    assert!(server.peer.session().is_some());
    offers_everything(&server).await;
    within("the end", server.peer.close()).await;
    listener.wait_for_output("Received session termination request").await;
}

#[tokio::test]
async fn server_everything_over_http_with_sse() {
    let stage = Stage::new();
    let listener = listen(&stage, "sse", "sse").await;
    let server = stage.reach(&listener, EraChoice::Auto).await;
    assert_eq!(server.peer.protocol().http_mode, HttpMode::EventStream);
    offers_everything(&server).await;
}

#[tokio::test]
async fn server_everything_over_every_revision_with_a_session() {
    let stage = Stage::new();
    let listener = listen(&stage, "streamableHttp", "mcp").await;
    for revision in Revision::of(Era::Legacy) {
        let server = stage.reach(&listener, revision).await;
        assert_eq!(server.revision(), revision.as_str());
        let sum = server.call("get-sum", json!({ "a": 2, "b": 3 })).await;
        assert_eq!(sum.text(), "The sum of 2 and 3 is 5.");
        within("the end", server.peer.close()).await;
    }
}

/// The server needs a port number, and a free port can be taken before it binds it.
async fn listen(stage: &Stage, transport: &str, path: &str) -> Listener {
    loop {
        let port = peers::free_port();
        let url = format!("http://127.0.0.1:{port}/{path}");
        let (ready, taken) = (format!("on port {port}"), "already in use");
        if let Some(listener) = stage.listen_at(peers::everything_on(transport, port), &url, &ready, taken).await {
            return listener;
        }
    }
}

async fn offers_everything(server: &Server) {
    assert_eq!(server.revision(), "2025-11-25");
    assert_eq!(server.peer.profile().name().as_deref(), Some("mcp-servers/everything"));
    within("a ping", server.peer.ping()).await.unwrap();
    // It sends a server request outside a call, 350 ms after the handshake.
    server.user.wait_for_request("roots/list").await;
    calls(server).await;
    questions(server).await;
    resources(server).await;
    prompts(server).await;
    changes(server).await;
}

async fn calls(server: &Server) {
    let tools = server.tool_names().await;
    assert!(
        tools.contains(&"trigger-elicitation-request".to_owned()),
        "those for a client that can be asked: {tools:?}"
    );

    let echo = server.call("echo", json!({ "message": "Grüße, 世界 \u{1f30d} \u{2028}" })).await;
    assert_eq!(echo.text(), "Echo: Grüße, 世界 \u{1f30d} \u{2028}");
    let image = server.call("get-tiny-image", json!({})).await.result();
    assert_eq!(image["content"][1]["mimeType"], "image/png");
    let weather = server.call("get-structured-content", json!({ "location": "Chicago" })).await.result();
    assert_eq!(weather["structuredContent"]["temperature"], 36);
    let wrong = server.call("get-sum", json!({ "a": "three" })).await.result();
    assert_eq!(wrong["isError"], true);

    let long = server.call("trigger-long-running-operation", json!({ "duration": 0.5, "steps": 5 })).await;
    let reports: Vec<Value> = (1..=5).map(|step| json!({ "progress": step, "total": 5 })).collect();
    assert_eq!(long.progress, reports);
    assert_eq!(long.text(), "Long running operation completed. Duration: 0.5 seconds, Steps: 5.");
}

async fn questions(server: &Server) {
    let sampled = server.call("trigger-sampling-request", json!({ "prompt": "a heron", "maxTokens": 40 })).await.text();
    assert!(sampled.contains("a heron stands still"), "{sampled}");
    let form = server.call("trigger-elicitation-request", json!({})).await.result();
    assert!(form["content"][1]["text"].as_str().unwrap().contains("- Name: Ada"), "{form}");
    let page = json!({ "url": "https://example.org/connect", "elicitationId": "e-1" });
    server.call("trigger-url-elicitation", page).await.text();
    let roots = server.call("get-roots-list", json!({})).await.text();
    assert!(roots.contains("file:///srv/demo"), "{roots}");

    let asked = server.user.requests();
    let methods: Vec<&Value> = asked.iter().map(|question| &question["method"]).collect();
    assert_eq!(methods, ["roots/list", "sampling/createMessage", "elicitation/create", "elicitation/create"]);
    assert_eq!(asked[3]["params"]["url"], "https://example.org/connect");
}

async fn resources(server: &Server) {
    let listed = within("resources", server.peer.list_resources()).await.unwrap();
    assert!(!listed.items.is_empty() && listed.malformed.is_empty());
    let templates = within("templates", server.peer.list_templates()).await.unwrap();
    assert_eq!(templates.items[0].uri_template, "demo://resource/dynamic/text/{resourceId}");
    let text = server.read("demo://resource/dynamic/text/1").await;
    assert!(text["text"].as_str().unwrap().starts_with("Resource 1:"), "{text}");
    assert!(server.read("demo://resource/dynamic/blob/2").await["blob"].is_string());
}

async fn prompts(server: &Server) {
    let listed = within("prompts", server.peer.list_prompts()).await.unwrap();
    assert_eq!(listed.items.len(), 4);
    let prompt = server.prompt("args-prompt", json!({ "city": "Oslo" })).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "What's weather in Oslo?");

    let reference = CompletionTarget::Prompt("completable-prompt".to_owned());
    let known = json!({ "department": "Sales" });
    let completed = within("a completion", server.peer.complete(&reference, ("name", ""), Some(&known))).await.unwrap();
    let completed: Value = completed.read().unwrap();
    assert_eq!(completed["completion"]["values"], json!(["David", "Eve", "Frank"]));
}

async fn changes(server: &Server) {
    let mut listening = server.listen(SubscriptionFilter::resource("demo://resource/dynamic/text/1")).await;
    server.call("toggle-subscriber-updates", json!({})).await.text();
    let Notice::Updated { uri, .. } = next(&mut listening).await else { panic!("an update") };
    assert_eq!(uri, "demo://resource/dynamic/text/1");

    within("the level", server.peer.set_log_level(LogLevel::Debug)).await.unwrap();
    let mut notices = server.peer.notices();
    let heard = server.call("toggle-simulated-logging", json!({})).await;
    // The transport determines whether it belongs to the call.
    if heard.logs.is_empty() {
        let log = async { while !matches!(notices.recv().await.unwrap(), Notice::Log(_)) {} };
        within("a log message", log).await;
    }
}
