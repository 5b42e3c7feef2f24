//! Codes are good once and for a while, and what waits for one is too.

use toolway_auth::challenge::Demand;
use toolway_config::Secret;
use toolway_testkit::authorization::{Endpoint, Quirk, visitor};

use crate::stage::Stage;

#[tokio::test]
async fn a_code_that_has_ended_is_exchanged_once_and_not_again() {
    let stage = Stage::new().await;
    stage.login.told([Quirk::CodesEnd]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("invalid_grant (the code has ended)"), "{failed}");
    assert_eq!(stage.visits_codes_renewals(), (1, 1, 0));
}

#[tokio::test]
async fn a_replayed_callback_takes_back_what_the_first_one_brought() {
    let (stage, redirect) = (Stage::new().await, "http://127.0.0.1:9/callback".parse().unwrap());
    let sign_in = stage.caller().sign_in;
    let plan = sign_in.plan(&Demand::default(), None).await.unwrap();
    let pending = sign_in.begin(plan, redirect).await.unwrap();
    let callback = Secret::new(visitor::visit(pending.address().as_str(), "ada").await.unwrap());
    sign_in.finish(&pending, &callback).await.unwrap();
    let replayed = sign_in.finish(&pending, &callback).await.unwrap_err().to_string();
    assert!(replayed.contains("invalid_grant (the code was used before)"), "{replayed}");
    assert_eq!(stage.login.taken_back(), 1);
}

#[tokio::test]
async fn a_callback_that_is_brought_twice_is_exchanged_once() {
    let (stage, redirect) = (Stage::new().await, "http://127.0.0.1:9/callback".parse().unwrap());
    let sign_in = stage.caller().sign_in;
    let plan = sign_in.plan(&Demand::default(), None).await.unwrap();
    let pending = sign_in.begin(plan, redirect).await.unwrap();
    pending.keep(&*sign_in.vault).await.unwrap();
    let callback = Secret::new(visitor::visit(pending.address().as_str(), "ada").await.unwrap());
    sign_in.finish_waiting(&callback).await.unwrap();
    let twice = sign_in.finish_waiting(&callback).await.unwrap_err().to_string();
    assert!(twice.contains("no sign-in waits for this callback"), "{twice}");
    assert_eq!((stage.login.count(Endpoint::Code), stage.login.taken_back()), (1, 0));
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
}
