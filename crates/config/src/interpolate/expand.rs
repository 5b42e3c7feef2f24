//! Resolution of references, with the reason if one cannot be resolved.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use super::{
    Template,
    scan::{Piece, Reference},
};
use crate::{
    keychain::{Keychain, KeychainError},
    paths::Environment,
    secret::SecretName,
    server::DefinedBy,
};

/// Where references are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// Environment variables.
    pub environment: &'a Environment,
    /// Source of `${keychain:…}`, `${secret:…}` and `${input:…}`.
    pub keychain: &'a dyn Keychain,
    /// Project folder, or the home directory.
    pub folder: Option<&'a Path>,
    /// Base of relative paths.
    pub base: &'a Path,
    /// Name of the server, part of the keychain entry of `${input:…}`.
    pub server: &'a str,
    /// File that defines the server, part of the keychain entry of `${input:…}`: files of other projects have other
    /// inputs.
    pub file: &'a Path,
    /// Who defined the server: an input of a project has a name of its own in the vault.
    pub defined_by: DefinedBy,
}

/// Why a reference cannot be resolved. The message follows the name of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The variable is not set.
    #[error("needs the environment variable `{0}`, which is not set")]
    Variable(String),
    /// The value of the variable is not UTF-8.
    #[error("needs the environment variable `{0}`, which is not valid UTF-8")]
    NotText(String),
    /// The file cannot be read.
    #[error("needs the file `{}`: {problem}", file.display())]
    File {
        /// File path.
        file: PathBuf,
        /// Reason without the path.
        problem: String,
    },
    /// The keychain entry cannot be read.
    #[error("needs the keychain entry `{service}/{entry}`: {problem}")]
    Keychain {
        /// Service name.
        service: String,
        /// Entry name.
        entry: String,
        /// Message of the keychain.
        problem: String,
    },
    /// The secret is not in the vault.
    #[error("needs the secret `{0}`, which is not stored; store it with `toolway secret set {0}`")]
    Secret(SecretName),
    /// The vault cannot be read.
    #[error("needs the secret `{name}`: {problem}")]
    Vault {
        /// Name of the secret.
        name: SecretName,
        /// Message of the vault.
        problem: String,
    },
    /// The value of the input is not in the keychain yet.
    #[error("needs the input `{id}`; store its value with `toolway secret set {name}`")]
    Input {
        /// Id of the input.
        id: String,
        /// Name of the stored secret that has its value.
        name: SecretName,
    },
    /// The folder is unknown.
    #[error("needs {0}, which is unknown")]
    Folder(&'static str),
    /// Not a reference of this dialect.
    #[error("has the unknown placeholder `{0}`")]
    Unknown(String),
}

/// Maximum size of a `${file:…}`, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Keychain service of the values of `${input:…}`.
pub const INPUTS: &str = "toolway-inputs";

/// Keychain entry of an input: `<file>#<server>/<id>`. Two files do not share an input.
fn input_entry(file: &Path, server: &str, id: &str) -> String {
    format!("{}#{server}/{id}", file.display())
}

/// Bytes of the digest of a path in the name of an input.
const PATH_DIGEST: usize = 4;

/// Name of the stored secret of an input in a file that is read where it is. The files of two projects do not share an
/// input, nor does a project get one of the user.
fn input_of_file(file: &Path, defined_by: DefinedBy, server: &str, id: &str) -> SecretName {
    if defined_by != DefinedBy::Project {
        return SecretName::derived(&[server, id]);
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, file.as_os_str().as_encoded_bytes());
    let hex: String = digest.as_ref()[..PATH_DIGEST].iter().map(|byte| format!("{byte:02x}")).collect();
    SecretName::derived(&[server, id, &hex])
}

/// Resolves the pieces of `template`.
pub(super) fn expand(pieces: &[Piece], lookup: &Lookup<'_>, template: &Template) -> Result<String, Unresolved> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Reference(reference) => text.push_str(&lookup.value(reference, template)?),
        }
    }
    Ok(text)
}

