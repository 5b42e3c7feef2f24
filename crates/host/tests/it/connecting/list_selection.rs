//! Listing one server as a command does: connect on demand and request the selected lists only.

use toolway_config::server::Start;
use toolway_host::{
    catalog::{Freshness, ItemKind},
    connection::{Lists, Phase, WantedServer, Way},
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};

use crate::fixtures;

fn lazy_server(server: &FixtureServer, lists: Lists) -> WantedServer {
    let way = Way::InProcess(server.service());
    WantedServer { start: Start::WhenNeeded, lists, ..WantedServer::new(name("files"), way) }
}

/// Number of requests of each list: tools, resources, templates, prompts.
fn asked(server: &FixtureServer) -> [usize; 4] {
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list"].map(|method| server.seen(method).len())
}

#[tokio::test]
async fn only_the_selected_lists_are_requested() {
    for (lists, expected) in [
        (Lists::Once, [1, 1, 1, 1]),
        (Lists::Only(ItemKind::Tool), [1, 0, 0, 0]),
        (Lists::Only(ItemKind::Prompt), [0, 0, 0, 1]),
        (Lists::Ignored, [0, 0, 0, 0]),
    ] {
        let files = FixtureServer::new("files").tool("read", "Read");
        let host = TestHost::new().wanted(lazy_server(&files, lists)).start().await;
        let status = within("the listing", host.host.list(&name("files"))).await.unwrap();
        assert_eq!((&status.phase, asked(&files)), (&Phase::Ready, expected), "{lists:?}");
        let freshness = host.host.catalog().freshness_of(&name("files"));
        assert_eq!(freshness, (lists != Lists::Ignored).then_some(Freshness::Verified), "{lists:?}");
    }
}

#[tokio::test]
async fn list_once_ignores_later_changes() {
    let (once, followed) = (FixtureServer::new("a").tool("x", "X"), FixtureServer::new("b").tool("x", "X"));
    let host = TestHost::new().wanted(lazy_server(&once, Lists::Once)).server("b", &followed).start().await;
    within("the listing", host.host.list(&name("files"))).await.unwrap();
    host.offers(&["b__x", "files__x"]).await;
    once.add_tool("y", "Y");
    followed.add_tool("y", "Y");
    host.offers(&["b__x", "b__y", "files__x"]).await;
    assert_eq!(asked(&once)[0], 1);
}

#[tokio::test]
async fn failing_server_is_reported_at_once_with_an_error_code() {
    let broken = WantedServer { start: Start::WhenNeeded, ..fixtures::process("broken", &["--crash"]) };
    let host = TestHost::new().wanted(broken).start().await;
    let status = within("the listing", host.host.list(&name("broken"))).await.unwrap();
    assert!(matches!(status.phase, Phase::Failed { .. }), "{status:?}");
    assert_eq!(status.last_error.map(|error| error.code), Some("ended"));
    assert!(host.host.list(&name("missing")).await.is_err());
}
