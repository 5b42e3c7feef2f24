//! Tests of authorization server metadata, valid and malicious.

use std::sync::Arc;

use url::Url;

use super::{Pkce, ServerMetadata};
use crate::{metadata::MetadataError, scripted::ScriptedFetch};

const ROOT: &str = "https://login.example/.well-known/oauth-authorization-server";
const OPENID: &str = "https://login.example/.well-known/openid-configuration";

fn document(issuer: &str, more: &str) -> String {
    format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"https://login.example/authorize",
            "token_endpoint":"https://login.example/token"{more}}}"#
    )
}

const S256: &str = r#","code_challenge_methods_supported":["plain","S256"]"#;

fn remote() -> Arc<ScriptedFetch> {
    Arc::default()
}

#[tokio::test]
async fn issuer_without_a_path_has_two_locations() {
    let found = remote().answer(OPENID, 200, document("https://login.example", S256));
    let server = ServerMetadata::find(&*found, "https://login.example").await.unwrap();
    assert_eq!(found.urls(), [ROOT, OPENID]);
    assert_eq!(server.sign_in_page().unwrap().as_str(), "https://login.example/authorize");
}

#[tokio::test]
async fn issuer_with_a_path_has_three_locations_without_the_root() {
    let bait = remote().answer(ROOT, 200, document("https://login.example/t", S256));
    let none = ServerMetadata::find(&*bait, "https://login.example/t").await.unwrap_err();
    assert!(matches!(none, MetadataError::NoServer { .. }), "{none}");
    assert_eq!(
        bait.urls(),
        [&format!("{ROOT}/t"), &format!("{OPENID}/t"), "https://login.example/t/.well-known/openid-configuration"]
    );
}

/// CVE-2026-104850, WS-2026-0196: the document must name the requested issuer byte by byte.
#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    let others =
        ["https://evil.example", "https://login.example/", "https://LOGIN.example", "https://login.example:443"];
    for other in others {
        let found = remote().answer(ROOT, 200, document(other, S256));
        let refused = ServerMetadata::find(&*found, "https://login.example").await.unwrap_err();
        assert!(matches!(refused, MetadataError::WrongIssuer { .. }), "{other}: {refused}");
        assert_eq!(found.urls(), [ROOT], "no other location is tried");
    }
}

#[tokio::test]
async fn sign_in_without_pkce_is_refused() {
    for more in ["", r#","code_challenge_methods_supported":["plain"]"#] {
        let found = remote().answer(ROOT, 200, document("https://login.example", more));
        let server = ServerMetadata::find(&*found, "https://login.example").await.unwrap();
        assert!(matches!(server.sign_in_page(), Err(MetadataError::NoPkce { .. })), "{more}");
    }
}

/// CVE-2025-6514: a URL from a server is never a program or a file.
#[tokio::test]
async fn endpoints_must_use_https() {
    for endpoint in ["http://login.example/authorize", "file:///etc/passwd", "javascript:alert(1)", "$(id)", ""] {
        let bad = document("https://login.example", S256).replace("https://login.example/authorize", endpoint);
        let found = remote().answer(ROOT, 200, bad);
        let refused = ServerMetadata::find(&*found, "https://login.example").await.unwrap_err();
        assert!(matches!(refused, MetadataError::Address { .. }), "{endpoint}: {refused}");
    }
}

#[test]
fn configured_authorization_endpoint_must_use_https() {
    let token = Url::parse("https://login.example/token").unwrap();
    let page = Url::parse("file:///usr/bin/id").ok();
    let bare = ServerMetadata::bare("https://login.example".to_owned(), token);
    let named = ServerMetadata { authorization_endpoint: page, ..bare };
    assert!(matches!(named.sign_in_page(), Err(MetadataError::Address { .. })));
}

#[tokio::test]
async fn invalid_issuer_is_not_contacted() {
    let unused = remote();
    for issuer in ["http://login.example", "https://login.example?x", "https://login.example#x", "login", "ftp://x/"] {
        assert!(ServerMetadata::find(&*unused, issuer).await.is_err(), "{issuer}");
    }
    assert!(unused.urls().is_empty());
}

#[tokio::test]
async fn legacy_server_is_its_own_authorization_server() {
    let place = "https://example.org/.well-known/oauth-authorization-server";
    let server = Url::parse("https://example.org/deep/mcp").unwrap();
    let bare = remote();
    assert!(ServerMetadata::at_own_origin(&*bare, &server).await.unwrap().is_none());
    assert_eq!(bare.urls(), [place]);
    let old = ServerMetadata::default_endpoints(&server);
    assert_eq!((old.issuer.as_str(), old.pkce), ("https://example.org", Pkce::Waived));
    assert_eq!(old.token_endpoint.as_str(), "https://example.org/token");
    assert_eq!(old.registration_endpoint.unwrap().as_str(), "https://example.org/register");

    for issuer in ["https://example.org", "https://example.org/"] {
        let told = remote().answer(place, 200, document(issuer, ""));
        let old = ServerMetadata::at_own_origin(&*told, &server).await.unwrap().unwrap();
        assert_eq!(old.sign_in_page().unwrap().as_str(), "https://login.example/authorize");
        assert_eq!(old.issuer, issuer);
    }
    for issuer in ["https://evil.example", "https://example.org//", "https://example.org/mcp"] {
        let foreign = remote().answer(place, 200, document(issuer, ""));
        assert!(ServerMetadata::at_own_origin(&*foreign, &server).await.is_err(), "{issuer}");
    }
}

#[tokio::test]
async fn capabilities_are_parsed() {
    let more = r#","code_challenge_methods_supported":["S256"],"scopes_supported":["a","offline_access"],
        "token_endpoint_auth_methods_supported":["none"],"authorization_response_iss_parameter_supported":true,
        "client_id_metadata_document_supported":true,"dpop_signing_alg_values_supported":["ES256"]"#;
    let found = remote().answer(ROOT, 200, document("https://login.example", more));
    let server = ServerMetadata::at(&*found, &Url::parse(ROOT).unwrap(), None).await.unwrap();
    assert!(server.sends_iss && server.supports_client_documents && server.scopes.unwrap().contains("offline_access"));
    assert_eq!(server.proof_algorithms.unwrap(), ["ES256"]);
    let twice = document("https://login.example", r#","issuer":"https://evil.example""#);
    let found = remote().answer(ROOT, 200, twice);
    assert!(ServerMetadata::find(&*found, "https://login.example").await.is_err(), "a duplicate member");
    let long = format!("{{\"issuer\":\"{}\"}}", "x".repeat(super::super::MAX_DOCUMENT));
    assert!(ServerMetadata::find(&*remote().answer(ROOT, 200, long), "https://login.example").await.is_err());
}
