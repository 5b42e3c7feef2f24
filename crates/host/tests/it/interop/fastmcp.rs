//! A server based on `fastmcp`, in each era it supports, over stdio, Streamable HTTP and HTTP+SSE.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{LogLevel, Outcome},
    notice::{List, Notice, SubscriptionFilter},
    up::{CompletionTarget, EraChoice, transport::HttpMode},
};

use crate::{
    peers,
    stage::{Server, Stage, within},
};

#[tokio::test]
async fn a_server_on_fastmcp_over_stdio_without_a_session() {
    let stage = Stage::new();
    let server = stage.start(peers::fastmcp("stdio"), EraChoice::Auto).await;
    does_all_it_can(&server, "2026-07-28").await;
}

#[tokio::test]
async fn a_server_on_fastmcp_over_stdio_with_a_session() {
    let stage = Stage::new();
    let server = stage.start(peers::fastmcp("stdio"), EraChoice::Legacy).await;
    does_all_it_can(&server, "2025-11-25").await;
}

#[tokio::test]
async fn a_server_on_fastmcp_over_http_in_both_eras() {
    let stage = Stage::new();
    let listener = stage.listen(peers::fastmcp("http")).await;
    for (choice, revision) in [(EraChoice::Auto, "2026-07-28"), (EraChoice::Legacy, "2025-11-25")] {
        let server = stage.reach(&listener, choice).await;
        does_all_it_can(&server, revision).await;
        within("the end", server.peer.close()).await;
    }
}

#[tokio::test]
async fn a_server_on_fastmcp_over_http_with_sse() {
    let stage = Stage::new();
    let listener = stage.listen(peers::fastmcp("sse")).await;
    let server = stage.reach(&listener, EraChoice::Auto).await;
    assert_eq!(server.peer.protocol().http_mode, HttpMode::EventStream);
    does_all_it_can(&server, "2025-11-25").await;
}

async fn does_all_it_can(server: &Server, revision: &str) {
    assert_eq!(server.revision(), revision);
    assert_eq!(server.peer.profile().name().as_deref(), Some("fastmcp-peer"));
    within("a ping", server.peer.ping()).await.unwrap();
    calls(server).await;
    questions(server).await;
    items(server).await;
    grows(server, revision).await;
}

async fn calls(server: &Server) {
    assert!(server.tool_names().await.contains(&"count".to_owned()));
    assert_eq!(server.call("add", json!({ "a": 2, "b": 3 })).await.result()["structuredContent"]["result"], 5);
    let picture = server.call("picture", json!({})).await.result();
    assert_eq!(picture["structuredContent"], json!({ "width": 1, "height": 1, "colour": "red" }));
    let kinds: Vec<&Value> = picture["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource_link", "resource"]);
    assert_eq!(server.call("fail", json!({ "reason": "because" })).await.result()["isError"], true);

    within("the level", server.peer.set_log_level(LogLevel::Info)).await.unwrap();
    let count = server.call("count", json!({ "steps": 5 })).await;
    assert_eq!(count.text(), "counted to 5");
    let steps: Vec<f64> = count.progress.iter().map(|report| report["progress"].as_f64().unwrap()).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(count.logs.len(), 5, "{:?}", count.logs);
    assert!(count.logs[4].to_string().contains("reached 5"), "{:?}", count.logs);
}

async fn questions(server: &Server) {
    let order = server.call("order", json!({})).await.text();
    assert!(order.starts_with("accept: ") && order.contains("soup"), "{order}");
    assert_eq!(server.call("compose", json!({ "topic": "herons" })).await.text(), "a-model: a heron stands still");
    assert_eq!(server.call("where", json!({})).await.text(), "file:///srv/demo");
    let asked = server.user.requests();
    let methods: Vec<&Value> = asked.iter().map(|question| &question["method"]).collect();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
}

async fn items(server: &Server) {
    assert_eq!(server.read("demo://greeting").await["text"], "Hello");
    assert!(server.read("demo://dot.png").await["blob"].as_str().unwrap().starts_with("iVBOR"));
    assert_eq!(server.read("demo://square/12").await["text"], "144");
    let nowhere = server.run_exchange("nothing", server.peer.read_resource("demo://nowhere")).await.outcome;
    assert!(matches!(nowhere, Outcome::Refused(_)), "{nowhere:?}");
    let prompt = server.prompt("letter", json!({ "to": "Ada" })).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Write a friendly letter to Ada.");
    let reference = CompletionTarget::Prompt("letter".to_owned());
    let completed = within("a completion", server.peer.complete(&reference, ("mood", "f"), None)).await.unwrap();
    let completed: Value = completed.read().unwrap();
    assert_eq!(completed["completion"]["values"], json!(["formal", "friendly", "furious"]));
}

/// It announces a changed list on the stream of the call, in either era, with or without a subscription.
async fn grows(server: &Server, revision: &str) {
    let mut notices = server.peer.notices();
    let name = format!("leaf-{revision}");
    assert_eq!(server.call("grow", json!({ "name": name })).await.text(), format!("{name} has grown"));
    let change = async { while !matches!(notices.recv().await.unwrap(), Notice::Changed(List::Tools)) {} };
    within("a change", change).await;
    assert!(server.tool_names().await.contains(&name));
    if revision == "2026-07-28" {
        let refused = within("a subscription", server.peer.listen(SubscriptionFilter::lists())).await.unwrap_err();
        assert_eq!(refused.code(), "refused", "{refused}");
    }
}
