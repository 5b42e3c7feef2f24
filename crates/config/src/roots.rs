//! Roots: the folders that servers are told to work in. They are advice to servers, not a fence.

use std::path::{Path, PathBuf};

use crate::{
    error::ConfigError,
    settings::Settings,
    shape::{Field, Key, Shape, put},
};

/// One folder or URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSetting {
    /// The folder or URI.
    pub location: RootLocation,
    /// Name for display.
    pub name: Option<String>,
    /// Whether servers are told of it.
    pub enabled: bool,
}

/// Where a root is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootLocation {
    /// A folder: an absolute path, or one that begins with `~/`.
    Path(String),
    /// A URI.
    Uri(String),
}

/// Why a root of the configuration has no URI here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The path begins with `~`, and the environment names no home directory.
    #[error("there is no home directory")]
    NoHome,
    /// The path is not absolute.
    #[error("it is not an absolute path")]
    NotAbsolute,
}

/// Keys of one root.
const MEMBERS: &[(&str, Shape)] =
    &[("path", Shape::Text), ("uri", Shape::Text), ("name", Shape::Text), ("enabled", Shape::Flag)];

/// A list of roots.
pub(crate) const SHAPE: Shape = Shape::ListOfMembers(MEMBERS);

/// The top-level key `roots`.
pub(crate) const ROOTS: Key<Settings> = Key {
    name: "roots",
    shape: SHAPE,
    doc: "Folders that servers are told to work in (roots): each with `path` (absolute, or from `~/` on) or `uri`, and `name` \
          and `enabled` if wanted. A server's entry and `gateway.clients.<name>` can have the same key; a server gets those of \
          all three, equal ones once. For a client of the gateway that has roots of its own, it gets these and those of \
          `gateway.clients.<name>`. They are advice, not a fence; some servers use them instead of the folders of their own \
          configuration. Default: none, and servers are not told that there are any.",
    example: r#"[{"path": "~/work/notes", "name": "notes"}]"#,
    set: |settings, field| put(&mut settings.roots, field.setting(read(field)?)),
};

/// Reads a list of roots.
pub(crate) fn read(field: &Field<'_>) -> Result<Vec<RootSetting>, ConfigError> {
    field.list(SHAPE)?.iter().map(root).collect()
}

/// Reads a list of folders.
pub(crate) fn read_folders(field: &Field<'_>) -> Result<Vec<String>, ConfigError> {
    let folders = field.texts()?;
    match folders.iter().all(|folder| is_whole(folder)) {
        true => Ok(folders),
        false => Err(field.expected("absolute paths, or paths that begin with `~/`")),
    }
}

fn root(field: &Field<'_>) -> Result<RootSetting, ConfigError> {
    let mut name = None;
    let mut enabled = true;
    let mut location = None;
    for (key, field) in field.members()? {
        match key {
            "path" | "uri" if location.is_some() => return Err(field.expected("either `path` or `uri`")),
            "path" => location = Some(path(&field)?),
            "uri" => location = Some(uri(&field)?),
            "name" => name = Some(field.text()?.to_owned()),
            "enabled" => enabled = field.flag()?,
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    let location = location.ok_or_else(|| field.below("path").wrong(Shape::Text))?;
    Ok(RootSetting { location, name, enabled })
}

fn path(field: &Field<'_>) -> Result<RootLocation, ConfigError> {
    let path = field.text()?;
    match is_whole(path) {
        true => Ok(RootLocation::Path(path.to_owned())),
        false => Err(field.expected("an absolute path, or one that begins with `~/`")),
    }
}

fn uri(field: &Field<'_>) -> Result<RootLocation, ConfigError> {
    let uri = field.text()?;
    match url::Url::parse(uri) {
        Ok(_) => Ok(RootLocation::Uri(uri.to_owned())),
        Err(_) => Err(field.expected("a URI such as `file:///home/ada/notes`")),
    }
}

fn is_whole(path: &str) -> bool {
    Path::new(path).is_absolute() || path == "~" || path.starts_with("~/")
}

/// A path as written in the configuration, with `~` replaced by the home directory.
pub fn expand_home(path: &str, home: Option<&Path>) -> Result<PathBuf, RootError> {
    match path.strip_prefix('~') {
        Some(rest) => Ok(home.ok_or(RootError::NoHome)?.join(rest.trim_start_matches('/'))),
        None => Ok(PathBuf::from(path)),
    }
}

impl RootSetting {
    /// The URI that servers are told.
    pub fn uri(&self, home: Option<&Path>) -> Result<String, RootError> {
        match &self.location {
            RootLocation::Uri(uri) => Ok(uri.clone()),
            RootLocation::Path(path) => {
                let path = expand_home(path, home)?;
                url::Url::from_file_path(path).map(Into::into).map_err(|()| RootError::NotAbsolute)
            }
        }
    }
}
