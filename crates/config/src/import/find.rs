//! Where other hosts keep their files: relative to the home, the config directory or the project.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::host;
use crate::{
    paths::Environment,
    server::{Behind, Format},
};

/// Where is looked.
#[derive(Clone, Copy, Debug)]
pub struct SearchIn<'a> {
    /// The user's home.
    pub home: Option<&'a Path>,
    /// Where programs keep their configuration: `$XDG_CONFIG_HOME`, or `.config` in the home.
    pub config: Option<&'a Path>,
    /// The project's folder.
    pub project: Option<&'a Path>,
    /// Some hosts can be told where their file is.
    pub environment: &'a Environment,
}

/// A file of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Whose.
    pub format: Format,
    /// Where.
    pub file: PathBuf,
    /// Who stands behind it.
    pub behind: Behind,
}

/// A place a host's file may be in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    Project(&'static str),
    Home(&'static str),
    Config(&'static str),
    /// The file this variable names.
    Variable(&'static str),
    /// In the folder this variable names, else in this one of the home.
    Folder {
        variable: &'static str,
        file: &'static str,
        otherwise: &'static str,
    },
    /// In the folder this variable names.
    FolderOnly {
        variable: &'static str,
        file: &'static str,
    },
}

/// The files of these formats that are there, in the order of the formats, nearest first.
pub fn find(formats: &[Format], search: &SearchIn<'_>) -> Vec<FoundFile> {
    let mut found: Vec<FoundFile> = Vec::new();
    for host in formats.iter().filter_map(|format| host(*format)) {
        for spot in host.spots {
            let Some((file, behind)) = spot.resolve(search) else { continue };
            let file = FoundFile { format: host.format, file, behind };
            if file.file.is_file() && !found.contains(&file) {
                found.push(file);
            }
        }
    }
    found
}

impl Spot {
    fn resolve(self, search: &SearchIn<'_>) -> Option<(PathBuf, Behind)> {
        let variable = |name: &str| {
            let value = search.environment.get(OsStr::new(name)).map(PathBuf::from);
            value.filter(|path| path.is_absolute())
        };
        let file = match self {
            Self::Project(path) => return search.project.map(|folder| (folder.join(path), Behind::Project)),
            Self::Home(path) => search.home?.join(path),
            Self::Config(path) => search.config?.join(path),
            Self::Variable(name) => variable(name)?,
            Self::Folder { variable: name, file, otherwise } => match variable(name) {
                Some(folder) => folder.join(file),
                None => search.home?.join(otherwise).join(file),
            },
            Self::FolderOnly { variable: name, file } => variable(name)?.join(file),
        };
        Some((file, Behind::User))
    }
}
