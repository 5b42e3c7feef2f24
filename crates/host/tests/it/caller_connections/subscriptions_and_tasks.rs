//! Subscriptions and tasks use the connection of their caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolway_config::{Config, document::Document, server::Sharing};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, CallerContext, ResourceUpdate, Target},
    connection::WantedServer,
    policy::ApprovalAnswer,
    record::CallState,
};
use toolway_testkit::{
    odd::{
        compliant::{self, SupportedEras},
        http::{Act, OddHttp, RecordedRequest, Reply, compliant_http, event},
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{json::Raw, message::ClientCapabilities, task::TaskDetail};

use super::{call_of, files, forms, in_sessions, server_request};
use crate::fixtures;

fn ada() -> CallerContext {
    let capabilities = Some(ClientCapabilities(Raw::of(&forms())));
    CallerContext { capabilities, ..CallerContext::from(&Caller::Client("ada".into())) }
}

fn one() -> Target {
    Target::Resource("files://one".to_owned())
}

#[tokio::test]
async fn subscription_uses_the_connection_of_its_caller_and_follows_a_reconnect() {
    let server = WantedServer {
        idle_stop: Some(Duration::from_millis(300)),
        ..fixtures::process("files", &["--era", "legacy"])
    };
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    let mut updates = host.host.subscribe(ada(), one()).await.unwrap();
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.state(), CallState::Succeeded);
    // Longer than the idle time.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let connections = host.status("files").caller_connections;
    assert_eq!(connections.iter().map(|connection| connection.calls).collect::<Vec<_>>(), [1]);
    let process = connections[0].process.unwrap();
    fixtures::kill(process);
    assert!(matches!(within("another one", updates.next()).await, Some(ResourceUpdate::Resumed)));
    let again = host.status("files").caller_connections[0].process.unwrap();
    assert_ne!(again, process);
    drop(updates);
    within("the end of a process", fixtures::gone(again)).await;
    within("the shutdown", host.host.shutdown()).await;
}

/// A configuration with one rule.
fn policy(then: &str) -> Config {
    let text = format!(r#"{{"policy": {{"rules": [{{"match": {{"kind": "resource"}}, "then": "{then}"}}]}}}}"#);
    Config::of(&Document::of("/toolway.json".as_ref(), &text).unwrap(), None).unwrap()
}

#[tokio::test]
async fn subscription_is_decided_again_after_a_reconnect() {
    let server = fixtures::process("files", &["--era", "legacy"]);
    let host = TestHost::new().config(policy("ask")).wanted(server).start().await;
    host.ready("files").await;
    host.answering(ApprovalAnswer::approved("test"));
    let mut updates = host.host.subscribe(ada(), one()).await.unwrap();
    let process = || host.status("files").caller_connections[0].process.unwrap();
    fixtures::kill(process());
    assert!(matches!(within("another one", updates.next()).await, Some(ResourceUpdate::Resumed)));
    assert_eq!(host.asked().len(), 1, "an approval holds as long as the subscription");
    host.host.reload(&policy("deny")).unwrap();
    fixtures::kill(process());
    assert!(within("the end", updates.next()).await.is_none());
    let records: Vec<_> = host.records().iter().map(|record| (record.name.clone(), record.state)).collect();
    let record = |ending| ("resources/subscribe".to_owned(), ending);
    assert_eq!(records, [record(CallState::Succeeded), record(CallState::Refused)]);
}

#[tokio::test]
async fn subscriber_receives_updates() {
    let files = files();
    let host = TestHost::new().wanted(in_sessions(&files)).start().await;
    host.ready("files").await;
    let mut updates = host.host.subscribe(ada(), one()).await.unwrap();
    files.touch("files://one");
    let update = within("an update", updates.next()).await;
    assert!(matches!(update, Some(ResourceUpdate::Changed { uri, .. }) if uri == "files://one"));
    host.host.disconnect(&name("files")).await.unwrap();
    assert!(within("the end", updates.next()).await.is_none());
}

#[tokio::test]
async fn ended_session_closes_its_connections() {
    let files = files();
    let host = TestHost::new().wanted(WantedServer { sharing: Sharing::Session, ..in_sessions(&files) }).start().await;
    host.ready("files").await;
    for session in ["1", "2"] {
        let request = CallRequest { session: Some(Arc::from(session)), ..call_of("ada", "echo", &forms()) };
        assert_eq!(host.call_of(request).await.state(), CallState::Succeeded);
    }
    host.host.end_session(&Caller::Client("ben".into()), "1");
    assert_eq!(host.status("files").caller_connections.len(), 2);
    host.host.end_session(&Caller::Client("ada".into()), "1");
    assert_eq!(host.status("files").caller_connections.len(), 1);
}

/// A server with sessions. The tool `odd` sends a request and never ends; a task is known in its own session only.
async fn task_server() -> OddHttp {
    let sessions = AtomicUsize::new(0);
    let task = json!({
        "taskId": "t1", "status": "working", "ttl": 60_000,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
    });
    let odd = OddHttp::start(move |seen| match (seen.method(), seen.tool()) {
        ("initialize", _) => {
            let capabilities = json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } });
            let mut result = compliant::initialized(compliant::LEGACY);
            result["capabilities"] = capabilities;
            let session = format!("s{}", sessions.fetch_add(1, Ordering::Relaxed));
            Reply::json(200, &compliant::answered(seen.id(), &result)).header("Mcp-Session-Id", session)
        }
        (_, "odd") => {
            let request = json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } });
            let request = compliant::request(&json!("q"), "elicitation/create", &request);
            Reply::events(event(&request)).then(Act::Hang)
        }
        ("tools/call", _) => Reply::json(200, &compliant::answered(seen.id(), &json!({ "task": task }))),
        ("tasks/get", _) => Reply::json(200, &compliant::answered(seen.id(), &task)),
        _ => compliant_http(SupportedEras::Legacy, seen),
    });
    odd.await.unwrap()
}

