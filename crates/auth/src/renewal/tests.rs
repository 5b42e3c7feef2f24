//! Many who wait, one who asks.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use toolway_config::Secret;

use super::{Renewal, RenewalError};
use crate::{
    credential::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens},
    scope::Scopes,
    scripted::Scripted,
    settings::Settings,
    vault::{MemoryVault, Turn, Vault, VaultError},
};

const TOKEN: &str = "https://login.example/token";

fn key() -> CredentialKey {
    CredentialKey {
        principal: "ada".to_owned(),
        issuer: "https://login.example".to_owned(),
        client: "client".to_owned(),
        resource: "https://example.org/mcp".to_owned(),
    }
}

async fn kept(source: RegistrationSource) -> MemoryVault {
    let vault = MemoryVault::default();
    let tokens = Tokens {
        access: Secret::new("old"),
        kind: TokenKind::Bearer,
        ends: Some(0),
        refresh: Some(Secret::new("r1-refresh")),
        requested: Scopes::parse("a").unwrap(),
        granted: None,
        since: 0,
    };
    let client = Registration {
        id: "client".to_owned(),
        secret: Some(Secret::new("s")),
        method: AuthMethod::Basic,
        source,
        redirect: None,
        secret_ends: None,
    };
    let credential = Credential {
        server: "https://example.org/mcp".to_owned(),
        token_endpoint: TOKEN.parse().unwrap(),
        client,
        tokens: Some(tokens),
        proof_key: None,
    };
    credential.store(&vault, &key()).await.unwrap();
    vault
}

async fn renew(stranger: &Scripted, vault: &MemoryVault) -> Result<Credential, RenewalError> {
    renew_with(stranger, vault, &Settings::default()).await
}

async fn renew_with(stranger: &Scripted, vault: &MemoryVault, settings: &Settings) -> Result<Credential, RenewalError> {
    Renewal { fetch: stranger, vault, proofs: None, settings }.renew(&key(), &Secret::new("old")).await
}

fn stranger(status: u16, body: &str) -> Arc<Scripted> {
    Arc::<Scripted>::default().answer(TOKEN, status, body)
}

const NEW: &str = r#"{"access_token":"new","token_type":"Bearer","expires_in":60,"refresh_token":"r2-refresh"}"#;

#[tokio::test]
async fn of_eight_one_asks_and_all_have_the_new_token() {
    let (stranger, vault) = (stranger(200, NEW), kept(RegistrationSource::Dynamic).await);
    let renewed = join_all((0..8).map(|_| renew(&stranger, &vault))).await;
    assert!(renewed.iter().all(|renewed| renewed.as_ref().unwrap().tokens.as_ref().unwrap().access.expose() == "new"));
    assert_eq!(stranger.asked(), [TOKEN]);
    for (name, value) in
        [("grant_type", "refresh_token"), ("refresh_token", "r1-refresh"), ("resource", "https://example.org/mcp")]
    {
        assert_eq!(stranger.field(0, name).as_deref(), Some(value), "{name}");
    }
    let tokens = Credential::load(&vault, &key()).await.unwrap().unwrap().tokens.unwrap();
    assert_eq!((tokens.refresh.unwrap().expose(), tokens.requested.to_string()), ("r2-refresh", "a".to_owned()));
}

#[tokio::test]
async fn a_rejected_renewal_is_not_tried_again_and_keeps_the_registration() {
    let vault = kept(RegistrationSource::Dynamic).await;
    let stranger = stranger(400, r#"{"error":"invalid_grant"}"#);
    assert!(matches!(renew(&stranger, &vault).await, Err(RenewalError::Rejected(_))));
    assert_eq!(renew(&stranger, &vault).await, Err(RenewalError::Ended));
    assert_eq!(stranger.asked().len(), 1);
    let kept = Credential::load(&vault, &key()).await.unwrap().unwrap();
    assert_eq!((kept.tokens, kept.client.id.as_str()), (None, "client"));
}

#[tokio::test]
async fn a_client_that_nobody_knows_any_more_is_forgotten_if_it_registered_itself() {
    let unknown = r#"{"error":"invalid_client"}"#;
    let vault = kept(RegistrationSource::Dynamic).await;
    assert!(matches!(renew(&stranger(401, unknown), &vault).await, Err(RenewalError::Rejected(_))));
    assert!(vault.load(&key()).await.unwrap().is_none());
    let configured = kept(RegistrationSource::Configured).await;
    assert!(matches!(renew(&stranger(401, unknown), &configured).await, Err(RenewalError::Failed(_))));
    assert!(configured.load(&key()).await.unwrap().is_some(), "the operator has to look");
}

#[tokio::test]
async fn what_may_pass_forgets_nothing() {
    for (status, body) in [(500, "oh"), (200, "<html>"), (503, r#"{"error":"temporarily_unavailable"}"#)] {
        let vault = kept(RegistrationSource::Dynamic).await;
        let failed = renew(&stranger(status, body), &vault).await;
        assert!(matches!(failed, Err(RenewalError::Failed(_))), "{failed:?}");
        assert!(renew(&stranger(200, NEW), &vault).await.is_ok(), "{status}");
    }
}

#[tokio::test]
async fn a_new_secret_of_a_configured_client_is_used_at_once() {
    let settings = Settings {
        client_id: Some("client".to_owned()),
        client_secret: Some(Secret::new("new")),
        ..Settings::default()
    };
    for (source, expected) in [
        // `client:new` and `client:s`
        (RegistrationSource::Configured, "Basic Y2xpZW50Om5ldw=="),
        (RegistrationSource::Dynamic, "Basic Y2xpZW50OnM="),
    ] {
        let (stranger, vault) = (stranger(200, NEW), kept(source).await);
        renew_with(&stranger, &vault, &settings).await.unwrap();
        assert_eq!(stranger.heard.lock()[0].headers()["authorization"], expected, "{source:?}");
    }
}

/// A vault that can be read and not written, as on a disk that is full.
#[derive(Debug)]
struct Full(MemoryVault);

impl Full {
    fn problem<T>() -> BoxFuture<'static, Result<T, VaultError>> {
        let problem = VaultError { place: "a disk".to_owned(), problem: "is full".to_owned() };
        Box::pin(async { Err(problem) })
    }
}

impl Vault for Full {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        self.0.load(key)
    }

    fn store<'a>(&'a self, _key: &'a CredentialKey, _credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        Self::problem()
    }

    fn forget<'a>(&'a self, _key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        Self::problem()
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        self.0.all()
    }

    fn turn<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Turn, VaultError>> {
        self.0.turn(key)
    }

    fn place(&self) -> String {
        "a disk".to_owned()
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_used_and_what_cannot_be_forgotten_is_said() {
    let vault = Full(kept(RegistrationSource::Dynamic).await);
    let settings = Settings::default();
    let renew = async |stranger: Arc<Scripted>| {
        let renewal = Renewal { fetch: &*stranger, vault: &vault, proofs: None, settings: &settings };
        renewal.renew(&key(), &Secret::new("old")).await
    };
    let renewed = renew(stranger(200, NEW)).await.unwrap();
    assert_eq!(renewed.tokens.unwrap().access.expose(), "new", "the old one may be worth nothing now");
    let rejected = renew(stranger(400, r#"{"error":"invalid_grant"}"#)).await.unwrap_err().to_string();
    assert!(rejected.contains("a disk") && rejected.contains("is full"), "{rejected}");
}
