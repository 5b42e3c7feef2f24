//! Credentials of one authorization server are never sent to another, whichever one the server names or sends the
//! callback.

use toolway_auth::{settings::Settings, sign_in_required::SignInReason};
use toolway_testkit::authorization::{AuthorizationServer, Endpoint, Quirk, ServerQuirk};

use crate::stage::{Stage, assert_none_of, configured};

async fn another_authorization_server() -> AuthorizationServer {
    AuthorizationServer::start().await.unwrap()
}

/// CVE-2026-104850, WS-2026-0196: the server chose who received the refresh token and the client secret.
#[tokio::test]
async fn new_issuer_gets_nothing_of_the_old_one() {
    let (stage, evil) = (Stage::with_expired_token().await, another_authorization_server().await);
    stage.server.set_authorization_server(&evil);
    let failed = stage.unattended().call("hello").await.unwrap_err();
    assert!(failed.contains("`files` requires sign-in"), "{failed}");
    assert_none_of(&stage.login.secrets(), &evil.received());
    assert_eq!((evil.count(Endpoint::Code), evil.count(Endpoint::Refresh)), (0, 0));

    // The user is shown the previous issuer, and the new one gets a new client.
    let answer = stage.caller().call("hello").await.unwrap();
    assert_eq!(answer, "hello ada");
    let prompt = stage.ada.prompts().pop().unwrap();
    assert_eq!((prompt.issuer, prompt.before), (evil.issuer(), Some(stage.login.issuer())));
    assert_none_of(&stage.login.secrets(), &evil.received());
    assert_eq!(evil.count(Endpoint::Registration), 1);
}

/// CVE-2026-104850: the same for a configured client, which belongs to one issuer.
#[tokio::test]
async fn configured_client_is_never_presented_to_another_issuer() {
    let (stage, evil) = (Stage::new().await, another_authorization_server().await);
    stage.login.register("ours", Some("the-operators-secret"));
    let settings = configured("ours", Some("the-operators-secret"));
    let named = Settings { issuer: Some(stage.login.issuer()), ..settings.clone() };
    stage.with(named).call("hello").await.unwrap();
    stage.server.set_authorization_server(&evil);
    let caller = stage.with(settings);
    let failed = caller.call("hello").await.unwrap_err();
    assert!(failed.contains("its authorization server changed from"), "{failed}");
    let changed = SignInReason::IssuerChanged { before: stage.login.issuer(), now: evil.issuer() };
    assert_eq!(caller.session.required().unwrap().reason, changed);
    assert_eq!(evil.requests(), evil.count(Endpoint::Metadata), "only its metadata was read");
    assert_none_of(&stage.login.secrets(), &evil.received());
    assert!(!evil.received().contains("ours"));
}

/// RFC 9207: two authorization servers, one client id; a code of the honest one must not be sent to the other.
#[tokio::test]
async fn code_is_not_sent_to_a_mixed_up_authorization_server() {
    let (stage, evil) = (Stage::new().await, another_authorization_server().await);
    stage.login.register("shared", None);
    evil.register("shared", None);
    evil.set_quirks([Quirk::RedirectsTo(format!("{}/authorize", stage.login.issuer()))]);
    stage.server.set_quirks([ServerQuirk::AuthorizationServers(vec![evil.issuer()])]);
    let failed = stage.with(configured("shared", None)).call("hello").await.unwrap_err();
    assert!(failed.contains("the callback does not come from"), "{failed}");
    assert_eq!(stage.login.count(Endpoint::Page), 1, "the browser was redirected there");
    assert_eq!(evil.count(Endpoint::Code), 0);
    assert_none_of(&stage.login.secrets(), &evil.received());
}

/// The same without `iss` in callbacks: only the user can notice it.
#[tokio::test]
async fn sign_in_page_outside_the_issuer_is_shown_to_the_user() {
    let (stage, evil) = (Stage::new().await, another_authorization_server().await);
    evil.register("shared", None);
    evil.set_quirks([Quirk::NoIss, Quirk::AuthorizationEndpointAt(format!("{}/authorize", stage.login.issuer()))]);
    stage.server.set_quirks([ServerQuirk::AuthorizationServers(vec![evil.issuer()])]);
    stage.with(configured("shared", None)).call("hello").await.unwrap_err();
    let prompt = stage.ada.prompts().pop().unwrap();
    assert_eq!((prompt.issuer, prompt.page_origin), (evil.issuer(), Some(stage.login.issuer())));
}

/// CVE-2026-104850, before the first sign-in: an authorization server that redirects the browser straight back gets the
/// code and the secret of the configured client, without a page that the user could see.
#[tokio::test]
async fn configured_secret_is_not_sent_to_an_issuer_that_only_the_server_names() {
    let (stage, evil) = (Stage::new().await, another_authorization_server().await);
    let settings = configured("ours", Some("the-operators-secret"));
    evil.register("ours", Some("the-operators-secret"));
    stage.server.set_authorization_server(&evil);
    for principal in ["ada", "ada/work", "client/ben"] {
        let caller = stage.caller_for(principal, settings.clone(), Some(stage.ada.clone()));
        let failed = caller.call("hello").await.unwrap_err();
        let why = format!(
            "the client secret was not sent to `{}`: only the server names this issuer; if it is correct, set `oauth.issuer`",
            evil.issuer()
        );
        assert!(failed.contains(&why), "{failed}");
        assert!(stage.ada.prompts().is_empty(), "no browser was opened");
    }
    assert_eq!(evil.requests(), evil.count(Endpoint::Metadata), "only its metadata was read");

    stage.server.set_authorization_server(&stage.login);
    stage.login.register("ours", Some("the-operators-secret"));
    let named = Settings { issuer: Some(stage.login.issuer()), ..settings };
    assert_eq!(stage.with(named).call("hello").await.unwrap(), "hello ada");
}

#[tokio::test]
async fn callback_with_wrong_or_missing_iss_is_ignored() {
    let nearly = |issuer: String| vec![issuer.to_uppercase(), format!("{issuer}/"), "https://evil.example".to_owned()];
    let stage = Stage::new().await;
    let others = nearly(stage.login.issuer()).into_iter().map(Quirk::WrongIss);
    for quirk in others.chain([Quirk::OmitsIss]) {
        stage.login.set_quirks([quirk.clone()]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("it was ignored"), "{quirk:?}: {failed}");
        assert_eq!(stage.login.count(Endpoint::Code), 0, "{quirk:?}");
    }
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::NoIss]);
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada", "`iss` was not announced");
}

#[tokio::test]
async fn metadata_with_another_issuer_is_not_used() {
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::WrongIssuer("https://login.example".to_owned())]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("names the issuer `https://login.example` instead of"), "{failed}");
    assert_eq!(stage.login.requests(), stage.login.count(Endpoint::Metadata));
    assert!(stage.ada.prompts().is_empty());
}

#[tokio::test]
async fn resource_metadata_of_another_server_is_refused() {
    let stage = Stage::new().await;
    for foreign in ["https://bank.example/mcp", &stage.server.url().replace("/mcp", "/mcp2"), "not a URL"] {
        stage.server.set_quirks([ServerQuirk::WrongResource(foreign.to_owned())]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("not for"), "{foreign}: {failed}");
    }
    assert_eq!(stage.login.connections(), 0);
}
