//! `/requests`: a client that answers no forms over MCP answers those of its own calls over HTTP, and nothing else.

use std::{path::Path, sync::Arc};

use futures_util::{FutureExt as _, future::select_all};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_config::{Config, document::Document};
use toolway_gateway::access::{Access, KeyFile, KeyRights, KeyScope, OpenAccess};
use toolway_host::inbox::{ElicitationAnswer, ElicitationModes, InboxAnswer, InboxAnswerer};
use toolway_testkit::test_host::{TestHost, within};
use toolway_wire::{
    budget::MemoryBudget,
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::{Era, Revision},
    up::Peer,
};

use crate::{over_http::OverHttp, test_gateway::TestGateway};

/// A gateway with the keys of `ada` and `ben`, and a server whose tools ask.
struct Stage {
    gateway: TestGateway,
    file: KeyFile,
    ada: String,
    ben: String,
    _server: OverHttp,
    _folder: tempfile::TempDir,
}

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

impl Stage {
    async fn new(era: Era, settings: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let key = |name| file.add(name, None, None).unwrap().expose().to_owned();
        let (ada, ben) = (key("ada"), key("ben"));
        let (access, _) = Access::with_keys(Some(file.clone())).unwrap();
        let (gateway, server) = gateway(era, settings, access).await;
        Self { gateway, file, ada, ben, _server: server, _folder: folder }
    }

    /// What the client with this key sees, waiting up to 20 seconds for the first.
    async fn requests(&self, key: &str, wait: &str) -> Vec<Value> {
        let client = self.gateway.raw_client(&format!("/requests{wait}"), Some(key));
        let response = within("the requests", client.send("GET", &[], "")).await;
        assert_eq!(response.status, 200);
        let seen: Value = serde_json::from_str(&response.text().await).unwrap();
        seen["requests"].as_array().unwrap().clone()
    }

    async fn answer(&self, key: &str, id: &str, body: &str) -> (u16, String) {
        let client = self.gateway.raw_client(&format!("/requests/{id}"), Some(key));
        let response = within("an answer", client.send("POST", &[], body.to_owned())).await;
        let status = response.status;
        (status, response.text().await)
    }
}

/// A gateway with a server of this era whose tools ask, and whose requests wait in the inbox.
async fn gateway(era: Era, settings: &Value, access: Access) -> (TestGateway, OverHttp) {
    let revision = if era == Era::Legacy { Revision::V2025_11_25 } else { Revision::V2026_07_28 };
    let server = OverHttp::serve(revision).await;
    let mut whole = settings.clone();
    whole["mcpServers"] = json!({ "files": { "url": format!("http://{}/mcp", server.address) } });
    let document = Document::of(Path::new("/x/toolway.json"), &whole.to_string()).unwrap();
    let mut builder = TestHost::new().config(Config::of(&document, None).unwrap());
    builder.options.declared = Some(ClientCapabilities::none());
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
    let gateway = TestGateway::open_to(builder, access, None).await;
    gateway.host.ready("files").await;
    (gateway, server)
}

/// A call that goes on in the background.
fn calling(
    call: impl Future<Output = Result<String, String>> + Send + 'static,
) -> AbortOnDropHandle<Result<String, String>> {
    AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(call))
}

async fn call(client: Peer, tool: &str) -> Result<String, String> {
    let arguments = if tool == "test_elicitation" { json!({ "message": "Who?" }) } else { json!({}) };
    let params = json!({ "name": format!("files__{tool}"), "arguments": arguments });
    let exchange = client.open(Request::new("tools/call", Some(Raw::of(&params))).unwrap(), ExchangeTimeouts::call());
    match within("the call", exchange.outcome_with(None, |_| {})).await {
        Outcome::Answered(result) => Ok(result.to_string()),
        Outcome::Refused(error) => Err(error.message().to_string()),
        other => panic!("{other:?}"),
    }
}

