//! Who comes in, and what each of them sees.

use toolway_gateway::access::{Access, KeyFile};
use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHost};
use toolway_wire::{
    error::WireError,
    exchange::{Outcome, Request, Terms},
    json::Raw,
    revision::Era,
};

use crate::stage::Stage;

#[tokio::test]
async fn nobody_comes_in_without_a_key() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let stage = Stage::with(TestHost::with(&files, "files")).await;
    stage.host.ready("files").await;
    for path in ["/mcp", "/servers/files/mcp"] {
        for key in [None, Some("tw_wrong")] {
            let refused = stage.client_with(path, Era::Legacy, key).await.unwrap_err();
            assert!(matches!(refused, WireError::Unauthorized { .. }), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_key_sees_the_servers_it_names_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("editor", None, Some(std::iter::once("mail".parse().unwrap()).collect())).unwrap();
    let (access, none) = Access::of_keys(Some(file)).unwrap();
    assert!(none.is_none());
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let stage = Stage::open_to(TestHost::with(&files, "files").server("mail", &mail), access, Some(key)).await;
    stage.host.ready("files").await;
    stage.host.ready("mail").await;
    let client = stage.client("/mcp", Era::Modern).await;
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools.items.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["mail__send"]);
    let params = Raw::of(&serde_json::json!({ "name": "files__echo" }));
    let call = Request::new("tools/call", Some(params)).unwrap();
    assert!(matches!(client.open(call, Terms::call()).outcome().await, Outcome::Refused(_)));
    assert!(
        stage.client_with("/servers/files/mcp", Era::Legacy, stage.key.as_ref().map(|key| key.expose())).await.is_err()
    );
    assert!(files.seen("tools/call").is_empty());
}
