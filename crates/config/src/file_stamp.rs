//! What tells one version of a file from another, without reading it.

use std::{fs::Metadata, io, path::Path, time::SystemTime};

/// Times of the last changes, length and inode of a file or folder. A file that is replaced has a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    modified: SystemTime,
    /// When content, permissions or times were changed last; programs cannot set it. In seconds and nanoseconds.
    changed: [i64; 2],
    length: u64,
    inode: u64,
}

impl FileStamp {
    /// The stamp of a path now; `None` if nothing is there.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let Own { changed, inode } = Own::of(&found);
        Ok(Some(Self { modified: found.modified()?, changed, length: found.len(), inode }))
    }
}

/// What only some systems know.
struct Own {
    changed: [i64; 2],
    inode: u64,
}

impl Own {
    #[cfg(unix)]
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { changed: [found.ctime(), found.ctime_nsec()], inode: found.ino() }
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { changed: [0; 2], inode: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::FileStamp;

    #[test]
    fn a_changed_or_replaced_file_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        assert_eq!(FileStamp::of(&file).unwrap(), None);
        std::fs::write(&file, "{}").unwrap();
        let first = FileStamp::of(&file).unwrap();
        assert!(first.is_some() && FileStamp::of(&file).unwrap() == first);
        std::fs::write(&file, "{ }").unwrap();
        assert_ne!(FileStamp::of(&file).unwrap(), first);
        let other = folder.path().join("b.json");
        std::fs::write(&other, "{}").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert_ne!(FileStamp::of(&file).unwrap(), first);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_whose_time_was_set_back_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.py");
        std::fs::write(&path, "one").unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let first = FileStamp::of(&path).unwrap();
        let changed = || {
            std::fs::write(&path, "two").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
            FileStamp::of(&path).unwrap()
        };
        // Within one tick of the clock of the file system the times are the same.
        let later = std::iter::repeat_with(changed).take(100_000).find(|stamp| *stamp != first);
        assert!(later.is_some());
    }
}
