//! Wanted against running: the plan that is shown is the plan that is applied.

use std::path::Path;

use toolway_config::{Config, document::Document};
use toolway_host::{
    HostError,
    connection::{Effect, Happened, Phase, Plan, WantedServer, Way},
    event::HostEvent,
    record::Ending,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name},
};

use crate::fixtures;

/// A configuration with these entries, in which `PROGRAM` is the fixture.
fn config(entries: &str) -> Config {
    let program = fixtures::path().to_str().unwrap().to_owned();
    let text = format!(r#"{{"mcpServers":{{{}}}}}"#, entries.replace("PROGRAM", &program));
    Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap()
}

fn shown(plan: &Plan) -> String {
    plan.to_string().trim_end().replace('\n', "; ")
}

#[tokio::test]
async fn an_edit_is_shown_as_a_plan_and_exactly_that_is_done() {
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
        "+ later; + new; + off; - gone; ~ moved (args): connected anew; ~ trimmed (filters): goes on"
    );
    assert!(fixtures::runs(gone), "a plan changes nothing");

    let mut events = host.host.events();
    let applied = host.host.reload(&after).unwrap();
    assert_eq!(shown(&applied.plan), shown(&plan));
    let happened: Vec<_> = applied.results.iter().map(|(server, what)| format!("{server}: {what}")).collect();
    assert_eq!(
        happened,
        [
            "gone: closed",
            "kept: kept",
            "later: will be started when first needed",
            "moved: connected anew because of args",
            "new: started",
            "off: stays disabled",
            "trimmed: goes on with another filters",
        ]
    );
    fixtures::gone(gone).await;
    fixtures::gone(moved).await;
    assert_eq!(host.ready("new").await.phase, Phase::Ready);
    assert_eq!(host.ready("moved").await.phase, Phase::Ready);
    assert_eq!((host.status("kept").process, host.status("trimmed").process), (Some(kept), Some(trimmed)));
    assert_eq!(host.status("off").phase, Phase::Disabled);
    assert!(host.host.status(&name("gone")).is_err());
    assert!(matches!(events.try_next(), Some(HostEvent::Applied(_))));
    assert_eq!(host.call("trimmed__wait").await.ending(), Ending::Refused);
    assert_eq!(host.call("trimmed__echo").await.ending(), Ending::Answered);
    assert_eq!(host.call("later__echo").await.ending(), Ending::Answered);

    assert!(host.host.plan(&after).unwrap().is_empty());
    let nothing = host.host.reload(&after).unwrap();
    assert!(nothing.results.values().all(|happened| *happened == Happened::Kept));
    host.host.shutdown().await;
    assert_eq!(host.host.reload(&before).unwrap_err(), HostError::ShutDown);
}

#[tokio::test]
async fn a_call_under_way_may_finish_on_a_server_that_is_no_longer_wanted() {
    let config = config(r#""trees": {"command": "PROGRAM", "args": ["trees"]}"#);
    let host = TestHost::new().config(config).start().await;
    host.ready("trees").await;
    // It takes fifty milliseconds, and the server is removed in the middle.
    let growing = host.call_with("trees__grow", Some(serde_json::json!({ "name": "leaf" })));
    let removing = async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let applied = host.host.reload(&Config::default()).unwrap();
        assert_eq!(applied.results[&name("trees")], Happened::Closed);
    };
    let (outcome, ()) = tokio::join!(growing, removing);
    assert_eq!(outcome.ending(), Ending::Answered, "{outcome}");
    assert_eq!(host.call("trees__echo").await.ending(), Ending::Refused);
    host.host.shutdown().await;
}

#[tokio::test]
async fn a_configuration_that_cannot_be_taken_changes_nothing() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let refused = host.host.reload(&config(r#""files": {"command": "PROGRAM"}, "b": {"command": "PROGRAM"}"#));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the program and /etc/toolway.json:1 both have a server `files`; rename one"
    );
    assert_eq!(host.host.servers().len(), 1);
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
}

#[tokio::test]
async fn an_entry_that_leads_nowhere_is_failed_with_its_place_and_starts_nothing() {
    let config = config(r#""files": {"command": "PROGRAM", "env": {"KEY": "${NOWHERE}"}}"#);
    let host = TestHost::new().config(config).start().await;
    let status = host.until("files", |phase| matches!(phase, Phase::Failed { .. })).await;
    let said = status.phase.to_string();
    assert!(said.contains("/etc/toolway.json:1") && said.contains("NOWHERE"), "{said}");
    assert_eq!(status.process, None);
}

#[test]
fn a_plan_says_what_has_to_be_dialled_again_and_why() {
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
