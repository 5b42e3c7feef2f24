//! Sealed handles: opaque, encrypted tokens that a client holds and returns unchanged.
//!
//! ChaCha20-Poly1305 under a key that is generated or given, never defaulted. The purpose of a handle is authenticated
//! with it, so that a handle for one purpose cannot be used for another. The code that seals a handle also checks its
//! content against the caller who returns it.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest, hmac,
    rand::{SecureRandom, SystemRandom},
};

/// Seals and opens handles.
pub struct Sealer {
    key: LessSafeKey,
    /// Makes the nonces of handles that are equal for equal content.
    nonces: hmac::Key,
    random: SystemRandom,
}

/// Purpose of a handle; a handle sealed for another purpose does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A parked request that continues with the client's answers.
    Request,
    /// A position in a list.
    Cursor,
    /// A task id.
    Task,
    /// A position in a list of tasks.
    TaskCursor,
    /// Id of a session that several gateways share.
    Session,
}

/// The system's random number generator failed; nothing can be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct NoRandomness;

/// Length of a key in bytes.
pub const KEY_BYTES: usize = 32;

impl Sealer {
    /// Creates a sealer with a random key, valid for the lifetime of the process.
    pub fn with_random_key() -> Result<Self, NoRandomness> {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).map_err(|_| NoRandomness)?;
        Self::with_key(&key)
    }

    /// Creates a sealer with a given key; every sealer with the same key can open its handles.
    pub fn with_key(key: &[u8; KEY_BYTES]) -> Result<Self, NoRandomness> {
        // A key of its own: the two uses do not share one.
        let nonces = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), b"toolway nonces");
        let nonces = hmac::Key::new(hmac::HMAC_SHA256, nonces.as_ref());
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| NoRandomness)?;
        Ok(Self { key: LessSafeKey::new(key), nonces, random: SystemRandom::new() })
    }

    /// Seals `content` for this purpose. Each handle is another one.
    pub fn seal(&self, purpose: Purpose, content: &[u8]) -> Result<String, NoRandomness> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| NoRandomness)?;
        self.seal_with(nonce, purpose, content)
    }

    /// Seals `content` for this purpose. Equal content gives an equal handle: for ids, which clients compare.
    pub fn seal_id(&self, purpose: Purpose, content: &[u8]) -> Result<String, NoRandomness> {
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(purpose.associated_data().as_ref());
        // The purposes are fixed texts, of which none is the beginning of another one with this byte.
        context.update(&[0]);
        context.update(content);
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&context.sign().as_ref()[..NONCE_LEN]);
        self.seal_with(nonce, purpose, content)
    }

    /// The nonce is random, or a keyed digest of purpose and content: then it repeats only with both.
    fn seal_with(&self, nonce: [u8; NONCE_LEN], purpose: Purpose, content: &[u8]) -> Result<String, NoRandomness> {
        let mut sealed = content.to_vec();
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), purpose.associated_data(), &mut sealed)
            .map_err(|_| NoRandomness)?;
        let handle: Vec<u8> = nonce.iter().chain(&sealed).chain(tag.as_ref()).copied().collect();
        Ok(URL_SAFE_NO_PAD.encode(handle))
    }

    /// Returns the content if the handle was sealed under this key, for this purpose, and is unchanged.
    pub fn open(&self, purpose: Purpose, handle: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(handle).ok()?;
        if bytes.len() < NONCE_LEN {
            return None;
        }
        let mut sealed = bytes.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).ok()?;
        let content = self.key.open_in_place(nonce, purpose.associated_data(), &mut sealed).ok()?;
        Some(content.to_vec())
    }
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Self; 5] = [Self::Request, Self::Cursor, Self::Task, Self::TaskCursor, Self::Session];

    /// Associated data: authenticated, but not part of the handle.
    fn associated_data(self) -> Aad<&'static [u8]> {
        Aad::from(match self {
            Self::Request => b"toolway request".as_slice(),
            Self::Cursor => b"toolway cursor",
            Self::Task => b"toolway task",
            Self::TaskCursor => b"toolway task cursor",
            Self::Session => b"toolway session",
        })
    }
}

/// Returns 128 random bits in hexadecimal: for session ids and ids of parked calls.
pub fn random_token() -> Result<String, NoRandomness> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns 64 random bits.
pub(crate) fn random_number() -> Result<u64, NoRandomness> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(u64::from_be_bytes(bytes))
}

/// SHA-256 over several parts in hexadecimal; each part is prefixed with its length, so that parts do not run together.
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    let digest = context.finish();
    digest.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::{Purpose, Sealer, fingerprint, random_token};

    #[test]
    fn handle_opens_only_unchanged_and_under_the_same_key() {
        let sealer = Sealer::with_random_key().unwrap();
        let handle = sealer.seal(Purpose::Task, b"content").unwrap();
        let open = |handle: &str| sealer.open(Purpose::Task, handle);
        assert_eq!(open(&handle).as_deref(), Some(&b"content"[..]));
        assert!(Sealer::with_random_key().unwrap().open(Purpose::Task, &handle).is_none());
        for index in 0..handle.len() {
            let mut bytes = handle.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            assert!(open(&String::from_utf8(bytes).unwrap()).is_none(), "byte {index}");
        }
        assert!(open("").is_none() && open("short").is_none() && open("not base64!").is_none());
    }

    #[test]
    fn ids_are_equal_for_equal_content_only() {
        let sealer = Sealer::with_random_key().unwrap();
        let id = |purpose, content: &[u8]| sealer.seal_id(purpose, content).unwrap();
        assert_eq!(id(Purpose::Task, b"content"), id(Purpose::Task, b"content"));
        assert_eq!(sealer.open(Purpose::Task, &id(Purpose::Task, b"content")).as_deref(), Some(&b"content"[..]));
        let different = [
            id(Purpose::Task, b"content"),
            id(Purpose::Task, b"contents"),
            id(Purpose::TaskCursor, b"content"),
            sealer.seal(Purpose::Task, b"content").unwrap(),
            Sealer::with_random_key().unwrap().seal_id(Purpose::Task, b"content").unwrap(),
        ];
        // Neither is the nonce.
        let nonces: std::collections::BTreeSet<&str> = different.iter().map(|handle| &handle[..16]).collect();
        assert_eq!(nonces.len(), different.len());
    }

    #[test]
    fn handle_opens_only_for_its_own_purpose() {
        let sealer = Sealer::with_random_key().unwrap();
        for sealed in Purpose::ALL {
            let handle = sealer.seal(sealed, b"content").unwrap();
            for opened in Purpose::ALL {
                assert_eq!(sealer.open(opened, &handle).is_some(), sealed == opened, "{sealed:?} as {opened:?}");
            }
        }
    }

    #[test]
    fn parts_of_a_fingerprint_do_not_run_together() {
        assert_ne!(fingerprint([&b"ab"[..], b"c"]), fingerprint([&b"a"[..], b"bc"]));
        assert_ne!(random_token().unwrap(), random_token().unwrap());
    }
}
