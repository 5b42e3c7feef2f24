//! State of clients that disconnected or whose keys were revoked: removed in the gateway and at the servers.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_config::{Config, document::Document, server::Sharing};
use toolway_gateway::GatewayOptions;
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::revision::Revision;

use crate::{
    fairness::TwoClients,
    over_http::OverHttp,
    raw_client::{RawClient, request, with_meta},
    tap::Tap,
};

const PATHS: [(&str, &str); 2] = [("/mcp", "files__"), ("/servers/files/mcp", "")];

/// A server that creates tasks on its own, and a tap of everything that it receives.
async fn task_server() -> (OverHttp, Tap, TestHostBuilder) {
    let server = OverHttp::serve(Revision::V2026_07_28).await;
    let tap = Tap::before(&format!("http://{}/mcp", server.address)).await;
    let address = ServerAddress::http(tap.url().parse().unwrap());
    let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
    (server, tap, builder)
}

async fn wait_for(tap: &Tap, what: &str) {
    within(what, async {
        while !tap.seen().contains(what) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn start_task(session: &RawClient, tool: String, arguments: Value) -> Value {
    let call = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 600_000 } });
    let made = session.post(&request(1, "tools/call", call)).await.answer().await;
    assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
    made
}

async fn metric(raw_client: &RawClient, name: &str) -> usize {
    let metrics = raw_client.at("/metrics").get().await.text().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).map(str::to_owned);
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
}

async fn until(raw_client: &RawClient, name: &str, wanted: usize) {
    within(name, async {
        while metric(raw_client, name).await != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn hosted_tasks_end_when_the_key_is_revoked() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let clients = TwoClients::start(TestHost::with(&files, "files")).await;
    let (ada, bob) = (clients.ada("/mcp").start_session().await, clients.bob("/mcp").start_session().await);
    for session in [&ada, &bob] {
        start_task(session, "files__wait".to_owned(), json!({})).await;
    }
    within("the calls", files.until_received("tools/call", 2)).await;
    assert_eq!(metric(&bob, "toolway_hosted_tasks").await, 2);
    clients.file.revoke("ada").unwrap();
    within("the server to hear of it", files.left(1)).await;
    until(&bob, "toolway_hosted_tasks", 1).await;
    until(&bob, "toolway_calls_under_way", 1).await;
    // Tasks of other clients continue.
    assert_eq!(files.cancelled(), 1);
}

#[tokio::test]
async fn hosted_tasks_end_when_the_key_expires() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let clients = TwoClients::start(TestHost::with(&files, "files")).await;
    let key = clients.file.add("guest", Some(Duration::from_secs(2)), None).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let guest = clients.gateway.raw_client("/mcp", Some(key.expose())).start_session().await;
    start_task(&guest, "files__wait".to_owned(), json!({})).await;
    within("the call", files.until_received("tools/call", 1)).await;
    within("the server to hear of it", files.left(1)).await;
    until(&clients.bob("/mcp"), "toolway_hosted_tasks", 0).await;
}

#[tokio::test]
async fn hidden_server_task_is_cancelled_when_its_caller_disconnects() {
    for (way, path, prefix) in [("stateless", "/mcp", "files__"), ("kept", "/mcp", "files__"), ("kept", PATHS[1].0, "")]
    {
        let (_server, tap, builder) = task_server().await;
        let clients = TwoClients::start(builder).await;
        let tool = format!("{prefix}slow_compute");
        let arguments = json!({ "seconds": 600 });
        match way {
            "stateless" => {
                let caller = clients.ada(path);
                let call = json!({ "name": tool, "arguments": arguments });
                let calling = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
                    drop(caller.open_request("tools/call", call).await);
                }));
                wait_for(&tap, "tasks/get").await;
                drop(calling);
            }
            _ => {
                let session = clients.ada(path).start_session().await;
                let made = start_task(&session, tool, arguments).await;
                wait_for(&tap, "tasks/get").await;
                let id = &made["result"]["task"]["taskId"];
                let cancelled = session.post(&request(2, "tasks/cancel", json!({ "taskId": id }))).await.answer().await;
                assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
            }
        }
        wait_for(&tap, "tasks/cancel").await;
        until(&clients.bob(path), "toolway_calls_under_way", 0).await;
    }
}

