//! States, tools and commands of servers, and adding one.

use serde_json::json;
use toolway_testkit::fixture_server::FixtureServer;

use crate::stage::Stage;

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("read", "Reads a file.").tool("write", "Writes a file.")
}

#[tokio::test]
async fn servers_are_listed_with_their_state_and_tools() {
    let stage = Stage::new(&[("files", &files())]).await;
    let browser = stage.browser().await;
    let list = browser.json("/api/v1/servers").await;
    let server = &list[0];
    assert_eq!(
        (&server["name"], &server["state"], &server["enabled"]),
        (&"files".into(), &"connected".into(), &true.into())
    );
    assert_eq!(server["counts"]["tools"], 2);
    assert_eq!(server["label"], "files", "the name that the user gave it");
    let details = browser.json("/api/v1/servers/files").await;
    let tool = &details["tools"][0];
    assert_eq!((&tool["name"], &tool["publicName"]), (&"read".into(), &"files__read".into()));
    assert_eq!((&tool["readOnly"], &tool["destructive"]), (&false.into(), &true.into()));
    assert!(tool["inputSchema"].is_object());
    assert_eq!(browser.get("/api/v1/servers/other").await.status, 404);
}

#[tokio::test]
async fn a_server_is_disconnected_connected_and_restarted() {
    let stage = Stage::new(&[("files", &files())]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let act = async |action: &str| browser.post(&format!("/api/v1/servers/files/{action}"), &json!({})).await.status;
    let state = async |wanted: &str| {
        let wanted = wanted.to_owned();
        browser.until("/api/v1/servers/files", move |server| server["state"] == wanted.as_str()).await
    };
    assert_eq!(act("disconnect").await, 200);
    state("disconnected").await;
    assert_eq!(events.next("servers").await.1["name"], "files");
    assert_eq!(act("connect").await, 200);
    state("connected").await;
    assert_eq!(act("restart").await, 200);
    state("connected").await;
    assert_eq!(act("explode").await, 404);
    assert_eq!(browser.post("/api/v1/servers/other/connect", &json!({})).await.status, 404);
}

#[tokio::test]
async fn a_server_is_disabled_and_enabled() {
    let stage = Stage::new(&[("files", &files())]).await;
    let browser = stage.browser().await;
    assert_eq!(browser.post("/api/v1/servers/files/disable", &json!({})).await.status, 200);
    browser.until("/api/v1/servers/files", |server| server["state"] == "disabled" && server["enabled"] == false).await;
    let reply = browser.post("/api/v1/servers/files/connect", &json!({})).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "conflict"));
    for action in ["connect", "restart", "sign-in"] {
        let reply = browser.post(&format!("/api/v1/servers/files/{action}"), &json!({})).await;
        assert_eq!((reply.status, reply.code().as_str()), (409, "conflict"), "{action}");
    }
    assert_eq!(browser.post("/api/v1/servers/files/enable", &json!({})).await.status, 200);
    browser.until("/api/v1/servers/files", |server| server["enabled"] == true).await;
    assert_eq!(*stage.backend.changes.lock(), ["files false", "files true"]);
}

#[tokio::test]
async fn nothing_is_tested_or_added_without_consent() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let pasted = json!({ "text": "run-me", "name": "mine" });
    let parsed = browser.post("/api/v1/servers/parse", &pasted).await.json();
    assert_eq!((&parsed["name"], &parsed["runs"]), (&"mine".into(), &"run-me".into()));
    for path in ["/api/v1/servers/test", "/api/v1/servers"] {
        let reply = browser.post(path, &pasted).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "consent"), "{path}");
    }
    assert!(stage.backend.changes.lock().is_empty());
    let agreed = json!({ "text": "run-me", "consent": true });
    let tested = browser.post("/api/v1/servers/test", &agreed).await.json();
    assert_eq!((&tested["ok"], &tested["error"]["stderr"][0]), (&false.into(), &"boo".into()));
    assert_eq!(browser.post("/api/v1/servers", &agreed).await.json()["name"], "pasted");
    assert_eq!(*stage.backend.changes.lock(), ["add run-me"]);
    let keyed = json!({ "text": "TOKEN=word run-me", "name": "keyed", "consent": true });
    let added = browser.post("/api/v1/servers", &keyed).await.json();
    assert_eq!(added, json!({ "name": "keyed", "notices": ["the secret is stored"] }));
}

#[tokio::test]
async fn problems_of_pasted_text_are_said() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let reply = browser.post("/api/v1/servers/parse", &json!({ "text": "" })).await;
    assert_eq!((reply.status, &reply.json()["error"]["hint"]), (422, &"paste something".into()));
    let taken = json!({ "text": "x", "name": "taken", "consent": true });
    let reply = browser.post("/api/v1/servers", &taken).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "conflict"));
}

#[tokio::test]
async fn a_sign_in_gives_the_page_to_open_or_the_reason_why_not() {
    let stage = Stage::new(&[("files", &files()), ("sample", &files())]).await;
    let browser = stage.browser().await;
    let reply = browser.post("/api/v1/servers/files/sign-in", &json!({})).await;
    assert_eq!((reply.status, &reply.json()["url"]), (200, &"https://login.example/files".into()));
    assert_eq!(reply.json()["notices"][0], "Sign in.");
    let reply = browser.post("/api/v1/servers/sample/sign-in", &json!({})).await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "invalid"));
    assert_eq!(browser.post("/api/v1/servers/other/sign-in", &json!({})).await.status, 404);
    assert_eq!(browser.json("/api/v1/servers/sample").await["signIn"]["failure"], "access denied");
    assert!(browser.json("/api/v1/servers/files").await["signIn"]["failure"].is_null());
}
