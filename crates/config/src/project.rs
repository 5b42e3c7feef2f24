//! A project's own file: where it is looked for, whose it must be, and what it may say.
//!
//! It may add servers and make what is offered stricter, nothing else. Nothing of what it adds runs or is dialled
//! before a person has accepted it ([`crate::consent`]).

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
    server::Behind,
    settings::{Origin, Setting},
    warning::{Warning, WarningKind},
};

/// A project and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The folder its programs run in.
    pub folder: PathBuf,
    /// Its file.
    pub file: PathBuf,
}

/// What was found on the way up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The folder other hosts' project files are looked for in: that of the file, else the repository's root, else
    /// where the search began. None above the home.
    pub folder: Option<PathBuf>,
    /// The nearest file that may be used.
    pub project: Option<Project>,
    /// Files that were found and refused.
    pub refused: Vec<Warning>,
}

/// How a project's file is called where it is not used.
const WHOSE: &str = "the project's file";

/// No project is nested deeper.
const MAX_LEVELS: usize = 64;

/// Looks for a project's file from `start` upwards, up to the repository's root, and not as far as the home. `user` is
/// who runs us: a file or a folder of anybody else is refused.
pub fn search(start: &Path, home: Option<&Path>, user: u32) -> Search {
    // The real path: a link to a folder elsewhere has that folder's parents, not those of the link.
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
    /// Whether a file is in this folder, which is then used or refused.
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

/// The file of ours in a folder; two would leave open which one counts.
pub(crate) fn file_in(folder: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let files = FILES.iter().map(|name| folder.join(name));
    let mut files = files.filter(|file| file.symlink_metadata().is_ok());
    match (files.next(), files.next()) {
        (Some(file), Some(other)) => Err(ConfigError::Refused {
            place: Place { file, line: 0 },
            problem: format!("{} is there too; keep one of them", other.display()),
        }),
        (file, _) => Ok(file),
    }
}

/// Why a file is not used: a stranger's, or one that a stranger could change.
///
/// Files that a group may write are fine, since many systems make them so for groups of one.
fn refusal(folder: &Path, file: &Path, user: u32) -> Option<String> {
    let real = match paths::real(file) {
        Ok(real) => real,
        Err(error) => return Some(error.to_string()),
    };
    if !real.starts_with(folder) {
        return Some(format!("it leads out of its folder, to {}", real.display()));
    }
    for path in [real.as_path(), folder] {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return Some(error.to_string()),
        };
        if let Some(owner) = ownership::stranger(&metadata, user) {
            return Some(format!("{} belongs to another user ({owner})", path.display()));
        }
        if ownership::everybody_may_write(&metadata) {
            return Some(format!("everybody may change {}", path.display()));
        }
    }
    None
}

fn refused(file: &Path, reason: &str) -> Warning {
    let place = Place { file: file.to_owned(), line: 0 };
    Warning::of_file(WarningKind::SetAside, place, WHOSE, reason)
}

/// The warning about a project's file that says what it may not, or cannot be read.
pub(crate) fn broken(error: &ConfigError) -> Warning {
    Warning::of_file(WarningKind::Broken, error.place(), WHOSE, error.problem())
}

/// The warning about a file of another host in a project, if it is refused.
pub(crate) fn refuse_foreign(folder: &Path, file: &Path, user: u32) -> Option<Warning> {
    refusal(folder, file, user).map(|reason| refused(file, &reason))
}

impl Project {
    /// What the file says, if it says nothing that a project may not.
    pub(crate) fn read(&self) -> Result<FileContents, ConfigError> {
        let document = Document::read_of_project(&self.file)?;
        let contents = FileContents::of(&document, Behind::Project, Some(&self.folder))?;
        refuse_settings(&contents)?;
        refuse_unknown(&contents)?;
        Ok(contents)
    }
}

/// What holds for all servers is the user's to say.
fn refuse_settings(contents: &FileContents) -> Result<(), ConfigError> {
    let settings = &contents.settings;
    refuse(&settings.start, "autoConnect")?;
    refuse(&settings.request_timeout, "requestTimeout")?;
    refuse(&settings.prefix, "naming.prefix")?;
    refuse(&settings.imports, "imports")?;
    refuse(&settings.gateway.access, "gateway.access")?;
    refuse(&settings.gateway.listen, "gateway.listen")?;
    refuse(&settings.gateway.hosts, "gateway.hosts")?;
    refuse(&settings.gateway.sse, "gateway.sse")?;
    refuse(&settings.gateway.calls_per_client, "gateway.callsPerClient")?;
    refuse(&settings.gateway.answer_within, "gateway.answerWithin")?;
    refuse(&settings.gateway.log_level, "gateway.logLevel")?;
    refuse(&settings.sign_in.client_metadata_url, "signIn.clientMetadataUrl")?;
    refuse(&settings.sign_in.vault, "signIn.vault")
}

fn refuse<T>(setting: &Setting<T>, key: &str) -> Result<(), ConfigError> {
    match &setting.origin {
        Origin::File(place) => Err(not_for_projects(place.clone(), key)),
        _ => Ok(()),
    }
}

/// A section we do not know could be a policy of a later version; in a project's file it is not read past.
fn refuse_unknown(contents: &FileContents) -> Result<(), ConfigError> {
    match contents.unknown_sections.first() {
        Some((key, place)) => Err(not_for_projects(place.clone(), key)),
        None => Ok(()),
    }
}

pub(crate) fn not_for_projects(place: Place, key: &str) -> ConfigError {
    let problem =
        format!("`{key}` is not for a project's file: it may add servers and switch things off, nothing else");
    ConfigError::Refused { place, problem }
}
