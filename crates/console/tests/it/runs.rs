//! Calls that a person makes on a page: on the path of a call, with their results, problems, files and cancellation.

use serde_json::{Value, json};
use toolway_testkit::fixture_server::{Behaviour, FixtureServer};

use crate::stage::{Browser, Stage};

async fn start(browser: &Browser, wanted: &Value) -> String {
    let reply = browser.post("/api/v1/runs", wanted).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["id"].as_str().unwrap().to_owned()
}

async fn ended(browser: &Browser, wanted: &Value) -> Value {
    let id = start(browser, wanted).await;
    browser.until(&format!("/api/v1/runs/{id}"), |run| run["state"] != "running").await
}

fn tool(name: &str, arguments: &str) -> Value {
    json!({ "kind": "tool", "server": "files", "name": name, "arguments": arguments })
}

#[tokio::test]
async fn a_tool_is_run_with_its_digits_and_recorded() {
    let files = FixtureServer::new("files").tool("read", "Reads.");
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let run = ended(&browser, &tool("read", r#"{"n":12345678901234567890}"#)).await;
    assert_eq!((&run["state"], &run["kind"]), (&"succeeded".into(), &"tool".into()));
    assert!(run["result"]["blocks"][0]["text"].as_str().unwrap().contains("12345678901234567890"), "{run}");
    assert!(run["durationMs"].is_number() && run["bytes"].as_u64().unwrap() > 0);
    let record = browser.json(&format!("/api/v1/calls/{}", run["id"].as_str().unwrap())).await;
    assert_eq!((&record["caller"], &record["surface"]), (&"console".into(), &"console".into()));
    let whole = browser.get(&format!("/api/v1/runs/{}/parts/all", run["id"].as_str().unwrap())).await;
    assert!(whole.header("content-disposition").unwrap().starts_with("attachment"), "{}", whole.head);
    assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
    let text = browser.get(&format!("/api/v1/runs/{}/parts/0", run["id"].as_str().unwrap())).await;
    assert!(text.body.contains("12345678901234567890"));
    let none = browser.get(&format!("/api/v1/runs/{}/parts/7", run["id"].as_str().unwrap())).await;
    assert_eq!(none.status, 404);
}

#[tokio::test]
async fn resources_and_prompts_are_read_and_previewed() {
    let files = FixtureServer::new("files").resource(
        json!({ "uri": "files://two", "name": "two" }),
        json!([{ "uri": "files://two", "mimeType": "text/plain", "text": "second" }]),
    );
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let read = ended(&browser, &json!({ "kind": "resource", "server": "files", "name": "files://two" })).await;
    let block = &read["result"]["blocks"][0];
    assert_eq!((&block["text"], &block["uri"]), (&"second".into(), &"files://two".into()));
    let prompt = json!({ "kind": "prompt", "server": "files", "name": "hello", "arguments": r#"{"who":"Ada"}"# });
    let shown = ended(&browser, &prompt).await;
    let block = &shown["result"]["blocks"][0];
    assert_eq!((&block["role"], &block["text"]), (&"user".into(), &"hello".into()));
}

#[tokio::test]
async fn a_long_error_of_a_server_is_kept_as_its_record_has_it() {
    let files = FixtureServer::new("files").tool_that("refuse", "Refuses.", Behaviour::Refuse);
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let run = ended(&browser, &tool("refuse", &json!({ "text": "x".repeat(200_000) }).to_string())).await;
    assert_eq!(run["state"], "failed", "{run}");
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("xxxx") && error.len() < 1_000, "{} bytes", error.len());
    let record = browser.json(&format!("/api/v1/calls/{}", run["id"].as_str().unwrap())).await;
    assert_eq!(record["error"].as_str(), Some(error));
}

#[tokio::test]
async fn a_failure_an_unknown_tool_and_wrong_requests_are_said() {
    let files = FixtureServer::new("files").tool_that("fail", "Fails.", Behaviour::Fail);
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    assert_eq!(ended(&browser, &tool("fail", "{}")).await["state"], "tool-error");
    let unknown = ended(&browser, &tool("other", "{}")).await;
    assert_eq!(unknown["state"], "failed", "{unknown}");
    assert!(unknown["error"].as_str().unwrap().contains("other"), "{unknown}");
    for (wanted, status) in [
        (tool("fail", "{"), 400),
        (tool("fail", "[]"), 400),
        (json!({ "kind": "method", "server": "files", "name": "x" }), 400),
        (json!({ "kind": "tool", "server": "other", "name": "x" }), 404),
        (json!({ "kind": "tool", "server": "files", "name": "x", "mode": "allow" }), 400),
    ] {
        assert_eq!(browser.post("/api/v1/runs", &wanted).await.status, status, "{wanted}");
    }
    let id = "019a9b1c-0000-7000-8000-000000000000";
    for path in [format!("/api/v1/runs/{id}"), format!("/api/v1/runs/{id}/parts/all"), "/api/v1/runs/x".to_owned()] {
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_run_reports_its_progress_and_its_end() {
    let files = FixtureServer::new("files").tool_that("count", "Counts.", Behaviour::Count);
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = start(&browser, &tool("count", "{}")).await;
    let (_, first) = events.next("run").await;
    assert_eq!((&first["id"], &first["state"]), (&id.as_str().into(), &"running".into()));
    assert!(first["progress"]["done"].is_number(), "{first}");
    loop {
        let (_, event) = events.next("run").await;
        if event["state"] != "running" {
            assert_eq!((&event["id"], &event["state"]), (&id.as_str().into(), &"succeeded".into()));
            break;
        }
    }
}

#[tokio::test]
async fn a_run_is_cancelled_like_any_call() {
    let files = FixtureServer::new("files").tool_that("wait", "Waits.", Behaviour::Wait);
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let id = start(&browser, &tool("wait", "{}")).await;
    files.until_received("tools/call", 1).await;
    assert_eq!(browser.post(&format!("/api/v1/calls/{id}/cancel"), &json!({})).await.status, 200);
    let run = browser.until(&format!("/api/v1/runs/{id}"), |run| run["state"] != "running").await;
    assert_eq!((&run["state"], &run["result"]), (&"cancelled".into(), &Value::Null));
}

#[tokio::test]
async fn runs_are_bounded_and_end_at_shutdown() {
    let files = FixtureServer::new("files").tool_that("wait", "Waits.", Behaviour::Wait);
    let mut stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    for _ in 0..16 {
        start(&browser, &tool("wait", "{}")).await;
    }
    let refused = browser.post("/api/v1/runs", &tool("wait", "{}")).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_runs"));
    stage.stop.cancel();
    stage.serving.take().unwrap().await.unwrap().unwrap();
}
