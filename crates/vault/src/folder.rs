//! A private folder in the state directory, and the only access to its files.
//!
//! Folder and files are accessible to the user only; this is checked on every access. A file is written to a temporary
//! file, synced and renamed, so that a process killed at any moment leaves either the old or the new content. Processes
//! exclude each other with a file lock, which the system releases when its holder dies.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use toolway_config::ownership;

/// A folder at a given path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrivateFolder {
    path: PathBuf,
}

/// The write lock of a folder; released when dropped, or when the process dies.
#[derive(Debug)]
pub(crate) struct WriteLock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("`{}` cannot be {doing}: {problem}", path.display())]
    System { path: PathBuf, doing: &'static str, problem: io::Error },
    #[error("`{}` is not a regular {kind}", path.display())]
    NotPlain { path: PathBuf, kind: &'static str },
    #[error("`{}` belongs to another user", path.display())]
    OfAnother { path: PathBuf },
    #[error("`{path}` is accessible to other users; run `chmod {mode} {path}`", path = path.display())]
    OpenToOthers { path: PathBuf, mode: &'static str },
    #[error("`{}` is larger than {most} bytes", path.display())]
    TooLarge { path: PathBuf, most: usize },
    #[error("`{}` has been locked by another process for more than {LOCK_TIMEOUT:?}", path.display())]
    Locked { path: PathBuf },
}

/// Maximum wait for the lock; one write takes a few milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts to get the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// Lock file of the folder.
const LOCK: &str = "lock";

// === impl PrivateFolder ===

impl PrivateFolder {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates the folder if it is missing; an existing folder must be accessible to the user only.
    pub(crate) fn create(&self) -> Result<(), FolderError> {
        ownership::create_private_folder(&self.path).map_err(|problem| self.failed("created", problem))?;
        let found = fs::symlink_metadata(&self.path).map_err(|problem| self.failed("read", problem))?;
        if !found.is_dir() {
            return Err(FolderError::NotPlain { path: self.path.clone(), kind: "folder" });
        }
        check(&self.path, &found, ownership::current_user(), "700")
    }

    /// Reads a file of at most `most` bytes; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.file(name);
        // Checked before opening: opening a pipe would wait for its writer.
        match fs::symlink_metadata(&path) {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(problem) => return Err(FolderError::System { path, doing: "read", problem }),
            Ok(found) if !found.is_file() => return Err(FolderError::NotPlain { path, kind: "file" }),
            Ok(_) => {}
        }
        let failed = |problem| FolderError::System { path: path.clone(), doing: "read", problem };
        let file = File::open(&path).map_err(failed)?;
        check(&path, &file.metadata().map_err(failed)?, ownership::current_user(), "600")?;
        let mut content = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut content).map_err(failed)?;
        if most < content.len() { Err(FolderError::TooLarge { path, most }) } else { Ok(Some(content)) }
    }

    /// Waits for the write lock. Blocks the thread for up to [`LOCK_TIMEOUT`].
    pub(crate) fn lock(&self) -> Result<WriteLock, FolderError> {
        self.create()?;
        let path = self.file(LOCK);
        let failed = |problem| FolderError::System { path: path.clone(), doing: "locked", problem };
        // Never removed: other processes may be waiting for the lock of this file.
        let file = ownership::private_write_options().create(true).truncate(false).open(&path).map_err(failed)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(WriteLock(file)),
                Err(TryLockError::Error(problem)) => return Err(failed(problem)),
                Err(TryLockError::WouldBlock) if LOCK_TIMEOUT < began.elapsed() => {
                    return Err(FolderError::Locked { path });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(RETRY_INTERVAL),
            }
        }
    }

    /// Replaces the content of a file; it is on disk when this returns.
    pub(crate) fn replace(&self, _lock: &WriteLock, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let path = self.file(name);
        self.write(&path, content).map_err(|problem| FolderError::System { path, doing: "written", problem })
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let next = temporary_path(path);
        // A killed writer may have left one.
        match fs::remove_file(&next) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
            _ => {}
        }
        let mut file = ownership::private_write_options().create_new(true).open(&next)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        self.sync()
    }

    /// Syncs the directory entries to disk.
    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// A folder cannot be opened as a file on this system, which writes directory entries in order.
    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn failed(&self, doing: &'static str, problem: io::Error) -> FolderError {
        FolderError::System { path: self.path.clone(), doing, problem }
    }
}

fn check(path: &Path, found: &Metadata, user: u32, mode: &'static str) -> Result<(), FolderError> {
    if ownership::other_owner(found, user).is_some() {
        return Err(FolderError::OfAnother { path: path.to_owned() });
    }
    if ownership::is_readable_by_others(found) || ownership::is_writable_by_others(found) {
        return Err(FolderError::OpenToOthers { path: path.to_owned(), mode });
    }
    Ok(())
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use toolway_config::ownership;

    use super::{FolderError, PrivateFolder, check};

    fn folder(home: &tempfile::TempDir) -> PrivateFolder {
        PrivateFolder::at(home.path().join("state/vault"))
    }

    fn write(folder: &PrivateFolder, content: &[u8]) -> Result<(), FolderError> {
        folder.replace(&folder.lock()?, "file", content)
    }

    #[test]
    fn written_file_can_be_read_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let folder = folder(&home);
        assert!(folder.read("file", 10).unwrap().is_none());
        write(&folder, b"one").unwrap();
        fs::write(folder.file("file.new"), "left behind by a write that was cut short").unwrap();
        write(&folder, b"two").unwrap();
        assert_eq!(folder.read("file", 10).unwrap().unwrap(), b"two");
        assert!(!folder.file("file.new").exists());
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path().to_owned()), mode(folder.file("file"))), (0o700, 0o600));
    }

    #[test]
    fn oversized_accessible_or_linked_file_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let folder = folder(&home);
        write(&folder, b"longer than ten").unwrap();
        assert!(matches!(folder.read("file", 10), Err(FolderError::TooLarge { most: 10, .. })));
        for mode in [0o644, 0o640, 0o620, 0o602] {
            fs::set_permissions(folder.file("file"), fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(folder.read("file", 99), Err(FolderError::OpenToOthers { .. })), "{mode:o}");
        }
        fs::remove_file(folder.file("file")).unwrap();
        symlink(home.path().join("elsewhere"), folder.file("file")).unwrap();
        assert!(matches!(folder.read("file", 99), Err(FolderError::NotPlain { .. })));
    }

    #[test]
    fn file_of_another_user_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let folder = folder(&home);
        folder.create().unwrap();
        let found = folder.path().metadata().unwrap();
        check(folder.path(), &found, ownership::current_user(), "700").unwrap();
        let refusal = check(folder.path(), &found, ownership::current_user() + 1, "700");
        assert!(matches!(refusal, Err(FolderError::OfAnother { .. })));
    }

    #[test]
    fn accessible_or_linked_folder_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let folder = folder(&home);
        folder.create().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refusal = folder.lock().unwrap_err().to_string();
        assert!(refusal.ends_with(&format!("run `chmod 700 {}`", folder.path().display())), "{refusal}");
        let link = PrivateFolder::at(home.path().join("link"));
        symlink(home.path(), link.path()).unwrap();
        assert!(matches!(link.lock(), Err(FolderError::NotPlain { .. })));
    }
}
