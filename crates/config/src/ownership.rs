//! Whose a file is, and who else may write it.
//!
//! A Unix says so with every file. Elsewhere nobody is asked: a file counts as the user's own and as closed to others,
//! and what keeps strangers out are the rights of the folder it is in.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    path::Path,
};

/// The owner's number and the mode of a file, where files have them.
struct Rights {
    owner: u32,
    mode: u32,
}

/// Who runs us, as a file names its owner.
#[cfg(unix)]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A number that stands for nobody: files name no owner here that it could be compared with.
#[cfg(not(unix))]
pub fn user() -> u32 {
    u32::MAX
}

/// The user who is not `user` and whose file it is.
pub fn stranger(found: &Metadata, user: u32) -> Option<u32> {
    rights(found).map(|rights| rights.owner).filter(|owner| *owner != user)
}

/// Whether all users may write it.
pub fn everybody_may_write(found: &Metadata) -> bool {
    rights(found).is_some_and(|rights| rights.mode & 0o002 != 0)
}

/// Whether anybody but its owner may write it, be it only a group.
pub fn others_may_write(found: &Metadata) -> bool {
    rights(found).is_some_and(|rights| rights.mode & 0o022 != 0)
}

/// Whether anybody but its owner may read it.
pub fn others_may_read(found: &Metadata) -> bool {
    rights(found).is_some_and(|rights| rights.mode & 0o044 != 0)
}

/// Makes a folder, and those above it that are missing, for the user alone.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// How to open a file for writing; where it is made, it is for the user alone.
pub fn to_write_privately() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn rights(found: &Metadata) -> Option<Rights> {
    use std::os::unix::fs::MetadataExt;
    Some(Rights { owner: found.uid(), mode: found.mode() })
}

#[cfg(not(unix))]
fn rights(_found: &Metadata) -> Option<Rights> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::{everybody_may_write, others_may_write, stranger, to_write_privately, user};

    #[test]
    fn a_file_says_whose_it_is_and_who_may_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        to_write_privately().create_new(true).open(&file).unwrap();
        let found = fs::metadata(&file).unwrap();
        assert_eq!(found.mode() & 0o777, 0o600);
        assert_eq!(found.uid(), user());
        assert_eq!(stranger(&found, user()), None);
        assert_eq!(stranger(&found, found.uid() + 1), Some(found.uid()));
        let writers = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let found = fs::metadata(&file).unwrap();
            (others_may_write(&found), everybody_may_write(&found))
        };
        assert_eq!(writers(0o644), (false, false));
        assert_eq!(writers(0o664), (true, false));
        assert_eq!(writers(0o646), (true, true));
    }
}
