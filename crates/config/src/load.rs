//! Everything the operator wrote, found, read and put together.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    config::{Config, Entry, FileContents},
    consent::{Accepted, Proposal},
    document::Document,
    error::ConfigError,
    import::{self, Input, SearchIn},
    layers::{self, Flags},
    paths::{Environment, Paths},
    project::{self, Project, file_in, not_for_projects},
    server::{Behind, Draft, ServerConfig, ServerName},
    warning::{Warning, WarningKind},
};

/// Where to look, and what is known already. Nothing here is found by itself.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Variables.
    pub environment: &'a Environment,
    /// The user's directories.
    pub paths: &'a Paths,
    /// A file that was named: it is read instead of the user's own and of any project's.
    pub named: Option<&'a Path>,
    /// Where a project is looked for from, and by whom.
    pub project: Option<ProjectFrom<'a>>,
    /// What the command line says.
    pub flags: Flags,
    /// What was accepted of projects.
    pub accepted: &'a Accepted,
}

/// Where a project is looked for from.
#[derive(Clone, Copy, Debug)]
pub struct ProjectFrom<'a> {
    /// Usually the current directory.
    pub directory: &'a Path,
    /// Who runs us; a file of anybody else is refused.
    pub user: u32,
}

/// Everything, put together.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What may be used.
    pub config: Config,
    /// A project's servers that wait for a person; nothing of them runs or is dialled.
    pub proposals: Vec<Proposal>,
    /// What a person has to be asked for before some servers can start.
    pub inputs: Vec<Input>,
    /// The files of ours that were read.
    pub files: Vec<PathBuf>,
    /// Where a new entry of the user belongs.
    pub own_file: Option<PathBuf>,
}

/// Reads everything. Nothing is started, dialled or written.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigError> {
    let mut loaded = Loaded::default();
    let user = loaded.read_user_file(sources)?;
    let search = match (sources.named, sources.project) {
        (None, Some(from)) => project::search(from.directory, sources.paths.home.as_deref(), from.user),
        _ => project::Search::default(),
    };
    loaded.config.warnings.extend(search.refused);
    loaded.config.settings =
        user.settings.under(layers::of_environment(sources.environment)?).under(sources.flags.settings());
    let imported = loaded.import(sources, search.folder.as_deref());
    loaded.add_servers(imported.iter().filter(|server| server.source.behind == Behind::User).cloned());
    let over_projects = loaded.add_user_entries(user.entries, &user.broken);
    if let Some(project) = &search.project {
        loaded.add_project(project, sources);
    }
    let of_project = imported.into_iter().filter(|server| server.source.behind == Behind::Project);
    for server in of_project {
        loaded.propose(server, sources);
    }
    for entry in over_projects {
        loaded.restrict(entry);
    }
    Ok(loaded)
}

impl Loaded {
    fn read_user_file(&mut self, sources: &Sources<'_>) -> Result<FileContents, ConfigError> {
        let found = match (sources.named, &sources.paths.config) {
            (Some(file), _) => Some(file.to_owned()),
            (None, Some(folder)) => file_in(folder)?,
            (None, None) => None,
        };
        self.own_file = found.clone().or_else(|| sources.paths.user_config());
        let Some(file) = found else { return Ok(FileContents::default()) };
        // Where a file was named, its programs run where the command does.
        let folder = sources.paths.home.as_ref().filter(|_| sources.named.is_none());
        let mut contents = FileContents::of(&Document::read(&file)?, Behind::User, folder)?;
        self.config.warnings.append(&mut contents.warnings);
        self.files.push(file);
        Ok(contents)
    }

    fn import(&mut self, sources: &Sources<'_>, project: Option<&Path>) -> Vec<ServerConfig> {
        let formats = &self.config.settings.imports.value;
        let search = SearchIn {
            home: sources.paths.home.as_deref(),
            config: sources.paths.config.as_deref().and_then(Path::parent),
            project,
            environment: sources.environment,
        };
        let imported = import::read_all(formats, &search);
        self.config.warnings.extend(imported.warnings);
        self.inputs = imported.inputs;
        let user = sources.project.map(|from| from.user);
        self.without_strangers(imported.servers, project, user)
    }

    /// Those whose files are the user's own to trust.
    fn without_strangers(
        &mut self,
        servers: Vec<ServerConfig>,
        project: Option<&Path>,
        user: Option<u32>,
    ) -> Vec<ServerConfig> {
        let (Some(folder), Some(user)) = (project, user) else { return servers };
        let mut refused: BTreeMap<PathBuf, Option<Warning>> = BTreeMap::new();
        let mut kept = Vec::new();
        for server in servers {
            let file = &server.source.place.file;
            let is_refused = server.source.behind == Behind::Project && {
                let checked = || project::refuse_foreign(folder, file, user);
                refused.entry(file.clone()).or_insert_with(checked).is_some()
            };
            if !is_refused {
                kept.push(server);
            }
        }
        self.config.warnings.extend(refused.into_values().flatten());
        kept
    }

    /// Of two with one name the first stays.
    fn add_servers(&mut self, servers: impl Iterator<Item = ServerConfig>) {
        for server in servers {
            match self.config.servers.get(&server.name) {
                Some(known) => self.config.warnings.push(shadowed(&server, known)),
                None => {
                    self.config.servers.insert(server.name.clone(), server);
                }
            }
        }
    }

