//! Locations of the files of other hosts: relative to the home directory, the config directory or the project.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::host;
use crate::{
    paths::Environment,
    server::{DefinedBy, Format},
};

/// Base directories of the search.
#[derive(Clone, Copy, Debug)]
pub struct SearchRoots<'a> {
    /// Home directory of the user.
    pub home: Option<&'a Path>,
    /// Config directory: `$XDG_CONFIG_HOME`, or `.config` in the home directory.
    pub config: Option<&'a Path>,
    /// Project folder.
    pub project: Option<&'a Path>,
    /// Environment variables; some hosts have one for the path of their file.
    pub environment: &'a Environment,
}

/// A file of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Format of the file.
    pub format: Format,
    /// Path of the file.
    pub file: PathBuf,
    /// Whether the user or the project defined it.
    pub defined_by: DefinedBy,
}

/// A possible location of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Location {
    Project(&'static str),
    Home(&'static str),
    Config(&'static str),
    /// Path in an environment variable.
    Variable(&'static str),
    /// In the folder of an environment variable, else in `otherwise` in the home directory.
    Folder {
        variable: &'static str,
        file: &'static str,
        otherwise: &'static str,
    },
    /// In the folder of an environment variable.
    FolderOnly {
        variable: &'static str,
        file: &'static str,
    },
}

/// Existing files of these formats, in the order of the formats, nearest first.
pub fn find(formats: &[Format], search: &SearchRoots<'_>) -> Vec<FoundFile> {
    let mut found: Vec<FoundFile> = Vec::new();
    for host in formats.iter().filter_map(|format| host(*format)) {
        for location in host.locations {
            let Some((file, defined_by)) = location.resolve(search) else { continue };
            let file = FoundFile { format: host.format, file, defined_by };
            if file.file.is_file() && !found.contains(&file) {
                found.push(file);
            }
        }
    }
    found
}

impl Location {
    fn resolve(self, search: &SearchRoots<'_>) -> Option<(PathBuf, DefinedBy)> {
        let variable = |name: &str| {
            let value = search.environment.get(OsStr::new(name)).map(PathBuf::from);
            value.filter(|path| path.is_absolute())
        };
        let file = match self {
            Self::Project(path) => return search.project.map(|folder| (folder.join(path), DefinedBy::Project)),
            Self::Home(path) => search.home?.join(path),
            Self::Config(path) => search.config?.join(path),
            Self::Variable(name) => variable(name)?,
            Self::Folder { variable: name, file, otherwise } => match variable(name) {
                Some(folder) => folder.join(file),
                None => search.home?.join(otherwise).join(file),
            },
            Self::FolderOnly { variable: name, file } => variable(name)?.join(file),
        };
        Some((file, DefinedBy::User))
    }
}
