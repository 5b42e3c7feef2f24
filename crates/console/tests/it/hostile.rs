//! Names, texts, icons and results that servers choose to do harm.

use serde_json::json;
use toolway_host::visible;
use toolway_testkit::fixture_server::FixtureServer;

use crate::stage::Stage;

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{200b}\u{1b}[31m\u{0}\"';--";

#[tokio::test]
async fn hostile_texts_stay_text_in_json_with_marks() {
    let files = FixtureServer::new("files").tool("read", HOSTILE);
    let stage = Stage::new(&[("files", &files)]).await;
    drop(stage.host.call_with("files__read", Some(json!({ HOSTILE: HOSTILE }))).await);
    let browser = stage.browser().await;
    let reply = browser.get("/api/v1/servers/files").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let marked = visible::marked(HOSTILE);
    assert!(
        marked.contains("\u{fdd0}202e\u{fdd1}\u{fdd0}200b\u{fdd1}\u{fdd0}1b\u{fdd1}[31m\u{fdd0}0\u{fdd1}"),
        "{marked:?}"
    );
    assert_eq!(reply.json()["tools"][0]["description"], *marked);
    let page = browser.json("/api/v1/calls").await;
    let details = browser.json(&format!("/api/v1/calls/{}", page["calls"][0]["id"].as_str().unwrap())).await;
    assert_eq!(details["arguments"][&*marked], *marked);
}

#[tokio::test]
async fn hostile_paths_and_queries_find_nothing() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    for path in
        ["/api/v1/servers/..%2f..", "/api/v1/servers/%3Cscript%3E", "/api/v1/conversations/'--", "/api/v1/calls/%00"]
    {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(!reply.body.contains("<script>"), "{}", reply.body);
    }
    for path in
        ["/api/v1/calls?server='%20OR%201=1--", "/api/v1/conversations?search=%25'%22", "/api/v1/calls?tool=%00"]
    {
        assert_eq!(browser.get(path).await.status, 200, "{path}");
    }
    let chat = browser.post("/api/v1/chat/<script>/cancel", &json!({})).await;
    assert!(chat.status == 409 || chat.status == 0 || chat.status == 400, "{}", chat.status);
}

#[tokio::test]
async fn a_tool_that_appears_is_announced_with_the_name_of_its_server_only() {
    let files = FixtureServer::new("files").tool("read", "");
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    files.add_tool("new", HOSTILE);
    let (_, event) = events.next("servers").await;
    assert_eq!(event, json!({ "name": "files" }));
    browser.until("/api/v1/servers/files", |server| server["tools"].as_array().unwrap().len() == 2).await;
}
