//! The way from a refusal to an answer, at servers that keep the rules in all their ways.

use toolway_auth::settings::Settings;
use toolway_testkit::authorization::{Endpoint, Oddity, Quirk, visitor};

use crate::stage::{Stage, configured};

#[tokio::test]
async fn a_refused_call_is_answered_after_a_sign_in() {
    let stage = Stage::new().await;
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada");
    let found = [Endpoint::Metadata, Endpoint::Registration].map(|endpoint| stage.login.count(endpoint));
    assert_eq!((found, stage.visits_codes_renewals()), ([1, 1], (1, 1, 0)));
}

#[tokio::test]
async fn a_sign_in_is_kept_for_those_who_come_later() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
    assert_eq!(stage.visits_codes_renewals(), (1, 1, 0));
}

#[tokio::test]
async fn refusals_are_understood_in_all_their_spellings() {
    for headers in [
        vec![],
        vec!["Bearer"],
        vec![r#"BEARER realm="a, b" , Resource_Metadata = "{document}""#],
        vec![r#"Basic realm="x""#, r#"bearer scope="read", resource_metadata="{document}""#],
        vec![r#"Negotiate YII==, DPoP algs="ES256", Bearer error=invalid_token,resource_metadata="{document}","#],
    ] {
        let stage = Stage::new().await;
        stage.server.told([Oddity::Challenges(headers.iter().map(|&header| header.to_owned()).collect())]);
        assert_eq!(stage.caller().call("hello").await.as_deref(), Ok("hello ada"), "{headers:?}");
    }
}

#[tokio::test]
async fn a_client_with_a_secret_shows_it_at_the_token_endpoint() {
    let stage = Stage::new().await;
    stage.login.told([Quirk::SecretClients]);
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada");
    assert!(stage.login.heard().contains("authorization: Basic "));
}

#[tokio::test]
async fn a_client_may_be_known_by_a_document_about_it() {
    let stage = Stage::new().await;
    stage.login.told([Quirk::TakesDocuments]);
    let document = "https://client.example/toolway.json";
    let settings = Settings { client_document: Some(document.parse().unwrap()), ..Settings::default() };
    assert_eq!(stage.with(settings).call("hello").await.unwrap(), "hello ada");
    assert_eq!(stage.login.count(Endpoint::Registration), 0);
    assert!(stage.login.fields(Endpoint::Code)[0].contains(&("client_id".to_owned(), document.to_owned())));
}

#[tokio::test]
async fn the_operator_is_told_why_an_authorization_server_cannot_be_used() {
    for (quirk, said) in [
        (Quirk::RefusesClients, "does not register us: invalid_client_metadata (nobody is registered here)"),
        (Quirk::NoRegistration, "takes only clients it knows; register one there and write its id into oauth.clientId"),
        (Quirk::NoPkce, "does not say that it takes PKCE with S256, so nobody is sent there"),
    ] {
        let stage = Stage::new().await;
        stage.login.told([quirk.clone()]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains(said), "{quirk:?}: {failed}");
        assert_eq!(stage.visits_codes_renewals(), (0, 0, 0), "{quirk:?}");
    }
}

/// CVE-2026-59822: a check that failed fell through to the next way in.
#[tokio::test]
async fn a_client_of_the_operators_that_is_refused_is_replaced_by_no_other() {
    let stage = Stage::new().await;
    stage.login.register("ours", Some("right-secret"));
    let with = |secret| Settings { issuer: Some(stage.login.issuer()), ..configured("ours", Some(secret)) };
    let failed = stage.with(with("wrong-secret")).call("hello").await.unwrap_err();
    assert!(failed.contains("invalid_client"), "{failed}");
    assert_eq!((stage.login.count(Endpoint::Registration), stage.server.calls()), (0, 0));
    let good = stage.with(with("right-secret"));
    assert_eq!(good.call("hello").await.unwrap(), "hello ada");
}

#[tokio::test]
async fn a_page_with_a_button_sends_nobody_back_before_it_is_pressed() {
    let stage = Stage::new().await;
    stage.login.told([Quirk::Button]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("it is not sent back: HTTP/1.1 200"), "{failed}");
    let address = stage.ada.invitations()[0].address.expose().to_owned();
    let back = visitor::visit(&format!("{address}&agreed=yes"), "ada").await.unwrap();
    assert!(back.contains("code=") && back.contains("state="), "{back}");
}
