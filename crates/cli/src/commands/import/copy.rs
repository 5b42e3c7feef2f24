//! Other hosts' servers put into a file of ours, one after the other, and what came of each.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use toolway_config::{
    Config, ServerConfig, ServerName,
    document::Document,
    edit::{Change, Edit, edit_text, replace},
    import::{CopiedEntry, copy},
    server::Behind,
};

use super::Read;
use crate::{
    app::App,
    commands::servers::make::{cannot_write, lock, own_file, project_file},
    report::Report,
};

/// Whose file the servers are put into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    User,
    Project,
}

/// What came of it all.
pub(super) struct Copied {
    pub(super) file: PathBuf,
    pub(super) entries: Vec<(Whence, Came)>,
}

/// Which entry it was.
pub(super) struct Whence {
    pub(super) label: String,
    pub(super) name: ServerName,
    pub(super) host: &'static str,
    pub(super) place: String,
}

/// What came of one entry.
pub(super) enum Came {
    /// It stands in the file now.
    Copied(CopiedEntry),
    /// The file is YAML: these lines belong there.
    Lines(CopiedEntry, String),
    /// It is not copied, and why.
    Left(String),
}

pub(super) fn copy_all(files: &[Read], whose: Whose, app: &App) -> Result<Copied, Report> {
    let _lock = lock(app)?;
    let (file, folder) = match whose {
        Whose::User => (own_file(&app.load()?)?, app.paths.home.clone()),
        Whose::Project => {
            let file = project_file(app)?;
            let folder = file.parent().map(Path::to_owned);
            (file, folder)
        }
    };
    let before = fs::read_to_string(&file).unwrap_or_default();
    let mut copying = Copying::new(&file, &before, folder, whose)?;
    for server in files.iter().filter_map(|read| read.imported.as_ref().ok()).flat_map(|imported| &imported.servers) {
        copying.add(server);
    }
    let Copying { text, entries, .. } = copying;
    if text != before {
        replace(&file, &text).map_err(|error| cannot_write(&file, &error))?;
    }
    Ok(Copied { file, entries })
}

struct Copying<'a> {
    file: &'a Path,
    text: String,
    /// Where programs run that are defined in the file.
    folder: Option<PathBuf>,
    whose: Whose,
    known: BTreeSet<ServerName>,
    entries: Vec<(Whence, Came)>,
}

impl<'a> Copying<'a> {
    fn new(file: &'a Path, text: &str, folder: Option<PathBuf>, whose: Whose) -> Result<Self, Report> {
        let known = Config::names(&Document::of(file, text)?)?;
        Ok(Self { file, text: text.to_owned(), folder, whose, known, entries: Vec::new() })
    }

    fn add(&mut self, server: &ServerConfig) {
        let origin = Whence {
            label: server.label.clone(),
            name: server.name.clone(),
            host: server.source.format.word(),
            place: server.source.place.to_string(),
        };
        if self.entries.iter().any(|(other, _)| other.place == origin.place && other.label == origin.label) {
            return;
        }
        let came = self.put(server).unwrap_or_else(Came::Left);
        self.entries.push((origin, came));
    }

    fn put(&mut self, server: &ServerConfig) -> Result<Came, String> {
        match (self.whose, server.source.behind) {
            (Whose::User, Behind::Project) => {
                return Err("it stands in a project's file; --project copies it into the project's own".to_owned());
            }
            (Whose::Project, Behind::User | Behind::Program) => {
                return Err("it is yours and not the project's; without --project it is copied".to_owned());
            }
            _ => {}
        }
        if self.known.contains(&server.name) {
            return Err(format!("there is a server `{}` already", server.name));
        }
        let copied = copy(server, self.folder.as_deref()).map_err(|error| error.to_string())?;
        let edit = Edit::Add { label: copied.label.clone(), entry: copied.entry.clone() };
        let came = match edit_text(&edit, None, self.file, &self.text).map_err(|error| error.to_string())? {
            Change::Text { text, .. } => {
                self.text = text;
                Came::Copied(copied)
            }
            Change::Lines { lines, .. } => Came::Lines(copied, lines),
        };
        self.known.insert(server.name.clone());
        Ok(came)
    }
}
