//! Owner and permissions of a file.
//!
//! Only Unix is checked. On other systems a file counts as owned by the user and as not accessible to others; there the
//! permissions of the folder protect it.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Owner and mode of a file, on systems that have them.
struct Permissions {
    owner: u32,
    mode: u32,
}

/// Effective user id of this process.
#[cfg(unix)]
pub fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A placeholder: files have no numeric owner on this system, so it is never compared.
#[cfg(not(unix))]
pub fn current_user() -> u32 {
    u32::MAX
}

/// Owner of the file, if it is not `user`.
pub fn other_owner(found: &Metadata, user: u32) -> Option<u32> {
    permissions(found).map(|permissions| permissions.owner).filter(|owner| *owner != user)
}

/// Whether all users may write the file.
pub fn is_world_writable(found: &Metadata) -> bool {
    permissions(found).is_some_and(|permissions| permissions.mode & 0o002 != 0)
}

/// Whether its group or all users may write the file.
pub fn is_writable_by_others(found: &Metadata) -> bool {
    permissions(found).is_some_and(|permissions| permissions.mode & 0o022 != 0)
}

/// Whether its group or all users may read the file.
pub fn is_readable_by_others(found: &Metadata) -> bool {
    permissions(found).is_some_and(|permissions| permissions.mode & 0o044 != 0)
}

/// Creates a folder and its missing parents, accessible to the user only.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Options to open a file for writing; a new file is accessible to the user only.
pub fn private_write_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn permissions(found: &Metadata) -> Option<Permissions> {
    use std::os::unix::fs::MetadataExt;
    Some(Permissions { owner: found.uid(), mode: found.mode() })
}

#[cfg(not(unix))]
fn permissions(_found: &Metadata) -> Option<Permissions> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::{current_user, is_world_writable, is_writable_by_others, other_owner, private_write_options};

    #[test]
    fn owner_and_write_permissions_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        private_write_options().create_new(true).open(&file).unwrap();
        let found = fs::metadata(&file).unwrap();
        assert_eq!(found.mode() & 0o777, 0o600);
        assert_eq!(found.uid(), current_user());
        assert_eq!(other_owner(&found, current_user()), None);
        assert_eq!(other_owner(&found, found.uid() + 1), Some(found.uid()));
        let writers = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let found = fs::metadata(&file).unwrap();
            (is_writable_by_others(&found), is_world_writable(&found))
        };
        assert_eq!(writers(0o644), (false, false));
        assert_eq!(writers(0o664), (true, false));
        assert_eq!(writers(0o646), (true, true));
    }
}
