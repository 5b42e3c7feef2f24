//! A credential as it is shown to the server.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use toolway_wire::up::credential::Sending;
use url::Url;

use crate::{
    credential::{Credential, CredentialKey, TokenKind, Tokens, now},
    proof::{DPOP, Presented, ProofError, ProofKeys, Prover},
};

/// A credential that has tokens.
#[derive(Clone)]
pub(crate) struct Presentable {
    pub(crate) key: CredentialKey,
    pub(crate) tokens: Tokens,
    authority: HeaderValue,
    prover: Option<Arc<dyn Prover>>,
}

/// A token that was refused so soon, in seconds, after it was got is helped neither by a renewal nor by another one.
pub(crate) const FRESH: u64 = 10;

impl Presentable {
    /// Makes it ready to be shown; none where it has no tokens, or not of the kind that is configured.
    pub(crate) fn of(
        key: CredentialKey,
        credential: &Credential,
        proofs: Option<&dyn ProofKeys>,
    ) -> Result<Option<Self>, String> {
        let Some(tokens) = credential.tokens.clone() else { return Ok(None) };
        // What is configured now decides: a token that is not bound as it should be is not shown.
        if (tokens.kind == TokenKind::DPoP) != proofs.is_some() {
            return Ok(None);
        }
        let scheme = match tokens.kind {
            TokenKind::Bearer => "Bearer",
            TokenKind::DPoP => "DPoP",
        };
        let authority = HeaderValue::from_str(&format!("{scheme} {}", tokens.access.expose()));
        let mut authority = authority.map_err(|_| "the token cannot be carried by a header".to_owned())?;
        authority.set_sensitive(true);
        let proofs = proofs.filter(|_| tokens.kind == TokenKind::DPoP);
        let prover = proofs.map(|proofs| proofs.prover(credential.proof_key.as_ref())).transpose();
        let prover = prover.map_err(|error| error.to_string())?;
        Ok(Some(Self { key, tokens, authority, prover }))
    }

    pub(crate) fn headers(&self, sending: Sending<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, ProofError> {
        let mut headers = vec![(header::AUTHORIZATION, self.authority.clone())];
        if let Some(prover) = &self.prover {
            let with = Presented { token: &self.tokens.access, body: sending.body };
            headers.push((DPOP, prover.proof(sending.method, sending.url, Some(with))?));
        }
        Ok(headers)
    }

    /// Whether it ends soon and can be renewed.
    pub(crate) fn is_due(&self) -> bool {
        self.tokens.is_ending(now()) && self.tokens.refresh.is_some()
    }

    pub(crate) fn is_worth_renewing(&self) -> bool {
        self.tokens.refresh.is_some() && self.tokens.since.saturating_add(FRESH) <= now()
    }

    /// Whether this is what a refused request carried.
    pub(crate) fn is(&self, presented: Option<&HeaderValue>) -> bool {
        presented.is_some_and(|presented| *presented == self.authority)
    }

    /// Whether proofs go with it.
    pub(crate) fn proves(&self) -> bool {
        self.prover.is_some()
    }

    /// Gives what the server answered to whoever makes the proofs.
    pub(crate) fn hears(&self, url: &Url, headers: &HeaderMap) {
        if let Some(prover) = &self.prover {
            prover.heard(url, headers);
        }
    }
}
