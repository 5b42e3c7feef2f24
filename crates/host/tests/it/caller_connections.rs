//! Connections reserved for callers: server requests reach the caller they belong to, capabilities are declared per
//! caller, and no connection is left behind.

mod ending;
mod first_listing;
mod processes;
mod queueing;
mod subscriptions_and_tasks;

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_config::server::Sharing;
use toolway_host::{
    call::{CallEvent, CallOutcome, CallRequest, Caller, Relay, Target},
    catalog::Origin,
    connection::{CallerConnectionStatus, ServerStatus, WantedServer, Way},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    exchange::{Answer, LogLevel, ServerRequest},
    json::Raw,
    message::ClientCapabilities,
    revision::Era,
    up::{EraChoice, transport::Outbound},
};

use crate::fixtures;

fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool("echo", "Say something back")
        .tool_that("greet", "Greet", Behaviour::Greet)
        .tool_that("wait", "Wait", Behaviour::Wait)
}

/// The server in this process, with sessions.
fn in_sessions(files: &FixtureServer) -> WantedServer {
    let server = WantedServer::new(name("files"), Way::InProcess(files.service()));
    WantedServer { era: EraChoice::Legacy, ..server }
}

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// A call of a client with these capabilities.
fn call_of(client: &str, tool: &str, capabilities: &Value) -> CallRequest {
    let origin = Origin { server: name("files"), raw_name: tool.to_owned() };
    let capabilities = Some(ClientCapabilities(Raw::of(capabilities)));
    CallRequest { capabilities, ..CallRequest::new(Caller::Client(client.into()), Target::ToolOf(origin)) }
}

/// Waits for the next server request.
async fn server_request(relay: &mut Relay) -> ServerRequest {
    let request = async {
        loop {
            match relay.next().await {
                Some(CallEvent::ServerRequest(ask)) => return ask,
                Some(CallEvent::Ended(outcome)) => panic!("no server request: {outcome} {:?}", outcome.result()),
                Some(_) => {}
                None => panic!("over"),
            }
        }
    };
    within("a server request", request).await
}

/// Waits for the end, without further server requests.
async fn outcome_of(mut relay: Relay) -> CallOutcome {
    let outcome = async {
        loop {
            match relay.next().await {
                Some(CallEvent::Ended(outcome)) => return outcome,
                Some(CallEvent::ServerRequest(ask)) => panic!("another server request: {ask:?}"),
                Some(_) => {}
                None => panic!("over"),
            }
        }
    };
    within("the end", outcome).await
}

fn answer(ask: ServerRequest, who: &str) {
    ask.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": { "name": who } }))));
}

fn said(outcome: &CallOutcome) -> String {
    outcome.result().map(ToString::to_string).unwrap_or_else(|| outcome.to_string())
}

fn owners(status: &ServerStatus) -> Vec<String> {
    status.caller_connections.iter().map(|connection: &CallerConnectionStatus| connection.caller.to_string()).collect()
}

#[tokio::test]
async fn server_requests_reach_their_own_client_over_every_transport() {
    let files = files();
    let fixture = files.over_http(Some(Era::Legacy)).await.unwrap();
    for server in [
        in_sessions(&files),
        fixtures::address("files", &fixture.url()),
        fixtures::process("files", &["--era", "legacy", "--asks"]),
    ] {
        let host = TestHost::new().wanted(server).start().await;
        let transport = host.ready("files").await.transport;
        let mut ada = host.host.open(call_of("ada", "greet", &forms()));
        let mut ben = host.host.open(call_of("ben", "greet", &forms()));
        let mut cleo = host.host.open(call_of("cleo", "greet", &json!({})));
        let (for_ada, for_ben) = (server_request(&mut ada).await, server_request(&mut ben).await);
        answer(for_ben, "Ben");
        answer(for_ada, "Ada");
        let (ada, ben) = (said(&outcome_of(ada).await), said(&outcome_of(ben).await));
        assert!(ada.contains("Ada") && ben.contains("Ben"), "{transport:?}: {ada} {ben}");
        let cleo = said(&within("the end", async { cleo.next().await }).await.map_or_else(
            || panic!("over"),
            |event| match event {
                CallEvent::Ended(outcome) => outcome,
                other => panic!("{transport:?}: {other:?}"),
            },
        ));
        assert!(cleo.contains("no answer: "), "{transport:?}: {cleo}");
        assert_eq!(owners(&host.status("files")), ["client ada", "client ben", "client cleo"], "{transport:?}");
        within("the shutdown", host.host.shutdown()).await;
    }
}