/// The pieces with environment variables and folders resolved, to be compared and not to be used. Secrets, files and what
/// cannot be resolved are named instead.
pub(super) fn expand_known(pieces: &[Piece], lookup: &Lookup<'_>, template: &Template) -> String {
    let value = |reference: &Reference| match reference {
        Reference::File(_) | Reference::Keychain { .. } | Reference::Secret(_) | Reference::Input(_) => None,
        Reference::Variable { name, default: Some(default) } => {
            let set = lookup.variable(name, None, template).ok().filter(|value| !value.is_empty());
            set.or_else(|| Some(expand_known(default, lookup, template)))
        }
        other => lookup.value(other, template).ok(),
    };
    let expanded = |piece: &Piece| match piece {
        Piece::Text(plain) => plain.clone(),
        Piece::Reference(reference) => value(reference).unwrap_or_else(|| format!("{reference:?}")),
    };
    pieces.iter().map(expanded).collect()
}

impl Lookup<'_> {
    fn value(&self, reference: &Reference, template: &Template) -> Result<String, Unresolved> {
        match reference {
            Reference::Variable { name, default } => self.variable(name, default.as_deref(), template),
            Reference::File(path) => match template.held_file(path) {
                Some(file) => file.content.clone().map(|text| text.expose().to_owned()),
                None => file_text(&self.path(path)?),
            },
            Reference::Keychain { service, entry } => self.secret(service, entry),
            Reference::Secret(name) => self.stored(name),
            Reference::Input(id) => {
                let name = input_of_file(self.file, self.defined_by, self.server, id);
                let entry = input_entry(self.file, self.server, id);
                let stored = self.stored(&name).or_else(|_not_stored| self.secret(INPUTS, &entry));
                stored.map_err(|_refused| Unresolved::Input { id: id.clone(), name })
            }
            Reference::Home => self.home().map(|home| home.to_owned()).ok_or(Unresolved::Folder("the home directory")),
            Reference::Folder => self.folder_text().ok_or(Unresolved::Folder("the project folder")),
            Reference::FolderName => self
                .folder
                .and_then(|folder| folder.file_name()?.to_str().map(str::to_owned))
                .ok_or(Unresolved::Folder("the project folder")),
            Reference::Separator => Ok(MAIN_SEPARATOR.to_string()),
            Reference::Unknown(text) => Err(Unresolved::Unknown(text.clone())),
        }
    }

    fn variable(&self, name: &str, default: Option<&[Piece]>, template: &Template) -> Result<String, Unresolved> {
        let set = self.environment.get(OsStr::new(name));
        // As in a shell, `:-` also replaces an empty value.
        match (set, default) {
            (None, None) => Err(Unresolved::Variable(name.to_owned())),
            (None, Some(default)) => expand(default, self, template),
            (Some(value), Some(default)) if value.is_empty() => expand(default, self, template),
            (Some(value), _) => value.to_str().map(str::to_owned).ok_or_else(|| Unresolved::NotText(name.to_owned())),
        }
    }

    fn secret(&self, service: &str, entry: &str) -> Result<String, Unresolved> {
        let secret = self.keychain.get(service, entry).map_err(|error| Unresolved::Keychain {
            service: service.to_owned(),
            entry: entry.to_owned(),
            problem: error.to_string(),
        })?;
        Ok(secret.expose().to_owned())
    }

    fn stored(&self, name: &SecretName) -> Result<String, Unresolved> {
        match self.keychain.stored(name) {
            Ok(secret) => Ok(secret.expose().to_owned()),
            Err(KeychainError::Missing) => Err(Unresolved::Secret(name.clone())),
            Err(KeychainError::Closed(problem)) => Err(Unresolved::Vault { name: name.clone(), problem }),
        }
    }

    /// A path as written: `~/` is the home directory, and a relative path is relative to the base.
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

/// The text of a file without the last line break.
pub(super) fn file_text(file: &Path) -> Result<String, Unresolved> {
    let failed = |problem: String| Unresolved::File { file: file.to_owned(), problem };
    let bytes = read_bounded(file, MAX_FILE).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not valid UTF-8".to_owned()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Reads a regular file of at most `bound` bytes.
pub(crate) fn read_bounded(file: &Path, bound: u64) -> io::Result<Vec<u8>> {
    // Checked before opening: opening a pipe would wait for its writer.
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
