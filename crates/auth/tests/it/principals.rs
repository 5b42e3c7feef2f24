//! Two principals at one server never share a sign-in.

use toolway_auth::settings::Settings;
use toolway_testkit::authorization::TestUser;

use crate::stage::{Stage, assert_none_of};

/// mcp-context-forge#1078: the first token was used for all users.
#[tokio::test]
async fn each_principal_uses_its_own_sign_in() {
    let stage = Stage::new().await;
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada");
    let of_ada = stage.login.secrets();
    let heard_for_ada = stage.server.received().len();

    let unauthenticated = stage.caller_for("bob", Settings::default(), None);
    let failed = unauthenticated.call("hello").await.unwrap_err();
    assert!(failed.contains("not signed in yet"), "{failed}");
    assert_none_of(&of_ada, &stage.server.received()[heard_for_ada..]);

    let bob = stage.caller_for("bob", Settings::default(), Some(TestUser::named("bob")));
    assert_eq!(bob.call("hello").await.unwrap(), "hello bob");
    assert_none_of(&of_ada, &stage.server.received()[heard_for_ada..]);
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
    assert_eq!(bob.call("hello").await.unwrap(), "hello bob");
}

#[tokio::test]
async fn sign_out_affects_one_principal_only() {
    let stage = Stage::new().await;
    let bob = stage.caller_for("bob", Settings::default(), Some(TestUser::named("bob")));
    let ada = stage.caller();
    ada.call("hello").await.unwrap();
    bob.call("hello").await.unwrap();
    assert_eq!(ada.sign_in.forget().await.unwrap(), 1);
    let failed = stage.unattended().call("hello").await.unwrap_err();
    assert!(failed.contains("requires sign-in"), "{failed}");
    assert_eq!(bob.call("hello").await.unwrap(), "hello bob");
}
