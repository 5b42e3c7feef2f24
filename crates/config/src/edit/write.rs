//! Replaces a file as a whole: by rename, with its previous permissions.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
    process, thread,
};

use crate::ownership;

/// Replaces the text of a file. Concurrent readers see the old or the new text; a failure leaves the old one.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    // For a link, its target is replaced and the link stays.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let permissions = fs::metadata(&file).ok().map(|metadata| metadata.permissions());
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
