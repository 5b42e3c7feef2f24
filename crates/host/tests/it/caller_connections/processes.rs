//! Processes of a server that runs once per caller: the one that made the first listing is not left idle, and those that
//! only listed end soon.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use toolway_host::{
    call::{CallRequest, Caller, CallerContext, Target},
    catalog::Origin,
    connection::ServerStatus,
    host::FirstListingWait,
    record::CallState,
};
use toolway_testkit::test_host::{TestHost, TestHostBuilder, name, within};
use toolway_wire::{json::Raw, message::ClientCapabilities};

use super::{call_of, files, forms, in_sessions, owners};
use crate::fixtures;

async fn call(host: &TestHost, client: &str, capabilities: &Value) {
    let outcome = host.call_of(call_of(client, "echo", capabilities)).await;
    assert_eq!(outcome.state(), CallState::Succeeded, "{client}: {outcome}");
}

/// The processes of one caller.
fn processes(host: &TestHost, caller: &str) -> Vec<Option<u32>> {
    let connections = host.status("files").caller_connections;
    connections.into_iter().filter(|own| own.caller.to_string() == caller).map(|own| own.process).collect()
}

#[tokio::test]
async fn process_of_the_first_listing_is_handed_to_the_first_client_with_the_same_capabilities() {
    let host = TestHost::new().wanted(fixtures::process("files", &["--era", "legacy"])).start().await;
    let first = host.ready("files").await.process;
    assert!(first.is_some());
    call(&host, "cleo", &forms()).await;
    call(&host, "ada", &json!({})).await;
    call(&host, "ben", &json!({})).await;
    assert_eq!(processes(&host, "client ada"), [first]);
    let others = [processes(&host, "client cleo"), processes(&host, "client ben")].concat();
    assert!(others.len() == 2 && !others.contains(&first), "{others:?}");
    // No other caller uses it, a local one included.
    assert_eq!(host.call("files__echo").await.state(), CallState::Succeeded);
    let status = host.status("files");
    assert_eq!(status.process, first);
    assert_eq!(status.caller_connections.len(), 4, "{:?}", owners(&status));
    assert_eq!(status.caller_connections.iter().filter(|own| own.process == first).count(), 1);
    // Nor does a later client of the same name.
    host.host.end_caller(&Caller::Client("ada".into()));
    call(&host, "ada", &json!({})).await;
    assert!(!processes(&host, "client ada").contains(&first));
}

#[tokio::test]
async fn process_that_served_another_call_is_not_handed_over() {
    let host = TestHost::new().wanted(fixtures::process("files", &["--era", "legacy"])).start().await;
    let first = host.ready("files").await.process;
    assert_eq!(host.call("files__echo").await.state(), CallState::Succeeded);
    call(&host, "ada", &json!({})).await;
    assert!(!processes(&host, "client ada").contains(&first));
}

#[tokio::test]
async fn four_servers_have_four_processes_and_one_more_for_each_that_a_client_called() {
    let servers = ["one", "two", "three", "four"];
    let process = |server: &&str| fixtures::process(server, &["--era", "legacy"]);
    let host = servers.iter().map(process).fold(TestHost::new(), TestHostBuilder::wanted).start().await;
    for server in servers {
        host.ready(server).await;
    }
    assert_eq!(running(&host).len(), 4);
    let call = |client: &str, server: &str, capabilities: &Value| {
        let target = Target::ToolOf(Origin { server: name(server), raw_name: "echo".to_owned() });
        host.call_of(CallRequest { target, ..call_of(client, "echo", capabilities) })
    };
    for (client, server, capabilities, processes) in [
        ("ada", "one", forms(), 5),
        ("ada", "one", forms(), 5),
        // The process of the first listing is handed over.
        ("ben", "two", json!({}), 5),
        ("ada", "three", forms(), 6),
    ] {
        assert_eq!(call(client, server, &capabilities).await.state(), CallState::Succeeded, "{client} {server}");
        assert_eq!(running(&host).len(), processes, "{client} {server}");
    }
    host.host.end_caller(&Caller::Client("ada".into()));
    let ended = async {
        while running(&host).len() != 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the end of the processes", ended).await;
}

/// The running processes of all servers.
fn running(host: &TestHost) -> BTreeSet<u32> {
    let of_server = |status: ServerStatus| {
        let own = status.caller_connections.into_iter().filter_map(|connection| connection.process);
        own.chain(status.process).collect::<Vec<_>>()
    };
    host.host.servers().into_iter().flat_map(of_server).filter(|pid| fixtures::runs(*pid)).collect()
}

#[tokio::test(start_paused = true)]
async fn connection_that_only_listed_ends_sooner_than_one_that_was_called() {
    let host = TestHost::new().wanted(in_sessions(&files())).start().await;
    host.ready("files").await;
    let capabilities = Some(ClientCapabilities(Raw::of(&forms())));
    let ada = CallerContext { capabilities, ..CallerContext::from(&Caller::Client("ada".into())) };
    host.host
        .wait_for_first_listings(ada, |_| true, FirstListingWait::of_listings(Duration::from_secs(1)))
        .unwrap()
        .await;
    call(&host, "ben", &forms()).await;
    assert_eq!(owners(&host.status("files")), ["client ada", "client ben"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let ended = async {
        while owners(&host.status("files")) != ["client ben"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the end of the connection", ended).await;
}
