//! Sealed handles: what passes through a caller's hands and must come back unchanged and unread.
//!
//! ChaCha20-Poly1305 under a key that is generated or given, never defaulted. What a handle is for is sealed with it, so
//! that none can be used in the place of another. What is inside, and checking it against the caller who brings it back,
//! is the business of whoever seals.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    rand::{SecureRandom, SystemRandom},
};

/// Seals and opens handles.
pub struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

/// What a handle is for: one that was sealed for something else does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A request that goes on with the answers to what was asked.
    Request,
    /// A place in a list.
    Cursor,
    /// The name of a task.
    Task,
    /// A place in a list of tasks.
    TaskCursor,
}

/// The system gave no random numbers; nothing can be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random numbers")]
pub struct NoRandomness;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

impl Sealer {
    /// A sealer whose key lives as long as the process.
    pub fn with_random_key() -> Result<Self, NoRandomness> {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).map_err(|_| NoRandomness)?;
        Self::with_key(&key)
    }

    /// A sealer whose handles others with the same key can open.
    pub fn with_key(key: &[u8; KEY_BYTES]) -> Result<Self, NoRandomness> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| NoRandomness)?;
        Ok(Self { key: LessSafeKey::new(key), random: SystemRandom::new() })
    }

    /// Seals `content` for this purpose.
    pub fn seal(&self, purpose: Purpose, content: &[u8]) -> Result<String, NoRandomness> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| NoRandomness)?;
        let mut sealed = content.to_vec();
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), purpose.bound(), &mut sealed)
            .map_err(|_| NoRandomness)?;
        let handle: Vec<u8> = nonce.iter().chain(&sealed).chain(tag.as_ref()).copied().collect();
        Ok(URL_SAFE_NO_PAD.encode(handle))
    }

    /// The content, if this handle is one of ours, for this purpose, and nobody touched it.
    pub fn open(&self, purpose: Purpose, handle: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(handle).ok()?;
        if bytes.len() < NONCE_LEN {
            return None;
        }
        let mut sealed = bytes.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).ok()?;
        let content = self.key.open_in_place(nonce, purpose.bound(), &mut sealed).ok()?;
        Some(content.to_vec())
    }
}

impl Purpose {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Request, Self::Cursor, Self::Task, Self::TaskCursor];

    /// What is sealed with the content and written nowhere.
    fn bound(self) -> Aad<&'static [u8]> {
        Aad::from(match self {
            Self::Request => b"toolway request".as_slice(),
            Self::Cursor => b"toolway cursor",
            Self::Task => b"toolway task",
            Self::TaskCursor => b"toolway task cursor",
        })
    }
}

/// An unguessable word of 128 bits: session ids, names of parked calls.
pub fn random_token() -> Result<String, NoRandomness> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A digest of several parts, each kept apart from the next.
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
    fn a_handle_opens_only_untouched_and_only_here() {
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
    fn a_handle_for_one_purpose_is_good_for_no_other() {
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
