//! Servers of both eras: a client that has a session and answers server requests is reached with a session.

use std::{path::Path, process::Stdio, sync::Arc};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use toolway_host::connection::{DiskEraMemory, Program, ServerAddress, WantedServer, Way};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    notice::SubscriptionFilter,
    revision::Era,
    up::Peer,
};

use crate::test_gateway::{Ada, TestGateway, behind};

/// The server on the TypeScript SDK 2.
fn dual() -> WantedServer {
    let [node, script] = typescript("dual_typescript.mjs");
    let program = Program { arguments: vec![script], ..Program::new(&node) };
    WantedServer::new(name("dual"), Way::Address(ServerAddress::Process(program)))
}

/// The server on FastMCP, whose tools ask in one way each.
fn asking() -> WantedServer {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let script = root.join("tests/interop/servers/asking_fastmcp.py").to_str().unwrap().to_owned();
    let python = root.join(".interop/venv/bin/python");
    let program = Program { arguments: vec![script], ..Program::new(python.to_str().unwrap()) };
    WantedServer::new(name("asking"), Way::Address(ServerAddress::Process(program)))
}

/// The tools of the TypeScript SDK's conformance server that send requests to the client, over HTTP. The process ends with
/// the first value.
async fn pushing() -> (tokio::process::Child, WantedServer) {
    let [node, script] = typescript("pushing_typescript.mjs");
    let mut command = tokio::process::Command::from(std::process::Command::new(node));
    command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = within("its address", lines.next_line()).await.unwrap().unwrap();
    let url = line.strip_prefix("listening on ").unwrap().parse().unwrap();
    (process, WantedServer::new(name("pushing"), Way::Address(ServerAddress::http(url))))
}

/// Node and the path of a script.
fn typescript(script: &str) -> [String; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let script = root.join("tests/interop/servers").join(script);
    [root.join(".interop/node_modules/.bin/node"), script].map(|path| path.to_str().unwrap().to_owned())
}

fn remembering(mut builder: TestHostBuilder, folder: &tempfile::TempDir) -> TestHostBuilder {
    builder.options.memory = Some(Arc::new(DiskEraMemory::at(folder.path().join("eras.json"))));
    builder
}

async fn call(client: &Peer, tool: &str, arguments: Value) -> String {
    match outcome(client, tool, arguments).await {
        Outcome::Answered(result) => result.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn outcome(client: &Peer, tool: &str, arguments: Value) -> Outcome {
    let params = Raw::of(&json!({ "name": tool, "arguments": arguments }));
    let request = Request::new("tools/call", Some(params)).unwrap();
    let exchange = client.open(request, ExchangeTimeouts::call());
    within("a call", exchange.outcome_with(Some(&Ada), |_| {})).await
}

#[tokio::test]
async fn typescript_server_of_both_eras_is_reached_in_the_era_of_the_client() {
    let gateway = TestGateway::with(TestHost::new().wanted(dual())).await;
    gateway.host.ready("dual").await;
    let (with, without) = (gateway.client("/mcp", Era::Legacy).await, gateway.client("/mcp", Era::Modern).await);
    assert!(call(&with, "dual__greet", json!({})).await.contains("hello Ada"));
    assert_eq!(gateway.host.status("dual").caller_connections.len(), 1);
    let stateless = call(&without, "dual__greet", json!({})).await;
    assert!(stateless.contains("elicitation/create"), "as the server answers without us: {stateless}");
}

#[tokio::test]
async fn four_pushing_tools_of_the_typescript_sdk_work_at_once() {
    let (_process, wanted) = pushing().await;
    let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
    gateway.host.ready("pushing").await;
    let client = gateway.client("/mcp", Era::Legacy).await;
    for tool in ["sampling", "elicitation", "elicitation_sep1034_defaults", "elicitation_sep1330_enums"] {
        let said = call(&client, &format!("pushing__test_{tool}"), json!({})).await;
        assert!(said.contains("answered") && said.contains("Ada"), "{tool}: {said}");
    }
    assert_eq!(gateway.host.status("pushing").caller_connections.len(), 1);
}

#[tokio::test]
async fn resource_that_a_server_watches_in_a_session_only_can_be_subscribed_to() {
    let (_process, wanted) = pushing().await;
    let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
    gateway.host.ready("pushing").await;
    let filter = SubscriptionFilter::resource("test://watched");
    let client = gateway.client("/mcp", Era::Legacy).await;
    let subscribed = within("the subscription", client.listen(filter.clone())).await.unwrap();
    assert_eq!(subscribed.accepted().uris, ["test://watched"]);
    let stateless = gateway.client("/mcp", Era::Modern).await;
    let refused = within("the refusal", stateless.listen(filter)).await.unwrap();
    assert!(refused.accepted().uris.is_empty(), "as the server answers without us");
}

#[tokio::test]
async fn both_ways_in_which_tools_of_fastmcp_ask_reach_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = TestGateway::with(remembering(TestHost::new().wanted(asking()), &folder)).await;
    gateway.host.ready("asking").await;
    let (with, without) = (gateway.client("/mcp", Era::Legacy).await, gateway.client("/mcp", Era::Modern).await);
    assert!(call(&with, "asking__pushed", json!({})).await.contains("hello Ada"));
    assert!(call(&without, "asking__by_result", json!({})).await.contains("hello Ada"));
    // FastMCP refuses such a result in a session. The call is not repeated, the next one is sent without a session.
    let first = outcome(&with, "asking__by_result", json!({})).await;
    assert!(matches!(&first, Outcome::Refused(error) if error.message().contains("InputRequiredResult")), "{first:?}");
    assert!(call(&with, "asking__by_result", json!({})).await.contains("hello Ada"));
    assert!(call(&with, "asking__pushed", json!({})).await.contains("hello Ada"));
    within("the shutdown", gateway.host.host.shutdown()).await;

    // Another start knows it.
    let gateway = TestGateway::with(remembering(TestHost::new().wanted(asking()), &folder)).await;
    gateway.host.ready("asking").await;
    let with = gateway.client("/mcp", Era::Legacy).await;
    assert!(call(&with, "asking__by_result", json!({})).await.contains("hello Ada"));
}

#[tokio::test]
async fn server_without_sessions_is_reached_as_before() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let (_fixture, wanted) = behind(&files, Era::Modern).await;
    let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
    gateway.host.ready("files").await;
    let client = gateway.client("/mcp", Era::Legacy).await;
    for _ in 0..3 {
        let said = call(&client, "files__echo", json!({ "text": "elicitation/create" })).await;
        assert!(said.contains("elicitation/create"), "{said}");
    }
    assert_eq!(files.seen("tools/call").len(), 3, "each call is sent once");
    assert!(gateway.host.status("files").caller_connections.is_empty());
}
