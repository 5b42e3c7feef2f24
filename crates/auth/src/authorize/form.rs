//! The stored form of a pending sign-in, so that another process can finish it.

use serde::{Deserialize, Serialize};
use toolway_config::Secret;

use super::{IssParameter, Issuer, PendingSignIn};
use crate::{
    credential::{CredentialError, form::StoredRegistration},
    scope::Scopes,
    vault::Vault,
};

#[derive(Serialize, Deserialize)]
struct StoredSignIn {
    version: u32,
    principal: String,
    server: String,
    issuer: String,
    #[serde(rename = "said")]
    iss: StoredIss,
    token_endpoint: String,
    client: StoredRegistration,
    resource: String,
    scopes: String,
    redirect: String,
    page: String,
    verifier: String,
    state: String,
    #[serde(rename = "ends")]
    expires_at: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredIss {
    Always,
    Maybe,
    Unknown,
}

/// Format version that is written, and the only one that is read.
const VERSION: u32 = 1;

impl PendingSignIn {
    /// Stores the pending sign-in and replaces an older one for the same server.
    pub async fn store(&self, vault: &dyn Vault) -> Result<(), CredentialError> {
        // Serializing strings and numbers cannot fail.
        let text = serde_json::to_string(&StoredSignIn::of(self)).unwrap_or_default();
        Ok(vault.store(&Self::pending_key(&self.principal, &self.server), Secret::new(text)).await?)
    }

    /// Removes and returns the pending sign-in, so that no callback is used twice.
    pub async fn take(vault: &dyn Vault, principal: &str, server: &str) -> Result<Option<Self>, CredentialError> {
        let key = Self::pending_key(principal, server);
        let _lock = vault.lock(&key).await?;
        let Some(kept) = vault.load(&key).await? else { return Ok(None) };
        vault.forget(&key).await?;
        Ok(serde_json::from_str::<StoredSignIn>(kept.expose()).ok().and_then(StoredSignIn::pending))
    }
}

impl StoredSignIn {
    fn of(pending: &PendingSignIn) -> Self {
        Self {
            version: VERSION,
            principal: pending.principal.clone(),
            server: pending.server.clone(),
            issuer: pending.issuer.name.clone(),
            iss: match pending.issuer.iss {
                IssParameter::Required => StoredIss::Always,
                IssParameter::Optional => StoredIss::Maybe,
                IssParameter::Unchecked => StoredIss::Unknown,
            },
            token_endpoint: pending.token_endpoint.to_string(),
            client: StoredRegistration::of(&pending.client),
            resource: pending.resource.clone(),
            scopes: pending.scopes.to_string(),
            redirect: pending.redirect.to_string(),
            page: pending.page.to_string(),
            verifier: pending.verifier.expose().to_owned(),
            state: pending.state.expose().to_owned(),
            expires_at: pending.expires_at,
        }
    }

    fn pending(self) -> Option<PendingSignIn> {
        if self.version != VERSION {
            return None;
        }
        let iss = match self.iss {
            StoredIss::Always => IssParameter::Required,
            StoredIss::Maybe => IssParameter::Optional,
            StoredIss::Unknown => IssParameter::Unchecked,
        };
        Some(PendingSignIn {
            principal: self.principal,
            server: self.server,
            issuer: Issuer { name: self.issuer, iss },
            token_endpoint: self.token_endpoint.parse().ok()?,
            client: self.client.registration(),
            resource: self.resource,
            scopes: Scopes::parse(&self.scopes).ok()?,
            redirect: self.redirect.parse().ok()?,
            page: self.page.parse().ok()?,
            verifier: Secret::new(self.verifier),
            state: Secret::new(self.state),
            expires_at: self.expires_at,
        })
    }
}
