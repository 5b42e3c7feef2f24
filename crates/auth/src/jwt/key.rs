//! Private keys: parsed from PEM (PKCS#8, PKCS#1, SEC1) and used for signatures.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use der::asn1::ObjectIdentifier;
use p521::ecdsa::{Signature, signature::Signer};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
        RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair,
    },
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use sec1::{EcParameters, EcPrivateKey};
use serde_json::{Value, json};
use toolway_config::Secret;

use super::{Algorithm, der::Pkcs8, encode};
use crate::address;

/// A private key. It is never printed, and errors contain nothing of it.
pub struct SigningKey(Kind);

enum Kind {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    P521(Box<p521::ecdsa::SigningKey>),
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not PEM.
    #[error("the private key is not in PEM format: no `-----BEGIN PRIVATE KEY-----` line with a key found")]
    NotPem,
    /// The key is protected by a passphrase.
    #[error("the private key is encrypted; decrypt it with `openssl pkcs8 -topk8 -nocrypt`")]
    Encrypted,
    /// Longer than any supported key.
    #[error("the private key is longer than {MAX_PEM} bytes")]
    TooLong,
    /// PEM, but not a usable key.
    #[error("the private key cannot be used: {0}")]
    Unusable(String),
    /// The key does not support the algorithm.
    #[error("the private key signs with {}, not with {wanted}", join_names(can))]
    Mismatch {
        /// Algorithms of the key.
        can: &'static [Algorithm],
        /// Requested algorithm.
        wanted: String,
    },
    /// The system random number generator failed.
    #[error("the system's random number generator failed")]
    Random,
    /// The claims cannot be serialized.
    #[error("the JWT claims cannot be serialized")]
    Claims,
}

/// Maximum length in bytes; an RSA key of 16384 bits is shorter.
const MAX_PEM: usize = 32 * 1024;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

// === impl SigningKey ===

