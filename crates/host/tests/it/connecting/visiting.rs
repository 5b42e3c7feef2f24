//! A visit to one server, as a command pays it: connected when it is asked, only the lists that are wanted, and left.

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

fn visited(server: &FixtureServer, lists: Lists) -> WantedServer {
    let way = Way::InProcess(server.service());
    WantedServer { start: Start::WhenNeeded, lists, ..WantedServer::new(name("files"), way) }
}

/// How often each list was asked for: tools, resources, templates, prompts.
fn asked(server: &FixtureServer) -> [usize; 4] {
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list"].map(|method| server.seen(method).len())
}

#[tokio::test]
async fn only_the_lists_that_are_wanted_are_asked_for() {
    for (lists, expected) in [
        (Lists::Once, [1, 1, 1, 1]),
        (Lists::Only(ItemKind::Tool), [1, 0, 0, 0]),
        (Lists::Only(ItemKind::Prompt), [0, 0, 0, 1]),
        (Lists::Ignored, [0, 0, 0, 0]),
    ] {
        let files = FixtureServer::new("files").tool("read", "Read");
        let host = TestHost::new().wanted(visited(&files, lists)).start().await;
        let status = within("a visit", host.host.list(&name("files"))).await.unwrap();
        assert_eq!((&status.phase, asked(&files)), (&Phase::Ready, expected), "{lists:?}");
        let freshness = host.host.catalog().freshness_of(&name("files"));
        assert_eq!(freshness, (lists != Lists::Ignored).then_some(Freshness::Verified), "{lists:?}");
    }
}

#[tokio::test]
async fn a_visitor_hears_of_no_changes() {
    let (once, followed) = (FixtureServer::new("a").tool("x", "X"), FixtureServer::new("b").tool("x", "X"));
    let host = TestHost::new().wanted(visited(&once, Lists::Once)).server("b", &followed).start().await;
    within("a visit", host.host.list(&name("files"))).await.unwrap();
    host.offers(&["b__x", "files__x"]).await;
    once.add_tool("y", "Y");
    followed.add_tool("y", "Y");
    host.offers(&["b__x", "b__y", "files__x"]).await;
    assert_eq!(asked(&once)[0], 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_says_so_at_once_and_with_a_word() {
    let broken = WantedServer { start: Start::WhenNeeded, ..fixtures::process("broken", &["--crash"]) };
    let host = TestHost::new().wanted(broken).start().await;
    let status = within("a visit", host.host.list(&name("broken"))).await.unwrap();
    assert!(matches!(status.phase, Phase::Failed { .. }), "{status:?}");
    assert_eq!(status.last_error.map(|error| error.code), Some("ended"));
    assert!(host.host.list(&name("nobody")).await.is_err());
}
