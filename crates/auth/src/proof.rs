//! Port for DPoP proofs: a token that is bound to a key cannot be used without it.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use toolway_config::Secret;
use url::Url;

/// Creates provers from stored or new keys.
pub trait ProofKeys: Send + Sync + fmt::Debug {
    /// Returns a prover with this key; `None` generates a new key.
    fn prover(&self, kept: Option<&Secret>) -> Result<Arc<dyn Prover>, ProofError>;
}

/// Creates proofs with one key, and remembers the nonces of servers.
pub trait Prover: Send + Sync + fmt::Debug {
    /// Creates a proof for one request, with the last nonce of its origin; `with` if a token is presented.
    fn proof(&self, method: &Method, url: &Url, with: Option<Presented<'_>>) -> Result<HeaderValue, ProofError>;

    /// Remembers the nonce in a response, for the next request to this origin.
    fn record_nonce(&self, url: &Url, headers: &HeaderMap);

    /// The key, to be stored with the tokens that are bound to it.
    fn key(&self) -> Secret;
}

/// Token and body of a request to a protected resource.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// Access token.
    pub token: &'a Secret,
    /// Body of the request, exactly as sent.
    pub body: &'a [u8],
}

/// A proof cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot create a DPoP proof: {0}")]
pub struct ProofError(pub String);

/// Header of a proof.
pub const DPOP: HeaderName = HeaderName::from_static("dpop");
/// Header with the nonce for the next proof.
pub const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
