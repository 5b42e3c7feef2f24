//! What is left of somebody who has left, or was sent away: nothing, here and at the servers.

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
    fairness::Two,
    knocking::{Knocker, request, with_meta},
    over_http::OverHttp,
    tap::Tap,
};

const PATHS: [(&str, &str); 2] = [("/mcp", "files__"), ("/servers/files/mcp", "")];

/// A server that keeps tasks on its own, and everything that reaches it.
async fn keeper() -> (OverHttp, Tap, TestHostBuilder) {
    let server = OverHttp::serve(Revision::V2026_07_28).await;
    let tap = Tap::before(&format!("http://{}/mcp", server.address)).await;
    let address = ServerAddress::http(tap.url().parse().unwrap());
    let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
    (server, tap, builder)
}

async fn told(tap: &Tap, what: &str) {
    within(what, async {
        while !tap.seen().contains(what) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn begun(session: &Knocker, tool: String, arguments: Value) -> Value {
    let call = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 600_000 } });
    let made = session.post(&request(1, "tools/call", call)).await.answer().await;
    assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
    made
}

async fn figure(knocker: &Knocker, name: &str) -> usize {
    let figures = knocker.at("/metrics").get().await.text().await;
    let line = figures.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).map(str::to_owned);
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {figures}"))
}

async fn until(knocker: &Knocker, name: &str, wanted: usize) {
    within(name, async {
        while figure(knocker, name).await != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn tasks_that_are_kept_for_a_client_end_with_its_key() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let two = Two::start(TestHost::with(&files, "files")).await;
    let (ada, bob) = (two.ada("/mcp").begun().await, two.bob("/mcp").begun().await);
    for session in [&ada, &bob] {
        begun(session, "files__wait".to_owned(), json!({})).await;
    }
    within("the calls", files.reached("tools/call", 2)).await;
    assert_eq!(figure(&bob, "toolway_hosted_tasks").await, 2);
    two.file.revoke("ada").unwrap();
    within("the server to hear of it", files.left(1)).await;
    until(&bob, "toolway_hosted_tasks", 1).await;
    until(&bob, "toolway_calls_under_way", 1).await;
    // What is kept for others goes on.
    assert_eq!(files.cancelled(), 1);
}

#[tokio::test]
async fn tasks_that_are_kept_for_a_client_end_with_the_time_of_its_key() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let two = Two::start(TestHost::with(&files, "files")).await;
    let key = two.file.add("guest", Some(Duration::from_secs(2)), None).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let guest = two.stage.knocker("/mcp", Some(key.expose())).begun().await;
    begun(&guest, "files__wait".to_owned(), json!({})).await;
    within("the call", files.reached("tools/call", 1)).await;
    within("the server to hear of it", files.left(1)).await;
    until(&two.bob("/mcp"), "toolway_hosted_tasks", 0).await;
}

#[tokio::test]
async fn a_servers_task_that_nobody_but_us_knows_of_is_stopped_when_its_caller_leaves() {
    for (way, path, prefix) in [("stateless", "/mcp", "files__"), ("kept", "/mcp", "files__"), ("kept", PATHS[1].0, "")]
    {
        let (_server, tap, builder) = keeper().await;
        let two = Two::start(builder).await;
        let tool = format!("{prefix}slow_compute");
        let arguments = json!({ "seconds": 600 });
        match way {
            "stateless" => {
                let caller = two.ada(path);
                let call = json!({ "name": tool, "arguments": arguments });
                let calling = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
                    drop(caller.ask("tools/call", call).await);
                }));
                told(&tap, "tasks/get").await;
                drop(calling);
            }
            _ => {
                let session = two.ada(path).begun().await;
                let made = begun(&session, tool, arguments).await;
                told(&tap, "tasks/get").await;
                let id = &made["result"]["task"]["taskId"];
                let cancelled = session.post(&request(2, "tasks/cancel", json!({ "taskId": id }))).await.answer().await;
                assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
            }
        }
        told(&tap, "tasks/cancel").await;
        until(&two.bob(path), "toolway_calls_under_way", 0).await;
    }
}

#[tokio::test]
async fn a_servers_task_that_is_kept_for_a_client_is_stopped_when_its_key_is_taken_back() {
    let (_server, tap, builder) = keeper().await;
    let two = Two::start(builder).await;
    let session = two.ada("/mcp").begun().await;
    begun(&session, "files__slow_compute".to_owned(), json!({ "seconds": 600 })).await;
    told(&tap, "tasks/get").await;
    two.file.revoke("ada").unwrap();
    told(&tap, "tasks/cancel").await;
    until(&two.bob("/mcp"), "toolway_hosted_tasks", 0).await;
    until(&two.bob("/mcp"), "toolway_calls_under_way", 0).await;
}

