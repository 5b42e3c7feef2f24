//! Connecting and disconnecting servers, and their status.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::server::{Need, Standing, Start};
use toolway_host::{
    connection::{ConnectionCounts, DialError, Phase, StopReason, TransportKind, WantedServer, Way},
    event::StateEvent,
    keeper::CleanupGuarantee,
    record::CallState,
    whose_move::WhoseMove,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    odd::http::{OddHttp, Reply},
    test_host::{TestHost, name, within},
};
use toolway_wire::{error::WireError, revision::Era};

use crate::fixtures;

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("read", "Read")
}

fn lazy(server: &FixtureServer) -> WantedServer {
    WantedServer { start: Start::WhenNeeded, ..WantedServer::new(name("files"), Way::InProcess(server.service())) }
}

#[tokio::test]
async fn status_has_all_details_of_a_server() {
    let server = WantedServer {
        description: Some("All my files".to_owned()),
        source: "toolway.json:3".to_owned(),
        ..fixtures::process("files", &["--say", "here I am", "--era", "legacy"])
    };
    let host = TestHost::new().wanted(server).start().await;
    let status = host.ready("files").await;
    assert_eq!(status.phase, Phase::Ready);
    assert_eq!((status.transport, status.source.as_str()), (TransportKind::Stdio, "toolway.json:3"));
    assert_eq!(status.description.as_deref(), Some("All my files"));
    assert!(status.target.ends_with("stdio_fixture"));
    assert!(fixtures::runs(status.process.unwrap()));
    assert!(matches!(status.cleanup, Some(CleanupGuarantee::BestEffort { .. })));
    assert_eq!(status.stderr, ["here I am"]);
    assert!(status.uptime().is_some());
    let profile = status.profile.unwrap();
    assert_eq!(profile.era, Era::Legacy);
    assert_eq!(profile.instructions.as_deref(), Some("This is files."));
    assert!(profile.capabilities.has("tools") && profile.info.to_string().contains("files"));
    let counts = status.counts.unwrap();
    assert_eq!((counts.tools, counts.resources, counts.prompts), (4, 1, 1));
    assert!(status.last_error.is_none());
}

#[tokio::test]
async fn secrets_are_redacted_in_the_status() {
    let mut program = fixtures::program("files", &["--say", "my key is s3cret", "--crash"]);
    program.variables.insert("KEY".into(), "s3cret".into());
    let server =
        WantedServer::new(name("files"), Way::Address(toolway_host::connection::ServerAddress::Process(program)));
    let host = TestHost::new().wanted(server).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::Waiting { .. })).await;
    assert!(status.stderr.iter().any(|line| line == "my key is [hidden]"), "{:?}", status.stderr);
    assert!(!format!("{status:?}").contains("s3cret"), "{status:?}");
}

#[tokio::test]
async fn first_call_connects_a_lazy_server() {
    let files = files();
    let host = TestHost::new().wanted(lazy(&files)).start().await;
    assert_eq!(host.status("files").phase, Phase::Stopped(StopReason::NotNeededYet));
    tokio::task::yield_now().await;
    assert!(files.seen("tools/list").is_empty());
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    assert_eq!(host.status("files").phase, Phase::Ready);
}

#[tokio::test]
async fn idle_server_is_stopped_and_restarted_by_the_next_call() {
    let files = files();
    let server = WantedServer { idle_stop: Some(Duration::from_millis(100)), ..lazy(&files) };
    let host = TestHost::new().wanted(server).start().await;
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    host.until("files", |phase| *phase == Phase::Stopped(StopReason::Idle)).await;
    assert_eq!(host.host.catalog().tools().len(), 1, "what it offers is still offered");
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
}

#[tokio::test]
async fn server_with_a_subscription_is_not_idle() {
    let files = files();
    let server = WantedServer { idle_stop: Some(Duration::from_millis(50)), ..lazy(&files) };
    let host = TestHost::new().wanted(server).start().await;
    host.call("files__read").await.result().unwrap();
    let mut updates = host
        .host
        .subscribe(&toolway_host::call::Caller::Terminal, toolway_host::call::Target::Resource("files://one".into()))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(host.status("files").phase, Phase::Ready);
    files.touch("files://one");
    assert!(within("an update", updates.next()).await.is_some());
    drop(updates);
    host.until("files", |phase| *phase == Phase::Stopped(StopReason::Idle)).await;
}

#[tokio::test]
async fn undeclared_features_are_not_requested() {
    let files = files().declaring(json!({ "tools": {} }));
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    assert_eq!(files.seen("tools/list").len(), 1);
    for method in ["resources/list", "resources/templates/list", "prompts/list", "logging/setLevel"] {
        assert!(files.seen(method).is_empty(), "{method}");
    }
    let refused = host
        .host
        .subscribe(
            &toolway_host::call::Caller::Terminal,
            toolway_host::call::Target::Resource("toolway+files:files://one".into()),
        )
        .await;
    assert!(refused.is_err());
    assert!(files.seen("resources/subscribe").is_empty());
}

