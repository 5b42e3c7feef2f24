//! A file replaced as a whole: by rename, with the permissions it had.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
    process, thread,
};

use crate::ownership;

/// Replaces a file's text. Whoever reads meanwhile sees the old text or the new one; a failure leaves the old one.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    // Where it is a link, what it leads to is replaced and the link stays.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let permissions = fs::metadata(&file).ok().map(|metadata| metadata.permissions());
    let beside = temporary(&file);
    let written = write_new(&beside, text, permissions).and_then(|()| fs::rename(&beside, &file));
    if written.is_err() {
        // Best effort: what failed is what is reported.
        let _removed = fs::remove_file(&beside);
        return written;
    }
    sync_folder(folder)
}

fn temporary(file: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.{:?}.new", process::id(), thread::current().id()));
    file.with_file_name(name)
}

fn write_new(file: &Path, text: &str, permissions: Option<Permissions>) -> io::Result<()> {
    // One of ours that was left behind; a link planted here is not followed, since the file must be new.
    let _removed = fs::remove_file(file);
    let mut opened = ownership::to_write_privately().create_new(true).open(file)?;
    opened.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        opened.set_permissions(permissions)?;
    }
    opened.sync_all()
}

/// The rename is on disk too. Windows opens no folder as a file, and does not need to.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(folder)?.sync_all() }
}
