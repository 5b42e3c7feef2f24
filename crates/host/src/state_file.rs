//! A small file of the state directory that several processes share.
//!
//! It is for its owner's eyes (0600, in a folder of 0700), written to a neighbour and renamed by whoever holds the
//! lock, so that nobody reads half of it; and it is read only when it is a plain file of ours that nobody else can
//! write, within a bound. What stands in it is its user's business.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use toolway_config::ownership;

use crate::private_file;

/// One file, at a path that came in as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    path: PathBuf,
    most: usize,
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableState {
    /// The system says no.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is not what we write.
    #[error("is not a plain file")]
    NotPlain,
    /// It belongs to somebody else.
    #[error("belongs to another user")]
    OfAnother,
    /// Somebody else can write it.
    #[error("can be written by others")]
    OpenToOthers,
    /// It is larger than anything we write.
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
}

/// The right to write; let go when it is dropped.
#[derive(Debug)]
pub struct StateLock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

/// How long another process may hold the lock.
const PATIENCE: Duration = Duration::from_secs(1);
/// The wait between attempts to get it.
const ATTEMPT: Duration = Duration::from_millis(5);

// === impl StateFile ===

impl StateFile {
    /// The file at `path`, of at most `most` bytes. It and its folder are made when there is something to write.
    pub fn at(path: impl Into<PathBuf>, most: usize) -> Self {
        Self { path: path.into(), most }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands in it; `None` where there is no file.
    pub fn read(&self) -> Result<Option<Vec<u8>>, UnreadableState> {
        // Looked at before it is opened: to open a pipe would wait for its writer.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(found) if !found.is_file() => return Err(UnreadableState::NotPlain),
            Ok(_) => {}
        }
        let file = File::open(&self.path)?;
        check(&file)?;
        let mut text = Vec::new();
        file.take(self.most as u64 + 1).read_to_end(&mut text)?;
        if self.most < text.len() { Err(UnreadableState::TooLarge(self.most)) } else { Ok(Some(text)) }
    }

    /// Waits a moment for the right to write.
    pub fn lock(&self) -> io::Result<StateLock> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private_file::make_folder(folder)?;
        // Never removed: whoever waits for it waits for this very file.
        let file = private_file::to_write().create(true).truncate(false).open(self.beside(".lock"))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(StateLock(file)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if PATIENCE < began.elapsed() => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the lock"));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(ATTEMPT),
            }
        }
    }

    /// Puts `text` in the place of what stood there.
    pub fn replace(&self, _lock: &StateLock, text: &[u8]) -> io::Result<()> {
        if self.most < text.len() {
            let problem = format!("{} bytes are more than the {} that are kept", text.len(), self.most);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        let next = self.beside(".new");
        remove(&next)?;
        let mut file = private_file::to_write().create_new(true).open(&next)?;
        file.write_all(text)?;
        fs::rename(&next, &self.path)
    }

    /// Removes the file, if it is there.
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
    if ownership::stranger(&found, private_file::user()).is_some() {
        return Err(UnreadableState::OfAnother);
    }
    if ownership::others_may_write(&found) {
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
    fn what_is_written_is_read_and_nobody_else_can_read_it() {
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
    fn a_file_that_is_not_as_we_write_it_is_not_read() {
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
    fn nobody_reads_half_of_it() {
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
