//! A token that ends: one renewal for all, and what becomes of renewals that go wrong.

use std::time::Duration;

use futures_util::future::join_all;
use toolway_auth::{credential::Credential, vault::Vault as _};
use toolway_testkit::authorization::{Endpoint, Oddity, Quirk};

use crate::stage::Stage;

#[tokio::test]
async fn eight_calls_with_an_ended_token_renew_it_once() {
    let stage = Stage::with_an_ended_token().await;
    stage.login.told([Quirk::Late(Endpoint::Renewal, Duration::from_millis(100))]);
    let caller = stage.unattended();
    let answers = join_all((0..8).map(|_| caller.call("hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("hello ada")), "{answers:?}");
    assert_eq!(stage.visits_codes_renewals(), (1, 1, 1));
}

#[tokio::test]
async fn eight_sessions_with_one_vault_renew_it_once() {
    let stage = Stage::with_an_ended_token().await;
    stage.login.told([Quirk::Late(Endpoint::Renewal, Duration::from_millis(100))]);
    let callers: Vec<_> = (0..8).map(|_| stage.unattended()).collect();
    let answers = join_all(callers.iter().map(|caller| caller.call("hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("hello ada")), "{answers:?}");
    assert_eq!(stage.visits_codes_renewals(), (1, 1, 1));
}

/// The server does not take the token any more, though nobody said that it would end.
#[tokio::test]
async fn eight_refused_calls_renew_it_once_and_are_repeated() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    got_long_ago(&stage).await;
    stage.server.drops_tokens_of(&stage.login);
    let caller = stage.unattended();
    let answers = join_all((0..8).map(|_| caller.call("hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("hello ada")), "{answers:?}");
    assert_eq!(stage.visits_codes_renewals(), (1, 1, 1));
}

/// Rotated, and never heard of: used again, the refresh token takes the sign-in back, and that is the end of it.
#[tokio::test]
async fn a_renewal_that_was_lost_ends_in_one_sign_in_needed() {
    let stage = Stage::with_an_ended_token().await;
    stage.login.told([Quirk::LosesRenewals]);
    let _lost = stage.unattended().call("hello").await;
    stage.login.told([]);
    for _ in 0..4 {
        let failed = stage.unattended().call("hello").await.unwrap_err();
        assert!(failed.contains("files needs a sign-in"), "{failed}");
    }
    assert_eq!(stage.login.taken_back(), 1);
    let after_the_loss = stage.login.count(Endpoint::Renewal);
    let _again = stage.unattended().call("hello").await;
    assert_eq!(stage.login.count(Endpoint::Renewal), after_the_loss, "it is not tried again and again");
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada", "a person helps");
}

#[tokio::test]
async fn a_token_that_is_never_taken_is_not_renewed_for_ever() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    got_long_ago(&stage).await;
    stage.server.told([Oddity::TakesNothing]);
    for _ in 0..5 {
        stage.unattended().call("hello").await.unwrap_err();
    }
    assert_eq!(stage.visits_codes_renewals(), (1, 1, 1));
}

/// As if the tokens in the vault had been got an hour ago.
async fn got_long_ago(stage: &Stage) {
    for key in stage.vault.keys().await.unwrap() {
        let mut credential = Credential::load(&*stage.vault, &key).await.unwrap().unwrap();
        credential.tokens.iter_mut().for_each(|tokens| tokens.since -= 3600);
        credential.store(&*stage.vault, &key).await.unwrap();
    }
}
