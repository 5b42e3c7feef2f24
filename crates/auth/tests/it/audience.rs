//! A token is requested for one server and sent to that server only.

use std::sync::Arc;

use toolway_auth::settings::Settings;
use toolway_testkit::authorization::{Caller, Endpoint, ProtectedServer};

use crate::stage::{Stage, assert_none_of, configured};

/// CVE-2026-27124, CVE-2025-69196: tokens were valid anywhere, because requests named no resource.
#[tokio::test]
async fn every_request_names_the_resource() {
    let stage = Stage::with_expired_token().await;
    stage.unattended().call("hello").await.unwrap();
    for endpoint in [Endpoint::Page, Endpoint::Code, Endpoint::Refresh] {
        let fields = stage.login.fields(endpoint);
        assert_eq!(fields.len(), 1, "{endpoint:?}");
        let resources: Vec<_> = fields[0].iter().filter(|(name, _)| name == "resource").collect();
        assert_eq!(resources, [&("resource".to_owned(), stage.server.url())], "{endpoint:?}");
    }
}

/// CVE-2026-116684, GHSA-rvq5-wwqv-78pq: a token for one server was accepted by another. Ours is never sent there.
/// CVE-2026-19202: tokens were stored without their resource. One issuer, one client, one user, two servers.
#[tokio::test]
async fn token_for_one_server_is_never_sent_to_another() {
    let stage = Stage::new().await;
    stage.login.register("ours", None);
    stage.with(configured("ours", None)).call("hello").await.unwrap();
    let of_the_first = stage.login.secrets();

    let second = ProtectedServer::start(&stage.login).await.unwrap();
    let at_second = |user| {
        Caller::new(&second.url(), "ada", configured("ours", None), Arc::clone(&stage.vault) as _, user).unwrap()
    };
    let failed = at_second(None).call("hello").await.unwrap_err();
    assert!(failed.contains("not signed in yet"), "{failed}");
    assert!(!second.received().contains("authorization:"));
    assert_eq!(at_second(Some(stage.ada.clone())).call("hello").await.unwrap(), "hello ada");
    assert_none_of(&of_the_first, &second.received());
    assert!(second.received().contains("authorization: Bearer "));

    // Both credentials are stored, each for its own server.
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
    assert_eq!(at_second(None).call("hello").await.unwrap(), "hello ada");
    assert_eq!(stage.visits_codes_refreshes(), (2, 2, 0));
}

/// CVE-2026-116684: another server at the same origin may have another owner.
#[tokio::test]
async fn another_server_at_the_same_origin_gets_nothing() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    let before = stage.server.received().matches("authorization: Bearer ").count();
    let neighbour = stage.server.url().replace("/mcp", "/neighbour");
    let caller = Caller::new(&neighbour, "ada", Settings::default(), Arc::clone(&stage.vault) as _, None).unwrap();
    caller.call("hello").await.unwrap_err();
    assert_eq!(stage.server.received().matches("authorization: Bearer ").count(), before);
    assert!(stage.server.received().contains("/neighbour"));
}
