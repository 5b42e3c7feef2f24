//! A new token before the old one ends, or after it was refused: one request for all who wait, across tasks and processes.
//!
//! Whoever has the turn ([`Vault::turn`]) looks again at what is kept: if somebody renewed it meanwhile, that is the
//! new token. A renewal that was refused forgets the tokens and keeps the registration, so that nobody tries it again.

use toolway_config::Secret;

use crate::{
    credential::{Credential, CredentialError, CredentialKey, Registration, RegistrationSource, now},
    fetch::{Fetch, FetchError},
    proof::{ProofError, ProofKeys},
    renewals::Renewals,
    settings::Settings,
    token::{TokenError, TokenReply, TokenRequest},
    vault::Vault,
};

/// What a renewal needs.
#[derive(Clone, Copy, Debug)]
pub struct Renewal<'a> {
    /// The guarded dialer.
    pub fetch: &'a dyn Fetch,
    /// Where credentials are kept.
    pub vault: &'a dyn Vault,
    /// Where tokens are bound to a key.
    pub proofs: Option<&'a dyn ProofKeys>,
    /// What the operator wrote; a new secret of a configured client is in here and not yet in the vault.
    pub settings: &'a Settings,
    /// What the vault would not take.
    pub renewals: &'a Renewals,
}

/// Why there is no new token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewalError {
    /// Nothing is kept, or nothing that a new token can be got with.
    #[error("the sign-in has ended")]
    Ended,
    /// The authorization server does not take it any more; it is forgotten.
    #[error("the sign-in has ended: {0}")]
    Rejected(TokenError),
    /// It does not answer, or cannot at the moment; the old tokens are still there.
    #[error("the sign-in cannot be renewed: {0}")]
    Unanswered(FetchError),
    /// What is kept cannot be read or changed.
    #[error("{0}")]
    Vault(CredentialError),
    /// It could not be asked, or said something strange; the old tokens are still there.
    #[error("the sign-in cannot be renewed: {0}")]
    Failed(String),
}

impl Renewal<'_> {
    /// The credential with a token that is not `stale`: somebody else's new one, or ours.
    pub async fn renew(&self, key: &CredentialKey, stale: &Secret) -> Result<Credential, RenewalError> {
        let turn = self.vault.turn(key).await.map_err(CredentialError::from)?;
        let kept = Credential::load(self.vault, key).await?.ok_or(RenewalError::Ended)?;
        let credential = self.renewals.newest(key, kept.clone());
        let tokens = credential.tokens.as_ref().ok_or(RenewalError::Ended)?;
        if tokens.access != *stale {
            return Ok(credential);
        }
        let renewed = match self.request(key, &credential).await {
            Ok(reply) => Credential { tokens: Some(tokens.renewed(reply, now())?), ..credential },
            Err(error) => return Err(self.refused(key, credential, error).await),
        };
        self.renewals.keep(self.vault, key, &renewed, &kept).await;
        drop(turn);
        Ok(renewed)
    }

    async fn request(&self, key: &CredentialKey, credential: &Credential) -> Result<TokenReply, RenewalError> {
        let refresh =
            credential.tokens.as_ref().and_then(|tokens| tokens.refresh.clone()).ok_or(RenewalError::Ended)?;
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
            TokenError::Refused { .. } => RenewalError::Rejected(error),
            TokenError::Fetch(error) if error.may_pass() => RenewalError::Unanswered(error),
            other => failed(&other),
        })
    }

    fn client(&self, key: &CredentialKey, credential: &Credential) -> Registration {
        let client = credential.client.clone();
        let is_configured = client.source == RegistrationSource::Configured
            && self.settings.client_id.as_deref() == Some(client.id.as_str())
            // Another one would be shown to whomever a server once named, or the operator meant once.
            && self.settings.names(key, credential);
        let secret = if is_configured { self.settings.client_secret.clone() } else { client.secret.clone() };
        Registration { secret, ..client }
    }

    /// What was rejected for good is forgotten: the tokens, and a client that registered itself if nobody knows it now.
    async fn refused(&self, key: &CredentialKey, credential: Credential, error: RenewalError) -> RenewalError {
        let RenewalError::Rejected(refusal) = &error else { return error };
        let forgotten = if refusal.is("invalid_grant") {
            Credential { tokens: None, ..credential }.store(self.vault, key).await
        } else if refusal.is("invalid_client") && credential.client.source == RegistrationSource::Dynamic {
            self.vault.forget(key).await
        } else {
            return failed(refusal);
        };
        match forgotten {
            Ok(()) => error,
            Err(vault) => RenewalError::Vault(vault.into()),
        }
    }
}

fn failed(error: &impl ToString) -> RenewalError {
    RenewalError::Failed(error.to_string())
}

impl From<CredentialError> for RenewalError {
    fn from(error: CredentialError) -> Self {
        match error {
            CredentialError::Vault(_) | CredentialError::Unreadable { .. } => Self::Vault(error),
            CredentialError::OtherKind | CredentialError::UnknownKind(_) => failed(&error),
        }
    }
}

impl From<ProofError> for RenewalError {
    fn from(error: ProofError) -> Self {
        failed(&error)
    }
}

#[cfg(test)]
mod tests;
