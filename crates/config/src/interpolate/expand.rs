//! References replaced by what they stand for, or the reason why that cannot be.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use super::scan::{Piece, Reference};
use crate::{keychain::Keychain, paths::Environment};

/// Where references lead.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// Variables.
    pub environment: &'a Environment,
    /// Secrets that were put away.
    pub keychain: &'a dyn Keychain,
    /// The project's folder, or the home.
    pub folder: Option<&'a Path>,
    /// What a relative path is relative to.
    pub base: &'a Path,
    /// Whose inputs `${input:…}` means.
    pub server: &'a str,
}

/// Why a reference leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// A variable without a value.
    #[error("needs the variable {0}, which is not set")]
    Variable(String),
    /// A variable whose value is no text.
    #[error("needs the variable {0}, which is not UTF-8")]
    NotText(String),
    /// A file that cannot be used.
    #[error("needs the file {}: {problem}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// An entry of the keychain that cannot be had.
    #[error("needs `{entry}` of `{service}` from the keychain: {problem}")]
    Keychain {
        /// Whose.
        service: String,
        /// Which.
        entry: String,
        /// Why.
        problem: String,
    },
    /// Something a person has to say once.
    #[error("needs the input `{0}`, which nobody has given yet")]
    Input(String),
    /// A folder that is not known here.
    #[error("needs {0}, which is not known here")]
    Folder(&'static str),
    /// Not a reference of this dialect.
    #[error("has `{0}`, which nothing here can fill in")]
    Unknown(String),
}

/// A secret in a file is short; more than this is the wrong file.
const MAX_FILE: u64 = 64 * 1024;

/// The service under which answers to `${input:…}` are kept in the keychain; the entry is `<server>/<id>`.
pub const INPUTS: &str = "toolway-inputs";

pub(super) fn expand(pieces: &[Piece], lookup: &Lookup<'_>) -> Result<String, Unresolved> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Reference(reference) => text.push_str(&lookup.value(reference)?),
        }
    }
    Ok(text)
}

impl Lookup<'_> {
    fn value(&self, reference: &Reference) -> Result<String, Unresolved> {
        match reference {
            Reference::Variable { name, default } => self.variable(name, default.as_deref()),
            Reference::File(path) => self.file(path),
            Reference::Keychain { service, entry } => self.secret(service, entry),
            Reference::Input(id) => {
                self.secret(INPUTS, &format!("{}/{id}", self.server)).map_err(|_refused| Unresolved::Input(id.clone()))
            }
            Reference::Home => self.home().map(|home| home.to_owned()).ok_or(Unresolved::Folder("the home directory")),
            Reference::Folder => self.folder_text().ok_or(Unresolved::Folder("the project's folder")),
            Reference::FolderName => self
                .folder
                .and_then(|folder| folder.file_name()?.to_str().map(str::to_owned))
                .ok_or(Unresolved::Folder("the project's folder")),
            Reference::Separator => Ok(MAIN_SEPARATOR.to_string()),
            Reference::Unknown(text) => Err(Unresolved::Unknown(text.clone())),
        }
    }

    fn variable(&self, name: &str, default: Option<&[Piece]>) -> Result<String, Unresolved> {
        let set = self.environment.get(OsStr::new(name));
        // As in a shell, `:-` also stands in for an empty value.
        match (set, default) {
            (None, None) => Err(Unresolved::Variable(name.to_owned())),
            (None, Some(default)) => expand(default, self),
            (Some(value), Some(default)) if value.is_empty() => expand(default, self),
            (Some(value), _) => value.to_str().map(str::to_owned).ok_or_else(|| Unresolved::NotText(name.to_owned())),
        }
    }

    fn file(&self, path: &str) -> Result<String, Unresolved> {
        let file = self.path(path)?;
        let failed = |problem: String| Unresolved::File { file: file.clone(), problem };
        let bytes = read_bounded(&file, MAX_FILE).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8".to_owned()))?;
        Ok(text.trim_end_matches(['\n', '\r']).to_owned())
    }

    fn secret(&self, service: &str, entry: &str) -> Result<String, Unresolved> {
        let secret = self.keychain.get(service, entry).map_err(|error| Unresolved::Keychain {
            service: service.to_owned(),
            entry: entry.to_owned(),
            problem: error.to_string(),
        })?;
        Ok(secret.expose().to_owned())
    }

    /// A path as it is written: `~/` is the home, and a relative one starts at the base.
    pub(crate) fn path(&self, written: &str) -> Result<PathBuf, Unresolved> {
        match written.strip_prefix("~/") {
            Some(rest) => {
                let home = self.home().ok_or(Unresolved::Folder("the home directory"))?;
                Ok(Path::new(home).join(rest))
            }
            None => Ok(self.base.join(written)),
        }
    }

    fn home(&self) -> Option<&str> {
        self.environment.get(OsStr::new("HOME"))?.to_str().filter(|home| home.starts_with('/'))
    }

    fn folder_text(&self) -> Option<String> {
        self.folder?.to_str().map(str::to_owned)
    }
}

/// What a file holds, if that is not more than it should be.
pub(crate) fn read_bounded(file: &Path, bound: u64) -> io::Result<Vec<u8>> {
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(bound + 1).read_to_end(&mut bytes)?;
    if bound < bytes.len() as u64 {
        return Err(io::Error::other(format!("it is larger than {bound} bytes")));
    }
    Ok(bytes)
}
