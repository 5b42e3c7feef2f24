//! Tests of token requests and responses.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::Mutex;
use toolway_config::Secret;
use url::Url;

use super::{ClientAuth, TokenError, TokenRequest, TokenResponse};
use crate::{
    proof::{DPOP, Presented, ProofError, Prover},
    scripted::ScriptedFetch,
};

const ENDPOINT: &str = "https://login.example/token";

async fn send(remote: &ScriptedFetch, client: &ClientAuth) -> Result<TokenResponse, TokenError> {
    let endpoint = Url::parse(ENDPOINT).unwrap();
    let params = vec![
        ("grant_type", Secret::new("authorization_code")),
        ("code", Secret::new("c0de-1234")),
        ("scope", Secret::new("")),
    ];
    TokenRequest { endpoint: &endpoint, client, params, prover: None }.send(remote).await
}

fn remote(status: u16, body: &str) -> Arc<ScriptedFetch> {
    Arc::<ScriptedFetch>::default().answer(ENDPOINT, status, body)
}

const TOKEN: &str = r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":3600,"refresh_token":"r3fresh"}"#;

#[tokio::test]
async fn public_client_sends_its_id_in_the_body() {
    let remote = remote(200, TOKEN);
    let reply = send(&remote, &ClientAuth::Public { id: "me".to_owned() }).await.unwrap();
    assert_eq!(remote.field(0, "client_id").as_deref(), Some("me"));
    assert_eq!(remote.field(0, "code").as_deref(), Some("c0de-1234"));
    assert_eq!(remote.field(0, "scope"), None, "an empty parameter is left out");
    assert!(!remote.requests.lock()[0].headers().contains_key(header::AUTHORIZATION));
    assert_eq!((reply.token.expose(), reply.kind.as_str()), ("t0ken", "Bearer"));
    assert_eq!(reply.expires_in, Some(Duration::from_secs(3600)));
    assert_eq!(reply.refresh.unwrap().expose(), "r3fresh");
}

#[tokio::test]
async fn basic_secret_is_encoded_before_it_is_joined() {
    let remote = remote(200, TOKEN);
    let client = ClientAuth::Basic { id: "a:b".to_owned(), secret: Secret::new("c d%") };
    send(&remote, &client).await.unwrap();
    let heard = remote.requests.lock()[0].headers()[header::AUTHORIZATION].clone();
    // `a%3Ab:c+d%25`
    assert_eq!(heard, "Basic YSUzQWI6YytkJTI1");
    assert!(heard.is_sensitive());
    assert_eq!(remote.field(0, "client_id").as_deref(), Some("a:b"), "the Python SDK requires it");
    assert_eq!(remote.field(0, "client_secret"), None, "sent once");
}

#[tokio::test]
async fn secret_or_assertion_is_sent_in_the_body() {
    let remote = remote(200, TOKEN);
    send(&remote, &ClientAuth::Post { id: "me".to_owned(), secret: Secret::new("s") }).await.unwrap();
    assert_eq!(remote.field(0, "client_secret").as_deref(), Some("s"));
    let assertion = ClientAuth::Assertion { id: "me".to_owned(), assertion: Secret::new("a.b.c") };
    send(&remote, &assertion).await.unwrap();
    assert_eq!(remote.field(1, "client_assertion").as_deref(), Some("a.b.c"));
    assert!(remote.field(1, "client_assertion_type").unwrap().ends_with(":jwt-bearer"));
    send(&remote, &ClientAuth::Anonymous).await.unwrap();
    assert_eq!(remote.form(2).len(), 2, "only the grant");
}

#[tokio::test]
async fn refusal_is_reported_without_sent_values() {
    let body = r#"{"error":"invalid_grant","error_description":"code c0de-1234\n of s3cret-word is old"}"#;
    let client = ClientAuth::Post { id: "me".to_owned(), secret: Secret::new("s3cret-word") };
    let refused = send(&remote(400, body), &client).await.unwrap_err();
    assert!(refused.has_code("invalid_grant"));
    assert_eq!(
        refused.to_string(),
        "token request to `https://login.example/token` refused: `invalid_grant` (code [hidden]  of [hidden] is old)"
    );
    assert!(!format!("{refused:?}").contains("c0de-1234"));
}

