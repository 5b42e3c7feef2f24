//! Plans: the difference between wanted and running servers.

use std::path::Path;

use toolway_config::{Config, document::Document};
use toolway_host::{
    HostError,
    call::{CallEvent, CallRequest},
    connection::{Effect, Phase, Plan, ServerPlanResult, WantedServer, Way},
    event::StateEvent,
    record::CallState,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::exchange::Progress;

use crate::fixtures;

/// A configuration with these entries, in which `PROGRAM` is replaced by the fixture server.
fn config(entries: &str) -> Config {
    let program = fixtures::path().to_str().unwrap().to_owned();
    let text = format!(r#"{{"mcpServers":{{{}}}}}"#, entries.replace("PROGRAM", &program));
    Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap()
}

fn shown(plan: &Plan) -> String {
    plan.to_string().trim_end().replace('\n', "; ")
}

#[tokio::test]
async fn plan_is_applied_as_shown() {
    let before = config(
        r#""kept": {"command": "PROGRAM", "args": ["kept"]},
           "gone": {"command": "PROGRAM", "args": ["gone"]},
           "moved": {"command": "PROGRAM", "args": ["moved"]},
           "trimmed": {"command": "PROGRAM", "args": ["trimmed"]}"#,
    );
    let host = TestHost::new().config(before.clone()).start().await;
    for server in ["kept", "gone", "moved", "trimmed"] {
        host.ready(server).await;
    }
    let pids = |server: &str| host.status(server).process.unwrap();
    let (kept, gone, moved, trimmed) = (pids("kept"), pids("gone"), pids("moved"), pids("trimmed"));

    let after = config(
        r#""kept": {"command": "PROGRAM", "args": ["kept"]},
           "moved": {"command": "PROGRAM", "args": ["moved", "--era", "legacy"]},
           "trimmed": {"command": "PROGRAM", "args": ["trimmed"], "includeTools": ["echo"]},
           "new": {"command": "PROGRAM", "args": ["new"]},
           "later": {"command": "PROGRAM", "lazy": true},
           "off": {"command": "PROGRAM", "enabled": false}"#,
    );
    let plan = host.host.plan(&after).unwrap();
    assert_eq!(
        shown(&plan),
        "+ later; + new; + off; - gone; ~ moved (args): reconnects; ~ trimmed (filters): keeps its connection"
    );
    assert!(fixtures::runs(gone), "a plan changes nothing");

    let mut events = host.host.listen_states();
    let applied = host.host.reload(&after).unwrap();
    assert_eq!(shown(&applied.plan), shown(&plan));
    let happened: Vec<_> = applied.results.iter().map(|(server, what)| format!("{server}: {what}")).collect();
    assert_eq!(
        happened,
        [
            "gone: closed",
            "kept: kept",
            "later: starts on first use",
            "moved: reconnected: args changed",
            "new: started",
            "off: stays disabled",
            "trimmed: updated without reconnecting: filters changed",
        ]
    );
    fixtures::gone(gone).await;
    fixtures::gone(moved).await;
    assert_eq!(host.ready("new").await.phase, Phase::Ready);
    assert_eq!(host.ready("moved").await.phase, Phase::Ready);
    assert_eq!((host.status("kept").process, host.status("trimmed").process), (Some(kept), Some(trimmed)));
    assert_eq!(host.status("off").phase, Phase::Disabled);
    assert!(host.host.status(&name("gone")).is_err());
    assert!(matches!(events.try_next(), Some(StateEvent::Applied(_))));
    assert_eq!(host.call("trimmed__wait").await.state(), CallState::Refused);
    assert_eq!(host.call("trimmed__echo").await.state(), CallState::Succeeded);
    assert_eq!(host.call("later__echo").await.state(), CallState::Succeeded);

    assert!(host.host.plan(&after).unwrap().is_empty());
    let nothing = host.host.reload(&after).unwrap();
    assert!(nothing.results.values().all(|happened| *happened == ServerPlanResult::Kept));
    host.host.shutdown().await;
    assert_eq!(host.host.reload(&before).unwrap_err(), HostError::ShutDown);
}

#[tokio::test]
async fn call_in_flight_finishes_on_a_removed_server() {
    let config = config(r#""trees": {"command": "PROGRAM", "args": ["trees", "--lingers"]}"#);
    let host = TestHost::new().config(config).start().await;
    host.ready("trees").await;
    let request = host.request("trees__linger", None);
    let mut lingering = host.host.open(CallRequest { progress: Progress::Wanted, ..request });
    // It is at the server, which answers in 50 ms.
    let begun = within("the call", lingering.next()).await;
    assert!(matches!(begun, Some(CallEvent::Progress(_))), "{begun:?}");
    let applied = host.host.reload(&Config::default()).unwrap();
    assert_eq!(applied.results[&name("trees")], ServerPlanResult::Closed);
    let outcome = within("the end", lingering.outcome()).await;
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
    assert_eq!(host.call("trees__echo").await.state(), CallState::Refused);
    host.host.shutdown().await;
}

#[tokio::test]
async fn refused_configuration_changes_nothing() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let refused = host.host.reload(&config(r#""files": {"command": "PROGRAM"}, "b": {"command": "PROGRAM"}"#));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "server `files` is defined both by the embedding program and in /etc/toolway.json:1; rename one of them"
    );
    assert_eq!(host.host.servers().len(), 1);
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
}

#[tokio::test]
async fn entry_with_an_unset_variable_fails_with_its_place() {
    let config = config(r#""files": {"command": "PROGRAM", "env": {"KEY": "${NOWHERE}"}}"#);
    let host = TestHost::new().config(config).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::Failed { .. })).await;
    let said = status.phase.for_operator().as_str().to_owned();
    assert!(said.contains("/etc/toolway.json:1") && said.contains("NOWHERE"), "{said}");
    assert_eq!(status.process, None);
}

#[test]
fn plan_names_the_reason_for_a_restart() {
    let server = |way: Way| {
        let server = WantedServer::new(name("files"), way);
        [(server.name.clone(), std::sync::Arc::new(server))].into()
    };
    let address = |url: &str| Way::Address(toolway_host::connection::ServerAddress::http(url.parse().unwrap()));
    let plan = Plan::new(&server(address("http://127.0.0.1:1/a")), server(address("http://127.0.0.1:1/b")));
    assert_eq!((plan.changed[0].effect, plan.changed[0].why.as_slice()), (Effect::Restart, &["address"][..]));
    let same = FixtureServer::new("files").service();
    let plan = Plan::new(&server(Way::InProcess(same.clone())), server(Way::InProcess(same)));
    assert!(plan.is_empty() && plan.kept.len() == 1);
}
