//! A folder of ours in the state directory, and the only way to read and write the files in it.
//!
//! Folder and files are for the user alone; that is looked at whenever one is opened. A file is written beside its
//! place, brought to the disk and renamed, so that a process that is killed at any moment leaves the old or the new
//! content whole. Several processes take turns with a lock that dies with its holder.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use toolway_config::ownership;

/// One folder, at a path that came in as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrivateFolder {
    path: PathBuf,
}

/// The right to write in a folder; let go when it is dropped, or when its holder dies.
#[derive(Debug)]
pub(crate) struct WriteLock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("{} cannot be {doing}: {problem}", path.display())]
    System { path: PathBuf, doing: &'static str, problem: io::Error },
    #[error("{} is not a plain {kind}", path.display())]
    NotPlain { path: PathBuf, kind: &'static str },
    #[error("{} belongs to another user", path.display())]
    OfAnother { path: PathBuf },
    #[error("{path} can be read or written by others; run `chmod {mode} {path}`", path = path.display())]
    OpenToOthers { path: PathBuf, mode: &'static str },
    #[error("{} is larger than {most} bytes", path.display())]
    TooLarge { path: PathBuf, most: usize },
    #[error("{} is locked by another process for longer than {PATIENCE:?}", path.display())]
    Locked { path: PathBuf },
}

/// How long other processes may write before us; each takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The wait between attempts to get the lock.
const ATTEMPT: Duration = Duration::from_millis(2);
/// The file whose lock is the right to write.
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

    /// Makes the folder where it is missing; one that is there must be ours alone.
    pub(crate) fn make(&self) -> Result<(), FolderError> {
        ownership::make_private_folder(&self.path).map_err(|problem| self.failed("made", problem))?;
        let found = fs::symlink_metadata(&self.path).map_err(|problem| self.failed("read", problem))?;
        if !found.is_dir() {
            return Err(FolderError::NotPlain { path: self.path.clone(), kind: "folder" });
        }
        check(&self.path, &found, ownership::user(), "700")
    }

    /// What stands in a file of at most `most` bytes; `None` where there is no file.
    pub(crate) fn read(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.file(name);
        // Looked at before it is opened: to open a pipe would wait for its writer.
        match fs::symlink_metadata(&path) {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(problem) => return Err(FolderError::System { path, doing: "read", problem }),
            Ok(found) if !found.is_file() => return Err(FolderError::NotPlain { path, kind: "file" }),
            Ok(_) => {}
        }
        let failed = |problem| FolderError::System { path: path.clone(), doing: "read", problem };
        let file = File::open(&path).map_err(failed)?;
        check(&path, &file.metadata().map_err(failed)?, ownership::user(), "600")?;
        let mut content = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut content).map_err(failed)?;
        if most < content.len() { Err(FolderError::TooLarge { path, most }) } else { Ok(Some(content)) }
    }

    /// Waits for the right to write; for a thread that may wait.
    pub(crate) fn lock(&self) -> Result<WriteLock, FolderError> {
        self.make()?;
        let path = self.file(LOCK);
        let failed = |problem| FolderError::System { path: path.clone(), doing: "locked", problem };
        // Never removed: whoever waits for it waits for this very file.
        let file = ownership::to_write_privately().create(true).truncate(false).open(&path).map_err(failed)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(WriteLock(file)),
                Err(TryLockError::Error(problem)) => return Err(failed(problem)),
                Err(TryLockError::WouldBlock) if PATIENCE < began.elapsed() => {
                    return Err(FolderError::Locked { path });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(ATTEMPT),
            }
        }
    }

    /// Puts `content` in the place of what stood there; when this returns it is on the disk.
    pub(crate) fn replace(&self, _lock: &WriteLock, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let path = self.file(name);
        self.write(&path, content).map_err(|problem| FolderError::System { path, doing: "written", problem })
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let next = beside(path);
        // What a writer left that was killed.
        match fs::remove_file(&next) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
            _ => {}
        }
        let mut file = ownership::to_write_privately().create_new(true).open(&next)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        self.sync()
    }

    /// Brings the names in the folder to the disk.
    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// A folder cannot be opened here; the system brings names to the disk in order.
    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn failed(&self, doing: &'static str, problem: io::Error) -> FolderError {
        FolderError::System { path: self.path.clone(), doing, problem }
    }
}

fn check(path: &Path, found: &Metadata, user: u32, mode: &'static str) -> Result<(), FolderError> {
    if ownership::stranger(found, user).is_some() {
        return Err(FolderError::OfAnother { path: path.to_owned() });
    }
    if ownership::others_may_read(found) || ownership::others_may_write(found) {
        return Err(FolderError::OpenToOthers { path: path.to_owned(), mode });
    }
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
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
    fn what_is_written_is_read_and_nobody_else_can_read_it() {
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
    fn a_file_that_is_not_as_we_write_it_is_not_read() {
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
    fn a_file_of_another_user_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let folder = folder(&home);
        folder.make().unwrap();
        let found = folder.path().metadata().unwrap();
        check(folder.path(), &found, ownership::user(), "700").unwrap();
        let refusal = check(folder.path(), &found, ownership::user() + 1, "700");
        assert!(matches!(refusal, Err(FolderError::OfAnother { .. })));
    }

    #[test]
    fn a_folder_that_others_can_enter_or_that_is_a_link_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let folder = folder(&home);
        folder.make().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refusal = folder.lock().unwrap_err().to_string();
        assert!(refusal.ends_with(&format!("run `chmod 700 {}`", folder.path().display())), "{refusal}");
        let link = PrivateFolder::at(home.path().join("link"));
        symlink(home.path(), link.path()).unwrap();
        assert!(matches!(link.lock(), Err(FolderError::NotPlain { .. })));
    }
}
