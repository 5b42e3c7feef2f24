//! Proofs that a key is ours (DPoP), as a port: a token that is bound to a key is worth nothing without it.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use toolway_config::Secret;
use url::Url;

/// Makes provers: with the key that was kept with a credential, or with a new one.
pub trait ProofKeys: Send + Sync + fmt::Debug {
    /// A prover with this key; without one, with a new key.
    fn prover(&self, kept: Option<&Secret>) -> Result<Arc<dyn Prover>, ProofError>;
}

/// Makes proofs with one key, and keeps the nonces that servers want to see in them.
pub trait Prover: Send + Sync + fmt::Debug {
    /// A new proof for one request, with the nonce last heard from its origin; `with` where a token is presented.
    fn proof(&self, method: &Method, url: &Url, with: Option<Presented<'_>>) -> Result<HeaderValue, ProofError>;

    /// An answer may carry a nonce for the next request to this origin.
    fn heard(&self, url: &Url, headers: &HeaderMap);

    /// The key, to be kept with the tokens that are bound to it.
    fn key(&self) -> Secret;
}

/// What a request to a resource presents, and what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The token.
    pub token: &'a Secret,
    /// The body of the request; nothing of it may be changed on its way.
    pub body: &'a [u8],
}

/// No proof can be made, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no proof of possession can be made: {0}")]
pub struct ProofError(pub String);

/// The header of a proof.
pub const DPOP: HeaderName = HeaderName::from_static("dpop");
/// The header in which a server says what the next proof has to contain.
pub const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
