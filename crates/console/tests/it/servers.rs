//! States, tools and commands of servers; adding, changing, removing and importing them.

use serde_json::json;
use toolway_console::ConsoleOptions;
use toolway_host::roots::Root;
use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHostBuilder};

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
    assert_eq!((&parsed["name"], &parsed["entry"]["command"]), (&"mine".into(), &"run-me".into()));
    let draft = json!({ "name": "mine", "entry": parsed["entry"] });
    for path in ["/api/v1/servers/test", "/api/v1/servers"] {
        let reply = browser.post(path, &json!({ "draft": draft })).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "consent"), "{path}");
    }
    assert!(stage.backend.changes.lock().is_empty());
    let agreed = json!({ "draft": draft, "consent": true });
    let tested = browser.post("/api/v1/servers/test", &agreed).await.json();
    assert_eq!((&tested["ok"], &tested["error"]["stderr"][0]), (&false.into(), &"boo".into()));
    assert_eq!(browser.post("/api/v1/servers", &agreed).await.json(), json!({ "name": "mine" }));
    let edited = json!({ "name": "mine", "entry": { "command": "run-me" }, "version": "1" });
    assert_eq!(browser.post("/api/v1/servers", &json!({ "draft": edited })).await.status, 200, "the same program");
    assert_eq!(*stage.backend.changes.lock(), ["save run-me", "save run-me"]);
    let entry = json!({ "command": "run-me", "env": { "TOKEN": "word" } });
    let keyed = json!({ "draft": { "name": "keyed", "entry": entry }, "consent": true });
    let added = browser.post("/api/v1/servers", &keyed).await.json();
    assert_eq!(added, json!({ "name": "keyed", "notices": ["the secret is stored"] }));
}

#[tokio::test]
async fn wrong_values_name_their_field() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let reply = browser.post("/api/v1/servers/parse", &json!({ "text": "" })).await;
    assert_eq!((reply.status, &reply.json()["error"]["hint"]), (200, &"paste something".into()));
    let taken = json!({ "draft": { "name": "taken", "entry": { "command": "x" } }, "consent": true });
    let reply = browser.post("/api/v1/servers", &taken).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "conflict"));
    assert_eq!(reply.json()["fields"]["name"], "server `taken` already exists");
    let reply = browser.post("/api/v1/servers/plan", &json!({ "name": "x", "entry": { "command": "" } })).await;
    assert_eq!((reply.status, &reply.json()["fields"]["command"]), (200, &"the program is missing".into()));
    let empty = json!({ "draft": { "name": "x", "entry": { "command": "" } }, "consent": true });
    assert_eq!(browser.post("/api/v1/servers", &empty).await.status, 422);
    let unknown = json!({ "name": "x", "entry": {}, "run": true });
    assert_eq!(browser.post("/api/v1/servers/plan", &unknown).await.status, 400);
}

#[tokio::test]
async fn the_entry_that_the_user_saw_is_removed() {
    let stage = Stage::new(&[("files", &files())]).await;
    let browser = stage.browser().await;
    let entry = browser.json("/api/v1/servers/files/entry").await;
    assert_eq!((&entry["label"], &entry["place"]), (&"files".into(), &"toolway.json:3".into()));
    let removal = browser.json("/api/v1/servers/files/removal").await;
    assert_eq!(removal["difference"][0], json!({ "kind": "removed", "text": "files" }));
    let other = browser.post("/api/v1/servers/files/remove", &json!({ "version": "0" })).await;
    assert_eq!((other.status, other.code().as_str()), (409, "conflict"));
    let version = json!({ "version": removal["version"] });
    assert_eq!(browser.post("/api/v1/servers/files/remove", &version).await.status, 200);
    assert_eq!(*stage.backend.changes.lock(), ["remove files"]);
    for path in ["/api/v1/servers/other/entry", "/api/v1/servers/other/removal"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn servers_of_other_applications_are_listed_and_chosen() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let found = browser.json("/api/v1/import").await;
    let server = &found["servers"][0];
    assert_eq!((&server["host"], &server["secrets"]), (&"cursor".into(), &1.into()));
    let key = json!({ "host": "cursor", "label": "files", "place": "mcp.json:2" });
    let copied = browser.post("/api/v1/import", &json!({ "servers": [key] })).await.json();
    assert_eq!(copied[0], json!({ "name": "files", "copied": true, "notices": [] }));
    assert_eq!(browser.post("/api/v1/import", &json!({ "servers": [] })).await.status, 400);
}

#[tokio::test]
async fn a_server_shows_its_whole_command_capabilities_and_roots() {
    let root = Root { uri: "file:///srv/shared".to_owned(), name: Some("shared".to_owned()) };
    let files = files();
    let give_root = |mut builder: TestHostBuilder| {
        builder.options.roots = vec![root];
        builder
    };
    let stage = Stage::with(&[("files", &files)], ConsoleOptions::default(), give_root).await;
    let details = stage.browser().await.json("/api/v1/servers/files").await;
    assert_eq!((&details["command"], &details["needsPerson"]), (&"run-files --all".into(), &false.into()));
    assert_eq!(
        details["roots"],
        json!([{ "uri": "file:///srv/shared", "name": "shared", "origin": "command", "client": null }])
    );
    assert!(details["capabilities"].to_string().contains("tools"), "{}", details["capabilities"]);
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