impl SigningKey {
    /// Parses PEM: PKCS#8, PKCS#1 or SEC1. Line breaks may be written as `
    /// `, as in environment variables.
    pub fn from_pem(pem: &Secret) -> Result<Self, KeyError> {
        let text = pem.expose();
        if MAX_PEM < text.len() {
            return Err(KeyError::TooLong);
        }
        if text.contains("ENCRYPTED") {
            return Err(KeyError::Encrypted);
        }
        let lines = if text.contains("\\n") { text.replace("\\n", "\n") } else { text.to_owned() };
        match PrivateKeyDer::from_pem_slice(lines.as_bytes()).map_err(|_| KeyError::NotPem)? {
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()).map(Self::rsa).map_err(unusable),
            PrivateKeyDer::Sec1(key) => Self::from_sec1(key.secret_sec1_der(), None),
            _ => Err(KeyError::NotPem),
        }
    }

    /// Generates a P-256 key and returns it as PEM.
    pub fn generate() -> Result<Secret, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let text = STANDARD.encode(made.map_err(|_| KeyError::Random)?.as_ref());
        Ok(Secret::new(format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")))
    }

    /// Algorithms that the key supports, the preferred one first.
    pub fn algorithms(&self) -> &'static [Algorithm] {
        match &self.0 {
            Kind::Rsa(_) => &[Algorithm::Rs256, Algorithm::Rs384, Algorithm::Rs512],
            Kind::P256(_) => &[Algorithm::Es256],
            Kind::P384(_) => &[Algorithm::Es384],
            Kind::P521(_) => &[Algorithm::Es512],
        }
    }

    /// Selects the configured algorithm, otherwise the first that the remote side accepts.
    ///
    /// An empty list of accepted algorithms selects the preferred one.
    pub fn choose(&self, configured: Option<Algorithm>, taken: &[String]) -> Result<Algorithm, KeyError> {
        let can = self.algorithms();
        let [usual, ..] = can else { return Err(KeyError::NotPem) };
        let (found, wanted) = match configured {
            Some(wanted) => (can.iter().find(|own| **own == wanted), wanted.to_string()),
            None if taken.is_empty() => (Some(usual), String::new()),
            None => (can.iter().find(|own| taken.iter().any(|name| name == own.name())), summarize(taken)),
        };
        found.copied().ok_or(KeyError::Mismatch { can, wanted })
    }

    /// Signs bytes in the format of JWS; for elliptic curves the concatenation of r and s.
    pub(super) fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match (&self.0, algorithm) {
            (Kind::Rsa(key), Algorithm::Rs256) => sign_rsa(key, &RSA_PKCS1_SHA256, message),
            (Kind::Rsa(key), Algorithm::Rs384) => sign_rsa(key, &RSA_PKCS1_SHA384, message),
            (Kind::Rsa(key), Algorithm::Rs512) => sign_rsa(key, &RSA_PKCS1_SHA512, message),
            (Kind::P256(key), Algorithm::Es256) | (Kind::P384(key), Algorithm::Es384) => {
                let signature = key.sign(&random, message).map_err(|_| KeyError::Random)?;
                Ok(signature.as_ref().to_vec())
            }
            (Kind::P521(key), Algorithm::Es512) => {
                let signature: Signature = key.sign(message);
                Ok(signature.to_bytes().to_vec())
            }
            _ => Err(KeyError::Mismatch { can: self.algorithms(), wanted: algorithm.to_string() }),
        }
    }

    /// Public key of a P-256 key as JWK, with members in the order of a thumbprint.
    pub fn public_jwk(&self) -> Option<Value> {
        let Kind::P256(key) = &self.0 else { return None };
        // Uncompressed point: 0x04, then both coordinates.
        let point = key.public_key().as_ref().get(1..65)?;
        let (x, y) = point.split_at(32);
        Some(json!({ "crv": "P-256", "kty": "EC", "x": encode(x), "y": encode(y) }))
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let Pkcs8 { algorithm, curve, key } = Pkcs8::read(pkcs8).map_err(|_| unreadable("PKCS#8"))?;
        match algorithm {
            RSA => RsaKeyPair::from_pkcs8(pkcs8).map(Self::rsa).map_err(unusable),
            EC => Self::from_sec1(key, curve),
            _ => Err(unusable("it is neither an RSA key nor an elliptic curve key")),
        }
    }

    /// Parses SEC1; `outer` is the curve that PKCS#8 names.
    fn from_sec1(sec1: &[u8], outer: Option<ObjectIdentifier>) -> Result<Self, KeyError> {
        let key = EcPrivateKey::try_from(sec1).map_err(|_| unreadable("SEC1"))?;
        let EcPrivateKey { private_key: private, parameters, public_key: public } = key;
        match outer.or(parameters.and_then(EcParameters::named_curve)) {
            Some(P256) => ecdsa_key(&ECDSA_P256_SHA256_FIXED_SIGNING, private, public).map(|key| Self(Kind::P256(key))),
            Some(P384) => ecdsa_key(&ECDSA_P384_SHA384_FIXED_SIGNING, private, public).map(|key| Self(Kind::P384(key))),
            Some(P521) => p521::ecdsa::SigningKey::from_slice(private)
                .map(|key| Self(Kind::P521(Box::new(key))))
                .map_err(|_| unusable("it is not a valid number for its curve")),
            _ => Err(unusable("its curve is not P-256, P-384 or P-521")),
        }
    }

    fn rsa(key: RsaKeyPair) -> Self {
        Self(Kind::Rsa(Box::new(key)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", join_names(self.algorithms()))
    }
}

fn sign_rsa(key: &RsaKeyPair, padding: &'static dyn RsaEncoding, message: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(padding, &SystemRandom::new(), message, &mut signature).map_err(|_| KeyError::Random)?;
    Ok(signature)
}

fn ecdsa_key(
    algorithm: &'static EcdsaSigningAlgorithm,
    private: &[u8],
    public: Option<&[u8]>,
) -> Result<EcdsaKeyPair, KeyError> {
    let public =
        public.ok_or_else(|| unusable("its public key is missing; `openssl pkcs8 -topk8 -nocrypt` adds it"))?;
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, public, &SystemRandom::new()).map_err(unusable)
}

fn unusable(problem: impl fmt::Display) -> KeyError {
    KeyError::Unusable(problem.to_string())
}

fn unreadable(form: &str) -> KeyError {
    unusable(format_args!("it is not {form}"))
}

fn join_names(algorithms: &[Algorithm]) -> String {
    algorithms.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>().join(", ")
}

/// Remote lists are truncated to this many characters in messages.
const MAX_LISTED: usize = 100;

/// Joins names that a remote party lists, truncated.
fn summarize(names: &[String]) -> String {
    let joined = names.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(", ");
    address::sanitize(&joined, MAX_LISTED)
}