#[tokio::test]
async fn server_receives_the_capabilities_of_each_caller() {
    let files = files();
    let fixture = files.over_http(Some(Era::Legacy)).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &fixture.url())).start().await;
    host.ready("files").await;
    let all = json!({ "roots": {}, "sampling": { "tools": {} }, "elicitation": { "form": {}, "url": {} } });
    for (client, said) in [("ada", all.clone()), ("ben", forms()), ("cleo", json!({})), ("ada", forms())] {
        assert_eq!(host.call_of(call_of(client, "echo", &said)).await.state(), CallState::Succeeded);
        let seen = files.seen("tools/call").pop().unwrap();
        let told: Value = seen.capabilities.unwrap().0.read().unwrap();
        assert_eq!(told, said, "{client}");
    }
    // Local callers use the shared connection, which declares the capabilities of the host's ports.
    assert_eq!(host.call("files__echo").await.state(), CallState::Succeeded);
    let told: Value = files.seen("tools/call").pop().unwrap().capabilities.unwrap().0.read().unwrap();
    assert_eq!(told, json!({}));
    assert_eq!(owners(&host.status("files")), ["client ada", "client ben", "client cleo", "client ada"]);
    assert_eq!(host.call_of(call_of("ada", "echo", &all)).await.state(), CallState::Succeeded);
    assert_eq!(host.status("files").caller_connections.len(), 4, "the existing connection is reused");
}

#[tokio::test]
async fn server_with_capabilities_per_request_needs_no_caller_connections() {
    let files = files();
    let fixture = files.over_http(Some(Era::Modern)).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &fixture.url())).start().await;
    host.ready("files").await;
    let mut ada = host.host.open(call_of("ada", "greet", &forms()));
    answer(server_request(&mut ada).await, "Ada");
    assert!(said(&outcome_of(ada).await).contains("Ada"));
    assert_eq!(host.call_of(call_of("ben", "echo", &json!({}))).await.state(), CallState::Succeeded);
    assert!(host.status("files").caller_connections.is_empty());
}

#[tokio::test]
async fn sharing_setting_decides_which_callers_share() {
    let files = files();
    for (sharing, expected) in [(Sharing::Caller, 2), (Sharing::Shared, 0), (Sharing::Session, 3)] {
        let host = TestHost::new().wanted(WantedServer { sharing, ..in_sessions(&files) }).start().await;
        host.ready("files").await;
        for (client, session) in [("ada", "1"), ("ada", "2"), ("ben", "1"), ("ada", "1")] {
            let request = call_of(client, "echo", &json!({}));
            let outcome = host.call_of(CallRequest { session: Some(Arc::from(session)), ..request }).await;
            assert_eq!(outcome.state(), CallState::Succeeded, "{sharing:?}: {outcome}");
        }
        assert_eq!(host.status("files").caller_connections.len(), expected, "{sharing:?}");
        // A caller with capabilities does not share.
        let mut ada = host.host.open(call_of("ada", "greet", &forms()));
        answer(server_request(&mut ada).await, "Ada");
        assert!(said(&outcome_of(ada).await).contains("Ada"));
        assert_eq!(host.status("files").caller_connections.len(), expected + 1, "{sharing:?}");
    }
}

/// The requested log levels.
#[derive(Default)]
struct Levels(parking_lot::Mutex<Vec<String>>);

impl toolway_host::connection::tap::Tap for Levels {
    fn outgoing(&self, outbound: &Outbound) -> toolway_host::connection::tap::Passage {
        let message: Value = serde_json::from_slice(&outbound.message).unwrap();
        if message["method"] == "logging/setLevel" {
            self.0.lock().push(message["params"]["level"].as_str().unwrap().to_owned());
        }
        toolway_host::connection::tap::Passage::Pass
    }

    fn incoming(&self, _text: &bytes::Bytes) {}
}

/// The responses to server requests.
#[derive(Default)]
struct Answers(parking_lot::Mutex<Vec<Value>>);

impl toolway_host::connection::tap::Tap for Answers {
    fn outgoing(&self, outbound: &Outbound) -> toolway_host::connection::tap::Passage {
        let message: Value = serde_json::from_slice(&outbound.message).unwrap();
        if message.get("method").is_none() {
            self.0.lock().push(message);
        }
        toolway_host::connection::tap::Passage::Pass
    }

    fn incoming(&self, _text: &bytes::Bytes) {}
}

#[tokio::test]
async fn caller_connection_logs_at_the_most_verbose_requested_level() {
    let mut builder = TestHost::new().wanted(in_sessions(&files()));
    let levels = Arc::new(Levels::default());
    let tap = Arc::clone(&levels);
    builder.options.tap = Some(Arc::new(move |_, _| tap.clone()));
    let host = builder.start().await;
    host.ready("files").await;
    for (client, log_level) in [
        ("ada", None),
        ("ada", Some(LogLevel::Warning)),
        ("ada", Some(LogLevel::Error)),
        ("ada", Some(LogLevel::Debug)),
        ("ada", Some(LogLevel::Info)),
        ("ben", Some(LogLevel::Error)),
    ] {
        let request = CallRequest { log_level, ..call_of(client, "echo", &json!({})) };
        assert_eq!(host.call_of(request).await.state(), CallState::Succeeded);
    }
    assert_eq!(*levels.0.lock(), ["warning", "debug", "error"]);
}
