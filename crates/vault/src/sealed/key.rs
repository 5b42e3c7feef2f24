//! The key of a sealed vault: from a key file that is made on first use, or from a passphrase.
//!
//! What is read from a file or typed by a person seals nothing itself: the key that seals and the word by which a vault
//! knows its key are both derived from it.

use std::{fmt, path::PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use ring::{
    aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey},
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use toolway_config::Secret;

use crate::folder::{FolderError, PrivateFolder, WriteLock};

/// What seals and opens a vault.
pub(crate) struct SealingKey {
    pub(crate) seal: LessSafeKey,
    pub(crate) check: Check,
}

/// Says whether a key is the one a vault was sealed with, and nothing else about it.
pub(crate) type Check = [u8; CHECK_BYTES];

/// What the key of a vault was made from, as its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    KeyFile,
    Passphrase(Stretch),
}

/// How a passphrase becomes a key: Argon2id with these numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) salt: [u8; SALT_BYTES],
    /// In blocks of 1024 bytes.
    pub(crate) memory: u32,
    pub(crate) rounds: u32,
    pub(crate) lanes: u32,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("its key file {} is missing; put it back, or remove the vault and sign in again", .0.display())]
    Missing(PathBuf),
    #[error("{} does not hold a key", .0.display())]
    NotAKey(PathBuf),
    #[error("it is sealed with a passphrase, and none is given")]
    PassphraseNeeded,
    #[error("it is sealed with its key file, and a passphrase is given; leave that out, or remove the vault")]
    KeyFileNeeded,
    #[error("the passphrase is empty")]
    Empty,
    #[error("the passphrase cannot be made into a key")]
    Stretching,
    #[error("the system gave no random numbers")]
    NoRandomness,
}

pub(crate) const CHECK_BYTES: usize = 16;
pub(crate) const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// The key file, beside the vault.
const KEY_FILE: &str = "key";
/// What one guess costs: the second choice of RFC 9106, for machines that do other things as well.
const COST: (u32, u32, u32) = (64 * 1024, 3, 4);
/// A vault that asks for more than this is not one of ours; it would only cost time and memory.
pub(crate) const MOST_COST: (u32, u32, u32) = (256 * 1024, 16, 16);

// === impl SealingKey ===

impl SealingKey {
    fn new(material: &[u8; KEY_BYTES]) -> Result<Self, KeyError> {
        let seal = UnboundKey::new(&CHACHA20_POLY1305, derived(material, b"seal").as_ref());
        let mut check = Check::default();
        check.copy_from_slice(&derived(material, b"check").as_ref()[..CHECK_BYTES]);
        Ok(Self { seal: LessSafeKey::new(seal.map_err(|_| KeyError::NoRandomness)?), check })
    }

    /// The key in the folder's key file.
    pub(crate) fn of_file(folder: &PrivateFolder) -> Result<Self, KeyError> {
        let path = folder.file(KEY_FILE);
        let Some(content) = folder.read(KEY_FILE, KEY_BYTES)? else {
            return Err(KeyError::Missing(path));
        };
        Self::new(&content.try_into().map_err(|_| KeyError::NotAKey(path))?)
    }

    /// Makes a key file where there is none; `Some` with its path when that was done.
    pub(crate) fn make_file(folder: &PrivateFolder, lock: &WriteLock) -> Result<Option<PathBuf>, KeyError> {
        if folder.read(KEY_FILE, KEY_BYTES)?.is_some() {
            return Ok(None);
        }
        folder.replace(lock, KEY_FILE, &random::<KEY_BYTES>()?)?;
        Ok(Some(folder.file(KEY_FILE)))
    }

    /// The key of a passphrase; takes a moment and much memory, on purpose.
    pub(crate) fn of_passphrase(passphrase: &Secret, stretch: &Stretch) -> Result<Self, KeyError> {
        if passphrase.expose().is_empty() {
            return Err(KeyError::Empty);
        }
        let parameters = Params::new(stretch.memory, stretch.rounds, stretch.lanes, Some(KEY_BYTES));
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters.map_err(|_| KeyError::Stretching)?);
        let mut material = [0; KEY_BYTES];
        argon2
            .hash_password_into(passphrase.expose().as_bytes(), &stretch.salt, &mut material)
            .map_err(|_| KeyError::Stretching)?;
        Self::new(&material)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(..)")
    }
}

// === impl Stretch ===

impl Stretch {
    /// What a new vault asks for.
    pub(crate) fn fresh() -> Result<Self, KeyError> {
        let (memory, rounds, lanes) = COST;
        Ok(Self { salt: random()?, memory, rounds, lanes })
    }
}

fn derived(material: &[u8; KEY_BYTES], purpose: &[u8]) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, material);
    hmac::sign(&key, &[b"toolway vault ", purpose].concat())
}

/// Bytes that nobody can guess.
pub(crate) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], KeyError> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoRandomness)?;
    Ok(bytes)
}
