//! Sign-in at servers that follow the specification in various ways.

use toolway_auth::settings::Settings;
use toolway_testkit::authorization::{Endpoint, Quirk, ServerQuirk, test_browser};

use crate::stage::{Stage, configured};

#[tokio::test]
async fn refused_call_is_answered_after_a_sign_in() {
    let stage = Stage::new().await;
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada");
    let found = [Endpoint::Metadata, Endpoint::Registration].map(|endpoint| stage.login.count(endpoint));
    assert_eq!((found, stage.visits_codes_refreshes()), ([1, 1], (1, 1, 0)));
}

#[tokio::test]
async fn sign_in_is_stored_for_later_callers() {
    let stage = Stage::new().await;
    stage.caller().call("hello").await.unwrap();
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada");
    assert_eq!(stage.visits_codes_refreshes(), (1, 1, 0));
}

#[tokio::test]
async fn challenges_are_parsed_in_all_spellings() {
    for headers in [
        vec![],
        vec!["Bearer"],
        vec![r#"BEARER realm="a, b" , Resource_Metadata = "{document}""#],
        vec![r#"Basic realm="x""#, r#"bearer scope="read", resource_metadata="{document}""#],
        vec![r#"Negotiate YII==, DPoP algs="ES256", Bearer error=invalid_token,resource_metadata="{document}","#],
    ] {
        let stage = Stage::new().await;
        stage.server.set_quirks([ServerQuirk::Challenges(headers.iter().map(|&header| header.to_owned()).collect())]);
        assert_eq!(stage.caller().call("hello").await.as_deref(), Ok("hello ada"), "{headers:?}");
    }
}

#[tokio::test]
async fn client_secret_is_sent_to_the_token_endpoint() {
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::IssuesClientSecrets]);
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada");
    assert!(stage.login.received().contains("authorization: Basic "));
}

#[tokio::test]
async fn client_may_be_identified_by_a_metadata_document() {
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::SupportsClientDocuments]);
    let document = "https://client.example/toolway.json";
    let settings = Settings { client_document: Some(document.parse().unwrap()), ..Settings::default() };
    assert_eq!(stage.with(settings).call("hello").await.unwrap(), "hello ada");
    assert_eq!(stage.login.count(Endpoint::Registration), 0);
    assert!(stage.login.fields(Endpoint::Code)[0].contains(&("client_id".to_owned(), document.to_owned())));
}

#[tokio::test]
async fn unusable_authorization_server_is_reported_with_a_reason() {
    for (quirk, said) in [
        (Quirk::RefusesRegistration, "failed: invalid_client_metadata (registration is disabled)"),
        (
            Quirk::NoRegistration,
            "does not support dynamic client registration; register a client there and set `oauth.clientId`",
        ),
        (Quirk::NoPkce, "does not advertise PKCE with S256"),
    ] {
        let stage = Stage::new().await;
        stage.login.set_quirks([quirk.clone()]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains(said), "{quirk:?}: {failed}");
        assert_eq!(stage.visits_codes_refreshes(), (0, 0, 0), "{quirk:?}");
    }
}

/// CVE-2026-59822: after a failed check, the next method was tried.
#[tokio::test]
async fn refused_configured_client_is_not_replaced_by_another() {
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
async fn page_with_a_button_redirects_only_after_a_click() {
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::ConsentPage]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("no redirect: HTTP/1.1 200"), "{failed}");
    let address = stage.ada.prompts()[0].address.expose().to_owned();
    let back = test_browser::visit(&format!("{address}&agreed=yes"), "ada").await.unwrap();
    assert!(back.contains("code=") && back.contains("state="), "{back}");
}
