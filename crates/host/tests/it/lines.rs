//! Callers who must not share a connection: each is asked only what is theirs, a server is never told of a caller what is
//! not so, and nothing that was begun for somebody is left behind.

mod ending;
mod hearing;
mod queueing;
mod standing;

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_config::server::Sharing;
use toolway_host::{
    call::{CallHappening, CallOutcome, CallRequest, Caller, Relay, Target},
    catalog::Origin,
    connection::{LineStatus, ServerStatus, WantedServer, Way},
    record::Ending,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    exchange::{Answer, Ask, LogLevel},
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

/// A call of one of its clients, whose side can be asked this.
fn call_of(client: &str, tool: &str, capabilities: &Value) -> CallRequest {
    let origin = Origin { server: name("files"), raw_name: tool.to_owned() };
    let capabilities = Some(ClientCapabilities(Raw::of(capabilities)));
    CallRequest { capabilities, ..CallRequest::new(Caller::Client(client.into()), Target::ToolOf(origin)) }
}

/// Goes on until the server asks something.
async fn asked(relay: &mut Relay) -> Ask {
    let asked = async {
        loop {
            match relay.next().await {
                Some(CallHappening::Ask(ask)) => return ask,
                Some(CallHappening::Ended(outcome)) => panic!("not asked: {outcome} {:?}", outcome.result()),
                Some(_) => {}
                None => panic!("over"),
            }
        }
    };
    within("a question", asked).await
}

/// Goes on to the end; nothing more is asked.
async fn ended(mut relay: Relay) -> CallOutcome {
    let ended = async {
        loop {
            match relay.next().await {
                Some(CallHappening::Ended(outcome)) => return outcome,
                Some(CallHappening::Ask(ask)) => panic!("asked again: {ask:?}"),
                Some(_) => {}
                None => panic!("over"),
            }
        }
    };
    within("the end", ended).await
}

fn answer(ask: Ask, who: &str) {
    ask.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": { "name": who } }))));
}

fn said(outcome: &CallOutcome) -> String {
    outcome.result().map(ToString::to_string).unwrap_or_else(|| outcome.to_string())
}

fn owners(status: &ServerStatus) -> Vec<String> {
    status.lines.iter().map(|line: &LineStatus| line.caller.to_string()).collect()
}

#[tokio::test]
async fn two_clients_are_asked_each_their_own_over_every_transport() {
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
        let (for_ada, for_ben) = (asked(&mut ada).await, asked(&mut ben).await);
        answer(for_ben, "Ben");
        answer(for_ada, "Ada");
        let (ada, ben) = (said(&ended(ada).await), said(&ended(ben).await));
        assert!(ada.contains("Ada") && ben.contains("Ben"), "{transport:?}: {ada} {ben}");
        let cleo = said(&within("the end", async { cleo.next().await }).await.map_or_else(
            || panic!("over"),
            |happening| match happening {
                CallHappening::Ended(outcome) => outcome,
                other => panic!("{transport:?}: {other:?}"),
            },
        ));
        assert!(cleo.contains("nobody: "), "{transport:?}: {cleo}");
        assert_eq!(owners(&host.status("files")), ["client ada", "client ben", "client cleo"], "{transport:?}");
        within("the shutdown", host.host.shutdown()).await;
    }
}

#[tokio::test]
async fn a_server_is_told_of_each_caller_what_is_so() {
    let files = files();
    let fixture = files.over_http(Some(Era::Legacy)).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &fixture.url())).start().await;
    host.ready("files").await;
    let all = json!({ "roots": {}, "sampling": { "tools": {} }, "elicitation": { "form": {}, "url": {} } });
    for (client, said) in [("ada", all.clone()), ("ben", forms()), ("cleo", json!({})), ("ada", forms())] {
        assert_eq!(host.call_of(call_of(client, "echo", &said)).await.ending(), Ending::Answered);
        let seen = files.seen("tools/call").pop().unwrap();
        let told: Value = seen.capabilities.unwrap().0.read().unwrap();
        assert_eq!(told, said, "{client}");
    }
    // Whoever works on this machine has the first connection, which was told what the host's own ports can do.
    assert_eq!(host.call("files__echo").await.ending(), Ending::Answered);
    let told: Value = files.seen("tools/call").pop().unwrap().capabilities.unwrap().0.read().unwrap();
    assert_eq!(told, json!({}));
    assert_eq!(owners(&host.status("files")), ["client ada", "client ben", "client cleo", "client ada"]);
    assert_eq!(host.call_of(call_of("ada", "echo", &all)).await.ending(), Ending::Answered);
    assert_eq!(host.status("files").lines.len(), 4, "the line that is there is used");
}

#[tokio::test]
async fn a_server_that_is_told_with_each_request_needs_no_lines() {
    let files = files();
    let fixture = files.over_http(Some(Era::Modern)).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &fixture.url())).start().await;
    host.ready("files").await;
    let mut ada = host.host.open(call_of("ada", "greet", &forms()));
    answer(asked(&mut ada).await, "Ada");
    assert!(said(&ended(ada).await).contains("Ada"));
    assert_eq!(host.call_of(call_of("ben", "echo", &json!({}))).await.ending(), Ending::Answered);
    assert!(host.status("files").lines.is_empty());
}

#[tokio::test]
async fn the_operator_says_who_shares() {
    let files = files();
    for (sharing, lines) in [(Sharing::Caller, 2), (Sharing::Shared, 0), (Sharing::Session, 3)] {
        let host = TestHost::new().wanted(WantedServer { sharing, ..in_sessions(&files) }).start().await;
        host.ready("files").await;
        for (client, session) in [("ada", "1"), ("ada", "2"), ("ben", "1"), ("ada", "1")] {
            let request = call_of(client, "echo", &json!({}));
            let outcome = host.call_of(CallRequest { session: Some(Arc::from(session)), ..request }).await;
            assert_eq!(outcome.ending(), Ending::Answered, "{sharing:?}: {outcome}");
        }
        assert_eq!(host.status("files").lines.len(), lines, "{sharing:?}");
        // Whoever can be asked shares with nobody.
        let mut ada = host.host.open(call_of("ada", "greet", &forms()));
        answer(asked(&mut ada).await, "Ada");
        assert!(said(&ended(ada).await).contains("Ada"));
        assert_eq!(host.status("files").lines.len(), lines + 1, "{sharing:?}");
    }
}

/// The log levels that were asked for.
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

/// What a server was told in answer to its questions.
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
async fn a_line_logs_as_much_as_the_most_curious_of_its_calls_wants() {
    let mut builder = TestHost::new().wanted(in_sessions(&files()));
    let levels = Arc::new(Levels::default());
    let tap = Arc::clone(&levels);
    builder.options.tap = Some(Arc::new(move |_| tap.clone()));
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
        assert_eq!(host.call_of(request).await.ending(), Ending::Answered);
    }
    assert_eq!(*levels.0.lock(), ["warning", "debug", "error"]);
}
