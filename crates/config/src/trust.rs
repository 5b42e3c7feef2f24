//! Trust as it is written: the level of a server, lists of its tools, and folders whose projects are trusted.
//!
//! A folder is compared by its canonical path, with symbolic links resolved, component by component. It raises the trust of
//! servers of projects that the user has accepted; it accepts none.

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use crate::{
    Pattern,
    error::{ConfigError, Place},
    paths,
    roots::expand_home,
    server::Source,
    shape::{Field, Shape},
};

/// How far a server's annotations are believed, and whether its writes pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Its annotations are not believed.
    Untrusted,
    /// Its annotations are believed: tools annotated read-only pass `writes`.
    #[default]
    Read,
    /// All its tools pass `writes`.
    Full,
}

/// What a server's entry says about single tools, and what the folder of its project adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustLists {
    /// Tools that pass `writes`, by their names at the server. Only the user sets them.
    pub trusted_tools: Vec<Pattern>,
    /// Tools that are asked about in every call.
    pub require_confirmation: Vec<Pattern>,
    /// Whether paths in arguments are checked.
    pub file_access: FileAccess,
    /// Trust by the folder of the project that defines the server.
    pub folder: Option<Trust>,
}

/// Whether the paths in the arguments of a call are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// They are not.
    #[default]
    Unchecked,
    /// `file:` URIs and absolute paths outside the roots are refused.
    RootsOnly,
}

/// What becomes of a call if its definition is not the one that was seen first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriftEffect {
    /// A user is asked, and sees the difference.
    Ask,
    /// The call is refused.
    Hide,
    /// The call is sent, and the difference is recorded.
    #[default]
    Allow,
}

/// A folder whose projects are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedFolder {
    /// The path as written: absolute, or from `~/` on.
    pub path: String,
    /// `Read` or `Full`.
    pub trust: Trust,
    /// File and line.
    pub place: Place,
}

const TRUSTS: &[(&str, Trust)] = &[("untrusted", Trust::Untrusted), ("read", Trust::Read), ("full", Trust::Full)];
/// Values of `trust`.
pub(crate) const TRUST_VALUES: &[&str] = &["untrusted", "read", "full"];
const FOLDER_TRUSTS: &[(&str, Trust)] = &[("read", Trust::Read), ("full", Trust::Full)];
const FOLDER_VALUES: &[&str] = &["read", "full"];
/// Values of `trustLevel` in rules.
pub(crate) const LEVELS: &[&str] = &["untrusted", "server-trusted", "tool-allowlisted", "trusted-folder"];
/// Values of `risk` in rules.
pub(crate) const RISKS: &[&str] = &["low", "medium", "high", "critical"];

const DRIFTS: &[(&str, DriftEffect)] =
    &[("ask", DriftEffect::Ask), ("hide", DriftEffect::Hide), ("allow", DriftEffect::Allow)];
/// Values of `changedTools` and `newTools`.
pub(crate) const DRIFT_VALUES: &[&str] = &["ask", "hide", "allow"];

/// Parses `changedTools` and `newTools`.
pub(crate) fn drift(field: &Field<'_>) -> Result<DriftEffect, ConfigError> {
    field.choice(DRIFTS, Shape::OneOf(DRIFT_VALUES))
}

/// Parses `trust`.
pub(crate) fn trust(field: &Field<'_>) -> Result<Trust, ConfigError> {
    field.choice(TRUSTS, Shape::OneOf(TRUST_VALUES))
}

/// Parses `policy.trustedFolders`.
pub(crate) fn folders(field: &Field<'_>) -> Result<Vec<TrustedFolder>, ConfigError> {
    let mut folders = Vec::new();
    for (path, field) in field.members()? {
        if !(Path::new(path).is_absolute() || path == "~" || path.starts_with("~/")) {
            return Err(field.expected("under an absolute path, or one that begins with `~/`"));
        }
        let trust = field.choice(FOLDER_TRUSTS, Shape::OneOf(FOLDER_VALUES))?;
        let place = field.document.place(field.node.line);
        folders.push(TrustedFolder { path: path.to_owned(), trust, place });
    }
    Ok(folders)
}

/// The trust that these folders give to a server of a project: that of the innermost folder which contains both the
/// project and the file of the entry; of two that name the same folder, the stricter. `None` outside of all.
pub(crate) fn of_project(folders: &[TrustedFolder], source: &Source, home: Option<&Path>) -> Option<Trust> {
    let project = source.folder.as_deref().or_else(|| source.place.file.parent())?;
    let inside = [paths::real(project).ok()?, paths::real(&source.place.file).ok()?];
    let contains = |folder: &PathBuf| inside.iter().all(|path| path.starts_with(folder));
    let real = |folder: &TrustedFolder| Some((folder.real(home)?, folder.trust));
    let containing = folders.iter().filter_map(real).filter(|(folder, _)| contains(folder));
    containing.max_by_key(|(folder, trust)| (folder.components().count(), Reverse(*trust))).map(|(_, trust)| trust)
}

impl TrustedFolder {
    /// The canonical path; `None` if there is no such folder.
    pub fn real(&self, home: Option<&Path>) -> Option<PathBuf> {
        let path = expand_home(&self.path, home).ok()?;
        paths::real(&path).ok().filter(|path| path.is_absolute())
    }
}

impl Trust {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        TRUSTS.iter().find(|(_, trust)| *trust == self).map_or("untrusted", |(word, _)| word)
    }

    /// Parses the value as written in configuration.
    pub fn parse(text: &str) -> Option<Self> {
        TRUSTS.iter().find(|(word, _)| *word == text).map(|(_, trust)| *trust)
    }
}

impl DriftEffect {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        DRIFTS.iter().find(|(_, effect)| *effect == self).map_or("ask", |(word, _)| word)
    }
}

impl TrustLists {
    /// Lists that say nothing.
    pub const NONE: Self = Self {
        trusted_tools: Vec::new(),
        require_confirmation: Vec::new(),
        file_access: FileAccess::Unchecked,
        folder: None,
    };
}

impl FileAccess {
    /// Converts `allowFileAccess`.
    pub(crate) fn allowed(allowed: bool) -> Self {
        if allowed { Self::Unchecked } else { Self::RootsOnly }
    }
}
