//! The key of an encrypted vault: from a key file that is created on first use, or from a passphrase.
//!
//! The key material of the file or the passphrase is not used directly: the encryption key and the key check value are
//! both derived from it.

use std::{fmt, path::PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use ring::{
    aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey},
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use toolway_config::Secret;

use crate::folder::{FolderError, PrivateFolder, WriteLock};

/// Encrypts and decrypts a vault.
pub(crate) struct SealingKey {
    pub(crate) seal: LessSafeKey,
    pub(crate) check: Check,
}

/// Key check value: tells whether a key matches a vault, without revealing the key.
pub(crate) type Check = [u8; CHECK_BYTES];

/// Source of the key of a vault, as stored in its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrigin {
    KeyFile,
    Passphrase(KdfParams),
}

/// Argon2id parameters of a passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KdfParams {
    pub(crate) salt: [u8; SALT_BYTES],
    /// In blocks of 1024 bytes.
    pub(crate) memory: u32,
    pub(crate) rounds: u32,
    pub(crate) lanes: u32,
}

/// Why the key cannot be used. The message follows "cannot be opened".
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("its key file `{}` is missing; restore it, or remove the vault and sign in again", .0.display())]
    Missing(PathBuf),
    #[error("`{}` is not a valid key file", .0.display())]
    NotAKey(PathBuf),
    #[error("it is encrypted with a passphrase; set `TOOLWAY_VAULT_PASSPHRASE`")]
    PassphraseNeeded,
    #[error("it is encrypted with its key file; unset `TOOLWAY_VAULT_PASSPHRASE`, or remove the vault")]
    KeyFileNeeded,
    #[error("the passphrase is empty")]
    Empty,
    #[error("no key can be derived from the passphrase")]
    Derivation,
    #[error("the system's random number generator failed")]
    NoRandomness,
}

pub(crate) const CHECK_BYTES: usize = 16;
pub(crate) const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// Name of the key file, in the folder of the vault.
const KEY_FILE: &str = "key";
/// Memory (KiB), iterations and lanes: the second recommended option of RFC 9106.
const COST: (u32, u32, u32) = (64 * 1024, 3, 4);
/// Maximum accepted parameters; a file with higher ones is not from Toolway and would only cost time and memory.
pub(crate) const MAX_COST: (u32, u32, u32) = (256 * 1024, 16, 16);

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

    /// Creates the key file if it is missing; returns its path if it was created.
    pub(crate) fn create_file(folder: &PrivateFolder, lock: &WriteLock) -> Result<Option<PathBuf>, KeyError> {
        if folder.read(KEY_FILE, KEY_BYTES)?.is_some() {
            return Ok(None);
        }
        folder.replace(lock, KEY_FILE, &random::<KEY_BYTES>()?)?;
        Ok(Some(folder.file(KEY_FILE)))
    }

    /// Derives the key from a passphrase; slow and memory-intensive on purpose.
    pub(crate) fn of_passphrase(passphrase: &Secret, params: &KdfParams) -> Result<Self, KeyError> {
        if passphrase.expose().is_empty() {
            return Err(KeyError::Empty);
        }
        let parameters = Params::new(params.memory, params.rounds, params.lanes, Some(KEY_BYTES));
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters.map_err(|_| KeyError::Derivation)?);
        let mut material = [0; KEY_BYTES];
        argon2
            .hash_password_into(passphrase.expose().as_bytes(), &params.salt, &mut material)
            .map_err(|_| KeyError::Derivation)?;
        Self::new(&material)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(..)")
    }
}

// === impl KdfParams ===

impl KdfParams {
    /// Parameters of a new vault, with a random salt.
    pub(crate) fn generate() -> Result<Self, KeyError> {
        let (memory, rounds, lanes) = COST;
        Ok(Self { salt: random()?, memory, rounds, lanes })
    }
}

fn derived(material: &[u8; KEY_BYTES], purpose: &[u8]) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, material);
    hmac::sign(&key, &[b"toolway vault ", purpose].concat())
}

/// Cryptographically secure random bytes.
pub(crate) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], KeyError> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoRandomness)?;
    Ok(bytes)
}
