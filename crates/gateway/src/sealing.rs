//! The key that seals handles, so that they outlive a restart: made on the first start, for its owner's eyes.

use std::{
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use ring::rand::{SecureRandom, SystemRandom};
use toolway_config::ownership;
use toolway_host::private_file;
use toolway_wire::seal::{KEY_BYTES, Sealer};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum NoSealingKey {
    /// The file cannot be made or read.
    #[error("{file}: {problem}")]
    File {
        /// Which.
        file: PathBuf,
        /// What the system says.
        problem: io::Error,
    },
    /// Others can read it, or it is not a key.
    #[error("{file} {problem}; remove it, and a new key is made")]
    NotOurs {
        /// Which.
        file: PathBuf,
        /// As a lower-case fragment.
        problem: &'static str,
    },
    /// The system gave no random numbers.
    #[error("the system gave no random numbers")]
    NoRandomness,
}

/// The sealer whose key is in this file; the file is made where there is none.
pub fn kept_at(file: &Path) -> Result<Sealer, NoSealingKey> {
    let failed = |problem| NoSealingKey::File { file: file.to_owned(), problem };
    if let Some(folder) = file.parent() {
        private_file::make_folder(folder).map_err(failed)?;
    }
    let key = match make(file) {
        Ok(made) => made,
        Err(Made::Exists) => read(file)?,
        Err(Made::Failed(problem)) => return Err(failed(problem)),
        Err(Made::NoRandomness) => return Err(NoSealingKey::NoRandomness),
    };
    Sealer::with_key(&key).map_err(|_| NoSealingKey::NoRandomness)
}

enum Made {
    Exists,
    Failed(io::Error),
    NoRandomness,
}

/// Whoever makes the file has made the key: of two processes that start at once, one does.
fn make(file: &Path) -> Result<[u8; KEY_BYTES], Made> {
    if file.exists() {
        return Err(Made::Exists);
    }
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).map_err(|_| Made::NoRandomness)?;
    // Written beside and linked, so that nobody ever reads half a key.
    let mut word = [0; 8];
    SystemRandom::new().fill(&mut word).map_err(|_| Made::NoRandomness)?;
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{:016x}", u64::from_be_bytes(word)));
    let beside = PathBuf::from(beside);
    let written = private_file::to_write().create_new(true).open(&beside).and_then(|mut made| made.write_all(&key));
    let linked = written.and_then(|()| fs::hard_link(&beside, file));
    let removed = fs::remove_file(&beside);
    match linked {
        Ok(()) => removed.map(|()| key).map_err(Made::Failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Made::Exists),
        Err(error) => Err(Made::Failed(error)),
    }
}

fn read(file: &Path) -> Result<[u8; KEY_BYTES], NoSealingKey> {
    let failed = |problem| NoSealingKey::File { file: file.to_owned(), problem };
    let not_ours = |problem| NoSealingKey::NotOurs { file: file.to_owned(), problem };
    let found = fs::symlink_metadata(file).map_err(failed)?;
    if !found.is_file() {
        return Err(not_ours("is not a plain file"));
    }
    if ownership::stranger(&found, private_file::user()).is_some() {
        return Err(not_ours("belongs to another user"));
    }
    if ownership::others_may_read(&found) {
        return Err(not_ours("can be read by others"));
    }
    let mut key = Vec::new();
    let opened = fs::File::open(file).map_err(failed)?;
    opened.take(KEY_BYTES as u64 + 1).read_to_end(&mut key).map_err(failed)?;
    key.try_into().map_err(|_| not_ours("does not hold a key"))
}

#[cfg(test)]
mod tests {
    use toolway_wire::seal::Purpose;

    use super::{NoSealingKey, kept_at};

    #[test]
    fn what_was_sealed_before_a_restart_opens_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state").join("gateway.key");
        let handle = kept_at(&file).unwrap().seal(Purpose::Task, b"content").unwrap();
        assert_eq!(kept_at(&file).unwrap().open(Purpose::Task, &handle).as_deref(), Some(&b"content"[..]));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.key");
        kept_at(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(kept_at(&file), Err(NoSealingKey::NotOurs { .. })));
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.key");
        kept_at(&file).unwrap();
        std::fs::write(&file, b"short").unwrap();
        assert!(matches!(kept_at(&file), Err(NoSealingKey::NotOurs { .. })));
    }
}
