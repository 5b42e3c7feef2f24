//! Callers and servers of either era: calls and results are the same in all four combinations.

use serde_json::json;
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};
use toolway_wire::{
    exchange::{ExchangeEvent, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    revision::Era,
    up::Peer,
};

use crate::{
    raw_client::request,
    test_gateway::{TestGateway, behind},
};

fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool("echo", "Give it back")
        .tool_that("count", "Count", Behaviour::Count)
        .tool_that("greet", "Greet", Behaviour::Greet)
        .tool_that("fail", "Fail", Behaviour::Fail)
}

async fn called(client: &Peer, tool: &str, arguments: serde_json::Value) -> (Outcome, usize) {
    let params = Raw::of(&json!({ "name": tool, "arguments": arguments }));
    let request = Request::new("tools/call", Some(params)).unwrap().with_progress();
    let exchange = client.open(request, ExchangeTimeouts::call());
    let mut progress = 0;
    let outcome = within(
        tool,
        exchange.outcome_with(Some(&crate::test_gateway::Ada), |happening| {
            progress += usize::from(matches!(happening, ExchangeEvent::Progress(_)));
        }),
    );
    (outcome.await, progress)
}

fn text(outcome: Outcome) -> String {
    match outcome {
        Outcome::Answered(result) => result.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn call_works_in_all_four_combinations() {
    for up in [Era::Legacy, Era::Modern] {
        let files = files();
        let (_fixture, wanted) = behind(&files, up).await;
        let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
        gateway.host.ready("files").await;
        for down in [Era::Legacy, Era::Modern] {
            for (path, prefix) in [("/mcp", "files__"), ("/servers/files/mcp", "")] {
                let client = gateway.client(path, down).await;
                let tools = client.list_tools().await.unwrap();
                let names: Vec<_> = tools.items.iter().map(|tool| tool.name.clone()).collect();
                let expected = ["echo", "count", "greet", "fail"].map(|tool| format!("{prefix}{tool}"));
                assert_eq!(names, expected, "{down:?} {up:?} {path}");
                let name = |tool: &str| format!("{prefix}{tool}");
                let (echoed, _) = called(&client, &name("echo"), json!({ "n": 1 })).await;
                assert!(text(echoed).contains(r#"{\"n\":1}"#));
                let (counted, progress) = called(&client, &name("count"), json!({})).await;
                assert!(text(counted).contains("three"));
                assert_eq!(progress, 3, "{down:?} {up:?} {path}");
                let (greeted, _) = called(&client, &name("greet"), json!({})).await;
                assert!(text(greeted).contains("Ada"), "{down:?} {up:?} {path}");
                client.close().await;
            }
        }
    }
}

#[tokio::test]
async fn http_sse_clients_are_served() {
    let files = files();
    let gateway = TestGateway::with(TestHost::with(&files, "files")).await;
    gateway.host.ready("files").await;
    let client = gateway.sse_client("/sse").await;
    let names: Vec<_> = client.list_tools().await.unwrap().items.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let (echoed, _) = called(&client, "files__echo", json!({ "n": 1 })).await;
    assert!(text(echoed).contains(r#"{\"n\":1}"#));
    client.close().await;
}

/// A session answers a server request with an error. A server with sessions gets the error; a stateless server gets a
/// cancelled form, because its era has no error there.
#[tokio::test]
async fn error_instead_of_an_answer_is_converted_to_the_era_of_the_server() {
    for (up, expected) in [(Era::Legacy, "no answer: not today"), (Era::Modern, r#"hello {"action":"cancel"}"#)] {
        let files = files();
        let (_fixture, wanted) = behind(&files, up).await;
        let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
        gateway.host.ready("files").await;
        let caller =
            gateway.raw_client("/mcp", gateway.key.as_ref().map(toolway_config::Secret::expose)).start_session().await;
        let mut stream = caller.post(&request(7, "tools/call", json!({ "name": "files__greet" }))).await;
        let server_request = loop {
            let message = stream.message().await.unwrap();
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        let error = json!({ "code": -1, "message": "not today" });
        let refused = json!({ "jsonrpc": "2.0", "id": server_request["id"], "error": error });
        assert_eq!(caller.post(&refused).await.status, 202);
        let answer = stream.answer().await;
        assert_eq!(answer["result"]["content"][0]["text"], expected, "{up:?} {answer}");
    }
}
