//! Authorization servers as they describe themselves, honestly or not.

use std::sync::Arc;

use url::Url;

use super::{Pkce, ServerMetadata};
use crate::{metadata::MetadataError, scripted::Scripted};

const ROOT: &str = "https://login.example/.well-known/oauth-authorization-server";
const OPENID: &str = "https://login.example/.well-known/openid-configuration";

fn document(issuer: &str, more: &str) -> String {
    format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"https://login.example/authorize",
            "token_endpoint":"https://login.example/token"{more}}}"#
    )
}

const S256: &str = r#","code_challenge_methods_supported":["plain","S256"]"#;

fn stranger() -> Arc<Scripted> {
    Arc::default()
}

#[tokio::test]
async fn an_issuer_without_a_path_has_two_places() {
    let found = stranger().answer(OPENID, 200, document("https://login.example", S256));
    let server = ServerMetadata::find(&*found, "https://login.example").await.unwrap();
    assert_eq!(found.asked(), [ROOT, OPENID]);
    assert_eq!(server.sign_in_page().unwrap().as_str(), "https://login.example/authorize");
}

#[tokio::test]
async fn an_issuer_with_a_path_has_three_and_never_the_bare_root() {
    let bait = stranger().answer(ROOT, 200, document("https://login.example/t", S256));
    let none = ServerMetadata::find(&*bait, "https://login.example/t").await.unwrap_err();
    assert!(matches!(none, MetadataError::NoServer { .. }), "{none}");
    assert_eq!(
        bait.asked(),
        [&format!("{ROOT}/t"), &format!("{OPENID}/t"), "https://login.example/t/.well-known/openid-configuration"]
    );
}

/// CVE-2026-104850, WS-2026-0196: whoever answers for an issuer has to be it, letter by letter.
#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    let others =
        ["https://evil.example", "https://login.example/", "https://LOGIN.example", "https://login.example:443"];
    for other in others {
        let found = stranger().answer(ROOT, 200, document(other, S256));
        let refused = ServerMetadata::find(&*found, "https://login.example").await.unwrap_err();
        assert!(matches!(refused, MetadataError::WrongIssuer { .. }), "{other}: {refused}");
        assert_eq!(found.asked(), [ROOT], "and no other place is tried");
    }
}

#[tokio::test]
async fn without_pkce_nobody_is_sent_there() {
    for more in ["", r#","code_challenge_methods_supported":["plain"]"#] {
        let found = stranger().answer(ROOT, 200, document("https://login.example", more));
        let server = ServerMetadata::find(&*found, "https://login.example").await.unwrap();
        assert!(matches!(server.sign_in_page(), Err(MetadataError::NoPkce { .. })), "{more}");
    }
}

/// CVE-2025-6514: an address that a stranger gives is never a program or a file.
#[tokio::test]
async fn endpoints_are_https() {
    for endpoint in ["http://login.example/authorize", "file:///etc/passwd", "javascript:alert(1)", "$(id)", ""] {
        let bad = document("https://login.example", S256).replace("https://login.example/authorize", endpoint);
        let found = stranger().answer(ROOT, 200, bad);
        let refused = ServerMetadata::find(&*found, "https://login.example").await.unwrap_err();
        assert!(matches!(refused, MetadataError::Address { .. }), "{endpoint}: {refused}");
    }
}

#[test]
fn a_page_that_the_operator_named_is_https_too() {
    let token = Url::parse("https://login.example/token").unwrap();
    let page = Url::parse("file:///usr/bin/id").ok();
    let bare = ServerMetadata::bare("https://login.example".to_owned(), token);
    let named = ServerMetadata { authorization_endpoint: page, ..bare };
    assert!(matches!(named.sign_in_page(), Err(MetadataError::Address { .. })));
}

#[tokio::test]
async fn an_issuer_that_is_no_address_is_not_asked() {
    let nobody = stranger();
    for issuer in ["http://login.example", "https://login.example?x", "https://login.example#x", "login", "ftp://x/"] {
        assert!(ServerMetadata::find(&*nobody, issuer).await.is_err(), "{issuer}");
    }
    assert!(nobody.asked().is_empty());
}

#[tokio::test]
async fn a_server_of_old_signs_people_in_itself() {
    let place = "https://example.org/.well-known/oauth-authorization-server";
    let server = Url::parse("https://example.org/deep/mcp").unwrap();
    let bare = stranger();
    let old = ServerMetadata::of_old(&*bare, &server).await.unwrap();
    assert_eq!(bare.asked(), [place]);
    assert_eq!((old.issuer.as_str(), old.pkce), ("https://example.org", Pkce::Waived));
    assert_eq!(old.token_endpoint.as_str(), "https://example.org/token");
    assert_eq!(old.registration_endpoint.unwrap().as_str(), "https://example.org/register");

    let told = stranger().answer(place, 200, document("https://example.org", ""));
    let old = ServerMetadata::of_old(&*told, &server).await.unwrap();
    assert_eq!(old.sign_in_page().unwrap().as_str(), "https://login.example/authorize");
    let foreign = stranger().answer(place, 200, document("https://evil.example", ""));
    assert!(ServerMetadata::of_old(&*foreign, &server).await.is_err());
}

#[tokio::test]
async fn what_it_can_do_is_read() {
    let more = r#","code_challenge_methods_supported":["S256"],"scopes_supported":["a","offline_access"],
        "token_endpoint_auth_methods_supported":["none"],"authorization_response_iss_parameter_supported":true,
        "client_id_metadata_document_supported":true,"dpop_signing_alg_values_supported":["ES256"]"#;
    let found = stranger().answer(ROOT, 200, document("https://login.example", more));
    let server = ServerMetadata::at(&*found, &Url::parse(ROOT).unwrap(), None).await.unwrap();
    assert!(server.names_itself && server.takes_documents && server.scopes.unwrap().contains("offline_access"));
    assert_eq!(server.proof_algorithms.unwrap(), ["ES256"]);
    let twice = document("https://login.example", r#","issuer":"https://evil.example""#);
    let found = stranger().answer(ROOT, 200, twice);
    assert!(ServerMetadata::find(&*found, "https://login.example").await.is_err(), "a name given twice");
    let long = format!("{{\"issuer\":\"{}\"}}", "x".repeat(super::super::MAX_DOCUMENT));
    assert!(ServerMetadata::find(&*stranger().answer(ROOT, 200, long), "https://login.example").await.is_err());
}
