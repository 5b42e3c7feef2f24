//! What is left of somebody who has left, or was sent away: nothing, here and at the servers.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::revision::Revision;

use crate::{
    fairness::Two,
    knocking::{Knocker, request},
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

/// A process of its own, or a session, is kept for a client; without the client it is not.
#[tokio::test]
async fn connections_that_are_kept_for_a_client_end_with_its_key() {
    let server = OverHttp::serve(Revision::V2025_11_25).await;
    let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
    let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
    let two = Two::start(builder).await;
    for knocker in [two.ada("/mcp"), two.bob("/mcp")] {
        let called = knocker.asked("tools/call", json!({ "name": "files__test_simple_text" })).await;
        assert_eq!(called["result"]["resultType"], "complete", "{called}");
    }
    assert_eq!(two.stage.host.status("files").lines.len(), 2);
    two.file.revoke("ada").unwrap();
    within("the end of her line", async {
        while two.stage.host.status("files").lines.len() != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
