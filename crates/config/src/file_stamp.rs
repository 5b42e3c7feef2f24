//! What tells one version of a file from another, without reading it.

use std::{io, path::Path, time::SystemTime};

/// Time of the last change, length and inode of a file or folder. A file that is replaced has a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    modified: SystemTime,
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
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Some(Self { modified: found.modified()?, length: found.len(), inode }))
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
}
