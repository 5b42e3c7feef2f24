//! A credential in the form in which it is sent to the server.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use toolway_wire::up::credential::OutgoingRequest;
use url::Url;

use crate::{
    credential::{Credential, CredentialKey, TokenKind, Tokens, now},
    proof::{DPOP, Presented, ProofError, ProofKeys, Prover},
};

/// A credential with tokens.
#[derive(Clone)]
pub(crate) struct ActiveCredential {
    pub(crate) key: CredentialKey,
    pub(crate) tokens: Tokens,
    authorization: HeaderValue,
    prover: Option<Arc<dyn Prover>>,
}

/// A token that is refused within this many seconds after it was obtained is not refreshed or replaced.
pub(crate) const FRESH: u64 = 10;

impl ActiveCredential {
    /// Prepares a credential; `None` if it has no tokens, or tokens of another type than configured.
    pub(crate) fn of(
        key: CredentialKey,
        credential: &Credential,
        proofs: Option<&dyn ProofKeys>,
    ) -> Result<Option<Self>, String> {
        let Some(tokens) = credential.tokens.clone() else { return Ok(None) };
        // The current configuration decides: a token that is not bound as configured is not sent.
        if (tokens.kind == TokenKind::DPoP) != proofs.is_some() {
            return Ok(None);
        }
        let scheme = match tokens.kind {
            TokenKind::Bearer => "Bearer",
            TokenKind::DPoP => "DPoP",
        };
        let authorization = HeaderValue::from_str(&format!("{scheme} {}", tokens.access.expose()));
        let mut authorization =
            authorization.map_err(|_| "the token contains characters that are not valid in a header".to_owned())?;
        authorization.set_sensitive(true);
        let proofs = proofs.filter(|_| tokens.kind == TokenKind::DPoP);
        let prover = proofs.map(|proofs| proofs.prover(credential.proof_key.as_ref())).transpose();
        let prover = prover.map_err(|error| error.to_string())?;
        Ok(Some(Self { key, tokens, authorization, prover }))
    }

    pub(crate) fn headers(&self, sending: OutgoingRequest<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, ProofError> {
        let mut headers = vec![(header::AUTHORIZATION, self.authorization.clone())];
        if let Some(prover) = &self.prover {
            let with = Presented { token: &self.tokens.access, body: sending.body };
            headers.push((DPOP, prover.proof(sending.method, sending.url, Some(with))?));
        }
        Ok(headers)
    }

    /// Whether the token expires soon and can be refreshed.
    pub(crate) fn needs_refresh(&self) -> bool {
        self.tokens.expires_soon(now()) && self.tokens.refresh.is_some()
    }

    pub(crate) fn may_refresh_after_refusal(&self) -> bool {
        self.tokens.refresh.is_some() && self.tokens.obtained_at.saturating_add(FRESH) <= now()
    }

    /// Whether a refused request carried this credential.
    pub(crate) fn matches(&self, presented: Option<&HeaderValue>) -> bool {
        presented.is_some_and(|presented| *presented == self.authorization)
    }

    /// Whether DPoP proofs are sent with it.
    pub(crate) fn uses_proofs(&self) -> bool {
        self.prover.is_some()
    }

    /// Passes the headers of a response to the prover.
    pub(crate) fn record_nonce(&self, url: &Url, headers: &HeaderMap) {
        if let Some(prover) = &self.prover {
            prover.record_nonce(url, headers);
        }
    }
}
