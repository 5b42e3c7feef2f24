//! A file replaced as a whole: by rename, with the permissions it had.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process, thread,
};

/// What a file of ours may be done with when it is new: nobody else reads it.
const PRIVATE: u32 = 0o600;

/// Replaces a file's text. Whoever reads meanwhile sees the old text or the new one; a failure leaves the old one.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    // Where it is a link, what it leads to is replaced and the link stays.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mode = fs::metadata(&file).map_or(PRIVATE, |metadata| metadata.permissions().mode() & 0o7777);
    let beside = temporary(&file);
    let written = write_new(&beside, text, mode).and_then(|()| fs::rename(&beside, &file));
    if written.is_err() {
        // Best effort: what failed is what is reported.
        let _removed = fs::remove_file(&beside);
        return written;
    }
    File::open(folder)?.sync_all()
}

fn temporary(file: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.{:?}.new", process::id(), thread::current().id()));
    file.with_file_name(name)
}

fn write_new(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    // One of ours that was left behind; a link planted here is not followed, since the file must be new.
    let _removed = fs::remove_file(file);
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(file)?;
    opened.write_all(text.as_bytes())?;
    opened.set_permissions(fs::Permissions::from_mode(mode))?;
    opened.sync_all()
}
