//! Callers and servers of either era: what is called and what comes back is the same in all four combinations.

use serde_json::json;
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};
use toolway_wire::{
    exchange::{Happening, Outcome, Request, Terms},
    json::Raw,
    revision::Era,
    up::Peer,
};

use crate::{
    knocking::request,
    stage::{Stage, behind},
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
    let exchange = client.open(request, Terms::call());
    let mut progress = 0;
    let outcome = within(
        tool,
        exchange.outcome_with(Some(&crate::stage::Ada), |happening| {
            progress += usize::from(matches!(happening, Happening::Progress(_)));
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
async fn a_call_goes_through_in_all_four_combinations() {
    for up in [Era::Legacy, Era::Modern] {
        let files = files();
        let (_fixture, wanted) = behind(&files, up).await;
        let stage = Stage::with(TestHost::new().wanted(wanted)).await;
        stage.host.ready("files").await;
        for down in [Era::Legacy, Era::Modern] {
            for (path, prefix) in [("/mcp", "files__"), ("/servers/files/mcp", "")] {
                let client = stage.client(path, down).await;
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
async fn the_oldest_clients_come_in_over_the_transport_of_their_time() {
    let files = files();
    let stage = Stage::with(TestHost::with(&files, "files")).await;
    stage.host.ready("files").await;
    let client = stage.oldest_client("/sse").await;
    let names: Vec<_> = client.list_tools().await.unwrap().items.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let (echoed, _) = called(&client, "files__echo", json!({ "n": 1 })).await;
    assert!(text(echoed).contains(r#"{\"n\":1}"#));
    client.close().await;
}

/// A session answers a question with an error: a server with sessions is told just that, one without hears of a form that
/// was closed, for it has no other word.
#[tokio::test]
async fn an_error_in_the_place_of_an_answer_is_told_in_the_servers_words() {
    for (up, told) in [(Era::Legacy, "nobody: not today"), (Era::Modern, r#"hello {"action":"cancel"}"#)] {
        let files = files();
        let (_fixture, wanted) = behind(&files, up).await;
        let stage = Stage::with(TestHost::new().wanted(wanted)).await;
        stage.host.ready("files").await;
        let caller = stage.knocker("/mcp", stage.key.as_ref().map(toolway_config::Secret::expose)).begun().await;
        let mut stream = caller.post(&request(7, "tools/call", json!({ "name": "files__greet" }))).await;
        let question = loop {
            let message = stream.message().await.unwrap();
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        let error = json!({ "code": -1, "message": "not today" });
        let refused = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
        assert_eq!(caller.post(&refused).await.status, 202);
        let answer = stream.answer().await;
        assert_eq!(answer["result"]["content"][0]["text"], told, "{up:?} {answer}");
    }
}