    /// The user's own entries replace imported ones, or change them where they do not say how a server is reached.
    /// Those that found none may mean one of the project.
    fn add_user_entries(&mut self, entries: Vec<Entry>, broken: &[(String, ConfigError)]) -> Vec<Entry> {
        let mut over_projects = Vec::new();
        for (label, error) in broken {
            // It may have switched the imported one off; what cannot be read is not guessed at.
            ServerName::from_label(label).ok().and_then(|name| self.config.servers.remove(&name));
            self.set_aside(label, error);
        }
        for entry in entries {
            let label = entry.label.clone();
            let server = match self.config.servers.remove(&entry.name) {
                Some(known) if !entry.draft.is_whole() => Ok(entry.draft.over(known)),
                None if !entry.draft.is_whole() => {
                    over_projects.push(entry);
                    continue;
                }
                _ => entry.finish(),
            };
            match server {
                Ok(server) => drop(self.config.servers.insert(server.name.clone(), server)),
                Err(error) => self.set_aside(&label, &error),
            }
        }
        over_projects
    }

    /// An entry of ours that is not used until it is put right; the others are.
    fn set_aside(&mut self, label: &str, error: &ConfigError) {
        let warning = Warning::of_entry(WarningKind::Broken, error.place(), label, error.problem());
        self.config.warnings.push(warning);
    }

    /// Whether the user has an entry of this name that cannot be read: nobody knows whether it switches off.
    fn is_barred(&self, name: &ServerName) -> bool {
        let is_own = |warning: &&Warning| Some(&warning.place.file) == self.own_file.as_ref();
        let broken = self.config.warnings.iter().filter(|warning| warning.kind == WarningKind::Broken);
        broken.filter(is_own).any(|warning| warning.is_about(name))
    }

    /// What the user puts over a project's server may only switch things off: who accepted the server has not seen what
    /// else it would be handed.
    fn restrict(&mut self, entry: Entry) {
        let Entry { name, label, source, draft } = &entry;
        let waiting = self.proposals.iter_mut().map(|proposal| &mut proposal.server);
        let server = self.config.servers.get_mut(name).or_else(|| waiting.into_iter().find(|it| it.name == *name));
        let Some(server) = server else { return self.set_aside_leftover(entry) };
        // Who switches something off and says more than may be said means the switch all the same.
        *server = draft.clone().stricter(server.clone());
        if draft.without_strictness() == Draft::default() {
            return;
        }
        let reason = "it stands in a project's file, and what is put over it may only switch things off";
        self.config.warnings.push(Warning::of_entry(WarningKind::Broken, source.place.clone(), label, reason));
    }

    /// What changes a server that is not there, or forgot to say how it is reached.
    fn set_aside_leftover(&mut self, entry: Entry) {
        let label = entry.label.clone();
        let Err(error) = entry.finish() else { return };
        let mut reason = error.problem();
        if !self.config.settings.imports.value.is_empty() {
            reason.push_str("; no imported file has a server of this name");
        }
        self.config.warnings.push(Warning::of_entry(WarningKind::Broken, error.place(), &label, reason));
    }

    /// A file that says what it may not takes nothing away from the user: it is not used, and that is said.
    fn add_project(&mut self, project: &Project, sources: &Sources<'_>) {
        self.files.push(project.file.clone());
        let mut contents = match project.read() {
            Ok(contents) => contents,
            Err(error) => return self.config.warnings.push(project::broken(&error)),
        };
        self.config.warnings.append(&mut contents.warnings);
        contents.broken.iter().for_each(|(label, error)| self.set_aside(label, error));
        for entry in contents.entries {
            let label = entry.label.clone();
            if let Err(error) = self.add_project_entry(entry, sources) {
                self.set_aside(&label, &error);
            }
        }
    }

    fn add_project_entry(&mut self, entry: Entry, sources: &Sources<'_>) -> Result<(), ConfigError> {
        match self.config.servers.get_mut(&entry.name) {
            Some(known) if !entry.draft.is_whole() => *known = stricter(entry, known.clone())?,
            _ => self.propose(entry.finish()?, sources),
        }
        Ok(())
    }

    /// A server that somebody else wrote down: it is used if exactly this was accepted.
    fn propose(&mut self, server: ServerConfig, sources: &Sources<'_>) {
        if let Some(known) = self.config.servers.get(&server.name) {
            self.config.warnings.push(shadowed(&server, known));
            return;
        }
        if self.is_barred(&server.name) {
            return;
        }
        if self.proposals.iter().any(|other| other.server.name == server.name) {
            return;
        }
        let server = server.with_variables_held(sources.environment);
        match Proposal::of(&server, sources.accepted) {
            Some(proposal) => self.proposals.push(proposal),
            None => {
                self.config.servers.insert(server.name.clone(), server);
            }
        }
    }
}

/// A project may switch off and leave out, nothing else.
fn stricter(entry: Entry, known: ServerConfig) -> Result<ServerConfig, ConfigError> {
    if entry.draft.without_strictness() != Draft::default() {
        let key = format!("mcpServers.{} of the user", entry.label);
        return Err(not_for_projects(entry.source.place, &key));
    }
    Ok(entry.draft.stricter(known))
}

fn shadowed(server: &ServerConfig, known: &ServerConfig) -> Warning {
    let reason = format!("{} has one of this name", known.source.place);
    Warning::of_entry(WarningKind::Shadowed, server.source.place.clone(), &server.label, reason)
}
