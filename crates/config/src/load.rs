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
    server::{Behind, Draft, ServerConfig},
    warning::Warning,
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
        (None, Some(from)) => project::search(from.directory, sources.paths.home.as_deref(), from.user)?,
        _ => project::Search::default(),
    };
    loaded.config.warnings.extend(search.refused);
    loaded.config.settings =
        user.settings.under(layers::of_environment(sources.environment)?).under(sources.flags.settings());
    let imported = loaded.import(sources, search.folder.as_deref());
    loaded.add_servers(imported.iter().filter(|server| server.source.behind == Behind::User).cloned());
    let over_projects = loaded.add_user_entries(user.entries)?;
    if let Some(project) = &search.project {
        loaded.add_project(project, sources)?;
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
    fn add_user_entries(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, ConfigError> {
        let mut over_projects = Vec::new();
        for entry in entries {
            let known = self.config.servers.remove(&entry.name);
            let server = match known {
                Some(known) if !entry.draft.is_whole() => entry.draft.over(known),
                None if !entry.draft.is_whole() && !self.config.settings.imports.value.is_empty() => {
                    over_projects.push(entry);
                    continue;
                }
                _ => entry.finish()?,
            };
            self.config.servers.insert(server.name.clone(), server);
        }
        Ok(over_projects)
    }

    /// What the user puts over a project's server may only switch things off: who accepted the server has not seen what
    /// else it would be handed.
    fn restrict(&mut self, entry: Entry) {
        let Entry { name, label, source, draft } = entry;
        let waiting = self.proposals.iter_mut().map(|proposal| &mut proposal.server);
        let server = self.config.servers.get_mut(&name).or_else(|| waiting.into_iter().find(|it| it.name == name));
        let problem = match server {
            None => "no imported file has a server of this name",
            Some(_) if draft.without_strictness() != Draft::default() => {
                "it stands in a project's file, and what is put over it may only switch things off"
            }
            Some(server) => {
                *server = draft.stricter(server.clone());
                return;
            }
        };
        let message = format!("`{label}` is not used: {problem}");
        self.config.warnings.push(Warning::set_aside(source.place, message));
    }

    fn add_project(&mut self, project: &Project, sources: &Sources<'_>) -> Result<(), ConfigError> {
        let mut contents = project.read()?;
        self.config.warnings.append(&mut contents.warnings);
        self.files.push(project.file.clone());
        for entry in contents.entries {
            if entry.draft.is_whole() {
                self.propose(entry.finish()?, sources);
                continue;
            }
            match self.config.servers.remove(&entry.name) {
                Some(known) => {
                    let name = known.name.clone();
                    self.config.servers.insert(name, stricter(entry, known)?);
                }
                None => {
                    entry.finish()?;
                }
            }
        }
        Ok(())
    }

    /// A server that somebody else wrote down: it is used if exactly this was accepted.
    fn propose(&mut self, server: ServerConfig, sources: &Sources<'_>) {
        if let Some(known) = self.config.servers.get(&server.name) {
            self.config.warnings.push(shadowed(&server, known));
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
    let message = format!("`{}` is not used: {} has one of this name", server.label, known.source.place);
    Warning::set_aside(server.source.place.clone(), message)
}
