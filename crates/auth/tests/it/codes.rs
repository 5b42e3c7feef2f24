//! Codes and pending sign-ins are used once and expire.

use toolway_auth::challenge::TokenChallenge;
use toolway_config::Secret;
use toolway_testkit::authorization::{Endpoint, Quirk, test_browser};

use crate::stage::Stage;

#[tokio::test]
async fn expired_code_is_exchanged_once() {
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::ExpiredCodes]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("`invalid_grant` (the code has expired)"), "{failed}");
    assert_eq!(stage.visits_codes_refreshes(), (1, 1, 0));
}

#[tokio::test]
async fn replayed_code_revokes_the_first_sign_in() {
    let (stage, redirect) = (Stage::new().await, "http://127.0.0.1:9/callback".parse().unwrap());
    let sign_in = stage.caller().sign_in;
    let plan = sign_in.plan(&TokenChallenge::default(), None).await.unwrap();
    let pending = sign_in.begin(plan, redirect).await.unwrap();
    let callback = Secret::new(test_browser::visit(pending.address().as_str(), "ada").await.unwrap());
    sign_in.finish(&pending, &callback).await.unwrap();
    let replayed = sign_in.finish(&pending, &callback).await.unwrap_err().to_string();
    assert!(replayed.contains("`invalid_grant` (the code was already used)"), "{replayed}");
    assert_eq!(stage.login.revoked_sign_ins(), 1);
}

#[tokio::test]
async fn repeated_callback_is_exchanged_once() {
    let (stage, redirect) = (Stage::new().await, "http://127.0.0.1:9/callback".parse().unwrap());
    let sign_in = stage.caller().sign_in;
    let plan = sign_in.plan(&TokenChallenge::default(), None).await.unwrap();
    let pending = sign_in.begin(plan, redirect).await.unwrap();
    pending.store(&*sign_in.vault).await.unwrap();
    let callback = Secret::new(test_browser::visit(pending.address().as_str(), "ada").await.unwrap());
    sign_in.finish_pending(&callback).await.unwrap();
    let twice = sign_in.finish_pending(&callback).await.unwrap_err().to_string();
    assert!(twice.contains("no sign-in waits for this callback"), "{twice}");
    assert_eq!((stage.login.count(Endpoint::Code), stage.login.revoked_sign_ins()), (1, 0));
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
}
