//! Tokens that end or are refused, and what comes in their place.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{HeaderValue, StatusCode};
use tokio::time::Instant;
use toolway_config::Secret;
use toolway_wire::up::credential::{Credentials as _, Next};
use url::Url;

use super::scene::{SERVER, Scene, TOKEN, UNAUTHORIZED, carried, refused, refused_with, sending};
use crate::{
    credential::{Credential, RegistrationSource, TokenKind, now},
    dpop::DpopKeys,
    needed::Why,
    proof::ProofKeys as _,
    renewals::Renewals,
    rest::AFTER_FAILURE,
    scripted::GIVEN_UP,
    session::{Session, SessionOptions},
    sign_in::SignIn,
    vault::{MemoryVault, Vault as _, full::Full},
};

const AWAY: &str = "no token for now: https://login.example/token cannot answer at the moment (HTTP 503)";

#[tokio::test]
async fn eight_requests_with_a_token_that_ends_make_one_renewal() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", now() + 5, RegistrationSource::Dynamic).await;
    let (one, other) = (scene.session(None), scene.session(None));
    let requests = (0..8).map(|place| carried(if place % 2 == 0 { &one } else { &other }, SERVER));
    let carried = join_all(requests).await;
    assert!(carried.iter().all(|token| token.as_ref().unwrap() == "Bearer t2"), "{carried:?}");
    assert_eq!(scene.token_requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_many_who_wait_for_one_that_hangs_one_asks_and_all_end_with_it() {
    let soon = now() + 20;
    for (ends, refused) in [(soon, false), (1, false), (u64::MAX, true)] {
        let scene = Scene::new();
        scene.stranger.hangs_at(TOKEN);
        scene.keeps("t1", ends, RegistrationSource::Dynamic).await;
        let (session, began) = (scene.session(None), Instant::now());
        let url = Url::parse(SERVER).unwrap();
        let old = HeaderValue::from_static("Bearer t1");
        let asked = (0..8).map(|_| async {
            if refused {
                return refused_with(&session, UNAUTHORIZED, "Bearer", Some(old.clone())).await == Next::Again;
            }
            session.headers(sending(&url)).await.is_ok()
        });
        let went_on = join_all(asked).await;
        assert_eq!(went_on, [ends == soon; 8], "a token that has not ended is used, {ends}");
        assert_eq!(scene.token_requests(), 1, "{ends}");
        assert!(began.elapsed() < 2 * GIVEN_UP, "{ends}: {:?}", began.elapsed());
    }
}

/// What is kept under one key may be of another address of the same resource by now.
#[tokio::test]
async fn a_renewal_does_not_take_over_the_sign_in_of_another_address() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", now() + 20, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    session.shared.held().await.unwrap().unwrap();
    let key = scene.vault.keys().await.unwrap().remove(0);
    let mut other = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    other.server = "https://example.org/other".to_owned();
    other.tokens.as_mut().unwrap().access = Secret::new("somebody-elses");
    other.store(&*scene.vault, &key).await.unwrap();
    assert_eq!(carried(&session, SERVER).await, None);
    assert_eq!(scene.token_requests(), 0);
}

/// A token that anybody could use in the place of one that is bound to a key.
#[tokio::test]
async fn a_token_of_another_kind_than_configured_is_neither_taken_nor_shown() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", now() + 20, RegistrationSource::Dynamic).await;
    let key = scene.vault.keys().await.unwrap().remove(0);
    let mut bound = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    let prover = DpopKeys.prover(None).unwrap();
    (bound.proof_key, bound.tokens.as_mut().unwrap().kind) = (Some(prover.key()), TokenKind::DPoP);
    bound.store(&*scene.vault, &key).await.unwrap();
    assert_eq!(carried(&scene.session(None), SERVER).await, None, "none is configured to be bound");

    let sign_in = SignIn { proofs: Some(Arc::new(DpopKeys)), ..scene.sign_in("ada") };
    let renewals = Renewals::default();
    let options = SessionOptions { name: "files".to_owned(), remedy: String::new(), browser: None, sign_in, renewals };
    assert_eq!(carried(&Session::new(options), SERVER).await.unwrap(), "DPoP t1", "the old one, until it ends");
    assert_eq!(scene.token_requests(), 1);
    let kept = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    assert_eq!(kept.tokens.unwrap().access, Secret::new("t1"));
}

#[tokio::test]
async fn of_requests_that_were_refused_together_one_renews() {
    let scene = Scene::new().gives(&["t2", "t3"]);
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    let old = carried(&session, SERVER).await;
    let answers = join_all((0..4).map(|_| refused_with(&session, UNAUTHORIZED, "Bearer", old.clone()))).await;
    assert_eq!(answers, [Next::Again; 4]);
    assert_eq!(refused_with(&session, UNAUTHORIZED, "Bearer", old).await, Next::Again, "refused late");
    assert_eq!(scene.token_requests(), 1);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp, "the new one was refused at once");
    assert_eq!(scene.token_requests(), 1, "and is not renewed again");
    assert_eq!(session.needed().unwrap().why, Why::Ended);
}

