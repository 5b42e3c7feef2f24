//! File format of an encrypted vault: a plain-text header, and the content encrypted with ChaCha20-Poly1305.
//!
//! ```text
//! "toolway vault\n"  version  origin  [salt, memory, rounds, lanes]  check  nonce  content and its tag
//!                             1: key file
//!                             2: passphrase, with the Argon2id parameters
//! ```
//!
//! The header is authenticated with the content, so a modified header is detected. Numbers are big-endian.

use ring::aead::{Aad, NONCE_LEN, Nonce};

use super::key::{CHECK_BYTES, Check, KdfParams, KeyError, KeyOrigin, MAX_COST, SALT_BYTES, SealingKey, random};

/// A vault file, not decrypted yet.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) origin: KeyOrigin,
    check: Check,
    header: &'a [u8],
    nonce: [u8; NONCE_LEN],
    content: &'a [u8],
}

/// Why the content cannot be decrypted. The message follows "cannot be opened".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("its file is not a Toolway vault; it was not changed")]
    Foreign,
    #[error("its file has format version {0}, which this version of Toolway does not support; it was not changed")]
    Newer(u8),
    #[error("the passphrase is wrong; nothing was changed")]
    WrongPassphrase,
    #[error("its key file does not match; restore the right one, or remove the vault and sign in again")]
    WrongKeyFile,
    #[error("its file was modified or damaged; remove it and sign in again")]
    Changed,
}

const MAGIC: &[u8] = b"toolway vault\n";
const VERSION: u8 = 1;
const OF_KEY_FILE: u8 = 1;
const OF_PASSPHRASE: u8 = 2;

/// Encrypts `content` with a new nonce.
pub(crate) fn seal(key: &SealingKey, origin: &KeyOrigin, content: Vec<u8>) -> Result<Vec<u8>, KeyError> {
    let mut sealed = header(key, origin);
    let nonce = random::<NONCE_LEN>()?;
    let mut body = content;
    key.seal
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&sealed), &mut body)
        .map_err(|_| KeyError::NoRandomness)?;
    sealed.extend_from_slice(&nonce);
    sealed.append(&mut body);
    Ok(sealed)
}

fn header(key: &SealingKey, origin: &KeyOrigin) -> Vec<u8> {
    let mut header = [MAGIC, &[VERSION]].concat();
    match origin {
        KeyOrigin::KeyFile => header.push(OF_KEY_FILE),
        KeyOrigin::Passphrase(params) => {
            header.push(OF_PASSPHRASE);
            header.extend_from_slice(&params.salt);
            for number in [params.memory, params.rounds, params.lanes] {
                header.extend_from_slice(&number.to_be_bytes());
            }
        }
    }
    header.extend_from_slice(&key.check);
    header
}

// === impl Sealed ===

impl<'a> Sealed<'a> {
    /// Reads the header. It is not trusted before the content is decrypted; the cost of its parameters is bounded.
    pub(crate) fn read(file: &'a [u8]) -> Result<Self, FormatError> {
        let mut rest = file.strip_prefix(MAGIC).ok_or(FormatError::Foreign)?;
        let version = take::<1>(&mut rest)?[0];
        if version != VERSION {
            return Err(FormatError::Newer(version));
        }
        let origin = match take::<1>(&mut rest)?[0] {
            OF_KEY_FILE => KeyOrigin::KeyFile,
            OF_PASSPHRASE => KeyOrigin::Passphrase(kdf_params(&mut rest)?),
            _ => return Err(FormatError::Changed),
        };
        let check = take::<CHECK_BYTES>(&mut rest)?;
        let header = &file[..file.len() - rest.len()];
        let nonce = take::<NONCE_LEN>(&mut rest)?;
        Ok(Self { origin, check, header, nonce, content: rest })
    }

    /// Decrypts the content; fails if the key does not match or the file was modified.
    pub(crate) fn open(&self, key: &SealingKey) -> Result<Vec<u8>, FormatError> {
        if self.check != key.check {
            return Err(match self.origin {
                KeyOrigin::KeyFile => FormatError::WrongKeyFile,
                KeyOrigin::Passphrase(_) => FormatError::WrongPassphrase,
            });
        }
        let mut content = self.content.to_vec();
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let opened = key.seal.open_in_place(nonce, Aad::from(self.header), &mut content);
        let length = opened.map_err(|_| FormatError::Changed)?.len();
        content.truncate(length);
        Ok(content)
    }
}

fn kdf_params(rest: &mut &[u8]) -> Result<KdfParams, FormatError> {
    let salt = take::<SALT_BYTES>(rest)?;
    let mut number = || take::<4>(rest).map(u32::from_be_bytes);
    let params = KdfParams { salt, memory: number()?, rounds: number()?, lanes: number()? };
    let (memory, rounds, lanes) = MAX_COST;
    let bounded = params.memory <= memory && params.rounds <= rounds && params.lanes <= lanes;
    if bounded { Ok(params) } else { Err(FormatError::Changed) }
}

/// Takes the next bytes; an error if the file is truncated.
fn take<const LENGTH: usize>(rest: &mut &[u8]) -> Result<[u8; LENGTH], FormatError> {
    let (taken, left) = rest.split_first_chunk().ok_or(FormatError::Changed)?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use toolway_config::Secret;

    use super::{FormatError, MAGIC, Sealed, seal};
    use crate::sealed::key::{KdfParams, KeyOrigin, SealingKey};

    /// Cheap parameters, to keep the tests fast.
    fn params() -> KdfParams {
        KdfParams { salt: [7; 16], memory: 64, rounds: 1, lanes: 1 }
    }

    fn key(passphrase: &str) -> SealingKey {
        SealingKey::of_passphrase(&Secret::new(passphrase), &params()).unwrap()
    }

    fn sealed() -> Vec<u8> {
        seal(&key("right"), &KeyOrigin::Passphrase(params()), b"content".to_vec()).unwrap()
    }

    #[test]
    fn vault_opens_with_its_own_key_only() {
        let file = sealed();
        let sealed = Sealed::read(&file).unwrap();
        assert_eq!(sealed.origin, KeyOrigin::Passphrase(params()));
        assert_eq!(sealed.open(&key("right")).unwrap(), b"content");
        assert_eq!(sealed.open(&key("wrong")), Err(FormatError::WrongPassphrase));
        assert_ne!(file, self::sealed(), "the same nonce twice");
    }

    #[test]
    fn modified_or_truncated_file_is_detected() {
        let (file, key) = (sealed(), key("right"));
        let opens = |file: &[u8]| Sealed::read(file).and_then(|sealed| sealed.open(&key)).is_ok();
        assert!(opens(&file));
        for index in 0..file.len() {
            let mut changed = file.clone();
            changed[index] ^= 1;
            assert!(!opens(&changed), "byte {index}");
            assert!(!opens(&file[..index]), "cut at {index}");
        }
        assert!(!opens(&[&file[..], b"more"].concat()));
    }

    #[test]
    fn foreign_or_newer_file_is_detected() {
        assert_eq!(Sealed::read(b"").unwrap_err(), FormatError::Foreign);
        assert_eq!(Sealed::read(b"{\"tokens\": []}").unwrap_err(), FormatError::Foreign);
        assert_eq!(Sealed::read(&[MAGIC, &[9]].concat()).unwrap_err(), FormatError::Newer(9));
    }

    #[test]
    fn cost_of_key_derivation_is_bounded() {
        let mut file = sealed();
        let memory = MAGIC.len() + 2 + 16;
        file[memory..memory + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Sealed::read(&file).unwrap_err(), FormatError::Changed);
    }
}
