//! Refreshes a token before it expires, or after it was refused: one request for all waiting tasks and processes.
//!
//! The holder of the lock ([`Vault::lock`]) reads the stored credential again: another task or process may have
//! refreshed it. A rejected refresh deletes the tokens and keeps the registration, so that it is not repeated.

use toolway_config::Secret;

use crate::{
    credential::{Credential, CredentialError, CredentialKey, Registration, RegistrationSource, now},
    fetch::{Fetch, FetchError},
    proof::{ProofError, ProofKeys},
    refresh_tracker::RefreshTracker,
    settings::Settings,
    token::{TokenError, TokenRequest, TokenResponse},
    vault::Vault,
};

/// Context of a token refresh.
#[derive(Clone, Copy, Debug)]
pub struct TokenRefresh<'a> {
    /// Guarded dialer.
    pub fetch: &'a dyn Fetch,
    /// Credential storage.
    pub vault: &'a dyn Vault,
    /// DPoP keys, if tokens are bound to one.
    pub proofs: Option<&'a dyn ProofKeys>,
    /// The operator's settings; they hold a changed client secret before the vault does.
    pub settings: &'a Settings,
    /// Tokens that could not be stored.
    pub refreshes: &'a RefreshTracker,
}

/// Why the token was not refreshed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// There is no stored credential, or it has no refresh token.
    #[error("the sign-in has expired")]
    Expired,
    /// The authorization server rejected the refresh token, which was deleted.
    #[error("the sign-in has expired: {0}")]
    Rejected(TokenError),
    /// The authorization server is temporarily unavailable; the old tokens are kept.
    #[error("the access token cannot be refreshed: {0}")]
    Unavailable(FetchError),
    /// The vault cannot be read or written.
    #[error("{0}")]
    Vault(CredentialError),
    /// The request failed or the response was invalid; the old tokens are kept.
    #[error("the access token cannot be refreshed: {0}")]
    Failed(String),
}

impl TokenRefresh<'_> {
    /// Returns a credential whose access token is not `stale`: refreshed here, or meanwhile by another task or process.
    pub async fn run(&self, key: &CredentialKey, stale: &Secret) -> Result<Credential, RefreshError> {
        let lock = self.vault.lock(key).await.map_err(CredentialError::from)?;
        let kept = Credential::load(self.vault, key).await?.ok_or(RefreshError::Expired)?;
        let credential = self.refreshes.newest(key, kept.clone());
        let tokens = credential.tokens.as_ref().ok_or(RefreshError::Expired)?;
        if tokens.access != *stale {
            return Ok(credential);
        }
        let refreshed = match self.request(key, &credential).await {
            Ok(reply) => Credential { tokens: Some(tokens.refreshed(reply, now())?), ..credential },
            Err(error) => return Err(self.handle_refusal(key, credential, error).await),
        };
        self.refreshes.store(self.vault, key, &refreshed, &kept).await;
        drop(lock);
        Ok(refreshed)
    }

    async fn request(&self, key: &CredentialKey, credential: &Credential) -> Result<TokenResponse, RefreshError> {
        let refresh =
            credential.tokens.as_ref().and_then(|tokens| tokens.refresh.clone()).ok_or(RefreshError::Expired)?;
        let kept = credential.proof_key.as_ref();
        let prover = kept.and_then(|kept| self.proofs.map(|keys| keys.prover(Some(kept)))).transpose()?;
        let request = TokenRequest {
            endpoint: &credential.token_endpoint,
            client: &self.client(key, credential).auth(),
            params: vec![
                ("grant_type", Secret::new("refresh_token")),
                ("refresh_token", refresh),
                ("resource", Secret::new(key.resource.clone())),
            ],
            prover: prover.as_deref(),
        };
        request.send(self.fetch).await.map_err(|error| match error {
            TokenError::Refused { .. } => RefreshError::Rejected(error),
            TokenError::Fetch(error) if error.may_pass() => RefreshError::Unavailable(error),
            other => failed(&other),
        })
    }

    fn client(&self, key: &CredentialKey, credential: &Credential) -> Registration {
        let client = credential.client.clone();
        let is_configured = client.source == RegistrationSource::Configured
            && self.settings.client_id.as_deref() == Some(client.id.as_str())
            // Otherwise the secret would be sent to an issuer that only the server named, or that was configured
            // earlier.
            && self.settings.explicitly_names(key, credential);
        let secret = if is_configured { self.settings.client_secret.clone() } else { client.secret.clone() };
        Registration { secret, ..client }
    }

    /// Deletes what was rejected for good: the tokens, or a dynamically registered client that is no longer known.
    async fn handle_refusal(&self, key: &CredentialKey, credential: Credential, error: RefreshError) -> RefreshError {
        let RefreshError::Rejected(refusal) = &error else { return error };
        let forgotten = if refusal.has_code("invalid_grant") {
            Credential { tokens: None, ..credential }.store(self.vault, key).await
        } else if refusal.has_code("invalid_client") && credential.client.source == RegistrationSource::Dynamic {
            self.vault.forget(key).await
        } else {
            return failed(refusal);
        };
        match forgotten {
            Ok(()) => error,
            Err(vault) => RefreshError::Vault(vault.into()),
        }
    }
}

fn failed(error: &impl ToString) -> RefreshError {
    RefreshError::Failed(error.to_string())
}

impl From<CredentialError> for RefreshError {
    fn from(error: CredentialError) -> Self {
        match error {
            CredentialError::Vault(_) | CredentialError::Unreadable { .. } => Self::Vault(error),
            CredentialError::KindChanged | CredentialError::UnknownKind(_) => failed(&error),
        }
    }
}

impl From<ProofError> for RefreshError {
    fn from(error: ProofError) -> Self {
        failed(&error)
    }
}

#[cfg(test)]
mod tests;