#[tokio::test]
async fn a_renewal_that_nobody_waits_for_is_kept_all_the_same() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", 0, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    {
        let url = Url::parse(SERVER).unwrap();
        let mut request = session.headers(sending(&url));
        assert!(futures_util::poll!(request.as_mut()).is_pending());
    }
    session.settle().await;
    assert_eq!(carried(&scene.session(None), SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(scene.token_requests(), 1);
}

/// Else the refresh token that was used up would be sent once more, and whoever gives them would take all back.
#[tokio::test(start_paused = true)]
async fn a_new_token_that_could_not_be_kept_counts_until_it_is() {
    let scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let kept = scene.vault.all().await.unwrap().remove(0);
    let (memory, reply) = (MemoryVault::default(), r#"{"access_token":"t2","token_type":"Bearer","expires_in":3600,"#);
    memory.store(&kept.0, kept.1).await.unwrap();
    scene.stranger.answer(TOKEN, 200, format!(r#"{reply}"refresh_token":"r2-refresh"}}"#));
    let vault = Arc::new(Full::of(memory));
    let sign_in = SignIn { vault: Arc::clone(&vault) as _, ..scene.sign_in("ada") };
    let renewals = Renewals::default();
    let session = || {
        let (name, sign_in, renewals) = ("files".to_owned(), sign_in.clone(), renewals.clone());
        Session::new(SessionOptions { name, remedy: String::new(), browser: None, sign_in, renewals })
    };
    let (session, other) = (session(), session());
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp, "it is as new as can be");
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2", "and the old one does not count");
    assert_eq!(carried(&other, SERVER).await.unwrap(), "Bearer t2", "for another connection either");

    vault.has_room();
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    session.settle().await;
    let tokens = Credential::load(&*vault, &kept.0).await.unwrap().unwrap().tokens.unwrap();
    assert_eq!(tokens.refresh.unwrap().expose(), "r2-refresh", "it was kept later");
    assert_eq!(scene.token_requests(), 1);
}

#[tokio::test]
async fn a_rejected_renewal_is_a_needed_sign_in_once_and_no_loop() {
    let scene = Scene::new();
    scene.stranger.answer(TOKEN, 400, r#"{"error":"invalid_grant"}"#);
    scene.keeps("t1", 0, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    for _ in 0..3 {
        assert_eq!(carried(&session, SERVER).await, None);
        assert_eq!(refused_with(&session, UNAUTHORIZED, "Bearer", None).await, Next::GiveUp);
    }
    assert_eq!(scene.token_requests(), 1);
    assert_eq!(session.needed().unwrap().why, Why::Ended);
    let kept = Credential::find(&*scene.vault, "ada", SERVER).await.unwrap().unwrap().1;
    assert_eq!((kept.client.id.as_str(), kept.tokens), ("kept-client", None));
}

#[tokio::test]
async fn a_server_that_does_not_answer_keeps_a_token_that_has_not_ended() {
    let scene = Scene::new();
    scene.stranger.answer(TOKEN, 503, "later");
    scene.keeps("t1", now() + 20, RegistrationSource::Dynamic).await;
    assert_eq!(carried(&scene.session(None), SERVER).await.unwrap(), "Bearer t1");
    scene.keeps("t0", now() - 1, RegistrationSource::Dynamic).await;
    let url = Url::parse(SERVER).unwrap();
    let failed = scene.session(None).headers(sending(&url)).await.unwrap_err();
    assert!(failed.to_string().contains("cannot be renewed"), "{failed}");
    assert_eq!(failed.code(), "no_token");
}

/// The operator means somebody else now: neither the old token nor the new secret has anything to do there.
#[tokio::test]
async fn what_came_from_elsewhere_than_the_operator_says_is_not_used() {
    let mut scene = Scene::new();
    scene.keeps("t1", now() + 5, RegistrationSource::Configured).await;
    scene.settings.client_id = Some("kept-client".to_owned());
    scene.settings.client_secret = Some(Secret::new("new-s3cret"));
    scene.settings.token_url = Some(Url::parse("https://other.example/token").unwrap());
    assert_eq!(carried(&scene.session(None), SERVER).await, None);
    assert!(scene.stranger.asked().is_empty(), "nothing was sent to whoever it was before");

    // A document may name somebody else by now, so what is not known there stays here.
    scene.settings.token_url = None;
    scene.settings.metadata_url = Some(Url::parse("https://other.example/metadata").unwrap());
    scene.stranger.answer(TOKEN, 401, r#"{"error":"invalid_client"}"#);
    carried(&scene.session(None), SERVER).await;
    assert_eq!(scene.token_requests(), 1);
    assert!(!format!("{:?}", scene.stranger.heard.lock()).contains("new-s3cret"));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_nobody_answers_is_said_and_tried_again_a_moment_later() {
    let scene = Scene::new();
    scene.keeps("0ld-token", now() + 3600, RegistrationSource::Dynamic).await;
    scene.stranger.answer(TOKEN, 503, "come back later");
    let scene = scene.gives(&["n3w-token"]);
    let session = scene.session(None);
    assert_eq!(refused(&session, StatusCode::UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    let needed = session.needed().unwrap().to_string();
    assert!(needed.starts_with("files needs a sign-in: ") && !needed.contains("come back later"), "{needed}");
    let said = session.instead().unwrap();
    assert_eq!((said.code(), &*said.to_string()), ("no_token", AWAY), "nobody has to sign in for that");
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer 0ld-token", "nothing was forgotten");

    assert_eq!(refused(&session, StatusCode::UNAUTHORIZED, "Bearer").await, Next::GiveUp, "it is left alone");
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(refused(&session, StatusCode::UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer n3w-token");
    assert_eq!((session.needed(), scene.token_requests()), (None, 2));
    assert!(session.instead().is_none());
}
