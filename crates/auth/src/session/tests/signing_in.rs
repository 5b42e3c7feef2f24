//! Refusals that need a person, and whose the sign-in is then.

use std::sync::Arc;

use futures_util::future::join_all;
use toolway_config::Secret;
use toolway_wire::up::credential::Next;

use super::scene::{
    Away, FORBIDDEN, LOGIN, Person, SERVER, Scene, TOKEN, UNAUTHORIZED, callback_to, carried, param, refused,
    refused_with, resource_names, signs_in,
};
use crate::{
    browser::Declined,
    credential::RegistrationSource,
    needed::Why,
    renewals::Renewals,
    scripted::Scripted,
    session::{Session, SessionOptions},
    sign_in::SignIn,
    vault::Vault as _,
};

#[tokio::test]
async fn without_a_person_a_refusal_is_a_sentence_and_no_traffic() {
    let scene = Scene::new();
    let session = scene.session(None);
    assert_eq!(carried(&session, SERVER).await, None);
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    assert_eq!(
        session.needed().unwrap().to_string(),
        "files needs a sign-in: nobody has signed in yet; run `toolway login files`"
    );
    assert!(scene.stranger.asked().is_empty());
}

#[tokio::test]
async fn a_refusal_leads_through_the_sign_in_to_a_token_for_this_server_alone() {
    let scene = Scene::new().gives(&["t1"]);
    let session = scene.interactive();
    assert_eq!(refused(&session, UNAUTHORIZED, r#"Bearer scope="read""#).await, Next::Again);
    let token = carried(&session, "https://example.org/messages").await.unwrap();
    assert!(token == "Bearer t1" && token.is_sensitive());
    assert_eq!(carried(&session, "https://example.org:8443/mcp").await, None);
    assert_eq!(carried(&session, "http://example.org/mcp").await, None);

    let invited = scene.person.invited.lock().clone();
    assert_eq!((invited.len(), invited[0].issuer.as_str()), (1, LOGIN));
    assert_eq!(param(&invited[0], "scope").as_deref(), Some("read"));
    assert_eq!(param(&invited[0], "resource").as_deref(), Some(SERVER));
    let exchange = scene.stranger.asked().len() - 1;
    for (name, value) in [
        ("resource", SERVER),
        ("code", "c0de-1234"),
        ("client_id", "client-of-login-example"),
        ("redirect_uri", "http://127.0.0.1:7/callback"),
    ] {
        assert_eq!(scene.stranger.field(exchange, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(session.needed(), None);
}

/// A renewal under way would keep it again.
#[tokio::test]
async fn a_sign_in_is_forgotten_after_whoever_renews_it() {
    let scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let key = scene.vault.keys().await.unwrap().remove(0);
    let (turn, kept) = (scene.vault.turn(&key).await.unwrap(), scene.vault.load(&key).await.unwrap().unwrap());
    let sign_in = scene.sign_in("ada");
    let renewal = async {
        tokio::task::yield_now().await;
        scene.vault.store(&key, kept).await.unwrap();
        drop(turn);
    };
    let (forgotten, ()) = tokio::join!(sign_in.forget(), renewal);
    assert_eq!((forgotten.unwrap(), scene.vault.keys().await.unwrap().len()), (1, 0));
}

#[tokio::test]
async fn a_step_up_asks_for_all_of_before_and_a_plain_403_is_final() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let session = scene.interactive();
    assert_eq!(refused(&session, FORBIDDEN, r#"Bearer scope="write""#).await, Next::GiveUp);
    assert_eq!((session.needed(), scene.stranger.asked().len()), (None, 0));
    let more = r#"Bearer error="insufficient_scope", scope="write""#;
    assert_eq!(refused(&session, FORBIDDEN, more).await, Next::Again);
    assert_eq!(param(&scene.person.invited.lock()[0], "scope").as_deref(), Some("read write"));
    assert_eq!(refused(&session, FORBIDDEN, more).await, Next::GiveUp, "that was asked for a moment ago");
    assert_eq!(session.needed().unwrap().why, Why::TooOften);
    let without_person = scene.session(None);
    assert_eq!(refused(&without_person, FORBIDDEN, more).await, Next::GiveUp);
    assert!(matches!(without_person.needed().unwrap().why, Why::MoreScopes(_)));
}

#[tokio::test]
async fn a_server_that_always_wants_more_sends_nobody_round_more_than_three_times() {
    let scene = Scene::new().gives(&["t1", "t2", "t3", "t4", "t5"]);
    let session = scene.interactive();
    for round in 0..6 {
        let more = format!(r#"Bearer error="insufficient_scope", scope="s{round}""#);
        let next = refused(&session, FORBIDDEN, &more).await;
        assert_eq!(next, if round < 3 { Next::Again } else { Next::GiveUp });
    }
    assert_eq!(scene.person.invited.lock().len(), 3);
}

/// CVE-2026-104850, WS-2026-0196: the server chooses who gets the client's secret.
#[tokio::test]
async fn the_operators_client_is_never_shown_to_another_issuer() {
    let mut scene = Scene::new();
    scene.settings.client_id = Some("kept-client".to_owned());
    scene.settings.client_secret = Some(Secret::new("s3cret-word"));
    scene.keeps("t1", u64::MAX, RegistrationSource::Configured).await;
    let evil = Arc::<Scripted>::default();
    resource_names(&evil, "https://evil.example");
    signs_in(&evil, "https://evil.example");
    scene.stranger = evil;
    scene.stranger.answer(TOKEN, 400, r#"{"error":"invalid_grant"}"#);
    let session = scene.interactive();
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    let why = session.needed().unwrap().why;
    assert_eq!(why, Why::IssuerChanged { before: LOGIN.to_owned(), now: "https://evil.example".to_owned() });
    assert!(scene.person.invited.lock().is_empty());
    assert!(!scene.stranger.asked().iter().any(|asked| asked == "https://evil.example/token"));
}

#[tokio::test]
async fn a_new_issuer_gets_a_new_client_and_nothing_of_the_old_one() {
    let scene = Scene::new().gives(&["first-token"]);
    refused(&scene.interactive(), UNAUTHORIZED, "Bearer").await;
    let second = "https://second.example";
    let moved = Scene { stranger: Arc::default(), ..scene };
    resource_names(&moved.stranger, second);
    signs_in(&moved.stranger, second);
    moved.stranger.answer("https://second.example/token", 200, r#"{"access_token":"t2","token_type":"Bearer"}"#);
    let session = moved.interactive();
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    let invited = moved.person.invited.lock()[1].clone();
    assert_eq!((invited.issuer.as_str(), invited.before.as_deref()), (second, Some(LOGIN)), "the person is told");
    for heard in moved.stranger.heard.lock().iter() {
        let sent = format!("{heard:?}");
        assert!(!sent.contains("client-of-login-example") && !sent.contains("first-token"), "{sent}");
    }
    assert_eq!(moved.vault.keys().await.unwrap().len(), 1, "and the old one is forgotten");
}

#[tokio::test]
async fn a_sign_in_of_another_process_is_noticed() {
    let scene = Scene::new().gives(&["t1"]);
    let session = scene.session(None);
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    assert_eq!(refused(&scene.interactive(), UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t1");
    assert_eq!(session.needed(), None);
}

#[tokio::test]
async fn a_sign_in_can_be_finished_by_another_process_and_by_its_owner_only() {
    let scene = Scene::new().gives(&["t1"]);
    let later = Person { declines: Some(Declined::Later), ..scene.person.clone() };
    let session = scene.session(Some(later));
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    let needed = session.needed().unwrap();
    let invitation = scene.person.invited.lock()[0].clone();
    assert_eq!((needed.why, needed.address.as_ref()), (Why::Begun, Some(&invitation.address)));
    let callback = callback_to(&invitation);
    for mistake in ["c0de-1234", "http://127.0.0.1:7/callback?code=c0de-1234&state=guess"] {
        assert!(scene.sign_in("ada").finish_waiting(&Secret::new(mistake)).await.is_err(), "{mistake}");
    }
    assert!(scene.sign_in("eve").finish_waiting(&callback).await.is_err());
    scene.sign_in("ada").finish_waiting(&callback).await.unwrap();
    let again = scene.sign_in("ada").finish_waiting(&callback).await.unwrap_err();
    assert_eq!(again.to_string(), "no sign-in waits for this callback; it ended, or was begun elsewhere");
    assert_eq!(refused_with(&session, UNAUTHORIZED, "Bearer", None).await, Next::Again);
    assert_eq!(scene.sign_in("ada").forget().await.unwrap(), 1);
    assert!(scene.vault.keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn one_persons_token_is_never_anothers() {
    let scene = Scene::new().gives(&["t1"]);
    refused(&scene.interactive(), UNAUTHORIZED, "Bearer").await;
    let options = SessionOptions {
        name: "files".to_owned(),
        remedy: String::new(),
        browser: None,
        sign_in: scene.sign_in("eve"),
        renewals: Renewals::default(),
    };
    assert_eq!(carried(&Session::new(options), SERVER).await, None);
}

#[tokio::test]
async fn a_person_who_says_no_is_asked_once_for_all_that_waited() {
    let scene = Scene::new();
    let unwilling = Person { declines: Some(Declined::Refused), ..scene.person.clone() };
    let session = scene.session(Some(unwilling));
    let answers = join_all((0..5).map(|_| refused_with(&session, UNAUTHORIZED, "Bearer", None))).await;
    assert_eq!(answers, [Next::GiveUp; 5]);
    assert_eq!(scene.person.invited.lock().len(), 1);
    assert_eq!(session.needed().unwrap().why, Why::Failed("the sign-in was given up".to_owned()));
}

/// The kind of `auth` was changed: what a client of ours was given is no person's sign-in.
#[tokio::test]
async fn a_token_that_nobody_signed_in_for_is_nobodys_sign_in() {
    let scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Unattended).await;
    assert_eq!(carried(&scene.session(None), SERVER).await, None);
    assert_eq!(scene.sign_in("ada").forget().await.unwrap(), 1, "though it can be forgotten");
}

#[tokio::test]
async fn a_sign_in_waits_on_where_nobody_could_be_reached_to_finish_it() {
    let scene = Scene::new().gives(&["t1"]);
    let later = Person { declines: Some(Declined::Later), ..scene.person.clone() };
    refused(&scene.session(Some(later)), UNAUTHORIZED, "Bearer").await;
    let callback = callback_to(&scene.person.invited.lock()[0].clone());
    let away = SignIn { fetch: Arc::new(Away), ..scene.sign_in("ada") };
    let failed = away.finish_waiting(&callback).await.unwrap_err();
    assert!(matches!(failed.why(), Why::Unanswered(_)));
    scene.sign_in("ada").finish_waiting(&callback).await.unwrap();
}

#[tokio::test]
async fn a_token_of_a_client_that_is_not_configured_any_more_is_not_used() {
    let mut scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Configured).await;
    scene.settings.client_id = Some("kept-client".to_owned());
    assert!(carried(&scene.session(None), SERVER).await.is_some());
    scene.settings.client_id = Some("new-client".to_owned());
    assert_eq!(carried(&scene.session(None), SERVER).await, None);
}
