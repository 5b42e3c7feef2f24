//! A token is for one server: asked for in its name, and shown to it alone.

use std::sync::Arc;

use toolway_auth::settings::Settings;
use toolway_testkit::authorization::{Caller, Endpoint, ProtectedServer};

use crate::stage::{Stage, assert_none_of, configured};

/// CVE-2026-27124, CVE-2025-69196: tokens were good anywhere, because nobody said what for.
#[tokio::test]
async fn every_request_says_what_the_token_is_for() {
    let stage = Stage::with_an_ended_token().await;
    stage.unattended().call("hello").await.unwrap();
    for endpoint in [Endpoint::Page, Endpoint::Code, Endpoint::Renewal] {
        let fields = stage.login.fields(endpoint);
        assert_eq!(fields.len(), 1, "{endpoint:?}");
        let resources: Vec<_> = fields[0].iter().filter(|(name, _)| name == "resource").collect();
        assert_eq!(resources, [&("resource".to_owned(), stage.server.url())], "{endpoint:?}");
    }
}

/// CVE-2026-116684, GHSA-rvq5-wwqv-78pq: a token for one server was taken by another. Ours never gets there.
/// CVE-2026-19202: tokens were kept without what they are for. One issuer, one client, one person, two servers.
#[tokio::test]
async fn a_token_for_one_server_is_never_shown_to_another() {
    let stage = Stage::new().await;
    stage.login.register("ours", None);
    stage.with(configured("ours", None)).call("hello").await.unwrap();
    let of_the_first = stage.login.secrets();

    let second = ProtectedServer::start(&stage.login).await.unwrap();
    let at_second = |person| {
        Caller::new(&second.url(), "ada", configured("ours", None), Arc::clone(&stage.vault) as _, person).unwrap()
    };
    let failed = at_second(None).call("hello").await.unwrap_err();
    assert!(failed.contains("nobody has signed in yet"), "{failed}");
    assert!(!second.heard().contains("authorization:"));
    assert_eq!(at_second(Some(stage.ada.clone())).call("hello").await.unwrap(), "hello ada");
    assert_none_of(&of_the_first, &second.heard());
    assert!(second.heard().contains("authorization: Bearer "));

    // Both are kept, each for its own.
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
    assert_eq!(at_second(None).call("hello").await.unwrap(), "hello ada");
    assert_eq!(stage.visits_codes_renewals(), (2, 2, 0));
}

/// CVE-2026-116684: another server at the same origin may be somebody else's.
#[tokio::test]
async fn a_neighbour_at_the_same_origin_gets_nothing() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    let before = stage.server.heard().matches("authorization: Bearer ").count();
    let neighbour = stage.server.url().replace("/mcp", "/neighbour");
    let caller = Caller::new(&neighbour, "ada", Settings::default(), Arc::clone(&stage.vault) as _, None).unwrap();
    caller.call("hello").await.unwrap_err();
    assert_eq!(stage.server.heard().matches("authorization: Bearer ").count(), before);
    assert!(stage.server.heard().contains("/neighbour"));
}
