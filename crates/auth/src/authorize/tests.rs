//! Callbacks that belong to a sign-in, and all the others.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use proptest::{prop_assert, proptest};
use ring::digest::{SHA256, digest};
use url::Url;

use super::{Beginning, CallbackError, Issuer, Pending, Said};
use crate::{
    credential::{AuthMethod, Registration, RegistrationSource},
    scope::Scopes,
    vault::{MemoryVault, Vault as _},
};

const ISSUER: &str = "https://login.example";

fn pending(said: Said) -> Pending {
    let client = Registration {
        id: "client 1".to_owned(),
        secret: None,
        method: AuthMethod::None,
        source: RegistrationSource::Configured,
        redirect: None,
        secret_ends: None,
    };
    let beginning = Beginning {
        principal: "ada".to_owned(),
        server: "https://example.org/mcp".to_owned(),
        issuer: Issuer { name: ISSUER.to_owned(), said },
        page: Url::parse("https://login.example/authorize?tenant=7").unwrap(),
        token_endpoint: Url::parse("https://login.example/token").unwrap(),
        client,
        resource: "https://example.org/mcp".to_owned(),
        scopes: Scopes::parse("a b").unwrap(),
        redirect: Url::parse("http://127.0.0.1:7/callback").unwrap(),
    };
    Pending::begin(beginning, 1000).unwrap()
}

impl Pending {
    fn answered(&self, more: &str) -> String {
        format!("http://127.0.0.1:7/callback?state={}{more}", self.state.expose())
    }
}

#[test]
fn the_address_says_all_that_the_specification_wants() {
    let pending = pending(Said::Always);
    let address = pending.address();
    let said = |name: &str| address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    assert!(address.as_str().starts_with("https://login.example/authorize?tenant=7&"));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "client 1"),
        ("redirect_uri", "http://127.0.0.1:7/callback"),
        ("code_challenge_method", "S256"),
        ("scope", "a b"),
        ("resource", "https://example.org/mcp"),
    ] {
        assert_eq!(said(name).as_deref(), Some(value), "{name}");
    }
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, pending.verifier.expose().as_bytes()));
    assert_eq!(said("code_challenge").unwrap(), challenge);
    assert!(43 <= pending.verifier.expose().len() && !address.as_str().contains(pending.verifier.expose()));
    let grant = pending.grant(toolway_config::Secret::new("c"));
    assert!(grant.iter().any(|(name, value)| *name == "resource" && value.expose() == "https://example.org/mcp"));
    assert_ne!(pending.state, self::pending(Said::Always).state);
}

#[test]
fn the_issuer_is_judged_by_the_table() {
    let good = "&code=c&iss=https%3A%2F%2Flogin.example";
    for (said, more, passes) in [
        (Said::Always, good, true),
        (Said::Always, "&code=c", false),
        (Said::Maybe, good, true),
        (Said::Maybe, "&code=c", true),
        (Said::Unknown, "&code=c&iss=https%3A%2F%2Fother.example", true),
        (Said::Always, "&code=c&iss=https%3A%2F%2Fevil.example", false),
        (Said::Maybe, "&code=c&iss=https%3A%2F%2Fevil.example", false),
        (Said::Maybe, "&code=c&iss=https%3A%2F%2Flogin.example%2F", false),
        (Said::Maybe, "&code=c&iss=https%3A%2F%2FLOGIN.example", false),
        (Said::Maybe, "&code=c&iss=https%3A%2F%2Flogin.example%3A443", false),
        (Said::Maybe, "&code=c&iss=", false),
        (Said::Maybe, "&code=c&iss=https%3A%2F%2Flogin.example&iss=https%3A%2F%2Fevil.example", false),
    ] {
        let pending = pending(said);
        let code = pending.code(&pending.answered(more), 1001);
        assert_eq!(code.is_ok(), passes, "{said:?} {more}: {code:?}");
    }
}

#[test]
fn nothing_of_a_strangers_callback_is_shown() {
    let pending = pending(Said::Always);
    let evil = "&iss=https%3A%2F%2Fevil.example&error=access_denied&error_description=call+0900";
    let refused = pending.code(&pending.answered(evil), 1001).unwrap_err();
    assert_eq!(refused.to_string(), "the callback does not come from https://login.example; nothing of it was used");
    let other = "http://127.0.0.1:7/callback?state=guess&error=call+0900&iss=https%3A%2F%2Flogin.example";
    assert_eq!(pending.code(other, 1001), Err(CallbackError::WrongState));
    assert_eq!(pending.code("http://127.0.0.1:7/callback?code=c", 1001), Err(CallbackError::WrongState));
    let twice = pending.answered("&state=x&code=c&iss=https%3A%2F%2Flogin.example");
    assert_eq!(pending.code(&twice, 1001), Err(CallbackError::WrongState));
}

#[test]
fn a_callback_comes_to_its_place_in_time_and_with_one_code() {
    let pending = pending(Said::Maybe);
    let good = pending.answered("&code=c0de");
    assert_eq!(pending.code(&format!("  {good}\n"), 1599).unwrap().expose(), "c0de");
    assert_eq!(pending.code(&good, 1600), Err(CallbackError::TooLate));
    for elsewhere in ["http://127.0.0.1:8/callback", "http://127.0.0.1:7/other", "https://127.0.0.1:7/callback"] {
        let moved = good.replace("http://127.0.0.1:7/callback", elsewhere);
        assert!(matches!(pending.code(&moved, 1001), Err(CallbackError::Foreign { .. })), "{moved}");
    }
    assert!(matches!(pending.code("c0de", 1001), Err(CallbackError::Foreign { .. })));
    for more in ["", "&code=", "&code=a&code=b"] {
        assert_eq!(pending.code(&pending.answered(more), 1001), Err(CallbackError::NoCode), "{more}");
    }
    let refused = pending.code(&pending.answered("&error=access_denied&error_description=no%0Athanks&code=c"), 1001);
    assert_eq!(refused.unwrap_err().to_string(), "the sign-in was refused: access_denied (nothanks)");
}

#[tokio::test]
async fn another_process_can_take_it_once() {
    let (vault, pending) = (MemoryVault::default(), pending(Said::Maybe));
    pending.keep(&vault).await.unwrap();
    assert!(vault.keys().await.unwrap()[0].is_pending());
    assert!(!format!("{pending:?}").contains(pending.verifier.expose()));
    assert_eq!(Pending::take(&vault, "eve", &pending.server).await.unwrap(), None);
    assert_eq!(Pending::take(&vault, "ada", &pending.server).await.unwrap(), Some(pending.clone()));
    assert_eq!(Pending::take(&vault, "ada", &pending.server).await.unwrap(), None);
}

proptest! {
    #[test]
    fn whatever_is_brought_as_a_callback_gives_no_code_without_the_state(text in ".*", query in "[ -~]{0,80}") {
        let pending = pending(Said::Maybe);
        prop_assert!(pending.code(&text, 1001).is_err());
        let queried = format!("http://127.0.0.1:7/callback?{query}");
        prop_assert!(pending.code(&queried, 1001).is_err());
    }
}
