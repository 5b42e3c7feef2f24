//! Tests of refusals that need a user.

use std::sync::Arc;

use futures_util::future::join_all;
use toolway_config::Secret;
use toolway_wire::up::credential::ChallengeAction;

use super::scene::{
    FORBIDDEN, LOGIN, SERVER, Scene, TOKEN, TestBrowser, UNAUTHORIZED, Unreachable, authorization_header, callback_to,
    challenge, challenge_with, param, script_authorization_server, script_resource,
};
use crate::{
    browser::BrowserError,
    credential::RegistrationSource,
    refresh_tracker::RefreshTracker,
    scripted::ScriptedFetch,
    session::{Session, SessionOptions},
    sign_in::SignIn,
    sign_in_required::SignInReason,
    vault::Vault as _,
};

#[tokio::test]
async fn refusal_without_a_browser_is_reported_without_traffic() {
    let scene = Scene::new();
    let session = scene.session(None);
    assert_eq!(authorization_header(&session, SERVER).await, None);
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::GiveUp);
    assert_eq!(
        session.required().unwrap().to_string(),
        "`files` requires sign-in: not signed in yet; run `toolway login files`"
    );
    assert!(scene.remote.urls().is_empty());
}

#[tokio::test]
async fn refusal_leads_to_a_sign_in_and_a_token_for_this_server_only() {
    let scene = Scene::new().issue_tokens(&["t1"]);
    let session = scene.interactive();
    assert_eq!(challenge(&session, UNAUTHORIZED, r#"Bearer scope="read""#).await, ChallengeAction::Retry);
    let token = authorization_header(&session, "https://example.org/messages").await.unwrap();
    assert!(token == "Bearer t1" && token.is_sensitive());
    assert_eq!(authorization_header(&session, "https://example.org:8443/mcp").await, None);
    assert_eq!(authorization_header(&session, "http://example.org/mcp").await, None);

    let prompts = scene.browser.prompts.lock().clone();
    assert_eq!((prompts.len(), prompts[0].issuer.as_str()), (1, LOGIN));
    assert_eq!(param(&prompts[0], "scope").as_deref(), Some("read"));
    assert_eq!(param(&prompts[0], "resource").as_deref(), Some(SERVER));
    let exchange = scene.remote.urls().len() - 1;
    for (name, value) in [
        ("resource", SERVER),
        ("code", "c0de-1234"),
        ("client_id", "client-of-login-example"),
        ("redirect_uri", "http://127.0.0.1:7/callback"),
    ] {
        assert_eq!(scene.remote.field(exchange, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(session.required(), None);
}

/// A refresh in progress would store it again.
#[tokio::test]
async fn deletion_waits_for_a_refresh_in_progress() {
    let scene = Scene::new();
    scene.store_token("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let key = scene.vault.keys().await.unwrap().remove(0);
    let (lock, kept) = (scene.vault.lock(&key).await.unwrap(), scene.vault.load(&key).await.unwrap().unwrap());
    let sign_in = scene.sign_in("ada");
    let refresh = async {
        tokio::task::yield_now().await;
        scene.vault.store(&key, kept).await.unwrap();
        drop(lock);
    };
    let (forgotten, ()) = tokio::join!(sign_in.forget(), refresh);
    assert_eq!((forgotten.unwrap(), scene.vault.keys().await.unwrap().len()), (1, 0));
}

#[tokio::test]
async fn step_up_requests_previous_scopes_and_a_plain_403_is_final() {
    let scene = Scene::new().issue_tokens(&["t2"]);
    scene.store_token("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let session = scene.interactive();
    assert_eq!(challenge(&session, FORBIDDEN, r#"Bearer scope="write""#).await, ChallengeAction::GiveUp);
    assert_eq!((session.required(), scene.remote.urls().len()), (None, 0));
    let more = r#"Bearer error="insufficient_scope", scope="write""#;
    assert_eq!(challenge(&session, FORBIDDEN, more).await, ChallengeAction::Retry);
    assert_eq!(param(&scene.browser.prompts.lock()[0], "scope").as_deref(), Some("read write"));
    assert_eq!(challenge(&session, FORBIDDEN, more).await, ChallengeAction::GiveUp, "requested a moment ago");
    assert_eq!(session.required().unwrap().reason, SignInReason::TooManyRounds);
    let without_browser = scene.session(None);
    assert_eq!(challenge(&without_browser, FORBIDDEN, more).await, ChallengeAction::GiveUp);
    assert!(matches!(without_browser.required().unwrap().reason, SignInReason::MoreScopes(_)));
}

#[tokio::test]
async fn server_that_always_wants_more_scopes_gets_three_rounds() {
    let scene = Scene::new().issue_tokens(&["t1", "t2", "t3", "t4", "t5"]);
    let session = scene.interactive();
    for round in 0..6 {
        let more = format!(r#"Bearer error="insufficient_scope", scope="s{round}""#);
        let next = challenge(&session, FORBIDDEN, &more).await;
        assert_eq!(next, if round < 3 { ChallengeAction::Retry } else { ChallengeAction::GiveUp });
    }
    assert_eq!(scene.browser.prompts.lock().len(), 3);
}

/// CVE-2026-104850, WS-2026-0196: the server chose which issuer received the client secret.
#[tokio::test]
async fn configured_client_is_never_presented_to_another_issuer() {
    let mut scene = Scene::new();
    scene.settings.client_id = Some("kept-client".to_owned());
    scene.settings.client_secret = Some(Secret::new("s3cret-word"));
    scene.store_token("t1", u64::MAX, RegistrationSource::Configured).await;
    let evil = Arc::<ScriptedFetch>::default();
    script_resource(&evil, "https://evil.example");
    script_authorization_server(&evil, "https://evil.example");
    scene.remote = evil;
    scene.remote.answer(TOKEN, 400, r#"{"error":"invalid_grant"}"#);
    let session = scene.interactive();
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::GiveUp);
    let why = session.required().unwrap().reason;
    assert_eq!(why, SignInReason::IssuerChanged { before: LOGIN.to_owned(), now: "https://evil.example".to_owned() });
    assert!(scene.browser.prompts.lock().is_empty());
    assert!(!scene.remote.urls().iter().any(|asked| asked == "https://evil.example/token"));
}

#[tokio::test]
async fn new_issuer_gets_a_new_client_and_nothing_of_the_old_one() {
    let scene = Scene::new().issue_tokens(&["first-token"]);
    challenge(&scene.interactive(), UNAUTHORIZED, "Bearer").await;
    let second = "https://second.example";
    let moved = Scene { remote: Arc::default(), ..scene };
    script_resource(&moved.remote, second);
    script_authorization_server(&moved.remote, second);
    moved.remote.answer("https://second.example/token", 200, r#"{"access_token":"t2","token_type":"Bearer"}"#);
    let session = moved.interactive();
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t2");
    let prompts = moved.browser.prompts.lock()[1].clone();
    assert_eq!((prompts.issuer.as_str(), prompts.before.as_deref()), (second, Some(LOGIN)), "the user is warned");
    for heard in moved.remote.requests.lock().iter() {
        let sent = format!("{heard:?}");
        assert!(!sent.contains("client-of-login-example") && !sent.contains("first-token"), "{sent}");
    }
    assert_eq!(moved.vault.keys().await.unwrap().len(), 1, "the old credential is deleted");
}

#[tokio::test]
async fn sign_in_of_another_process_is_noticed() {
    let scene = Scene::new().issue_tokens(&["t1"]);
    let session = scene.session(None);
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::GiveUp);
    assert_eq!(challenge(&scene.interactive(), UNAUTHORIZED, "Bearer").await, ChallengeAction::Retry);
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&session, SERVER).await.unwrap(), "Bearer t1");
    assert_eq!(session.required(), None);
}

#[tokio::test]
async fn sign_in_can_be_finished_by_another_process_of_the_same_principal_only() {
    let scene = Scene::new().issue_tokens(&["t1"]);
    let later = TestBrowser { declines: Some(BrowserError::Deferred), ..scene.browser.clone() };
    let session = scene.session(Some(later));
    assert_eq!(challenge(&session, UNAUTHORIZED, "Bearer").await, ChallengeAction::GiveUp);
    let needed = session.required().unwrap();
    let prompt = scene.browser.prompts.lock()[0].clone();
    assert_eq!((needed.reason, needed.address.as_ref()), (SignInReason::Pending, Some(&prompt.address)));
    let callback = callback_to(&prompt);
    for mistake in ["c0de-1234", "http://127.0.0.1:7/callback?code=c0de-1234&state=guess"] {
        assert!(scene.sign_in("ada").finish_pending(&Secret::new(mistake)).await.is_err(), "{mistake}");
    }
    assert!(scene.sign_in("eve").finish_pending(&callback).await.is_err());
    scene.sign_in("ada").finish_pending(&callback).await.unwrap();
    let again = scene.sign_in("ada").finish_pending(&callback).await.unwrap_err();
    assert_eq!(again.to_string(), "no sign-in waits for this callback; it has expired, or was started elsewhere");
    assert_eq!(challenge_with(&session, UNAUTHORIZED, "Bearer", None).await, ChallengeAction::Retry);
    assert_eq!(scene.sign_in("ada").forget().await.unwrap(), 1);
    assert!(scene.vault.keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn token_of_one_principal_is_not_used_for_another() {
    let scene = Scene::new().issue_tokens(&["t1"]);
    challenge(&scene.interactive(), UNAUTHORIZED, "Bearer").await;
    let options = SessionOptions {
        name: "files".to_owned(),
        remedy: String::new(),
        browser: None,
        sign_in: scene.sign_in("eve"),
        refreshes: RefreshTracker::default(),
    };
    assert_eq!(authorization_header(&Session::new(options), SERVER).await, None);
}

#[tokio::test]
async fn declined_sign_in_is_offered_once_to_all_waiting_requests() {
    let scene = Scene::new();
    let unwilling = TestBrowser { declines: Some(BrowserError::Cancelled), ..scene.browser.clone() };
    let session = scene.session(Some(unwilling));
    let answers = join_all((0..5).map(|_| challenge_with(&session, UNAUTHORIZED, "Bearer", None))).await;
    assert_eq!(answers, [ChallengeAction::GiveUp; 5]);
    assert_eq!(scene.browser.prompts.lock().len(), 1);
    assert_eq!(session.required().unwrap().reason, SignInReason::Failed("the sign-in was cancelled".to_owned()));
}

/// The kind of `auth` was changed: a token of an unattended grant is not an interactive sign-in.
#[tokio::test]
async fn unattended_token_is_not_used_as_a_sign_in() {
    let scene = Scene::new();
    scene.store_token("t1", u64::MAX, RegistrationSource::Unattended).await;
    assert_eq!(authorization_header(&scene.session(None), SERVER).await, None);
    assert_eq!(scene.sign_in("ada").forget().await.unwrap(), 1, "it can be deleted");
}

#[tokio::test]
async fn sign_in_stays_pending_if_the_token_endpoint_is_unreachable() {
    let scene = Scene::new().issue_tokens(&["t1"]);
    let later = TestBrowser { declines: Some(BrowserError::Deferred), ..scene.browser.clone() };
    challenge(&scene.session(Some(later)), UNAUTHORIZED, "Bearer").await;
    let callback = callback_to(&scene.browser.prompts.lock()[0].clone());
    let away = SignIn { fetch: Arc::new(Unreachable), ..scene.sign_in("ada") };
    let failed = away.finish_pending(&callback).await.unwrap_err();
    assert!(matches!(failed.reason(), SignInReason::Unavailable(_)));
    scene.sign_in("ada").finish_pending(&callback).await.unwrap();
}

#[tokio::test]
async fn token_of_a_client_that_is_no_longer_configured_is_not_used() {
    let mut scene = Scene::new();
    scene.store_token("t1", u64::MAX, RegistrationSource::Configured).await;
    scene.settings.client_id = Some("kept-client".to_owned());
    assert!(authorization_header(&scene.session(None), SERVER).await.is_some());
    scene.settings.client_id = Some("new-client".to_owned());
    assert_eq!(authorization_header(&scene.session(None), SERVER).await, None);
}