#[tokio::test]
async fn server_task_of_a_hosted_task_is_cancelled_when_the_key_is_revoked() {
    let (_server, tap, builder) = task_server().await;
    let clients = TwoClients::start(builder).await;
    let session = clients.ada("/mcp").start_session().await;
    start_task(&session, "files__slow_compute".to_owned(), json!({ "seconds": 600 })).await;
    wait_for(&tap, "tasks/get").await;
    clients.file.revoke("ada").unwrap();
    wait_for(&tap, "tasks/cancel").await;
    until(&clients.bob("/mcp"), "toolway_hosted_tasks", 0).await;
    until(&clients.bob("/mcp"), "toolway_calls_under_way", 0).await;
}

/// Sends a stateless request of a client that supports tasks.
async fn ask_with_tasks(raw_client: &RawClient, method: &str, params: Value) -> Value {
    let mut params = with_meta(params);
    let declared = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap().to_owned();
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers = [
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", &name),
    ];
    raw_client.send("POST", &headers, message.to_string()).await.answer().await
}

/// The operator may reuse a client name with a new key: handles sealed for one key are invalid for another.
#[tokio::test]
async fn task_of_a_revoked_key_is_unknown_to_a_new_key_of_the_same_name() {
    for (path, prefix) in PATHS {
        let (_server, _tap, builder) = task_server().await;
        let clients = TwoClients::start(builder).await;
        let call = json!({ "name": format!("{prefix}slow_compute"), "arguments": { "seconds": 600 } });
        let made = ask_with_tasks(&clients.ada(path), "tools/call", call).await;
        let task = json!({ "taskId": made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")) });
        let looked = ask_with_tasks(&clients.ada(path), "tasks/get", task.clone()).await;
        assert_eq!(looked["result"]["status"], "working", "{path}: {looked}");
        clients.file.revoke("ada").unwrap();
        let key = clients.file.add("ada", None, None).unwrap();
        let ada = clients.gateway.raw_client(path, Some(key.expose()));
        within("the new key", async {
            while ada.open_request("tools/list", json!({})).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        for method in ["tasks/get", "tasks/cancel"] {
            let refused = ask_with_tasks(&ada, method, task.clone()).await;
            assert_eq!(refused["error"]["code"], -32602, "{path} {method}: {refused}");
        }
    }
}

/// A client with a new key, as soon as the gateway accepts it.
async fn client_with_new_key(clients: &TwoClients, name: &str, path: &str) -> RawClient {
    let key = clients.file.add(name, None, None).unwrap();
    let raw_client = clients.gateway.raw_client(path, Some(key.expose()));
    within("the new key", async {
        while raw_client.at("/servers").get().await.status != 200 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    raw_client
}

/// On a shared connection a server lists the tasks of all clients; each key sees its own only.
#[tokio::test]
async fn tasks_on_a_shared_connection_are_separate_for_keys_of_the_same_name() {
    for (path, prefix) in PATHS {
        let server = OverHttp::serve(Revision::V2025_11_25).await;
        let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
        let wanted = WantedServer::new(name("files"), Way::Address(address));
        let clients =
            TwoClients::start(TestHost::new().wanted(WantedServer { sharing: Sharing::Shared, ..wanted })).await;
        let listed = async |session: &RawClient| {
            let page = session.post(&request(2, "tasks/list", json!({}))).await.answer().await;
            page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).len()
        };
        let (ada, bob) = (
            clients.ada(path).start_session_with(json!({})).await,
            clients.bob(path).start_session_with(json!({})).await,
        );
        for session in [&ada, &bob] {
            start_task(session, format!("{prefix}slow_compute"), json!({ "seconds": 600 })).await;
            assert_eq!(listed(session).await, 1, "{path}");
        }
        assert!(clients.gateway.host.status("files").caller_connections.is_empty(), "{path}: all share");
        clients.file.revoke("ada").unwrap();
        let ada = client_with_new_key(&clients, "ada", path).await.start_session_with(json!({})).await;
        assert_eq!((listed(&ada).await, listed(&bob).await), (0, 1), "{path}");
    }
}

/// The sessions in which a server was called, in order.
fn sessions_of_calls(tap: &Tap) -> Vec<String> {
    let seen = tap.seen().to_ascii_lowercase();
    let calls = seen.split("post /").filter(|request| request.contains(r#""method":"tools/call""#));
    let session = |line: &str| line.strip_prefix("mcp-session-id: ").map(str::to_owned);
    calls.map(|request| request.lines().find_map(session).unwrap_or_else(|| panic!("{request}"))).collect()
}

/// A process or session of a client ends with the client.
#[tokio::test]
async fn caller_connections_end_when_the_key_is_revoked() {
    let server = OverHttp::serve(Revision::V2025_11_25).await;
    let tap = Tap::before(&format!("http://{}/mcp", server.address)).await;
    let address = ServerAddress::http(tap.url().parse().unwrap());
    let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
    let clients = TwoClients::start(builder).await;
    let called = async |raw_client: &RawClient| {
        // A new key is accepted after the next check of the key file.
        let call = json!({ "name": "files__test_simple_text" });
        let mut answer = raw_client.open_request("tools/call", call.clone()).await;
        while answer.status == 401 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer = raw_client.open_request("tools/call", call.clone()).await;
        }
        let called = answer.answer().await;
        assert_eq!(called["result"]["resultType"], "complete", "{called}");
    };
    called(&clients.ada("/mcp")).await;
    called(&clients.bob("/mcp")).await;
    assert_eq!(clients.gateway.host.status("files").caller_connections.len(), 2);
    clients.file.revoke("ada").unwrap();
    // A new client of the same name does not get her connection, even if it connects at once.
    let ada = clients.gateway.raw_client("/mcp", Some(clients.file.add("ada", None, None).unwrap().expose()));
    within("the new key", called(&ada)).await;
    let connections = || clients.gateway.host.status("files").caller_connections.len();
    within("the end of her connection", async {
        while connections() != 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // The connection of the new client does not end with hers.
    tokio::time::sleep(Duration::from_millis(800)).await;
    called(&ada).await;
    let sessions = sessions_of_calls(&tap);
    let [old, bobs, new, again] = &sessions[..] else { panic!("{sessions:?}") };
    assert!(old != new && bobs != new && new == again, "{sessions:?}");
    clients.file.revoke("ada").unwrap();
    within("the end of the new connection", async {
        while connections() != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A server request waits for the configured time, in either era; then the call is removed everywhere.
#[tokio::test]
async fn call_with_an_unanswered_server_request_expires_on_both_sides() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = OverHttp::serve(revision).await;
        let tap = Tap::before(&format!("http://{}/mcp", server.address)).await;
        let address = ServerAddress::http(tap.url().parse().unwrap());
        let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
        let answer_within = Duration::from_millis(500);
        let clients = TwoClients::with(builder, |options| GatewayOptions { answer_within, ..options }).await;
        let (ada, bob) = (clients.ada("/mcp"), clients.bob("/mcp"));
        let call = json!({ "name": "files__test_elicitation", "arguments": { "message": "Who?" } });

        let asked = ada.ask("tools/call", call.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        until(&bob, "toolway_parked_calls", 0).await;
        until(&bob, "toolway_calls_under_way", 0).await;
        // The server gets either a declined answer or a cancellation.
        if revision == Revision::V2025_11_25 {
            wait_for(&tap, r#""action":"cancel""#).await;
        }
        let connections = || clients.gateway.host.status("files").caller_connections;
        assert!(
            connections().iter().all(|connection| connection.calls == 0 && connection.parked == 0),
            "{:?}",
            connections()
        );
        let mut retry = call.clone();
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry["inputResponses"] = json!({ key: { "action": "accept", "content": { "username": "ada" } } });
        let calls = |tap: &Tap| tap.seen().matches("test_elicitation").count();
        let before = calls(&tap);
        let refused = ada.ask("tools/call", retry).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert_eq!(refused["result"]["content"][0]["text"], "the interaction has expired; call again");
        assert_eq!(calls(&tap), before, "nothing was called again");

        // In a session the server request is on the stream and is cancelled there.
        let session = ada.clone().start_session().await;
        let mut stream = session.post(&request(5, "tools/call", call)).await;
        let (mut question, mut called_off, mut answer) = (Value::Null, Value::Null, Value::Null);
        while let Some(message) = stream.message().await {
            match message["method"].as_str() {
                Some("elicitation/create") => question = message,
                Some("notifications/cancelled") => called_off = message,
                Some(_) => {}
                None => answer = message,
            }
        }
        assert!(question["id"].is_string(), "{revision:?} {answer}");
        assert_eq!(called_off["params"]["requestId"], question["id"], "{revision:?}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("cancel"), "{answer}");
        until(&bob, "toolway_calls_under_way", 0).await;
    }
}

fn configured(servers: &[(&str, &OverHttp)]) -> Config {
    let entry = |(name, server): &(&str, &OverHttp)| {
        ((*name).to_owned(), json!({ "type": "http", "url": format!("http://{}/mcp", server.address) }))
    };
    let servers: serde_json::Map<String, Value> = servers.iter().map(entry).collect();
    let text = json!({ "mcpServers": servers }).to_string();
    Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap()
}

/// Sessions and streams on the path of a server end when it is removed from the configuration.
#[tokio::test]
async fn path_of_a_removed_server_is_closed_with_its_sessions() {
    let (stays, goes) = (OverHttp::serve(Revision::V2025_11_25).await, OverHttp::serve(Revision::V2025_11_25).await);
    let both = configured(&[("files", &stays), ("mail", &goes)]);
    let clients = TwoClients::start(TestHost::new().config(both.clone())).await;
    clients.gateway.host.ready("mail").await;
    let (bob, path) = (clients.bob("/mcp"), "/servers/mail/mcp");
    let session = clients.ada(path).start_session().await;
    let kept = clients.ada("/servers/files/mcp").start_session().await;
    let mut standing = session.get().await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = clients.ada(path).open_request("subscriptions/listen", wanted).await;
    listening.message().await.unwrap();
    let call = json!({ "name": "test_elicitation", "arguments": { "message": "Who?" } });
    let asked = clients.ada(path).ask("tools/call", call).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!((metric(&bob, "toolway_sessions").await, metric(&bob, "toolway_parked_calls").await), (2, 1));

    clients.gateway.host.host.reload(&configured(&[("files", &stays)])).unwrap();

    while standing.message().await.is_some() {}
    while listening.message().await.is_some() {}
    until(&bob, "toolway_sessions", 1).await;
    until(&bob, "toolway_parked_calls", 0).await;
    let ping = request(1, "ping", json!({}));
    let refused = session.post(&ping).await;
    assert_eq!(refused.status, 404);
    assert_eq!(refused.text().await, "unknown server");
    assert_eq!(kept.post(&ping).await.status, 200);
    // A server of the same name added later is a new one.
    clients.gateway.host.host.reload(&both).unwrap();
    clients.gateway.host.ready("mail").await;
    let refused = session.post(&ping).await;
    assert_eq!(refused.status, 404);
    assert!(refused.text().await.contains("begin a new one"));
    clients.ada(path).start_session().await;
}
