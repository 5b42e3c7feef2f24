//! Tests of callbacks and of the authorization URL.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use proptest::{prop_assert, proptest};
use ring::digest::{SHA256, digest};
use url::Url;

use super::{CallbackError, IssParameter, Issuer, PendingSignIn, SignInParams};
use crate::{
    credential::{AuthMethod, Registration, RegistrationSource},
    scope::Scopes,
    vault::{MemoryVault, Vault as _},
};

const ISSUER: &str = "https://login.example";

fn pending(iss: IssParameter) -> PendingSignIn {
    let client = Registration {
        id: "client 1".to_owned(),
        secret: None,
        method: AuthMethod::None,
        source: RegistrationSource::Configured,
        redirect: None,
        secret_expires_at: None,
    };
    let params = SignInParams {
        principal: "ada".to_owned(),
        server: "https://example.org/mcp".to_owned(),
        issuer: Issuer { name: ISSUER.to_owned(), iss },
        page: Url::parse("https://login.example/authorize?tenant=7").unwrap(),
        token_endpoint: Url::parse("https://login.example/token").unwrap(),
        client,
        resource: "https://example.org/mcp".to_owned(),
        scopes: Scopes::parse("a b").unwrap(),
        redirect: Url::parse("http://127.0.0.1:7/callback").unwrap(),
    };
    PendingSignIn::begin(params, 1000).unwrap()
}

impl PendingSignIn {
    fn callback_url(&self, more: &str) -> String {
        format!("http://127.0.0.1:7/callback?state={}{more}", self.state.expose())
    }
}

#[test]
fn authorization_url_has_all_required_parameters() {
    let pending = pending(IssParameter::Required);
    let address = pending.address();
    let param =
        |name: &str| address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    assert!(address.as_str().starts_with("https://login.example/authorize?tenant=7&"));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "client 1"),
        ("redirect_uri", "http://127.0.0.1:7/callback"),
        ("code_challenge_method", "S256"),
        ("scope", "a b"),
        ("resource", "https://example.org/mcp"),
    ] {
        assert_eq!(param(name).as_deref(), Some(value), "{name}");
    }
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, pending.verifier.expose().as_bytes()));
    assert_eq!(param("code_challenge").unwrap(), challenge);
    assert!(43 <= pending.verifier.expose().len() && !address.as_str().contains(pending.verifier.expose()));
    let grant = pending.grant(toolway_config::Secret::new("c"));
    assert!(grant.iter().any(|(name, value)| *name == "resource" && value.expose() == "https://example.org/mcp"));
    assert_ne!(pending.state, self::pending(IssParameter::Required).state);
}

#[test]
fn issuer_is_checked_by_the_table_of_rfc_9207() {
    let good = "&code=c&iss=https%3A%2F%2Flogin.example";
    for (iss, more, passes) in [
        (IssParameter::Required, good, true),
        (IssParameter::Required, "&code=c", false),
        (IssParameter::Optional, good, true),
        (IssParameter::Optional, "&code=c", true),
        (IssParameter::Unchecked, "&code=c&iss=https%3A%2F%2Fother.example", true),
        (IssParameter::Required, "&code=c&iss=https%3A%2F%2Fevil.example", false),
        (IssParameter::Optional, "&code=c&iss=https%3A%2F%2Fevil.example", false),
        (IssParameter::Optional, "&code=c&iss=https%3A%2F%2Flogin.example%2F", false),
        (IssParameter::Optional, "&code=c&iss=https%3A%2F%2FLOGIN.example", false),
        (IssParameter::Optional, "&code=c&iss=https%3A%2F%2Flogin.example%3A443", false),
        (IssParameter::Optional, "&code=c&iss=", false),
        (IssParameter::Optional, "&code=c&iss=https%3A%2F%2Flogin.example&iss=https%3A%2F%2Fevil.example", false),
    ] {
        let pending = pending(iss);
        let code = pending.code(&pending.callback_url(more), 1001);
        assert_eq!(code.is_ok(), passes, "{iss:?} {more}: {code:?}");
    }
}

#[test]
fn content_of_a_foreign_callback_is_not_shown() {
    let pending = pending(IssParameter::Required);
    let evil = "&iss=https%3A%2F%2Fevil.example&error=access_denied&error_description=call+0900";
    let refused = pending.code(&pending.callback_url(evil), 1001).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the callback does not come from `https://login.example` (`iss` does not match); it was ignored"
    );
    let other = "http://127.0.0.1:7/callback?state=guess&error=call+0900&iss=https%3A%2F%2Flogin.example";
    assert_eq!(pending.code(other, 1001), Err(CallbackError::WrongState));
    assert_eq!(pending.code("http://127.0.0.1:7/callback?code=c", 1001), Err(CallbackError::WrongState));
    let twice = pending.callback_url("&state=x&code=c&iss=https%3A%2F%2Flogin.example");
    assert_eq!(pending.code(&twice, 1001), Err(CallbackError::WrongState));
}

#[test]
fn callback_needs_redirect_url_time_limit_and_one_code() {
    let pending = pending(IssParameter::Optional);
    let good = pending.callback_url("&code=c0de");
    assert_eq!(pending.code(&format!("  {good}\n"), 1599).unwrap().expose(), "c0de");
    assert_eq!(pending.code(&good, 1600), Err(CallbackError::TooLate));
    for elsewhere in ["http://127.0.0.1:8/callback", "http://127.0.0.1:7/other", "https://127.0.0.1:7/callback"] {
        let moved = good.replace("http://127.0.0.1:7/callback", elsewhere);
        assert!(matches!(pending.code(&moved, 1001), Err(CallbackError::WrongRedirect { .. })), "{moved}");
    }
    assert!(matches!(pending.code("c0de", 1001), Err(CallbackError::WrongRedirect { .. })));
    for more in ["", "&code=", "&code=a&code=b"] {
        assert_eq!(pending.code(&pending.callback_url(more), 1001), Err(CallbackError::NoCode), "{more}");
    }
    let refused =
        pending.code(&pending.callback_url("&error=access_denied&error_description=no%0Athanks&code=c"), 1001);
    assert_eq!(refused.unwrap_err().to_string(), "the sign-in was refused: `access_denied` (nothanks)");
}

#[tokio::test]
async fn pending_sign_in_is_taken_once_by_another_process() {
    let (vault, pending) = (MemoryVault::default(), pending(IssParameter::Optional));
    pending.store(&vault).await.unwrap();
    assert!(vault.keys().await.unwrap()[0].is_pending());
    assert!(!format!("{pending:?}").contains(pending.verifier.expose()));
    assert_eq!(PendingSignIn::take(&vault, "eve", &pending.server).await.unwrap(), None);
    assert_eq!(PendingSignIn::take(&vault, "ada", &pending.server).await.unwrap(), Some(pending.clone()));
    assert_eq!(PendingSignIn::take(&vault, "ada", &pending.server).await.unwrap(), None);
}

proptest! {
    #[test]
    fn arbitrary_callbacks_without_the_state_yield_no_code(text in ".*", query in "[ -~]{0,80}") {
        let pending = pending(IssParameter::Optional);
        prop_assert!(pending.code(&text, 1001).is_err());
        let queried = format!("http://127.0.0.1:7/callback?{query}");
        prop_assert!(pending.code(&queried, 1001).is_err());
    }
}