/// What a stateless request of somebody who takes tasks gives.
async fn taking_tasks(knocker: &Knocker, method: &str, params: Value) -> Value {
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
    knocker.send("POST", &headers, message.to_string()).await.answer().await
}

/// A name is the operator's to give again, to somebody else even: what was sealed for one key is for no other.
#[tokio::test]
async fn a_task_of_a_key_that_was_taken_back_is_not_that_of_another_key_of_the_same_name() {
    for (path, prefix) in PATHS {
        let (_server, _tap, builder) = keeper().await;
        let two = Two::start(builder).await;
        let call = json!({ "name": format!("{prefix}slow_compute"), "arguments": { "seconds": 600 } });
        let made = taking_tasks(&two.ada(path), "tools/call", call).await;
        let task = json!({ "taskId": made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")) });
        let looked = taking_tasks(&two.ada(path), "tasks/get", task.clone()).await;
        assert_eq!(looked["result"]["status"], "working", "{path}: {looked}");
        two.file.revoke("ada").unwrap();
        let key = two.file.add("ada", None, None).unwrap();
        let ada = two.stage.knocker(path, Some(key.expose()));
        within("the new key", async {
            while ada.ask("tools/list", json!({})).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        for method in ["tasks/get", "tasks/cancel"] {
            let refused = taking_tasks(&ada, method, task.clone()).await;
            assert_eq!(refused["error"]["code"], -32602, "{path} {method}: {refused}");
        }
    }
}

/// Somebody with a key that was made just now, as soon as it is let in.
async fn newly(two: &Two, name: &str, path: &str) -> Knocker {
    let key = two.file.add(name, None, None).unwrap();
    let knocker = two.stage.knocker(path, Some(key.expose()));
    within("the new key", async {
        while knocker.at("/servers").get().await.status != 200 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    knocker
}

/// Where a server has one connection for all and lists the tasks of all, each sees what is theirs: a key, not a name.
#[tokio::test]
async fn tasks_on_a_shared_connection_are_not_those_of_another_key_of_the_same_name() {
    for (path, prefix) in PATHS {
        let server = OverHttp::serve(Revision::V2025_11_25).await;
        let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
        let wanted = WantedServer::new(name("files"), Way::Address(address));
        let two = Two::start(TestHost::new().wanted(WantedServer { sharing: Sharing::Shared, ..wanted })).await;
        let listed = async |session: &Knocker| {
            let page = session.post(&request(2, "tasks/list", json!({}))).await.answer().await;
            page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).len()
        };
        let (ada, bob) = (two.ada(path).begun_saying(json!({})).await, two.bob(path).begun_saying(json!({})).await);
        for session in [&ada, &bob] {
            begun(session, format!("{prefix}slow_compute"), json!({ "seconds": 600 })).await;
            assert_eq!(listed(session).await, 1, "{path}");
        }
        assert!(two.stage.host.status("files").lines.is_empty(), "{path}: all share");
        two.file.revoke("ada").unwrap();
        let ada = newly(&two, "ada", path).await.begun_saying(json!({})).await;
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

/// A process of its own, or a session, is kept for a client; without the client it is not.
#[tokio::test]
async fn connections_that_are_kept_for_a_client_end_with_its_key() {
    let server = OverHttp::serve(Revision::V2025_11_25).await;
    let tap = Tap::before(&format!("http://{}/mcp", server.address)).await;
    let address = ServerAddress::http(tap.url().parse().unwrap());
    let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
    let two = Two::start(builder).await;
    let called = async |knocker: &Knocker| {
        // A new key is let in a moment after it was made.
        let call = json!({ "name": "files__test_simple_text" });
        let mut answer = knocker.ask("tools/call", call.clone()).await;
        while answer.status == 401 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer = knocker.ask("tools/call", call.clone()).await;
        }
        let called = answer.answer().await;
        assert_eq!(called["result"]["resultType"], "complete", "{called}");
    };
    called(&two.ada("/mcp")).await;
    called(&two.bob("/mcp")).await;
    assert_eq!(two.stage.host.status("files").lines.len(), 2);
    two.file.revoke("ada").unwrap();
    // Whoever is given her name is not given her line, however soon they come.
    let ada = two.stage.knocker("/mcp", Some(two.file.add("ada", None, None).unwrap().expose()));
    within("the new key", called(&ada)).await;
    let lines = || two.stage.host.status("files").lines.len();
    within("the end of her line", async {
        while lines() != 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // Nor is what they have ended with what she had.
    tokio::time::sleep(Duration::from_millis(800)).await;
    called(&ada).await;
    let sessions = sessions_of_calls(&tap);
    let [old, bobs, new, again] = &sessions[..] else { panic!("{sessions:?}") };
    assert!(old != new && bobs != new && new == again, "{sessions:?}");
    two.file.revoke("ada").unwrap();
    within("the end of their line", async {
        while lines() != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A question waits for as long as the operator says, in either era; then nothing of its call is left anywhere.
#[tokio::test]
async fn a_call_whose_question_nobody_answers_in_time_is_given_up_on_both_sides() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = OverHttp::serve(revision).await;
        let tap = Tap::before(&format!("http://{}/mcp", server.address)).await;
        let address = ServerAddress::http(tap.url().parse().unwrap());
        let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
        let answer_within = Duration::from_millis(500);
        let two = Two::with(builder, |options| GatewayOptions { answer_within, ..options }).await;
        let (ada, bob) = (two.ada("/mcp"), two.bob("/mcp"));
        let call = json!({ "name": "files__test_elicitation", "arguments": { "message": "Who?" } });

        let asked = ada.asked("tools/call", call.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        until(&bob, "toolway_parked_calls", 0).await;
        until(&bob, "toolway_calls_under_way", 0).await;
        // The question is answered in its own words, or the call is called off: in either case the server is told.
        if revision == Revision::V2025_11_25 {
            told(&tap, r#""action":"cancel""#).await;
        }
        let lines = || two.stage.host.status("files").lines;
        assert!(lines().iter().all(|line| line.calls == 0 && line.parked == 0), "{:?}", lines());
        let mut retry = call.clone();
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry["inputResponses"] = json!({ key: { "action": "accept", "content": { "username": "ada" } } });
        let calls = |tap: &Tap| tap.seen().matches("test_elicitation").count();
        let before = calls(&tap);
        let refused = ada.asked("tools/call", retry).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert_eq!(refused["result"]["content"][0]["text"], "interaction expired, call again");
        assert_eq!(calls(&tap), before, "nothing was called again");

        // With a session the question stands on its stream, and is called off there.
        let session = ada.clone().begun().await;
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

/// What was open at a server's own path ends when the configuration no longer has it.
#[tokio::test]
async fn the_path_of_a_server_that_is_no_longer_configured_is_gone_with_all_that_was_open_there() {
    let (stays, goes) = (OverHttp::serve(Revision::V2025_11_25).await, OverHttp::serve(Revision::V2025_11_25).await);
    let both = configured(&[("files", &stays), ("mail", &goes)]);
    let two = Two::start(TestHost::new().config(both.clone())).await;
    two.stage.host.ready("mail").await;
    let (bob, path) = (two.bob("/mcp"), "/servers/mail/mcp");
    let session = two.ada(path).begun().await;
    let kept = two.ada("/servers/files/mcp").begun().await;
    let mut standing = session.get().await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = two.ada(path).ask("subscriptions/listen", wanted).await;
    listening.message().await.unwrap();
    let call = json!({ "name": "test_elicitation", "arguments": { "message": "Who?" } });
    let asked = two.ada(path).asked("tools/call", call).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!((figure(&bob, "toolway_sessions").await, figure(&bob, "toolway_parked_calls").await), (2, 1));

    two.stage.host.host.reload(&configured(&[("files", &stays)])).unwrap();

    while standing.message().await.is_some() {}
    while listening.message().await.is_some() {}
    until(&bob, "toolway_sessions", 1).await;
    until(&bob, "toolway_parked_calls", 0).await;
    let ping = request(1, "ping", json!({}));
    let refused = session.post(&ping).await;
    assert_eq!(refused.status, 404);
    assert_eq!(refused.text().await, "there is no such server");
    assert_eq!(kept.post(&ping).await.status, 200);
    // One of the same name later is another.
    two.stage.host.host.reload(&both).unwrap();
    two.stage.host.ready("mail").await;
    let refused = session.post(&ping).await;
    assert_eq!(refused.status, 404);
    assert!(refused.text().await.contains("begin a new one"));
    two.ada(path).begun().await;
}
