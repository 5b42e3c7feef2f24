//! Files and folders that only the user may read.
//!
//! On Unix they are created with private permissions; elsewhere they inherit the permissions of the user's folders.

use std::{fs::OpenOptions, io, path::Path};

use toolway_config::ownership;

/// Creates a private folder and its missing parents.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    ownership::create_private_folder(folder)
}

/// Options to open a file for writing; a new file is private.
pub fn to_write() -> OpenOptions {
    ownership::private_write_options()
}

/// User id of this process, as in the owner of a file.
pub fn user() -> u32 {
    ownership::current_user()
}
