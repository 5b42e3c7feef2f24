//! Tools, resources and prompts of all servers: lists, definitions, completion, followed resources.

use std::time::{Duration, Instant};

use serde_json::json;
use toolway_testkit::fixture_server::FixtureServer;

use crate::stage::Stage;

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("read", "Reads a file.")
}

#[tokio::test]
async fn tools_of_all_servers_are_listed_and_shown() {
    let odd = FixtureServer::new("odd").tool("a/b \u{202e}", "Odd name.");
    let stage = Stage::new(&[("files", &files()), ("odd", &odd)]).await;
    let browser = stage.browser().await;
    let list = browser.json("/api/v1/tools").await;
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "a/b \u{fdd0}202e\u{fdd1}"]);
    let tool = browser.json("/api/v1/tools/files/read").await;
    assert_eq!((&tool["trust"], &tool["definition"]["standing"]), (&"read".into(), &"unseen".into()));
    assert!(tool["inputSchema"].is_object());
    // As a page writes it: with marks.
    let odd = browser.json("/api/v1/tools/odd/a%2Fb%20%EF%B7%90202e%EF%B7%91").await;
    assert_eq!(odd["description"], "Odd name.");
    for path in ["/api/v1/tools/files/none", "/api/v1/tools/none/read"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    assert_eq!(browser.get("/api/v1/tools/files/%ff").await.status, 400);
}

#[tokio::test]
async fn a_tool_shows_how_it_differs_from_what_was_seen() {
    let files = files();
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    drop(stage.host.call("files__read").await);
    let path = "/api/v1/tools/files/read";
    browser.until(path, |tool| tool["definition"]["standing"] == "same").await;
    files.describe("read", "Reads and deletes a file.");
    let tool = browser.until(path, |tool| tool["definition"]["standing"] == "changed").await;
    let difference = tool["definition"]["difference"][0].as_str().unwrap_or_else(|| panic!("{tool}"));
    assert!(difference.contains("deletes"), "{difference}");
    assert!(tool["definition"]["seenAt"].is_string());
    files.add_tool("new", "");
    browser.until("/api/v1/tools", |listed| listed["tools"].to_string().contains(r#""new""#)).await;
    browser.until("/api/v1/tools/files/new", |tool| tool["definition"]["standing"] == "new").await;
}

#[tokio::test]
async fn arguments_are_completed() {
    let stage = Stage::new(&[("files", &files())]).await;
    let browser = stage.browser().await;
    let wanted = json!({ "of": "prompt", "server": "files", "name": "hello", "argument": "who", "value": "A", "known": { "x": "y" } });
    let answer = browser.post("/api/v1/complete", &wanted).await.json();
    assert_eq!(answer, json!({ "values": ["Ada", "Grace"], "more": false }));
    let unknown = json!({ "of": "prompt", "server": "none", "name": "hello", "argument": "who", "value": "" });
    assert_eq!(browser.post("/api/v1/complete", &unknown).await.status, 404);
    let wrong = json!({ "of": "tool", "server": "files", "name": "hello", "argument": "who", "value": "" });
    assert_eq!(browser.post("/api/v1/complete", &wrong).await.status, 400);
}

#[tokio::test]
async fn updates_of_a_resource_are_followed_until_they_are_not() {
    let files = files();
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let one = json!({ "server": "files", "uri": "files://one" });
    for _ in 0..2 {
        assert_eq!(browser.post("/api/v1/resources/watch", &one).await.status, 200);
    }
    assert_eq!(browser.json("/api/v1/resources").await["watched"], json!([one]));
    files.touch("files://one");
    let (_, event) = events.next("resource").await;
    assert_eq!((&event["uri"], &event["change"]), (&"files://one".into(), &"updated".into()));
    assert_eq!(browser.post("/api/v1/resources/unwatch", &one).await.status, 200);
    assert_eq!(browser.json("/api/v1/resources").await["watched"], json!([]));
    let unknown = json!({ "server": "none", "uri": "x" });
    assert_eq!(browser.post("/api/v1/resources/watch", &unknown).await.status, 404);
}

#[tokio::test]
async fn a_resource_that_changes_all_the_time_is_one_event_a_second() {
    let files = files();
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let one = json!({ "server": "files", "uri": "files://one" });
    assert_eq!(browser.post("/api/v1/resources/watch", &one).await.status, 200);
    let changing = async {
        loop {
            files.touch("files://one");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reading = async {
        events.next("resource").await;
        let first = Instant::now();
        events.next("resource").await;
        events.next("resource").await;
        first.elapsed()
    };
    tokio::select! {
        () = changing => {}
        took = reading => assert!(Duration::from_millis(1_500) < took, "three events in {took:?}"),
    }
}
