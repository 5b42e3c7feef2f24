//! Private keys: read from PEM in the three ways they are written, and signed with.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use p521::ecdsa::{Signature, signature::Signer};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
        RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair,
    },
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use toolway_config::Secret;

use super::{
    Algorithm,
    der::{Pkcs8, Sec1},
    encode,
};
use crate::address;

/// A private key to sign with. It cannot be printed, and nothing of it is in an error.
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
    /// Some other text.
    #[error("the private key is not in PEM: it has no line like `-----BEGIN PRIVATE KEY-----` with a key after it")]
    NotPem,
    /// Nobody can type a passphrase here.
    #[error("the private key has a passphrase; take it off with `openssl pkcs8 -topk8 -nocrypt`")]
    Locked,
    /// Longer than any key.
    #[error("the private key is longer than {MAX_PEM} bytes")]
    TooLong,
    /// PEM, and not a key that can be signed with.
    #[error("the private key cannot be used: {0}")]
    Unusable(String),
    /// The key is for something else.
    #[error("the private key signs with {}, not with {wanted}", named(can))]
    Mismatch {
        /// What it can.
        can: &'static [Algorithm],
        /// What was wanted.
        wanted: String,
    },
    /// The system has none.
    #[error("the system gives no random numbers")]
    Random,
    /// What is to be signed cannot be written down.
    #[error("the claims cannot be written down")]
    Claims,
}

/// An RSA key of 16384 bits is shorter.
const MAX_PEM: usize = 32 * 1024;

const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

// === impl SigningKey ===

impl SigningKey {
    /// Reads PEM: PKCS#8, PKCS#1 or SEC1. Line ends may be written `\n`, as they are in variables.
    pub fn from_pem(pem: &Secret) -> Result<Self, KeyError> {
        let text = pem.expose();
        if MAX_PEM < text.len() {
            return Err(KeyError::TooLong);
        }
        if text.contains("ENCRYPTED") {
            return Err(KeyError::Locked);
        }
        let lines = if text.contains("\\n") { text.replace("\\n", "\n") } else { text.to_owned() };
        match PrivateKeyDer::from_pem_slice(lines.as_bytes()).map_err(|_| KeyError::NotPem)? {
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()).map(Self::rsa).map_err(unusable),
            PrivateKeyDer::Sec1(key) => Self::from_sec1(key.secret_sec1_der(), None),
            _ => Err(KeyError::NotPem),
        }
    }

    /// Makes a new key on P-256 and gives it as PEM, to be kept.
    pub fn generate() -> Result<Secret, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let text = STANDARD.encode(made.map_err(|_| KeyError::Random)?.as_ref());
        Ok(Secret::new(format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")))
    }

    /// What it can sign with, the usual one first.
    pub fn algorithms(&self) -> &'static [Algorithm] {
        match &self.0 {
            Kind::Rsa(_) => &[Algorithm::Rs256, Algorithm::Rs384, Algorithm::Rs512],
            Kind::P256(_) => &[Algorithm::Es256],
            Kind::P384(_) => &[Algorithm::Es384],
            Kind::P521(_) => &[Algorithm::Es512],
        }
    }

    /// Which algorithm to sign with: the configured one, else the first of its own that the other side takes.
    ///
    /// Whoever lists none takes the usual one.
    pub fn choose(&self, configured: Option<Algorithm>, taken: &[String]) -> Result<Algorithm, KeyError> {
        let can = self.algorithms();
        let [usual, ..] = can else { return Err(KeyError::NotPem) };
        let (found, wanted) = match configured {
            Some(wanted) => (can.iter().find(|own| **own == wanted), wanted.to_string()),
            None if taken.is_empty() => (Some(usual), String::new()),
            None => (can.iter().find(|own| taken.iter().any(|name| name == own.name())), listed(taken)),
        };
        found.copied().ok_or(KeyError::Mismatch { can, wanted })
    }

    /// Signs bytes, as signed texts have signatures: for elliptic curves both numbers, one after the other.
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

    /// The public half as JSON, for a key on P-256, in the order of names that a thumbprint has.
    pub fn public_jwk(&self) -> Option<Value> {
        let Kind::P256(key) = &self.0 else { return None };
        // Uncompressed: a four, then both coordinates.
        let point = key.public_key().as_ref().get(1..65)?;
        let (x, y) = point.split_at(32);
        Some(json!({ "crv": "P-256", "kty": "EC", "x": encode(x), "y": encode(y) }))
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let Pkcs8 { algorithm, curve, key } = Pkcs8::read(pkcs8).ok_or_else(|| unreadable("PKCS#8"))?;
        match algorithm {
            RSA => RsaKeyPair::from_pkcs8(pkcs8).map(Self::rsa).map_err(unusable),
            EC => Self::from_sec1(key, curve),
            _ => Err(unusable("it is neither for RSA nor for an elliptic curve")),
        }
    }

    /// Reads SEC1; the curve may be said outside of it.
    fn from_sec1(sec1: &[u8], outer: Option<&[u8]>) -> Result<Self, KeyError> {
        let Sec1 { private, curve: inner, public } = Sec1::read(sec1).ok_or_else(|| unreadable("SEC1"))?;
        match outer.or(inner) {
            Some(P256) => on_curve(&ECDSA_P256_SHA256_FIXED_SIGNING, private, public).map(|key| Self(Kind::P256(key))),
            Some(P384) => on_curve(&ECDSA_P384_SHA384_FIXED_SIGNING, private, public).map(|key| Self(Kind::P384(key))),
            Some(P521) => p521::ecdsa::SigningKey::from_slice(private)
                .map(|key| Self(Kind::P521(Box::new(key))))
                .map_err(|_| unusable("it is not a number of its curve")),
            _ => Err(unusable("its curve is none of P-256, P-384 and P-521")),
        }
    }

    fn rsa(key: RsaKeyPair) -> Self {
        Self(Kind::Rsa(Box::new(key)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", named(self.algorithms()))
    }
}

fn sign_rsa(key: &RsaKeyPair, padding: &'static dyn RsaEncoding, message: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(padding, &SystemRandom::new(), message, &mut signature).map_err(|_| KeyError::Random)?;
    Ok(signature)
}

fn on_curve(
    algorithm: &'static EcdsaSigningAlgorithm,
    private: &[u8],
    public: Option<&[u8]>,
) -> Result<EcdsaKeyPair, KeyError> {
    let public =
        public.ok_or_else(|| unusable("its public half is missing; `openssl pkcs8 -topk8 -nocrypt` adds it"))?;
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, public, &SystemRandom::new()).map_err(unusable)
}

fn unusable(problem: impl fmt::Display) -> KeyError {
    KeyError::Unusable(problem.to_string())
}

fn unreadable(form: &str) -> KeyError {
    unusable(format_args!("it is not {form}"))
}

fn named(algorithms: &[Algorithm]) -> String {
    algorithms.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>().join(", ")
}

/// What a stranger lists is cut here in messages.
const MAX_LISTED: usize = 100;

/// Names that a stranger lists, cut short.
fn listed(names: &[String]) -> String {
    let joined = names.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(", ");
    address::told(&joined, MAX_LISTED)
}
