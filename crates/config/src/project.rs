//! The project file: where it is searched, who must own it, and which keys it may have.
//!
//! It may only add servers, disable servers, narrow filters and add policy rules that ask or deny. Its servers are not
//! started or connected before the user accepts them ([`crate::consent`]).

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    config::FileContents,
    document::Document,
    error::{ConfigError, Place},
    ownership,
    paths::{self, FILES},
    policy::{POLICY, ProjectRules, RULES},
    server::DefinedBy,
    settings::SETTINGS,
    warning::{Warning, WarningKind},
};

/// A project with a project file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Working directory of its programs.
    pub folder: PathBuf,
    /// Path of the project file.
    pub file: PathBuf,
}

/// Result of the search for a project file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Folder in which project files of other hosts are searched: that of the project file, else the root of the
    /// repository, else the start of the search. `None` if the search starts above the home directory.
    pub folder: Option<PathBuf>,
    /// The nearest usable project file.
    pub project: Option<Project>,
    /// Warnings about refused files.
    pub refused: Vec<Warning>,
}

/// Name of the project file in warnings.
const PROJECT_FILE: &str = "the project file";

/// Maximum number of folders searched.
const MAX_LEVELS: usize = 64;

/// Searches for a project file from `start` upwards, up to the root of the repository, and stops before the home
/// directory. Files and folders of users other than `user` are refused.
pub fn search(start: &Path, home: Option<&Path>, user: u32) -> Search {
    // The canonical path: for a link to a folder, the parents of that folder are searched, not those of the link.
    let Ok(start) = paths::real(start) else { return Search::default() };
    let home = home.and_then(|home| paths::real(home).ok());
    let is_above_home = home.as_ref().is_some_and(|home| home.starts_with(&start));
    let mut search = Search { folder: Some(start.clone()).filter(|_| !is_above_home), ..Search::default() };
    for folder in start.ancestors().take(MAX_LEVELS) {
        if Some(folder) == home.as_deref() {
            break;
        }
        let is_root = folder.join(".git").symlink_metadata().is_ok();
        if is_root {
            search.folder = Some(folder.to_owned());
        }
        let is_there = search.look_in(folder, user);
        if is_there || is_root {
            break;
        }
    }
    search
}

impl Search {
    /// Uses or refuses the project file of a folder; returns whether there is one.
    fn look_in(&mut self, folder: &Path, user: u32) -> bool {
        let file = match file_in(folder) {
            Ok(None) => return false,
            Ok(Some(file)) => file,
            Err(error) => {
                self.refused.push(broken(&error));
                return true;
            }
        };
        match refusal(folder, &file, user) {
            None => {
                self.folder = Some(folder.to_owned());
                self.project = Some(Project { folder: folder.to_owned(), file });
            }
            Some(reason) => self.refused.push(refused(&file, &reason)),
        }
        true
    }
}

/// The configuration file in a folder; two of them are an error.
pub(crate) fn file_in(folder: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let files = FILES.iter().map(|name| folder.join(name));
    let mut files = files.filter(|file| file.symlink_metadata().is_ok());
    match (files.next(), files.next()) {
        (Some(file), Some(other)) => Err(ConfigError::Refused {
            place: Place { file, line: 0 },
            problem: format!("`{}` exists too; keep only one of them", other.display()),
        }),
        (file, _) => Ok(file),
    }
}

/// Why a file is not used: it belongs to another user, or another user could change it.
///
/// Group-writable files are accepted because many systems create them for groups with one member.
pub fn refusal(folder: &Path, file: &Path, user: u32) -> Option<String> {
    let real = match paths::real(file) {
        Ok(real) => real,
        Err(error) => return Some(error.to_string()),
    };
    if !real.starts_with(folder) {
        return Some(format!("it is a link to `{}`, outside of its folder", real.display()));
    }
    for path in [real.as_path(), folder] {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return Some(error.to_string()),
        };
        if let Some(owner) = ownership::other_owner(&metadata, user) {
            return Some(format!("`{}` belongs to another user (uid {owner})", path.display()));
        }
        if ownership::is_world_writable(&metadata) {
            return Some(format!("`{}` is writable by all users", path.display()));
        }
    }
    None
}

fn refused(file: &Path, reason: &str) -> Warning {
    let place = Place { file: file.to_owned(), line: 0 };
    Warning::of_file(WarningKind::SetAside, place, PROJECT_FILE, reason)
}

/// The warning about a project file that is invalid or cannot be read.
pub(crate) fn broken(error: &ConfigError) -> Warning {
    Warning::of_file(WarningKind::Broken, error.place(), PROJECT_FILE, error.problem())
}

/// The warning about a refused file of another host in a project.
pub(crate) fn refuse_foreign(folder: &Path, file: &Path, user: u32) -> Option<Warning> {
    refusal(folder, file, user).map(|reason| refused(file, &reason))
}

impl Project {
    /// Reads the project file; a key that is not allowed there is an error, and so is a rule that allows.
    pub(crate) fn read(&self) -> Result<FileContents, ConfigError> {
        let document = Document::read_of_project(&self.file)?;
        let mut contents = FileContents::of(&document, DefinedBy::Project, Some(&self.folder))?;
        refuse_settings(&document)?;
        refuse_unknown(&contents)?;
        let policy = &mut contents.settings.policy;
        policy.project = ProjectRules::new(std::mem::take(&mut policy.user))?;
        Ok(contents)
    }
}

/// Only the user may change settings. Whatever is not known to be harmless is refused, so that a key of a later version
/// is refused too.
fn refuse_settings(document: &Document) -> Result<(), ConfigError> {
    let mut root = document.root()?;
    let keys: Vec<_> = root.keys().filter(|(key, _)| SETTINGS.iter().any(|known| known.name == *key)).collect();
    for (key, line) in keys {
        let section = root.take_section(key).ok().flatten();
        let mut members = section.iter().flat_map(|section| section.keys()).peekable();
        if members.peek().is_none() && key != POLICY.name {
            return Err(not_for_projects(document.place(line), key));
        }
        if let Some((member, line)) = members.find(|(member, _)| !(key == POLICY.name && *member == RULES)) {
            return Err(not_for_projects(document.place(line), &format!("{key}.{member}")));
        }
    }
    Ok(())
}

/// An unknown key could be a policy of a later version, so it is an error in a project file.
fn refuse_unknown(contents: &FileContents) -> Result<(), ConfigError> {
    match contents.unknown_sections.first() {
        Some((key, place)) => Err(not_for_projects(place.clone(), key)),
        None => Ok(()),
    }
}

pub(crate) fn not_for_projects(place: Place, key: &str) -> ConfigError {
    let problem = format!(
        "`{key}` is not allowed: a project file may only add servers, disable servers, narrow filters and add policy rules"
    );
    ConfigError::Refused { place, problem }
}
