//! Tests of token refresh with several waiting callers.

use std::sync::Arc;

use futures_util::future::join_all;
use toolway_config::Secret;

use super::{RefreshError, TokenRefresh};
use crate::{
    credential::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens},
    refresh_tracker::RefreshTracker,
    scope::Scopes,
    scripted::ScriptedFetch,
    settings::Settings,
    vault::{MemoryVault, Vault as _, full::FullVault},
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

async fn vault_with_token(source: RegistrationSource) -> MemoryVault {
    let vault = MemoryVault::default();
    let tokens = Tokens {
        access: Secret::new("old"),
        kind: TokenKind::Bearer,
        expires_at: Some(0),
        refresh: Some(Secret::new("r1-refresh")),
        requested: Scopes::parse("a").unwrap(),
        granted: None,
        obtained_at: 0,
    };
    let client = Registration {
        id: "client".to_owned(),
        secret: Some(Secret::new("s")),
        method: AuthMethod::Basic,
        source,
        redirect: None,
        secret_expires_at: None,
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

async fn refresh(remote: &ScriptedFetch, vault: &MemoryVault) -> Result<Credential, RefreshError> {
    refresh_with(remote, vault, &Settings::default()).await
}

async fn refresh_with(
    remote: &ScriptedFetch,
    vault: &MemoryVault,
    settings: &Settings,
) -> Result<Credential, RefreshError> {
    TokenRefresh { fetch: remote, vault, proofs: None, settings, refreshes: &RefreshTracker::default() }
        .run(&key(), &Secret::new("old"))
        .await
}

fn remote(status: u16, body: &str) -> Arc<ScriptedFetch> {
    Arc::<ScriptedFetch>::default().answer(TOKEN, status, body)
}

const NEW: &str = r#"{"access_token":"new","token_type":"Bearer","expires_in":60,"refresh_token":"r2-refresh"}"#;

#[tokio::test]
async fn eight_concurrent_refreshes_send_one_request() {
    let (remote, vault) = (remote(200, NEW), vault_with_token(RegistrationSource::Dynamic).await);
    let refreshed = join_all((0..8).map(|_| refresh(&remote, &vault))).await;
    assert!(
        refreshed.iter().all(|refreshed| refreshed.as_ref().unwrap().tokens.as_ref().unwrap().access.expose() == "new")
    );
    assert_eq!(remote.urls(), [TOKEN]);
    for (name, value) in
        [("grant_type", "refresh_token"), ("refresh_token", "r1-refresh"), ("resource", "https://example.org/mcp")]
    {
        assert_eq!(remote.field(0, name).as_deref(), Some(value), "{name}");
    }
    let tokens = Credential::load(&vault, &key()).await.unwrap().unwrap().tokens.unwrap();
    assert_eq!((tokens.refresh.unwrap().expose(), tokens.requested.to_string()), ("r2-refresh", "a".to_owned()));
}

#[tokio::test]
async fn rejected_refresh_is_not_repeated_and_keeps_the_registration() {
    let vault = vault_with_token(RegistrationSource::Dynamic).await;
    let remote = remote(400, r#"{"error":"invalid_grant"}"#);
    assert!(matches!(refresh(&remote, &vault).await, Err(RefreshError::Rejected(_))));
    assert_eq!(refresh(&remote, &vault).await, Err(RefreshError::Expired));
    assert_eq!(remote.urls().len(), 1);
    let kept = Credential::load(&vault, &key()).await.unwrap().unwrap();
    assert_eq!((kept.tokens, kept.client.id.as_str()), (None, "client"));
}

#[tokio::test]
async fn unknown_dynamic_client_is_deleted() {
    let unknown = r#"{"error":"invalid_client"}"#;
    let vault = vault_with_token(RegistrationSource::Dynamic).await;
    assert!(matches!(refresh(&remote(401, unknown), &vault).await, Err(RefreshError::Rejected(_))));
    assert!(vault.load(&key()).await.unwrap().is_none());
    let configured = vault_with_token(RegistrationSource::Configured).await;
    assert!(matches!(refresh(&remote(401, unknown), &configured).await, Err(RefreshError::Failed(_))));
    assert!(configured.load(&key()).await.unwrap().is_some(), "the operator must correct it");
}

#[tokio::test]
async fn temporary_failure_deletes_nothing() {
    for (status, body) in [
        (500, "oh"),
        (429, r#"{"error":"invalid_grant"}"#),
        (200, "<html>"),
        (400, r#"{"error":"temporarily_unavailable"}"#),
    ] {
        let vault = vault_with_token(RegistrationSource::Dynamic).await;
        let failed = refresh(&remote(status, body), &vault).await;
        let expected = if status == 200 { "it is not a token response" } else { "is temporarily unavailable" };
        assert!(failed.as_ref().is_err_and(|error| error.to_string().contains(expected)), "{failed:?}");
        assert_eq!(matches!(failed, Err(RefreshError::Unavailable(_))), status != 200, "{failed:?}");
        assert!(refresh(&remote(200, NEW), &vault).await.is_ok(), "{status}");
    }
}

#[tokio::test]
async fn new_secret_of_a_configured_client_is_used_if_its_issuer_is_configured() {
    let (old, new) = ("Basic Y2xpZW50OnM=", "Basic Y2xpZW50Om5ldw=="); // `client:s` and `client:new`
    let named = Some("https://login.example".to_owned());
    for (source, issuer, expected) in [
        (RegistrationSource::Configured, named.clone(), new),
        (RegistrationSource::Configured, None, old),
        (RegistrationSource::Dynamic, named, old),
    ] {
        let (client_id, client_secret) = (Some("client".to_owned()), Some(Secret::new("new")));
        let settings = Settings { client_id, client_secret, issuer, ..Settings::default() };
        let (remote, vault) = (remote(200, NEW), vault_with_token(source).await);
        refresh_with(&remote, &vault, &settings).await.unwrap();
        assert_eq!(remote.requests.lock()[0].headers()["authorization"], expected, "{source:?}");
    }
}

#[tokio::test]
async fn unsaved_token_is_used_and_a_failed_deletion_is_reported() {
    let vault = FullVault::of(vault_with_token(RegistrationSource::Dynamic).await);
    let (settings, refreshes) = (Settings::default(), RefreshTracker::default());
    let refresh = async |remote: Arc<ScriptedFetch>, stale: &str| {
        let refresh_request =
            TokenRefresh { fetch: &*remote, vault: &vault, proofs: None, settings: &settings, refreshes: &refreshes };
        refresh_request.run(&key(), &Secret::new(stale)).await
    };
    let refreshed = refresh(remote(200, NEW), "old").await.unwrap();
    assert_eq!(refreshed.tokens.unwrap().access.expose(), "new", "the old token may be invalid now");

    let next = remote(200, &NEW.replace("new", "newer").replace("r2", "r3"));
    let refreshed = refresh(Arc::clone(&next), "new").await.unwrap();
    assert_eq!(refreshed.tokens.unwrap().access.expose(), "newer");
    assert_eq!(next.field(0, "refresh_token").as_deref(), Some("r2-refresh"), "not the used one");
    let unused = Arc::<ScriptedFetch>::default();
    let same = refresh(Arc::clone(&unused), "new").await.unwrap();
    assert_eq!((same.tokens.unwrap().access.expose(), unused.urls().len()), ("newer", 0), "a late caller has it too");

    let rejected = refresh(remote(400, r#"{"error":"invalid_grant"}"#), "newer").await.unwrap_err().to_string();
    assert!(rejected.contains("a disk") && rejected.contains("is full"), "{rejected}");
}

#[tokio::test]
async fn unsaved_token_is_stored_later_unless_it_was_replaced() {
    for quicker in [false, true] {
        let vault = FullVault::of(vault_with_token(RegistrationSource::Dynamic).await);
        let (settings, refreshes, remote) = (Settings::default(), RefreshTracker::default(), remote(200, NEW));
        let refresh_request =
            TokenRefresh { fetch: &*remote, vault: &vault, proofs: None, settings: &settings, refreshes: &refreshes };
        let mut refreshed = refresh_request.run(&key(), &Secret::new("old")).await.unwrap();
        assert!(!refreshes.settle(&vault).await, "it is not stored");
        vault.make_writable();
        if quicker {
            refreshed.tokens.as_mut().unwrap().access = Secret::new("signed-in-again");
            refreshed.store(&vault, &key()).await.unwrap();
        }
        assert!(refreshes.settle(&vault).await);
        let kept = Credential::load(&vault, &key()).await.unwrap().unwrap();
        assert_eq!(kept, refreshed);
        assert_eq!(kept.tokens.unwrap().refresh.unwrap().expose(), "r2-refresh");
    }
}
