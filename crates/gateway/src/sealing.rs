//! The key file for sealing handles, so that they survive a restart. Created on the first start, readable by its owner
//! only.

use std::{
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use ring::rand::{SecureRandom, SystemRandom};
use toolway_config::ownership;
use toolway_host::private_file;
use toolway_wire::seal::{KEY_BYTES, Sealer};

/// Why the sealing key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SealingKeyError {
    /// The file cannot be created or read.
    #[error("cannot create or read the sealing key `{file}`: {problem}")]
    File {
        /// Path of the key file.
        file: PathBuf,
        /// Error of the operating system.
        problem: io::Error,
    },
    /// The file is not private, or its content is not a key.
    #[error("sealing key `{file}` {problem}; remove it to create a new key")]
    Refused {
        /// Path of the key file.
        file: PathBuf,
        /// Lower-case fragment that follows the path.
        problem: &'static str,
    },
    /// The random number generator of the system failed.
    #[error("the system's random number generator failed")]
    NoRandomness,
}

/// Loads the sealing key from `file`; creates the file if it does not exist.
pub fn load_or_create(file: &Path) -> Result<Sealer, SealingKeyError> {
    let failed = |problem| SealingKeyError::File { file: file.to_owned(), problem };
    if let Some(folder) = file.parent() {
        private_file::make_folder(folder).map_err(failed)?;
    }
    let key = match create(file) {
        Ok(made) => made,
        Err(CreateError::Exists) => read(file)?,
        Err(CreateError::Failed(problem)) => return Err(failed(problem)),
        Err(CreateError::NoRandomness) => return Err(SealingKeyError::NoRandomness),
    };
    Sealer::with_key(&key).map_err(|_| SealingKeyError::NoRandomness)
}

enum CreateError {
    Exists,
    Failed(io::Error),
    NoRandomness,
}

/// Creates the key file. If two processes start at once, one of them creates it and the other reads it.
fn create(file: &Path) -> Result<[u8; KEY_BYTES], CreateError> {
    if file.exists() {
        return Err(CreateError::Exists);
    }
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).map_err(|_| CreateError::NoRandomness)?;
    // Written to a temporary file and linked, so that no process reads a partial key.
    let mut suffix = [0; 8];
    SystemRandom::new().fill(&mut suffix).map_err(|_| CreateError::NoRandomness)?;
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".{:016x}", u64::from_be_bytes(suffix)));
    let temporary = PathBuf::from(temporary);
    let written = private_file::to_write().create_new(true).open(&temporary).and_then(|mut made| made.write_all(&key));
    let linked = written.and_then(|()| fs::hard_link(&temporary, file));
    let removed = fs::remove_file(&temporary);
    match linked {
        Ok(()) => removed.map(|()| key).map_err(CreateError::Failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(CreateError::Exists),
        Err(error) => Err(CreateError::Failed(error)),
    }
}

fn read(file: &Path) -> Result<[u8; KEY_BYTES], SealingKeyError> {
    let failed = |problem| SealingKeyError::File { file: file.to_owned(), problem };
    let refused = |problem| SealingKeyError::Refused { file: file.to_owned(), problem };
    let found = fs::symlink_metadata(file).map_err(failed)?;
    if !found.is_file() {
        return Err(refused("is not a regular file"));
    }
    if ownership::other_owner(&found, private_file::user()).is_some() {
        return Err(refused("belongs to another user"));
    }
    if ownership::is_readable_by_others(&found) {
        return Err(refused("is readable by other users"));
    }
    let mut key = Vec::new();
    let opened = fs::File::open(file).map_err(failed)?;
    opened.take(KEY_BYTES as u64 + 1).read_to_end(&mut key).map_err(failed)?;
    key.try_into().map_err(|_| refused("does not contain a valid key"))
}

#[cfg(test)]
mod tests {
    use toolway_wire::seal::Purpose;

    use super::{SealingKeyError, load_or_create};

    #[test]
    fn sealed_handle_opens_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state").join("gateway.key");
        let handle = load_or_create(&file).unwrap().seal(Purpose::Task, b"content").unwrap();
        assert_eq!(load_or_create(&file).unwrap().open(Purpose::Task, &handle).as_deref(), Some(&b"content"[..]));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn key_readable_by_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.key");
        load_or_create(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load_or_create(&file), Err(SealingKeyError::Refused { .. })));
    }

    #[test]
    fn file_without_a_valid_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.key");
        load_or_create(&file).unwrap();
        std::fs::write(&file, b"short").unwrap();
        assert!(matches!(load_or_create(&file), Err(SealingKeyError::Refused { .. })));
    }
}