#[tokio::test]
async fn refusal_is_reported_without_encoded_values() {
    // `me:s3cret%2Fword`
    let body = r#"{"error":"invalid_client","error_description":"Basic bWU6czNjcmV0JTJGd29yZA== has s3cret%2Fword"}"#;
    let client = ClientAuth::Basic { id: "me".to_owned(), secret: Secret::new("s3cret/word") };
    let refused = send(&remote(401, body), &client).await.unwrap_err();
    let expected =
        "token request to `https://login.example/token` refused: `invalid_client` (Basic [hidden] has [hidden])";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test]
async fn invalid_token_responses_are_refused() {
    let client = ClientAuth::Public { id: "me".to_owned() };
    for (status, body) in [
        (200, "<html>"),
        (200, r#"{"access_token":"","token_type":"Bearer"}"#),
        (200, r#"{"access_token":"a\nb","token_type":"Bearer"}"#),
        (200, r#"{"access_token":"a","access_token":"b","token_type":"Bearer"}"#),
        (200, r#"{"error":"invalid_grant"}"#),
        (201, TOKEN),
        (302, ""),
        (404, "oh"),
    ] {
        let failed = send(&remote(status, body), &client).await.unwrap_err();
        assert!(matches!(failed, TokenError::Malformed { .. }), "{status} {body}: {failed}");
        assert!(!failed.to_string().contains("a\nb"));
    }
    for (status, body) in [(500, "oh"), (429, ""), (400, r#"{"error":"temporarily_unavailable"}"#)] {
        let failed = send(&remote(status, body), &client).await.unwrap_err();
        assert!(matches!(&failed, TokenError::Fetch(error) if error.may_pass()), "{status} {body}: {failed}");
    }
    let endless = "x".repeat(super::MAX_REPLY + 1);
    assert!(send(&remote(200, &endless), &client).await.is_err());
}

#[tokio::test]
async fn lifetime_may_be_a_string_and_invalid_values_are_ignored() {
    let client = ClientAuth::Public { id: "me".to_owned() };
    for (expires_in, expected) in
        [("\"60\"", Some(60)), ("-1", None), ("\"soon\"", None), ("1e300", None), ("60.0", Some(60))]
    {
        let body = format!(r#"{{"access_token":"a","token_type":"bearer","expires_in":{expires_in}}}"#);
        let reply = send(&remote(200, &body), &client).await.unwrap();
        assert_eq!(reply.expires_in, expected.map(Duration::from_secs), "{expires_in}");
    }
}

#[derive(Debug, Default)]
struct Counting(Mutex<u32>);

impl Prover for Counting {
    fn proof(&self, method: &Method, url: &Url, with: Option<Presented<'_>>) -> Result<HeaderValue, ProofError> {
        assert_eq!((method, url.as_str(), with.is_none()), (&Method::POST, ENDPOINT, true));
        let mut count = self.0.lock();
        *count += 1;
        Ok(HeaderValue::from(*count))
    }

    fn record_nonce(&self, _url: &Url, _headers: &HeaderMap) {}

    fn key(&self) -> Secret {
        Secret::default()
    }
}

#[tokio::test]
async fn proof_is_repeated_once_with_the_nonce() {
    let endpoint = Url::parse(ENDPOINT).unwrap();
    let refusal = r#"{"error":"use_dpop_nonce"}"#;
    let remote = remote(400, refusal).answer(ENDPOINT, 200, TOKEN);
    let (client, prover) = (ClientAuth::Anonymous, Counting::default());
    let request = TokenRequest { endpoint: &endpoint, client: &client, params: Vec::new(), prover: Some(&prover) };
    request.send(&*remote).await.unwrap();
    let proofs: Vec<_> = remote.requests.lock().iter().map(|heard| heard.headers()[DPOP].clone()).collect();
    assert_eq!(proofs, ["1", "2"]);

    let stubborn = Arc::<ScriptedFetch>::default().answer(ENDPOINT, 400, refusal);
    assert!(request.send(&*stubborn).await.unwrap_err().has_code("use_dpop_nonce"));
    assert_eq!(stubborn.urls().len(), 2, "not a third time");
}
