//! The bytes of a sealed vault: a header in clear, and the content under ChaCha20-Poly1305.
//!
//! ```text
//! "toolway vault\n"  version  origin  [salt, memory, rounds, lanes]  check  nonce  content and its tag
//!                             1: key file
//!                             2: passphrase, with the numbers
//! ```
//!
//! Everything before the nonce is bound to the content: a header that was changed opens nothing. Numbers are big-endian.

use ring::aead::{Aad, NONCE_LEN, Nonce};

use super::key::{CHECK_BYTES, Check, KeyError, MOST_COST, Origin, SALT_BYTES, SealingKey, Stretch, random};

/// A vault as it was read, still sealed.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) origin: Origin,
    check: Check,
    header: &'a [u8],
    nonce: [u8; NONCE_LEN],
    content: &'a [u8],
}

/// Why the content cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("its file is not a vault of ours, and is left as it is")]
    Foreign,
    #[error("its file has the format {0}, which this version does not know, and is left as it is")]
    Newer(u8),
    #[error("the passphrase is wrong; nothing is changed")]
    WrongPassphrase,
    #[error("its key file is not the one it was sealed with; put the right one back, or remove the vault")]
    WrongKeyFile,
    #[error("its file was changed or damaged since it was written, and is left as it is; remove it and sign in again")]
    Changed,
}

const MAGIC: &[u8] = b"toolway vault\n";
const VERSION: u8 = 1;
const OF_KEY_FILE: u8 = 1;
const OF_PASSPHRASE: u8 = 2;

/// Seals `content`; the nonce is new each time.
pub(crate) fn seal(key: &SealingKey, origin: &Origin, content: Vec<u8>) -> Result<Vec<u8>, KeyError> {
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

fn header(key: &SealingKey, origin: &Origin) -> Vec<u8> {
    let mut header = [MAGIC, &[VERSION]].concat();
    match origin {
        Origin::KeyFile => header.push(OF_KEY_FILE),
        Origin::Passphrase(stretch) => {
            header.push(OF_PASSPHRASE);
            header.extend_from_slice(&stretch.salt);
            for number in [stretch.memory, stretch.rounds, stretch.lanes] {
                header.extend_from_slice(&number.to_be_bytes());
            }
        }
    }
    header.extend_from_slice(&key.check);
    header
}

// === impl Sealed ===

impl<'a> Sealed<'a> {
    /// Reads the header. Nothing of it can be trusted before the content was opened; what it costs is bounded.
    pub(crate) fn read(file: &'a [u8]) -> Result<Self, FormatError> {
        let mut rest = file.strip_prefix(MAGIC).ok_or(FormatError::Foreign)?;
        let version = take::<1>(&mut rest)?[0];
        if version != VERSION {
            return Err(FormatError::Newer(version));
        }
        let origin = match take::<1>(&mut rest)?[0] {
            OF_KEY_FILE => Origin::KeyFile,
            OF_PASSPHRASE => Origin::Passphrase(stretch(&mut rest)?),
            _ => return Err(FormatError::Changed),
        };
        let check = take::<CHECK_BYTES>(&mut rest)?;
        let header = &file[..file.len() - rest.len()];
        let nonce = take::<NONCE_LEN>(&mut rest)?;
        Ok(Self { origin, check, header, nonce, content: rest })
    }

    /// The content, if this is the key and nobody touched it.
    pub(crate) fn open(&self, key: &SealingKey) -> Result<Vec<u8>, FormatError> {
        if self.check != key.check {
            return Err(match self.origin {
                Origin::KeyFile => FormatError::WrongKeyFile,
                Origin::Passphrase(_) => FormatError::WrongPassphrase,
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

fn stretch(rest: &mut &[u8]) -> Result<Stretch, FormatError> {
    let salt = take::<SALT_BYTES>(rest)?;
    let mut number = || take::<4>(rest).map(u32::from_be_bytes);
    let stretch = Stretch { salt, memory: number()?, rounds: number()?, lanes: number()? };
    let (memory, rounds, lanes) = MOST_COST;
    let bounded = stretch.memory <= memory && stretch.rounds <= rounds && stretch.lanes <= lanes;
    if bounded { Ok(stretch) } else { Err(FormatError::Changed) }
}

/// The next bytes of a file; one that ends before was cut short.
fn take<const LENGTH: usize>(rest: &mut &[u8]) -> Result<[u8; LENGTH], FormatError> {
    let (taken, left) = rest.split_first_chunk().ok_or(FormatError::Changed)?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use toolway_config::Secret;

    use super::{FormatError, MAGIC, Sealed, seal};
    use crate::sealed::key::{Origin, SealingKey, Stretch};

    /// A cheap one: what it costs is not what is tested here.
    fn stretch() -> Stretch {
        Stretch { salt: [7; 16], memory: 64, rounds: 1, lanes: 1 }
    }

    fn key(passphrase: &str) -> SealingKey {
        SealingKey::of_passphrase(&Secret::new(passphrase), &stretch()).unwrap()
    }

    fn sealed() -> Vec<u8> {
        seal(&key("right"), &Origin::Passphrase(stretch()), b"content".to_vec()).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_only() {
        let file = sealed();
        let sealed = Sealed::read(&file).unwrap();
        assert_eq!(sealed.origin, Origin::Passphrase(stretch()));
        assert_eq!(sealed.open(&key("right")).unwrap(), b"content");
        assert_eq!(sealed.open(&key("wrong")), Err(FormatError::WrongPassphrase));
        assert_ne!(file, self::sealed(), "the same nonce twice");
    }

    #[test]
    fn no_byte_can_be_changed_and_none_left_out() {
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
    fn a_foreign_file_says_so() {
        assert_eq!(Sealed::read(b"").unwrap_err(), FormatError::Foreign);
        assert_eq!(Sealed::read(b"{\"tokens\": []}").unwrap_err(), FormatError::Foreign);
        assert_eq!(Sealed::read(&[MAGIC, &[9]].concat()).unwrap_err(), FormatError::Newer(9));
    }

    #[test]
    fn a_header_cannot_ask_for_more_than_a_bounded_effort() {
        let mut file = sealed();
        let memory = MAGIC.len() + 2 + 16;
        file[memory..memory + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Sealed::read(&file).unwrap_err(), FormatError::Changed);
    }
}
