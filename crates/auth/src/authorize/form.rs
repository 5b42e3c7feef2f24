//! A sign-in under way as the vault keeps it, so that another process can finish it.

use serde::{Deserialize, Serialize};
use toolway_config::Secret;

use super::{Issuer, Pending, Said};
use crate::{
    credential::{CredentialError, form::RegistrationForm},
    scope::Scopes,
    vault::Vault,
};

#[derive(Serialize, Deserialize)]
struct Form {
    version: u32,
    principal: String,
    server: String,
    issuer: String,
    said: SaidForm,
    token_endpoint: String,
    client: RegistrationForm,
    resource: String,
    scopes: String,
    redirect: String,
    page: String,
    verifier: String,
    state: String,
    ends: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SaidForm {
    Always,
    Maybe,
    Unknown,
}

/// The form that is written, and the only one that is read.
const VERSION: u32 = 1;

impl Pending {
    /// Keeps it for whoever brings the callback, in the place of an older one for the same server.
    pub async fn keep(&self, vault: &dyn Vault) -> Result<(), CredentialError> {
        // A form of texts and numbers always has a JSON text.
        let text = serde_json::to_string(&Form::of(self)).unwrap_or_default();
        Ok(vault.store(&Self::waiting_key(&self.principal, &self.server), Secret::new(text)).await?)
    }

    /// Takes the one that waits; it is gone then, so that no callback is used twice.
    pub async fn take(vault: &dyn Vault, principal: &str, server: &str) -> Result<Option<Self>, CredentialError> {
        let key = Self::waiting_key(principal, server);
        let _turn = vault.turn(&key).await?;
        let Some(kept) = vault.load(&key).await? else { return Ok(None) };
        vault.forget(&key).await?;
        Ok(serde_json::from_str::<Form>(kept.expose()).ok().and_then(Form::pending))
    }
}

impl Form {
    fn of(pending: &Pending) -> Self {
        Self {
            version: VERSION,
            principal: pending.principal.clone(),
            server: pending.server.clone(),
            issuer: pending.issuer.name.clone(),
            said: match pending.issuer.said {
                Said::Always => SaidForm::Always,
                Said::Maybe => SaidForm::Maybe,
                Said::Unknown => SaidForm::Unknown,
            },
            token_endpoint: pending.token_endpoint.to_string(),
            client: RegistrationForm::of(&pending.client),
            resource: pending.resource.clone(),
            scopes: pending.scopes.to_string(),
            redirect: pending.redirect.to_string(),
            page: pending.page.to_string(),
            verifier: pending.verifier.expose().to_owned(),
            state: pending.state.expose().to_owned(),
            ends: pending.ends,
        }
    }

    fn pending(self) -> Option<Pending> {
        if self.version != VERSION {
            return None;
        }
        let said = match self.said {
            SaidForm::Always => Said::Always,
            SaidForm::Maybe => Said::Maybe,
            SaidForm::Unknown => Said::Unknown,
        };
        Some(Pending {
            principal: self.principal,
            server: self.server,
            issuer: Issuer { name: self.issuer, said },
            token_endpoint: self.token_endpoint.parse().ok()?,
            client: self.client.registration(),
            resource: self.resource,
            scopes: Scopes::parse(&self.scopes).ok()?,
            redirect: self.redirect.parse().ok()?,
            page: self.page.parse().ok()?,
            verifier: Secret::new(self.verifier),
            state: Secret::new(self.state),
            ends: self.ends,
        })
    }
}
