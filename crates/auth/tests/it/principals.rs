//! Two people at one server: nobody's sign-in is anybody else's.

use toolway_auth::settings::Settings;
use toolway_testkit::authorization::Person;

use crate::stage::{Stage, assert_none_of};

/// mcp-context-forge#1078: the first token of anybody was used for everybody.
#[tokio::test]
async fn each_calls_with_their_own_sign_in_or_not_at_all() {
    let stage = Stage::new().await;
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada");
    let of_ada = stage.login.secrets();
    let heard_for_ada = stage.server.heard().len();

    let nobody = stage.somebody("bob", Settings::default(), None);
    let failed = nobody.call("hello").await.unwrap_err();
    assert!(failed.contains("nobody has signed in yet"), "{failed}");
    assert_none_of(&of_ada, &stage.server.heard()[heard_for_ada..]);

    let bob = stage.somebody("bob", Settings::default(), Some(Person::named("bob")));
    assert_eq!(bob.call("hello").await.unwrap(), "hello bob");
    assert_none_of(&of_ada, &stage.server.heard()[heard_for_ada..]);
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
    assert_eq!(bob.call("hello").await.unwrap(), "hello bob");
}

#[tokio::test]
async fn who_signs_out_leaves_the_others_signed_in() {
    let stage = Stage::new().await;
    let bob = stage.somebody("bob", Settings::default(), Some(Person::named("bob")));
    let ada = stage.caller();
    ada.call("hello").await.unwrap();
    bob.call("hello").await.unwrap();
    assert_eq!(ada.sign_in.forget().await.unwrap(), 1);
    let failed = stage.unattended().call("hello").await.unwrap_err();
    assert!(failed.contains("needs a sign-in"), "{failed}");
    assert_eq!(bob.call("hello").await.unwrap(), "hello bob");
}
