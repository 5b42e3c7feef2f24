//! Authentication of clients, and the servers each may see.

use toolway_gateway::access::{Access, KeyFile};
use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHost};
use toolway_wire::{
    error::WireError,
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    revision::Era,
};

use crate::test_gateway::TestGateway;

#[tokio::test]
async fn request_without_a_valid_key_is_refused() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let gateway = TestGateway::with(TestHost::with(&files, "files")).await;
    gateway.host.ready("files").await;
    for path in ["/mcp", "/servers/files/mcp"] {
        for key in [None, Some("tw_wrong")] {
            let refused = gateway.client_with(path, Era::Legacy, key).await.unwrap_err();
            assert!(matches!(refused, WireError::Unauthorized { .. }), "{refused}");
        }
    }
}

#[tokio::test]
async fn key_sees_only_its_servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("editor", None, Some(std::iter::once("mail".parse().unwrap()).collect())).unwrap();
    let (access, none) = Access::with_keys(Some(file)).unwrap();
    assert!(none.is_none());
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let gateway = TestGateway::open_to(TestHost::with(&files, "files").server("mail", &mail), access, Some(key)).await;
    gateway.host.ready("files").await;
    gateway.host.ready("mail").await;
    let client = gateway.client("/mcp", Era::Modern).await;
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools.items.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["mail__send"]);
    let params = Raw::of(&serde_json::json!({ "name": "files__echo" }));
    let call = Request::new("tools/call", Some(params)).unwrap();
    assert!(matches!(client.open(call, ExchangeTimeouts::call()).outcome().await, Outcome::Refused(_)));
    assert!(
        gateway
            .client_with("/servers/files/mcp", Era::Legacy, gateway.key.as_ref().map(|key| key.expose()))
            .await
            .is_err()
    );
    assert!(files.seen("tools/call").is_empty());
}
