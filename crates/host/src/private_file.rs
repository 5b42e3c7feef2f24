//! Files and folders that only the user may read.
//!
//! On a Unix that is said when they are made. Elsewhere they inherit it from the user's own folders, in which they are.

use std::{fs::OpenOptions, io, path::Path};

use toolway_config::ownership;

/// Makes a folder, and those above it that are missing, for the user alone.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    ownership::make_private_folder(folder)
}

/// How to open a file for writing; where it is made, it is for the user alone.
pub fn to_write() -> OpenOptions {
    ownership::to_write_privately()
}

/// Who runs us, as a file names its owner.
pub fn user() -> u32 {
    ownership::user()
}
