//! When a server is connected, what is known of it then, and who can change that.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::server::{Need, Standing, Start};
use toolway_host::{
    connection::{DialError, Phase, Stopped, TransportKind, WantedServer, Way},
    event::HostEvent,
    keeper::Custody,
    record::Ending,
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
async fn everything_that_is_known_of_a_server_is_in_its_status() {
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
    assert!(matches!(status.custody, Some(Custody::Weaker { .. })));
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
async fn a_secret_of_the_entry_is_in_no_status() {
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
async fn a_lazy_server_is_connected_by_the_first_call() {
    let files = files();
    let host = TestHost::new().wanted(lazy(&files)).start().await;
    assert_eq!(host.status("files").phase, Phase::Stopped(Stopped::NotNeededYet));
    tokio::task::yield_now().await;
    assert!(files.seen("tools/list").is_empty());
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    assert_eq!(host.status("files").phase, Phase::Ready);
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_the_next_call_has_it_back() {
    let files = files();
    let server = WantedServer { idle_stop: Some(Duration::from_millis(100)), ..lazy(&files) };
    let host = TestHost::new().wanted(server).start().await;
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    host.until("files", |phase| *phase == Phase::Stopped(Stopped::Idle)).await;
    assert_eq!(host.host.catalog().tools().len(), 1, "what it offers is still offered");
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
}

#[tokio::test]
async fn a_server_somebody_listens_to_is_not_idle() {
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
    host.until("files", |phase| *phase == Phase::Stopped(Stopped::Idle)).await;
}

#[tokio::test]
async fn what_a_server_did_not_declare_is_not_asked() {
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
async fn a_server_can_be_disconnected_connected_reconnected_refreshed_and_toggled() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let server = name("files");

    let status = within("disconnecting", host.host.disconnect(&server)).await.unwrap();
    assert_eq!(status.phase, Phase::Stopped(Stopped::Disconnected));
    host.offers(&[]).await;
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.ending(), Ending::Refused, "{outcome}");

    let status = within("connecting", host.host.connect(&server)).await.unwrap();
    assert_eq!(status.phase, Phase::Ready);
    host.offers(&["files__read"]).await;

    let listed = files.seen("tools/list").len();
    within("refreshing", host.host.refresh(&server)).await.unwrap();
    assert_eq!(files.seen("tools/list").len(), listed + 1);

    let status = within("reconnecting", host.host.reconnect(&server)).await.unwrap();
    assert_eq!(status.phase, Phase::Ready);
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);

    let status = within("disabling", host.host.toggle(&server, Standing::Disabled)).await.unwrap();
    assert_eq!(status.phase, Phase::Disabled);
    for refused in [host.host.connect(&server).await, host.host.reconnect(&server).await] {
        assert_eq!(refused.unwrap_err().to_string(), "the server `files` is disabled");
    }
    assert_eq!(host.status("files").phase, Phase::Disabled, "only switching it on does");
    assert_eq!(host.call("files__read").await.to_string(), "refused: the server `files` is disabled");
    let status = within("enabling", host.host.toggle(&server, Standing::Enabled)).await.unwrap();
    assert_eq!(status.phase, Phase::Ready);

    // Said again, it changes nothing: nobody's call is cut off.
    let shaken = files.seen("server/discover").len();
    within("enabling again", host.host.toggle(&server, Standing::Enabled)).await.unwrap();
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    assert_eq!(files.seen("server/discover").len(), shaken);

    assert!(host.host.connect(&name("nobody")).await.is_err());
}

#[tokio::test]
async fn a_required_server_that_is_not_there_is_named() {
    let broken = WantedServer {
        need: Need::Required,
        connect: Duration::from_millis(200),
        ..fixtures::process("broken", &["--hang"])
    };
    let files = files();
    let host = TestHost::with(&files, "files").wanted(broken).start().await;
    let missing = within("the required ones", host.host.required()).await.unwrap_err();
    let names: Vec<_> = missing.iter().map(|status| status.server.to_string()).collect();
    assert_eq!(names, ["broken"]);
    assert!(missing[0].phase.to_string().contains("within 200ms"), "{}", missing[0].phase);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_to_be_not_there() {
    let mut server = fixtures::process("files", &[]);
    server.way = Way::Address(toolway_host::connection::ServerAddress::Process(
        toolway_host::connection::Program::new("/nowhere/at-all"),
    ));
    let host = TestHost::new().wanted(server).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::Waiting { .. })).await;
    assert!(status.phase.to_string().contains("/nowhere/at-all"), "{}", status.phase);
    assert_eq!(DialError::Configuration(String::new()).whose_move(), WhoseMove::Operator);
    assert_eq!(WhoseMove::after(&WireError::Ended(String::new())), WhoseMove::Supervisor);
}

#[tokio::test]
async fn a_server_that_wants_credentials_waits_for_a_person_and_for_nothing_else() {
    let odd = OddHttp::start(|_| Reply::empty(401).header("WWW-Authenticate", "Bearer realm=\"files\"")).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::SignInNeeded { .. })).await;
    let challenges = vec!["Bearer realm=\"files\"".to_owned()];
    assert_eq!(status.phase, Phase::SignInNeeded { challenges, how: None });
    assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::User);
    let asked = odd.seen().len();
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.ending(), Ending::Failed, "{outcome}");
    assert!(outcome.to_string().contains("somebody has to sign in"), "{outcome}");
    assert_eq!(odd.seen().len(), asked, "it is not dialled again and again");
}

#[tokio::test]
async fn every_state_of_a_server_is_told() {
    let files = files();
    let host = TestHost::new().wanted(lazy(&files)).start().await;
    // The first state is told too, as soon as the server's task begins.
    host.host.set_log_level(&name("files"), toolway_wire::exchange::LogLevel::Info).await.unwrap();
    let mut events = host.host.events();
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    within("disconnecting", host.host.disconnect(&name("files"))).await.unwrap();
    let mut words: Vec<String> = Vec::new();
    while let Some(event) = events.try_next() {
        if let HostEvent::Server(status) = event
            && words.last().is_none_or(|last| last != status.phase.word())
        {
            words.push(status.phase.word().to_owned());
        }
    }
    assert_eq!(words, ["connecting", "ready", "stopped"]);
    assert!(Arc::strong_count(&host.host.catalog()) >= 1);
}
