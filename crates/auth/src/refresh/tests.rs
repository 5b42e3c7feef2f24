//! Many who wait, one who asks.

use std::sync::Arc;

use futures_util::future::join_all;
use toolway_config::Secret;

use super::{Renewal, RenewalError};
use crate::{
    credential::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens},
    renewals::Renewals,
    scope::Scopes,
    scripted::Scripted,
    settings::Settings,
    vault::{MemoryVault, Vault as _, full::Full},
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
    Renewal { fetch: stranger, vault, proofs: None, settings, renewals: &Renewals::default() }
        .renew(&key(), &Secret::new("old"))
        .await
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
    for (status, body) in [
        (500, "oh"),
        (429, r#"{"error":"invalid_grant"}"#),
        (200, "<html>"),
        (400, r#"{"error":"temporarily_unavailable"}"#),
    ] {
        let vault = kept(RegistrationSource::Dynamic).await;
        let failed = renew(&stranger(status, body), &vault).await;
        let expected = if status == 200 { "it answers something else" } else { "cannot answer at the moment" };
        assert!(failed.as_ref().is_err_and(|error| error.to_string().contains(expected)), "{failed:?}");
        assert_eq!(matches!(failed, Err(RenewalError::Unanswered(_))), status != 200, "{failed:?}");
        assert!(renew(&stranger(200, NEW), &vault).await.is_ok(), "{status}");
    }
}

#[tokio::test]
async fn a_new_secret_of_a_configured_client_is_used_at_once_where_the_operator_says_whom_it_is_for() {
    let (old, new) = ("Basic Y2xpZW50OnM=", "Basic Y2xpZW50Om5ldw=="); // `client:s` and `client:new`
    let named = Some("https://login.example".to_owned());
    for (source, issuer, expected) in [
        (RegistrationSource::Configured, named.clone(), new),
        (RegistrationSource::Configured, None, old),
        (RegistrationSource::Dynamic, named, old),
    ] {
        let (client_id, client_secret) = (Some("client".to_owned()), Some(Secret::new("new")));
        let settings = Settings { client_id, client_secret, issuer, ..Settings::default() };
        let (stranger, vault) = (stranger(200, NEW), kept(source).await);
        renew_with(&stranger, &vault, &settings).await.unwrap();
        assert_eq!(stranger.heard.lock()[0].headers()["authorization"], expected, "{source:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_used_and_what_cannot_be_forgotten_is_said() {
    let vault = Full::of(kept(RegistrationSource::Dynamic).await);
    let (settings, renewals) = (Settings::default(), Renewals::default());
    let renew = async |stranger: Arc<Scripted>, stale: &str| {
        let renewal =
            Renewal { fetch: &*stranger, vault: &vault, proofs: None, settings: &settings, renewals: &renewals };
        renewal.renew(&key(), &Secret::new(stale)).await
    };
    let renewed = renew(stranger(200, NEW), "old").await.unwrap();
    assert_eq!(renewed.tokens.unwrap().access.expose(), "new", "the old one may be worth nothing now");

    let next = stranger(200, &NEW.replace("new", "newer").replace("r2", "r3"));
    let renewed = renew(Arc::clone(&next), "new").await.unwrap();
    assert_eq!(renewed.tokens.unwrap().access.expose(), "newer");
    assert_eq!(next.field(0, "refresh_token").as_deref(), Some("r2-refresh"), "not the one that was used up");
    let nobody = Arc::<Scripted>::default();
    let same = renew(Arc::clone(&nobody), "new").await.unwrap();
    assert_eq!((same.tokens.unwrap().access.expose(), nobody.asked().len()), ("newer", 0), "who comes late has it too");

    let rejected = renew(stranger(400, r#"{"error":"invalid_grant"}"#), "newer").await.unwrap_err().to_string();
    assert!(rejected.contains("a disk") && rejected.contains("is full"), "{rejected}");
}

#[tokio::test]
async fn what_could_not_be_kept_is_kept_as_soon_as_it_can_be_unless_somebody_was_quicker() {
    for quicker in [false, true] {
        let vault = Full::of(kept(RegistrationSource::Dynamic).await);
        let (settings, renewals, stranger) = (Settings::default(), Renewals::default(), stranger(200, NEW));
        let renewal =
            Renewal { fetch: &*stranger, vault: &vault, proofs: None, settings: &settings, renewals: &renewals };
        let mut renewed = renewal.renew(&key(), &Secret::new("old")).await.unwrap();
        assert!(!renewals.settle(&vault).await, "it is not kept");
        vault.has_room();
        if quicker {
            renewed.tokens.as_mut().unwrap().access = Secret::new("signed-in-again");
            renewed.store(&vault, &key()).await.unwrap();
        }
        assert!(renewals.settle(&vault).await);
        let kept = Credential::load(&vault, &key()).await.unwrap().unwrap();
        assert_eq!(kept, renewed);
        assert_eq!(kept.tokens.unwrap().refresh.unwrap().expose(), "r2-refresh");
    }
}
