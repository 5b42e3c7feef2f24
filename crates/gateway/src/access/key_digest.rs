//! The digest of a client's key, by which it is found and compared.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// SHA-256 of a key. Compared in constant time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// Fingerprint for sealed handles: half of the digest, enough to distinguish keys.
    pub(super) fn mark(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0[..16])
    }

    pub(super) fn of(key: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const NOT_A_DIGEST: &str = "not 64 hexadecimal digits";
        let byte = |index: usize| {
            let pair = text.get(2 * index..2 * index + 2).ok_or(NOT_A_DIGEST)?;
            u8::from_str_radix(pair, 16).map_err(|_| NOT_A_DIGEST)
        };
        if text.len() != 64 {
            return Err(NOT_A_DIGEST);
        }
        let mut bytes = [0; 32];
        for (index, place) in bytes.iter_mut().enumerate() {
            *place = byte(index)?;
        }
        Ok(Self(bytes))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}
