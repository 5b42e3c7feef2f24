//! Reads a file that the user attaches. Typing its path is consent. Only regular files are read, within bounds: a pipe or a
//! device would never end.

use std::{
    fs::{self, File},
    io::Read,
    path::PathBuf,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use toolway_model::{Audio, Image, ResultPart};

use crate::{attachment::AttachError, content::MAX_MEDIUM, media::Medium};

/// Bytes of an attached text, of a file or a resource.
pub(crate) const MAX_TEXT: usize = 1024 * 1024;
/// Bytes of an attached image or sound before it is written in base64.
pub(crate) const MAX_MEDIUM_FILE: usize = MAX_MEDIUM / 4 * 3;

/// A file, and the name under which it is attached.
pub(crate) struct NamedFile {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
}

impl NamedFile {
    /// The content: text, or the image or sound that it is.
    pub(crate) fn read(self) -> Result<ResultPart, AttachError> {
        let Self { path, .. } = &self;
        let named = || self.name.clone();
        let unreadable = |error: std::io::Error| AttachError::Unreadable { name: named(), why: error.to_string() };
        // Asked before it is opened: opening a pipe waits for its writer.
        self.refuse_irregular(&fs::metadata(path).map_err(unreadable)?)?;
        let file = File::open(path).map_err(unreadable)?;
        self.refuse_irregular(&file.metadata().map_err(unreadable)?)?;
        let mut bytes = Vec::new();
        file.take(MAX_MEDIUM_FILE as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        content(&self.name, bytes)
    }

    fn refuse_irregular(&self, metadata: &fs::Metadata) -> Result<(), AttachError> {
        let name = self.name.clone();
        match metadata.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(AttachError::Folder { name }),
            _ => Err(AttachError::NotRegular { name }),
        }
    }
}

/// What the bytes of a file are: text, or an image or a sound.
pub(crate) fn content(name: &str, bytes: Vec<u8>) -> Result<ResultPart, AttachError> {
    let named = || name.to_owned();
    let medium = Medium::of(&bytes);
    let most = if medium.is_some() { MAX_MEDIUM_FILE } else { MAX_TEXT };
    if bytes.len() > most {
        return Err(AttachError::TooLarge { name: named(), most });
    }
    let data = |bytes: &[u8]| STANDARD.encode(bytes);
    match medium {
        Some(Medium::Image(mime_type)) => {
            Ok(ResultPart::Image(Image { mime_type: mime_type.to_owned(), data: data(&bytes) }))
        }
        Some(Medium::Sound(mime_type)) => {
            Ok(ResultPart::Audio(Audio { mime_type: mime_type.to_owned(), data: data(&bytes) }))
        }
        None => match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(ResultPart::Text { text }),
            Ok(_) | Err(_) => Err(AttachError::UnknownBinary { name: named() }),
        },
    }
}