#[tokio::test]
async fn server_can_be_disconnected_connected_refreshed_and_toggled() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let server = name("files");

    let status = within("disconnecting", host.host.disconnect(&server)).await.unwrap();
    assert_eq!(status.phase, Phase::Stopped(StopReason::Disconnected));
    host.offers(&[]).await;
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.state(), CallState::Refused, "{outcome}");

    let status = within("connecting", host.host.connect(&server)).await.unwrap();
    assert_eq!(status.phase, Phase::Ready);
    host.offers(&["files__read"]).await;

    let listed = files.seen("tools/list").len();
    within("refreshing", host.host.refresh(&server)).await.unwrap();
    assert_eq!(files.seen("tools/list").len(), listed + 1);

    let status = within("reconnecting", host.host.reconnect(&server)).await.unwrap();
    assert_eq!(status.phase, Phase::Ready);
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);

    let status = within("disabling", host.host.toggle(&server, Standing::Disabled)).await.unwrap();
    assert_eq!(status.phase, Phase::Disabled);
    for refused in [host.host.connect(&server).await, host.host.reconnect(&server).await] {
        assert_eq!(refused.unwrap_err().to_string(), "server `files` is disabled");
    }
    assert_eq!(host.status("files").phase, Phase::Disabled, "only `toggle` enables it");
    assert_eq!(host.call("files__read").await.to_string(), "refused: server `files` is disabled");
    let status = within("enabling", host.host.toggle(&server, Standing::Enabled)).await.unwrap();
    assert_eq!(status.phase, Phase::Ready);

    // Enabling it again changes nothing and interrupts no call.
    let shaken = files.seen("server/discover").len();
    within("enabling again", host.host.toggle(&server, Standing::Enabled)).await.unwrap();
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    assert_eq!(files.seen("server/discover").len(), shaken);

    assert!(host.host.connect(&name("missing")).await.is_err());
}

#[tokio::test]
async fn missing_required_server_is_reported() {
    let broken = WantedServer {
        need: Need::Required,
        connect: Duration::from_millis(200),
        ..fixtures::process("broken", &["--hang"])
    };
    let files = files();
    let host = TestHost::with(&files, "files").wanted(broken).start().await;
    let missing = within("the required ones", host.host.wait_for_required()).await.unwrap_err();
    let names: Vec<_> = missing.iter().map(|status| status.server.to_string()).collect();
    assert_eq!(names, ["broken"]);
    assert!(missing[0].phase.for_operator().as_str().contains("within 200ms"), "{:?}", missing[0].phase);
}

#[tokio::test]
async fn missing_program_is_named_in_the_status() {
    let mut server = fixtures::process("files", &[]);
    server.way = Way::Address(toolway_host::connection::ServerAddress::Process(
        toolway_host::connection::Program::new("/nowhere/at-all"),
    ));
    let host = TestHost::new().wanted(server).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::Waiting { .. })).await;
    assert!(status.phase.for_operator().as_str().contains("/nowhere/at-all"), "{:?}", status.phase);
    assert_eq!(DialError::Configuration(String::new()).whose_move(), WhoseMove::Operator);
    assert_eq!(WhoseMove::after(&WireError::Ended(String::new())), WhoseMove::Supervisor);
}

#[tokio::test]
async fn server_that_requires_credentials_waits_for_a_sign_in() {
    let odd = OddHttp::start(|_| Reply::empty(401).header("WWW-Authenticate", "Bearer realm=\"files\"")).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::SignInRequired { .. })).await;
    let challenges = vec!["Bearer realm=\"files\"".to_owned()];
    assert_eq!(status.phase, Phase::SignInRequired { challenges, how: None });
    assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::User);
    let ConnectionCounts { attempts, failures, authorization_failures, .. } = host.status("files").connections;
    assert_eq!((attempts, failures), (1, 1));
    assert_eq!(authorization_failures, odd.seen().len() as u64, "each request was refused");
    let asked = odd.seen().len();
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.state(), CallState::Failed, "{outcome}");
    assert!(outcome.to_string().contains("sign-in required"), "{outcome}");
    assert_eq!(odd.seen().len(), asked, "it is not dialled again and again");
}

#[tokio::test]
async fn every_state_of_a_server_is_an_event() {
    let files = files();
    let host = TestHost::new().wanted(lazy(&files)).start().await;
    // The initial state is an event too; wait until the server task has sent it.
    host.host.set_log_level(&name("files"), toolway_wire::exchange::LogLevel::Info).await.unwrap();
    let mut events = host.host.listen_states();
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    within("disconnecting", host.host.disconnect(&name("files"))).await.unwrap();
    let mut words: Vec<String> = Vec::new();
    while let Some(event) = events.try_next() {
        if let StateEvent::Server(status) = event
            && words.last().is_none_or(|last| last != status.phase.word())
        {
            words.push(status.phase.word().to_owned());
        }
    }
    assert_eq!(words, ["connecting", "ready", "stopped"]);
    assert!(Arc::strong_count(&host.host.catalog()) >= 1);
}
