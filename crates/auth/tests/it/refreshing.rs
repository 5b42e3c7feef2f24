//! Expired tokens: one refresh for all callers, and failed refreshes.

use std::time::Duration;

use futures_util::future::join_all;
use toolway_auth::{credential::Credential, vault::Vault as _};
use toolway_testkit::authorization::{Endpoint, Quirk, ServerQuirk};

use crate::stage::Stage;

#[tokio::test]
async fn eight_calls_with_an_expired_token_refresh_it_once() {
    let stage = Stage::with_expired_token().await;
    stage.login.set_quirks([Quirk::Late(Endpoint::Refresh, Duration::from_millis(100))]);
    let caller = stage.unattended();
    let answers = join_all((0..8).map(|_| caller.call("hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("hello ada")), "{answers:?}");
    assert_eq!(stage.visits_codes_refreshes(), (1, 1, 1));
}

#[tokio::test]
async fn eight_sessions_with_one_vault_refresh_it_once() {
    let stage = Stage::with_expired_token().await;
    stage.login.set_quirks([Quirk::Late(Endpoint::Refresh, Duration::from_millis(100))]);
    let callers: Vec<_> = (0..8).map(|_| stage.unattended()).collect();
    let answers = join_all(callers.iter().map(|caller| caller.call("hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("hello ada")), "{answers:?}");
    assert_eq!(stage.visits_codes_refreshes(), (1, 1, 1));
}

/// The server no longer accepts the token, although it has not expired.
#[tokio::test]
async fn eight_refused_calls_refresh_once_and_are_repeated() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    got_long_ago(&stage).await;
    stage.server.reject_tokens_of(&stage.login);
    let caller = stage.unattended();
    let answers = join_all((0..8).map(|_| caller.call("hello"))).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("hello ada")), "{answers:?}");
    assert_eq!(stage.visits_codes_refreshes(), (1, 1, 1));
}

/// The response of a rotation is lost: the second use of the refresh token revokes the sign-in.
#[tokio::test]
async fn lost_refresh_response_ends_in_sign_in_required() {
    let stage = Stage::with_expired_token().await;
    stage.login.set_quirks([Quirk::DropsRefreshResponse]);
    let _lost = stage.unattended().call("hello").await;
    stage.login.set_quirks([]);
    for _ in 0..4 {
        let failed = stage.unattended().call("hello").await.unwrap_err();
        assert!(failed.contains("`files` requires sign-in"), "{failed}");
    }
    assert_eq!(stage.login.revoked_sign_ins(), 1);
    let after_the_loss = stage.login.count(Endpoint::Refresh);
    let _again = stage.unattended().call("hello").await;
    assert_eq!(stage.login.count(Endpoint::Refresh), after_the_loss, "it is not repeated");
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada", "a new sign-in helps");
}

#[tokio::test]
async fn token_that_is_never_accepted_is_not_refreshed_forever() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    got_long_ago(&stage).await;
    stage.server.set_quirks([ServerQuirk::RejectsAllTokens]);
    for _ in 0..5 {
        stage.unattended().call("hello").await.unwrap_err();
    }
    assert_eq!(stage.visits_codes_refreshes(), (1, 1, 1));
}

/// Makes the tokens in the vault one hour older.
async fn got_long_ago(stage: &Stage) {
    for key in stage.vault.keys().await.unwrap() {
        let mut credential = Credential::load(&*stage.vault, &key).await.unwrap().unwrap();
        credential.tokens.iter_mut().for_each(|tokens| tokens.obtained_at -= 3600);
        credential.store(&*stage.vault, &key).await.unwrap();
    }
}
