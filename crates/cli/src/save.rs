//! `--save`: writes content to files with names that Toolway chooses.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{exit_code::ExitCode, output::content::Piece, report::Report};

/// Most files with the same stem in one directory.
const MAX_FILES: usize = 10_000;

/// Writes a piece to a directory (with an unused name) or to a file. Returns the file; `None` if there is nothing to write.
pub(crate) fn write(place: &Path, stem: &str, number: usize, piece: &Piece) -> Result<Option<PathBuf>, Report> {
    let (bytes, extension) = match piece {
        Piece::Bytes { bytes: Some(bytes), mime_type, .. } => (bytes.as_slice(), extension(mime_type)),
        Piece::Text(text) => (text.as_bytes(), "txt"),
        Piece::Bytes { bytes: None, .. } | Piece::Mention(_) => return Ok(None),
    };
    let last = place.as_os_str().as_encoded_bytes().last();
    let is_folder = place.is_dir() || last.is_some_and(|last| std::path::is_separator(char::from(*last)));
    let written = if is_folder {
        in_folder(place, stem, extension, bytes)
    } else {
        let file = numbered(place, number);
        fs::write(&file, bytes).map(|()| file)
    };
    let failed = |error: io::Error| {
        Report::new(ExitCode::Internal, "save", format!("cannot write to `{}`: {error}", place.display()))
    };
    written.map(Some).map_err(failed)
}

/// Writes to the first unused name; never overwrites a file.
fn in_folder(folder: &Path, stem: &str, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    let stem: String = stem.chars().map(plain).take(64).collect();
    for number in 1..=MAX_FILES {
        let file = folder.join(format!("{stem}-{number}.{extension}"));
        match OpenOptions::new().write(true).create_new(true).open(&file) {
            Ok(mut new) => return new.write_all(bytes).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many files of this name exist; remove some, or choose another directory"))
}

/// The given file for the first piece, `name-2.ext` for the second.
fn numbered(file: &Path, number: usize) -> PathBuf {
    if number < 2 {
        return file.to_owned();
    }
    let mut name = file.file_stem().map(OsString::from).unwrap_or_default();
    name.push(format!("-{number}"));
    let name = PathBuf::from(name);
    file.with_file_name(match file.extension() {
        Some(extension) => name.with_extension(extension),
        None => name,
    })
}

fn extension(mime_type: &str) -> &'static str {
    match mime_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/gzip" | "application/x-gzip" => "gz",
        "application/zip" => "zip",
        mime if mime.starts_with("text/") => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::numbered;

    #[test]
    fn further_pieces_are_numbered() {
        assert_eq!(numbered(Path::new("a/pic.png"), 1), PathBuf::from("a/pic.png"));
        assert_eq!(numbered(Path::new("a/pic.png"), 2), PathBuf::from("a/pic-2.png"));
        assert_eq!(numbered(Path::new("pic"), 3), PathBuf::from("pic-3"));
    }
}
