//! JWTs (RFC 7515, compact), with which a client proves possession of a private key.
//!
//! JWTs are only created here, never verified. [`key`] reads keys.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;
use serde_json::{Map, Value};
use toolway_config::Secret;

mod der;
mod key;

pub use key::{KeyError, SigningKey};

/// Signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA (PKCS#1 v1.5) with SHA-256.
    Rs256,
    /// RSA (PKCS#1 v1.5) with SHA-384.
    Rs384,
    /// RSA (PKCS#1 v1.5) with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
}

/// Unsupported signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown algorithm; use RS256, RS384, RS512, ES256, ES384 or ES512")]
pub struct UnknownAlgorithm;

/// Header of a JWT, without the algorithm.
#[derive(Debug, Default, Serialize)]
pub struct Header {
    /// Type of the JWT.
    #[serde(rename = "typ", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Key id at the verifier.
    #[serde(rename = "kid", skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// Public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwk: Option<Value>,
}

#[derive(Serialize)]
struct SignedHeader<'a> {
    alg: &'static str,
    #[serde(flatten)]
    header: &'a Header,
}

/// Signs claims. The JWT authenticates the client while it is valid, so it is a secret.
pub fn sign(
    key: &SigningKey,
    algorithm: Algorithm,
    header: &Header,
    claims: &Map<String, Value>,
) -> Result<Secret, KeyError> {
    let header = SignedHeader { alg: algorithm.name(), header };
    let encoded = |json: Result<Vec<u8>, _>| json.map(encode).map_err(|_: serde_json::Error| KeyError::Claims);
    let text = format!("{}.{}", encoded(serde_json::to_vec(&header))?, encoded(serde_json::to_vec(claims))?);
    let signature = key.sign(algorithm, text.as_bytes())?;
    Ok(Secret::new(format!("{text}.{}", encode(signature))))
}

/// A random identifier for `jti`.
pub fn fresh_id() -> Result<String, KeyError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(encode(bytes))
}

/// Encodes bytes in base64url without padding.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

// === impl Algorithm ===

impl Algorithm {
    /// All algorithms, in order of preference.
    const ALL: [Self; 6] = [Self::Rs256, Self::Rs384, Self::Rs512, Self::Es256, Self::Es384, Self::Es512];

    /// Name in JWTs and metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or(UnknownAlgorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
pub(crate) mod tests;