const ADA: &str = r#"{"action": "accept", "content": {"username": "Ada", "email": "ada@example.com"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_without_forms_answers_those_of_its_own_calls_over_http() {
    for server in ERAS {
        let stage = Stage::new(server, &json!({ "inbox": { "wait": true } })).await;
        for era in ERAS {
            let client = stage.gateway.connect_without_user("/mcp", era, &stage.ada).await;
            let waiting = calling(call(client, "test_elicitation"));
            let seen = stage.requests(&stage.ada, "?wait=20").await;
            assert_eq!((&seen[0]["kind"], &seen[0]["message"]), (&json!("form"), &json!("Who?")), "{seen:?}");
            let id = seen[0]["id"].as_str().unwrap();
            let (status, said) = stage.answer(&stage.ada, id, r#"{"action": "accept", "content": {}}"#).await;
            assert_eq!(status, 400, "{said}");
            assert!(said.contains("username"), "{said}");
            assert_eq!(stage.answer(&stage.ada, id, ADA).await.0, 200);
            let result = waiting.await.unwrap().unwrap();
            assert!(result.contains("Ada") && result.contains("accept"), "{era} {server}: {result}");
            assert_eq!(stage.answer(&stage.ada, id, ADA).await.0, 404, "it was answered");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_answers_what_waits_and_an_url_is_continued() {
    for server in ERAS {
        let settings = json!({ "gateway": { "clients": { "ada": { "inbox": { "wait": true } } } } });
        let stage = Stage::new(server, &settings).await;
        let client = stage.gateway.connect_without_user("/mcp", Era::Legacy, &stage.ada).await;
        let waiting = calling(call(client, "ask_address"));
        let seen = stage.requests(&stage.ada, "?wait=20").await;
        assert_eq!(seen[0]["kind"], "url", "{seen:?}");
        let inbox = stage.gateway.host.host.inbox().clone();
        let accepted = InboxAnswer::Elicitation(ElicitationAnswer::Accept(serde_json::Map::new()));
        inbox.answer(seen[0]["id"].as_str().unwrap(), accepted).unwrap();
        waiting.await.unwrap().unwrap();
        // The setting is of one client only.
        let other = stage.gateway.connect_without_user("/mcp", Era::Legacy, &stage.ben).await;
        assert!(call(other, "ask_address").await.is_err(), "{server}");
        assert!(inbox.list().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_others_and_no_approval_is_seen_or_answered() {
    let settings = json!({
        "inbox": { "wait": true },
        "policy": { "rules": [{ "match": { "tool": "test_simple_text" }, "then": "ask" }] },
    });
    let stage = Stage::new(Era::Legacy, &settings).await;
    let adas = stage.gateway.connect_without_user("/mcp", Era::Legacy, &stage.ada).await;
    let form = calling(call(adas.clone(), "test_elicitation"));
    let id = stage.requests(&stage.ada, "?wait=20").await[0]["id"].as_str().unwrap().to_owned();
    let approved = calling(call(adas, "test_simple_text"));
    let inbox = stage.gateway.host.host.inbox().clone();
    let mut changes = inbox.changes();
    let approval = within("the approval", async {
        loop {
            if let Some(item) = inbox.list().iter().find(|item| item.content.kind() == "approval") {
                return item.id.clone();
            }
            changes.changed().await.unwrap();
        }
    })
    .await;
    // Ben sees nothing of Ada, and Ada sees no approval.
    assert!(stage.requests(&stage.ben, "").await.is_empty());
    assert_eq!(stage.requests(&stage.ada, "").await.len(), 1);
    let upper = id.to_uppercase();
    for (key, id, body, expected) in [
        (&stage.ben, id.as_str(), ADA, 404),
        (&stage.ben, &upper, ADA, 404),
        (&stage.ada, &approval, ADA, 404),
        (&stage.ada, &approval, r#"{"action": "accept"}"#, 404),
        (&stage.ada, &approval, r#"{"once": {}}"#, 400),
        (&stage.ben, &format!("{id}/../{id}"), ADA, 404),
        (&stage.ben, &format!("{id}?client=ada"), ADA, 404),
        (&"wrong".to_owned(), &id, ADA, 401),
        (&stage.ada, &id, r#"{"action": "accept", "content": {}, "client": "ben"}"#, 400),
    ] {
        let (status, said) = stage.answer(key, id, body).await;
        assert_eq!(status, expected, "{id} {body}: {said}");
    }
    assert_eq!(inbox.list().len(), 2, "nothing was answered");
    let large = format!(r#"{{"action": "accept", "content": {{"username": "{}"}}}}"#, "x".repeat(2 * 1024 * 1024));
    assert_eq!(stage.answer(&stage.ada, &id, &large).await.0, 413);
    assert_eq!(stage.answer(&stage.ada, &id, r#"{"action": "decline"}"#).await.0, 200);
    assert!(form.await.unwrap().unwrap().contains("decline"));
    drop(approved);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_waiting_a_server_is_not_told_of_forms() {
    let stage = Stage::new(Era::Legacy, &json!({})).await;
    let client = stage.gateway.connect_without_user("/mcp", Era::Modern, &stage.ada).await;
    assert!(call(client, "test_elicitation").await.is_err());
    assert!(stage.requests(&stage.ada, "?wait=0").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_requests_of_a_client_wait_and_the_next_is_answered_at_once() {
    let stage = Stage::new(Era::Legacy, &json!({})).await;
    let polls = (0..17).map(|_| Box::pin(stage.requests(&stage.ada, "?wait=60")));
    let (answered, _, waiting) = within("one answer", select_all(polls)).await;
    assert!(answered.is_empty());
    assert!(select_all(waiting).now_or_never().is_none(), "the others wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_charged_to_the_byte_budget_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("ada", None, None).unwrap().expose().to_owned();
    let (access, _) = Access::with_keys(Some(file)).unwrap();
    let memory = MemoryBudget::new(512 * 1024);
    let limits = Limits { memory: memory.clone(), ..Limits::default() };
    let gateway = TestGateway::bounded(TestHost::new(), access, limits).await;
    let client = gateway.raw_client("/requests/0", Some(&key));
    let body = |bytes: usize| format!(r#"{{"action": "accept", "content": {{"name": "{}"}}}}"#, "x".repeat(bytes));
    for (bytes, status) in [(100_000, 404), (400_000, 503), (100_000, 404)] {
        let answered = within("an answer", client.send("POST", &[], body(bytes))).await;
        assert_eq!(answered.status, status, "{bytes}");
    }
    assert_eq!((memory.refused(), memory.used()), (1, 0));
    assert!(100_000 <= memory.peak());
}

/// A request to `/requests` with these headers, and its status.
async fn status(gateway: &TestGateway, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let client = gateway.raw_client(path, None);
    within("an answer", client.send(method, headers, body.to_owned())).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_clients_neither_see_nor_answer_what_waits_for_one_of_them() {
    let settings = json!({ "inbox": { "wait": true } });
    for access in [Access::Open, Access::OpenWithin(OpenAccess::default())] {
        let (gateway, _server) = gateway(Era::Legacy, &settings, access).await;
        let client = gateway.connect_without_user("/mcp", Era::Legacy, "").await;
        let form = calling(call(client, "test_elicitation"));
        let inbox = gateway.host.host.inbox().clone();
        let mut changes = inbox.changes();
        within("the form", async {
            while inbox.list().is_empty() {
                changes.changed().await.unwrap();
            }
        })
        .await;
        let id = inbox.list()[0].id.clone();
        assert_eq!(status(&gateway, "GET", "/requests", &[], "").await, 403);
        assert_eq!(status(&gateway, "POST", &format!("/requests/{id}"), &[], ADA).await, 403);
        inbox.answer(&id, InboxAnswer::Elicitation(ElicitationAnswer::Decline)).unwrap();
        assert!(form.await.unwrap().unwrap().contains("decline"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_revoked_key_is_not_seen_by_a_new_key_of_the_same_name_or_by_another_scope() {
    let stage = Stage::new(Era::Legacy, &json!({ "inbox": { "wait": true } })).await;
    let adas = stage.gateway.connect_without_user("/mcp", Era::Legacy, &stage.ada).await;
    let form = calling(call(adas, "test_elicitation"));
    let id = stage.requests(&stage.ada, "?wait=20").await[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/requests/{id}");
    let rights = KeyRights { scope: KeyScope::Metrics, ..KeyRights::default() };
    let metrics = format!("Bearer {}", stage.file.add_with("metrics", None, &rights).unwrap().expose());
    let ada = format!("Bearer {}", stage.ada);
    for (method, path, headers, expected) in [
        ("GET", "/requests", &[("authorization", metrics.as_str())][..], 403),
        ("POST", &path, &[("authorization", &metrics)], 403),
        ("POST", &path, &[("authorization", &ada), ("origin", "https://evil.example")], 403),
        ("POST", &path, &[("authorization", &ada), ("host", "evil.example")], 403),
        ("PUT", &path, &[("authorization", &ada)], 405),
    ] {
        assert_eq!(status(&stage.gateway, method, path, headers, ADA).await, expected, "{method} {path} {headers:?}");
    }
    stage.file.revoke("ada").unwrap();
    let again = stage.file.add("ada", None, None).unwrap().expose().to_owned();
    assert!(stage.requests(&again, "").await.is_empty());
    assert_eq!(stage.answer(&again, &id, ADA).await.0, 404);
    assert!(stage.gateway.host.host.inbox().list().is_empty(), "nothing waits for the revoked key");
    drop(form);
}
