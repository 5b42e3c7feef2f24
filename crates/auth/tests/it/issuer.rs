//! Whatever came from one authorization server goes to no other, whoever the server names, whoever calls back.

use toolway_auth::{needed::Why, settings::Settings};
use toolway_testkit::authorization::{AuthorizationServer, Endpoint, Oddity, Quirk};

use crate::stage::{Stage, assert_none_of, configured};

async fn stranger() -> AuthorizationServer {
    AuthorizationServer::start().await.unwrap()
}

/// CVE-2026-104850, WS-2026-0196: the server chose who received the refresh token and the client's secret.
#[tokio::test]
async fn a_server_that_names_another_issuer_gets_nothing_of_the_old_one_there() {
    let (stage, evil) = (Stage::with_an_ended_token().await, stranger().await);
    stage.server.moves_to(&evil);
    let failed = stage.unattended().call("hello").await.unwrap_err();
    assert!(failed.contains("files needs a sign-in"), "{failed}");
    assert_none_of(&stage.login.secrets(), &evil.heard());
    assert_eq!((evil.count(Endpoint::Code), evil.count(Endpoint::Renewal)), (0, 0));

    // A person is told who signed them in before, and the new one gets a new client.
    let answer = stage.caller().call("hello").await.unwrap();
    assert_eq!(answer, "hello ada");
    let invitation = stage.ada.invitations().pop().unwrap();
    assert_eq!((invitation.issuer, invitation.before), (evil.issuer(), Some(stage.login.issuer())));
    assert_none_of(&stage.login.secrets(), &evil.heard());
    assert_eq!(evil.count(Endpoint::Registration), 1);
}

/// CVE-2026-104850: the same for a client that the operator registered, which belongs to one issuer.
#[tokio::test]
async fn a_client_of_the_operators_is_never_shown_to_another_issuer() {
    let (stage, evil) = (Stage::new().await, stranger().await);
    stage.login.register("ours", Some("the-operators-secret"));
    let settings = configured("ours", Some("the-operators-secret"));
    let named = Settings { issuer: Some(stage.login.issuer()), ..settings.clone() };
    stage.with(named).call("hello").await.unwrap();
    stage.server.moves_to(&evil);
    let caller = stage.with(settings);
    let failed = caller.call("hello").await.unwrap_err();
    assert!(failed.contains("gave the tokens of this server until now, and now it is to be"), "{failed}");
    let changed = Why::IssuerChanged { before: stage.login.issuer(), now: evil.issuer() };
    assert_eq!(caller.session.needed().unwrap().why, changed);
    assert_eq!(evil.requests(), evil.count(Endpoint::Metadata), "only its metadata was read");
    assert_none_of(&stage.login.secrets(), &evil.heard());
    assert!(!evil.heard().contains("ours"));
}

/// RFC 9207: two servers, one client; the code of the honest one must not come to the other.
#[tokio::test]
async fn a_code_is_not_brought_to_the_server_that_mixed_itself_in() {
    let (stage, evil) = (Stage::new().await, stranger().await);
    stage.login.register("shared", None);
    evil.register("shared", None);
    evil.told([Quirk::SendsPeopleTo(format!("{}/authorize", stage.login.issuer()))]);
    stage.server.told([Oddity::Names(vec![evil.issuer()])]);
    let failed = stage.with(configured("shared", None)).call("hello").await.unwrap_err();
    assert!(failed.contains("the callback does not come from"), "{failed}");
    assert_eq!(stage.login.count(Endpoint::Page), 1, "the person was led there");
    assert_eq!(evil.count(Endpoint::Code), 0);
    assert_none_of(&stage.login.secrets(), &evil.heard());
}

/// The same where the other one does not say that its callbacks name it: then only the person can tell.
#[tokio::test]
async fn a_page_that_is_not_at_its_issuers_is_pointed_out_to_the_person() {
    let (stage, evil) = (Stage::new().await, stranger().await);
    evil.register("shared", None);
    evil.told([Quirk::NamesNobody, Quirk::PageAt(format!("{}/authorize", stage.login.issuer()))]);
    stage.server.told([Oddity::Names(vec![evil.issuer()])]);
    stage.with(configured("shared", None)).call("hello").await.unwrap_err();
    let invitation = stage.ada.invitations().pop().unwrap();
    assert_eq!((invitation.issuer, invitation.elsewhere), (evil.issuer(), Some(stage.login.issuer())));
}

/// CVE-2026-104850, before anybody has signed in: an authorization server that sends the browser straight back gets the code
/// and, with it, the secret of the operator's client; no person ever saw a page.
#[tokio::test]
async fn the_operators_secret_goes_to_nobody_whom_only_the_server_names() {
    let (stage, evil) = (Stage::new().await, stranger().await);
    let settings = configured("ours", Some("the-operators-secret"));
    evil.register("ours", Some("the-operators-secret"));
    stage.server.moves_to(&evil);
    for principal in ["ada", "ada/work", "client/ben"] {
        let caller = stage.somebody(principal, settings.clone(), Some(stage.ada.clone()));
        let failed = caller.call("hello").await.unwrap_err();
        let why = format!(
            "the client's secret is not sent to {}, which only the server names; if it is the right one, write it into \
             oauth.issuer",
            evil.issuer()
        );
        assert!(failed.contains(&why), "{failed}");
        assert!(stage.ada.invitations().is_empty(), "no browser was opened");
    }
    assert_eq!(evil.requests(), evil.count(Endpoint::Metadata), "only its metadata was read");

    stage.server.moves_to(&stage.login);
    stage.login.register("ours", Some("the-operators-secret"));
    let named = Settings { issuer: Some(stage.login.issuer()), ..settings };
    assert_eq!(stage.with(named).call("hello").await.unwrap(), "hello ada");
}

#[tokio::test]
async fn a_callback_from_nobody_or_from_somebody_else_is_of_no_use() {
    let nearly = |issuer: String| vec![issuer.to_uppercase(), format!("{issuer}/"), "https://evil.example".to_owned()];
    let stage = Stage::new().await;
    let others = nearly(stage.login.issuer()).into_iter().map(Quirk::CallbackFrom);
    for quirk in others.chain([Quirk::Nameless]) {
        stage.login.told([quirk.clone()]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("nothing of it was used"), "{quirk:?}: {failed}");
        assert_eq!(stage.login.count(Endpoint::Code), 0, "{quirk:?}");
    }
    let stage = Stage::new().await;
    stage.login.told([Quirk::NamesNobody]);
    assert_eq!(stage.caller().call("hello").await.unwrap(), "hello ada", "it never said that it would");
}

#[tokio::test]
async fn metadata_of_somebody_else_is_used_for_nothing() {
    let stage = Stage::new().await;
    stage.login.told([Quirk::CallsItself("https://login.example".to_owned())]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("calls itself `https://login.example` and not"), "{failed}");
    assert_eq!(stage.login.requests(), stage.login.count(Endpoint::Metadata));
    assert!(stage.ada.invitations().is_empty());
}

#[tokio::test]
async fn a_server_that_speaks_for_another_leads_nobody_anywhere() {
    let stage = Stage::new().await;
    for foreign in ["https://bank.example/mcp", &stage.server.url().replace("/mcp", "/mcp2"), "not an address"] {
        stage.server.told([Oddity::SpeaksFor(foreign.to_owned())]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("which is not"), "{foreign}: {failed}");
    }
    assert_eq!(stage.login.connections(), 0);
}
