//! A small file of the state directory that several processes share.
//!
//! It is private to its owner (0600, in a folder of 0700). A writer holds a lock, writes to a temporary file and
//! renames it, so that no reader sees half of it. It is read only if it is a regular file of this user, not writable by
//! others, and within its size limit.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use toolway_config::ownership;

use crate::private_file;

/// A state file at a given path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    path: PathBuf,
    max: usize,
}

/// Why a state file is not read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableState {
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is not a regular file.
    #[error("is not a regular file")]
    NotPlain,
    /// It belongs to another user.
    #[error("belongs to another user")]
    OfAnother,
    /// Other users can write it.
    #[error("can be written by other users")]
    OpenToOthers,
    /// It exceeds its size limit.
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
}

/// The right to write; released when dropped.
#[derive(Debug)]
pub struct StateLock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

/// How long to wait for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between attempts to get the lock.
const LOCK_RETRY: Duration = Duration::from_millis(5);

// === impl StateFile ===

impl StateFile {
    /// The file at `path`, of at most `max` bytes. The file and its folder are created on first write.
    pub fn at(path: impl Into<PathBuf>, max: usize) -> Self {
        Self { path: path.into(), max }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the content; `None` if there is no file.
    pub fn read(&self) -> Result<Option<Vec<u8>>, UnreadableState> {
        // Checked before opening: opening a named pipe would block.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(found) if !found.is_file() => return Err(UnreadableState::NotPlain),
            Ok(_) => {}
        }
        let file = File::open(&self.path)?;
        check(&file)?;
        let mut text = Vec::new();
        file.take(self.max as u64 + 1).read_to_end(&mut text)?;
        if self.max < text.len() { Err(UnreadableState::TooLarge(self.max)) } else { Ok(Some(text)) }
    }

    /// Locks the file for writing; waits up to [`LOCK_TIMEOUT`].
    pub fn lock(&self) -> io::Result<StateLock> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private_file::make_folder(folder)?;
        // Never removed, because waiting processes hold this very file.
        let file = private_file::to_write().create(true).truncate(false).open(self.beside(".lock"))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(StateLock(file)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if LOCK_TIMEOUT < began.elapsed() => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the lock"));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY),
            }
        }
    }

    /// Replaces the content by `text`.
    pub fn replace(&self, _lock: &StateLock, text: &[u8]) -> io::Result<()> {
        if self.max < text.len() {
            let problem = format!("{} bytes exceed the limit of {}", text.len(), self.max);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        let next = self.beside(".new");
        remove(&next)?;
        let mut file = private_file::to_write().create_new(true).open(&next)?;
        file.write_all(text)?;
        fs::rename(&next, &self.path)
    }

    /// Removes the file, if it exists.
    pub fn remove(&self, _lock: &StateLock) -> io::Result<()> {
        remove(&self.path)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        name.into()
    }
}

fn check(file: &File) -> Result<(), UnreadableState> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(UnreadableState::NotPlain);
    }
    if ownership::other_owner(&found, private_file::user()).is_some() {
        return Err(UnreadableState::OfAnother);
    }
    if ownership::is_writable_by_others(&found) {
        return Err(UnreadableState::OpenToOthers);
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        thread,
    };

    use super::{StateFile, UnreadableState};

    fn file(folder: &tempfile::TempDir) -> StateFile {
        StateFile::at(folder.path().join("state/toolway/some.json"), 10)
    }

    fn write(file: &StateFile, text: &[u8]) -> std::io::Result<()> {
        file.replace(&file.lock()?, text)
    }

    #[test]
    fn written_content_is_read_back_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        assert_eq!(file.read().unwrap(), None);
        write(&file, b"one").unwrap();
        fs::write(file.beside(".new"), "left behind by a write that was cut short").unwrap();
        write(&file, b"two").unwrap();
        assert!(!file.beside(".new").exists());
        assert_eq!(file.read().unwrap().unwrap(), b"two");
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(file.path().parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&file.beside(".lock")), 0o600);
        file.remove(&file.lock().unwrap()).unwrap();
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn untrusted_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        assert!(write(&file, b"longer than ten").is_err());
        write(&file, b"fine").unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(file.read(), Err(UnreadableState::OpenToOthers)));
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(file.path(), "longer than ten").unwrap();
        assert!(matches!(file.read(), Err(UnreadableState::TooLarge(10))));
        fs::remove_file(file.path()).unwrap();
        symlink(folder.path().join("elsewhere"), file.path()).unwrap();
        assert!(matches!(file.read(), Err(UnreadableState::NotPlain)));
    }

    #[test]
    fn readers_never_see_half_written_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        write(&file, b"aaaaaaaa").unwrap();
        thread::scope(|scope| {
            for text in [b"aaaaaaaa", b"bbbbbbbb"] {
                let file = &file;
                scope.spawn(move || (0..50).for_each(|_| write(file, text).unwrap()));
            }
            for _ in 0..500 {
                let text = file.read().unwrap().unwrap();
                assert!(text == b"aaaaaaaa" || text == b"bbbbbbbb", "{text:?}");
            }
        });
    }
}
