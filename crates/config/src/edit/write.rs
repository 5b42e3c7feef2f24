//! Replaces a file as a whole: by rename, with its previous permissions.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
    process, thread,
};

use crate::{document::Document, ownership};

/// Replaces the text of a configuration file, as [`replace`] does. A file with a secret in clear becomes readable for the
/// user only.
pub fn replace_config(file: &Path, text: &str) -> io::Result<()> {
    let has_secret = Document::of(file, text).is_ok_and(|document| !document.clear_secrets().is_empty());
    replace_with(file, text, if has_secret { Mode::Private } else { Mode::Kept })
}

/// Permissions of a file after it was replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Those that it had; those of a private file if it is new.
    Kept,
    /// Only the user can read and write it.
    Private,
}

/// Replaces the text of a file. Concurrent readers see the old or the new text; a failure leaves the old one.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    replace_with(file, text, Mode::Kept)
}

fn replace_with(file: &Path, text: &str, mode: Mode) -> io::Result<()> {
    // For a link, its target is replaced and the link stays.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let permissions = fs::metadata(&file).ok().map(|metadata| metadata.permissions());
    let permissions = permissions.filter(|_| mode == Mode::Kept);
    let temporary = temporary_path(&file);
    let written = write_new(&temporary, text, permissions).and_then(|()| fs::rename(&temporary, &file));
    if written.is_err() {
        // Best effort: the first error is reported.
        let _removed = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(folder)
}

fn temporary_path(file: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.{:?}.new", process::id(), thread::current().id()));
    file.with_file_name(name)
}

fn write_new(file: &Path, text: &str, permissions: Option<Permissions>) -> io::Result<()> {
    // Removes a leftover temporary file. `create_new` does not follow a link that another process creates here.
    let _removed = fs::remove_file(file);
    let mut opened = ownership::private_write_options().create_new(true).open(file)?;
    opened.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        opened.set_permissions(permissions)?;
    }
    opened.sync_all()
}

/// Writes the rename to disk. Windows cannot open a folder as a file, and does not need it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(folder)?.sync_all() }
}