#[tokio::test]
async fn task_requests_use_the_connection_of_the_task() {
    let odd = task_server().await;
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    host.ready("files").await;
    let mut parked = host.host.open(call_of("ada", "odd", &forms()));
    let _ask = server_request(&mut parked).await;
    let method = |method: &str, params| {
        let target = Target::Method { server: name("files"), method: method.to_owned() };
        CallRequest { target, arguments: Some(Raw::of(&params)), ..call_of("ada", "", &forms()) }
    };
    let request = method("tools/call", json!({ "name": "hello", "task": { "ttl": 60_000 } }));
    let outcome = host.call_of(request).await;
    assert!(matches!(&outcome, CallOutcome::HandedOff(task) if task.id == "t1"), "{outcome}");
    let session_of = |matches: &dyn Fn(&RecordedRequest) -> bool| {
        let seen = odd.seen().into_iter().rfind(|seen| matches(seen)).unwrap();
        seen.header("Mcp-Session-Id").unwrap().to_owned()
    };
    let began = session_of(&|seen| seen.tool() == "hello");
    assert_ne!(began, session_of(&|seen| seen.tool() == "odd"));
    assert_eq!(host.call_of(method("tasks/get", json!({ "taskId": "t1" }))).await.state(), CallState::Succeeded);
    assert_eq!(session_of(&|seen| seen.method() == "tasks/get"), began);

    let tasks = host.host.tasks(ada(), &name("files"), Some("t1")).await.unwrap();
    let before = odd.seen().len();
    assert_eq!(tasks.tasks().get("t1", TaskDetail::Status).await.unwrap().id, "t1");
    assert_eq!(session_of(&|seen| seen.method() == "tasks/get"), began);
    assert!(before < odd.seen().len());
    // Another caller does not reach the session of the task.
    let bens = CallerContext { caller: Caller::Client("ben".into()), ..ada() };
    let tasks = host.host.tasks(bens, &name("files"), Some("t1")).await.unwrap();
    drop(tasks.tasks().get("t1", TaskDetail::Status).await);
    assert_ne!(session_of(&|seen| seen.method() == "tasks/get"), began);
}
