//! Tests of tokens that expire or are refused.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{HeaderValue, StatusCode};
use tokio::time::Instant;
use toolway_config::Secret;
use toolway_wire::up::credential::{ChallengeAction, Credentials as _};
use url::Url;

use super::scene::{SERVER, Scene, TOKEN, UNAUTHORIZED, authorization_header, challenge, challenge_with, sending};
use crate::{
    cooldown::AFTER_FAILURE,
    counters::RefreshCounters,
    credential::{Credential, RegistrationSource, TokenKind, now},
    dpop::DpopKeys,
    proof::ProofKeys as _,
    refresh_tracker::RefreshTracker,
    scripted::SCRIPTED_TIMEOUT,
    session::{Session, SessionOptions},
    sign_in::SignIn,
    sign_in_required::SignInReason,
    vault::{MemoryVault, Vault as _, full::FullVault},
};

const AWAY: &str = "no access token available: `https://login.example/token` is temporarily unavailable (HTTP 503)";

#[tokio::test]
async fn eight_requests_with_an_expiring_token_refresh_it_once() {
    let scene = Scene::new().issue_tokens(&["t2"]);
    scene.store_token("t1", now() + 5, RegistrationSource::Dynamic).await;
    let (one, other) = (scene.session(None), scene.session(None));
    let requests = (0..8).map(|place| authorization_header(if place % 2 == 0 { &one } else { &other }, SERVER));
    let carried = join_all(requests).await;
    assert!(carried.iter().all(|token| token.as_ref().unwrap() == "Bearer t2"), "{carried:?}");
    assert_eq!(scene.token_requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_hanging_token_endpoint_share_one_request() {
    let soon = now() + 20;
    for (ends, refused) in [(soon, false), (1, false), (u64::MAX, true)] {
        let scene = Scene::new();
        scene.remote.hang_at(TOKEN);
        scene.store_token("t1", ends, RegistrationSource::Dynamic).await;
        let (session, began) = (scene.session(None), Instant::now());
        let url = Url::parse(SERVER).unwrap();
        let old = HeaderValue::from_static("Bearer t1");
        let asked = (0..8).map(|_| async {
            if refused {
                return challenge_with(&session, UNAUTHORIZED, "Bearer", Some(old.clone())).await
                    == ChallengeAction::Retry;
            }
            session.headers(sending(&url)).await.is_ok()
        });
        let went_on = join_all(asked).await;
        assert_eq!(went_on, [ends == soon; 8], "a valid token is used, {ends}");
        assert_eq!(scene.token_requests(), 1, "{ends}");
        assert!(began.elapsed() < 2 * SCRIPTED_TIMEOUT, "{ends}: {:?}", began.elapsed());
    }
}

/// The credential under one key may belong to another URL of the same resource by now.
#[tokio::test]
async fn refresh_does_not_adopt_the_sign_in_of_another_url() {
    let scene = Scene::new().issue_tokens(&["t2"]);
    scene.store_token("t1", now() + 20, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    session.shared.current_credential().await.unwrap().unwrap();
    let key = scene.vault.keys().await.unwrap().remove(0);
    let mut other = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    other.server = "https://example.org/other".to_owned();
    other.tokens.as_mut().unwrap().access = Secret::new("other-token");
    other.store(&*scene.vault, &key).await.unwrap();
    assert_eq!(authorization_header(&session, SERVER).await, None);
    assert_eq!(scene.token_requests(), 0);
}

/// A bearer token must not replace a token that is bound to a key.
#[tokio::test]
async fn token_of_another_type_than_configured_is_neither_accepted_nor_sent() {
    let scene = Scene::new().issue_tokens(&["t2"]);
    scene.store_token("t1", now() + 20, RegistrationSource::Dynamic).await;
    let key = scene.vault.keys().await.unwrap().remove(0);
    let mut bound = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    let prover = DpopKeys.prover(None).unwrap();
    (bound.proof_key, bound.tokens.as_mut().unwrap().kind) = (Some(prover.key()), TokenKind::DPoP);
    bound.store(&*scene.vault, &key).await.unwrap();
    assert_eq!(authorization_header(&scene.session(None), SERVER).await, None, "binding is not configured");

    let sign_in = SignIn { proofs: Some(Arc::new(DpopKeys)), ..scene.sign_in("ada") };
    let refreshes = RefreshTracker::default();
    let options = SessionOptions { name: "files".to_owned(), remedy: String::new(), browser: None, sign_in, refreshes };
    assert_eq!(
        authorization_header(&Session::new(options), SERVER).await.unwrap(),
        "DPoP t1",
        "the old one, until it expires"
    );
    assert_eq!(scene.token_requests(), 1);
    let kept = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    assert_eq!(kept.tokens.unwrap().access, Secret::new("t1"));
}

#[tokio::test]
async fn requests_that_were_refused_together_refresh_once() {
    let scene = Scene::new().issue_tokens(&["t2", "t3"]);
    scene.store_token("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    let old = authorization_header(&session, SERVER).await;
    let answers = join_all((0..4).map(|_| challenge_with(&session, UNAUTHORIZED, "Bearer", old.clone()))).await;
    assert_eq!(answers, [ChallengeAction::Retry; 4]);
    assert_eq!(challenge_with(&session, UNAUTHORIZED, "Bearer", old).await, ChallengeAction::Retry, "refused late");
    assert_eq!(scene.token_requests(), 1);
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(
        challenge(&session, UNAUTHORIZED, "Bearer").await,
        ChallengeAction::GiveUp,
        "the new token was refused at once"
    );
    assert_eq!(scene.token_requests(), 1, "and is not refreshed again");
    assert_eq!(session.required().unwrap().reason, SignInReason::Expired);
}

#[tokio::test]
async fn refresh_is_stored_even_if_its_caller_is_cancelled() {
    let scene = Scene::new().issue_tokens(&["t2"]);
    scene.store_token("t1", 0, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    {
        let url = Url::parse(SERVER).unwrap();
        let mut request = session.headers(sending(&url));
        assert!(futures_util::poll!(request.as_mut()).is_pending());
    }
    session.settle().await;
    assert_eq!(authorization_header(&scene.session(None), SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(scene.token_requests(), 1);
}

/// Otherwise the used refresh token would be sent again, and the authorization server would revoke all tokens.
#[tokio::test(start_paused = true)]
async fn unsaved_token_is_used_until_it_is_stored() {
    let scene = Scene::new();
    scene.store_token("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let kept = scene.vault.all().await.unwrap().remove(0);
    let (memory, reply) = (MemoryVault::default(), r#"{"access_token":"t2","token_type":"Bearer","expires_in":3600,"#);
    memory.store(&kept.0, kept.1).await.unwrap();
    scene.remote.answer(TOKEN, 200, format!(r#"{reply}"refresh_token":"r2-refresh"}}"#));
    let vault = Arc::new(FullVault::of(memory));
    let sign_in = SignIn { vault: Arc::clone(&vault) as _, ..scene.sign_in("ada") };
    let refreshes = RefreshTracker::default();
    let session = || {
        let (name, sign_in, refreshes) = ("files".to_owned(), sign_in.clone(), refreshes.clone());
        Session::new(SessionOptions { name, remedy: String::new(), browser: None, sign_in, refreshes })
    };
    let (session, other) = (session(), session());
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::GiveUp, "it is fresh");
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t2", "the old one is not used");
    assert_eq!(authorization_header(&other, SERVER).await.unwrap(), "Bearer t2", "for another connection either");

    vault.make_writable();
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t2");
    session.settle().await;
    let tokens = Credential::load(&*vault, &kept.0).await.unwrap().unwrap().tokens.unwrap();
    assert_eq!(tokens.refresh.unwrap().expose(), "r2-refresh", "it was stored later");
    assert_eq!(scene.token_requests(), 1);
}

#[tokio::test]
async fn rejected_refresh_requires_sign_in_without_a_loop() {
    let scene = Scene::new();
    scene.remote.answer(TOKEN, 400, r#"{"error":"invalid_grant"}"#);
    scene.store_token("t1", 0, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    for _ in 0..3 {
        assert_eq!(authorization_header(&session, SERVER).await, None);
        assert_eq!(challenge_with(&session, UNAUTHORIZED, "Bearer", None).await, ChallengeAction::GiveUp);
    }
    assert_eq!(scene.token_requests(), 1);
    assert_eq!(session.required().unwrap().reason, SignInReason::Expired);
    let kept = Credential::find(&*scene.vault, "ada", SERVER).await.unwrap().unwrap().1;
    assert_eq!((kept.client.id.as_str(), kept.tokens), ("kept-client", None));
}

#[tokio::test]
async fn valid_token_is_used_while_the_token_endpoint_is_unavailable() {
    let scene = Scene::new();
    scene.remote.answer(TOKEN, 503, "later");
    scene.store_token("t1", now() + 20, RegistrationSource::Dynamic).await;
    assert_eq!(authorization_header(&scene.session(None), SERVER).await.unwrap(), "Bearer t1");
    scene.store_token("t0", now() - 1, RegistrationSource::Dynamic).await;
    let url = Url::parse(SERVER).unwrap();
    let failed = scene.session(None).headers(sending(&url)).await.unwrap_err();
    assert!(failed.to_string().contains("cannot be refreshed"), "{failed}");
    assert_eq!(failed.code(), "no_token");
}

/// The operator configured another authorization server: the old token is not sent, and the new secret is not sent to
/// the old one.
#[tokio::test]
async fn credential_of_another_token_endpoint_than_configured_is_not_used() {
    let mut scene = Scene::new();
    scene.store_token("t1", now() + 5, RegistrationSource::Configured).await;
    scene.settings.client_id = Some("kept-client".to_owned());
    scene.settings.client_secret = Some(Secret::new("new-s3cret"));
    scene.settings.token_url = Some(Url::parse("https://other.example/token").unwrap());
    assert_eq!(authorization_header(&scene.session(None), SERVER).await, None);
    assert!(scene.remote.urls().is_empty(), "nothing was sent to the previous one");

    // The metadata document may name another issuer by now, so the new secret is not sent to the old one.
    scene.settings.token_url = None;
    scene.settings.metadata_url = Some(Url::parse("https://other.example/metadata").unwrap());
    scene.remote.answer(TOKEN, 401, r#"{"error":"invalid_client"}"#);
    authorization_header(&scene.session(None), SERVER).await;
    assert_eq!(scene.token_requests(), 1);
    assert!(!format!("{:?}", scene.remote.requests.lock()).contains("new-s3cret"));
}

#[tokio::test(start_paused = true)]
async fn refreshes_and_failed_refreshes_are_counted() {
    let scene = Scene::new();
    scene.store_token("t0", now() - 1, RegistrationSource::Dynamic).await;
    scene.remote.answer(TOKEN, 503, "later");
    let scene = scene.issue_tokens(&["t1"]);
    let counters = RefreshCounters::default();
    let session = Session::new(SessionOptions {
        name: "files".to_owned(),
        remedy: String::new(),
        browser: None,
        sign_in: scene.sign_in("ada"),
        refreshes: RefreshTracker::default().counted_by(counters.clone()),
    });
    let url = Url::parse(SERVER).unwrap();
    for _ in 0..2 {
        assert!(session.headers(sending(&url)).await.is_err());
    }
    assert_eq!((counters.succeeded(), counters.failed()), (0, 1), "no request during the pause");
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t1");
    assert_eq!((counters.succeeded(), counters.failed()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn unavailable_token_endpoint_is_reported_and_tried_again_later() {
    let scene = Scene::new();
    scene.store_token("0ld-token", now() + 3600, RegistrationSource::Dynamic).await;
    scene.remote.answer(TOKEN, 503, "come back later");
    let scene = scene.issue_tokens(&["n3w-token"]);
    let session = scene.session(None);
    assert_eq!(challenge(&session, StatusCode::UNAUTHORIZED, "Bearer").await, ChallengeAction::GiveUp);
    let needed = session.required().unwrap().to_string();
    assert!(needed.starts_with("`files` requires sign-in: ") && !needed.contains("come back later"), "{needed}");
    let said = session.replacement_error().unwrap();
    assert_eq!((said.code(), &*said.to_string()), ("no_token", AWAY), "this does not require sign-in");
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer 0ld-token", "nothing was deleted");

    assert_eq!(
        challenge(&session, StatusCode::UNAUTHORIZED, "Bearer").await,
        ChallengeAction::GiveUp,
        "no request during the pause"
    );
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(challenge(&session, StatusCode::UNAUTHORIZED, "Bearer").await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer n3w-token");
    assert_eq!((session.required(), scene.token_requests()), (None, 2));
    assert!(session.replacement_error().is_none());
}
