//! Finds, reads and merges all configuration sources.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    config::{Config, Entry, FileContents},
    consent::{Accepted, Proposal},
    document::Document,
    error::ConfigError,
    import::{self, Input, SearchRoots},
    layers::{self, Flags},
    paths::{self, Environment, Paths},
    project::{self, Project, file_in},
    server::{DefinedBy, Draft, ServerConfig, ServerName},
    trust,
    warning::{Warning, WarningKind},
};

/// Configuration sources. All paths and the environment are passed in; nothing is discovered globally.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Environment variables.
    pub environment: &'a Environment,
    /// Directories of the user.
    pub paths: &'a Paths,
    /// A file given by the user; it replaces the user file and the project file.
    pub named: Option<&'a Path>,
    /// Start of the search for a project file; `None` disables the search.
    pub project: Option<ProjectStart<'a>>,
    /// Settings of the command line.
    pub flags: Flags,
    /// Servers of projects that the user has accepted.
    pub accepted: &'a Accepted,
}

/// Start of the search for a project file.
#[derive(Clone, Copy, Debug)]
pub struct ProjectStart<'a> {
    /// Usually the current directory.
    pub directory: &'a Path,
    /// User id of this process; files of other users are refused.
    pub user: u32,
}

/// The merged configuration.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Servers and settings that are in use.
    pub config: Config,
    /// Servers of a project that the user has not accepted yet; they are not started or connected.
    pub proposals: Vec<Proposal>,
    /// Inputs that the user must enter before some servers can start.
    pub inputs: Vec<Input>,
    /// Configuration files that were read, without those of other hosts.
    pub files: Vec<PathBuf>,
    /// File for new entries of the user.
    pub own_file: Option<PathBuf>,
}

/// Loads the configuration. Starts, connects and writes nothing.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigError> {
    let mut loaded = Loaded::default();
    let user = loaded.read_user_file(sources)?;
    let search = match (sources.named, sources.project) {
        (None, Some(from)) => project::search(from.directory, sources.paths.home.as_deref(), from.user),
        _ => project::Search::default(),
    };
    loaded.config.warnings.extend(search.refused);
    let environment = layers::from_environment(sources.environment)?;
    loaded.config.settings = user.settings.overridden_by(environment).overridden_by(sources.flags.settings());
    let imported = loaded.import(sources, search.folder.as_deref());
    // The user's own servers take precedence over imported ones.
    loaded.add_servers(user.servers.into_iter());
    loaded.add_servers(imported.iter().filter(|server| server.source.defined_by == DefinedBy::User).cloned());
    let over_projects = loaded.add_user_entries(user.entries, &user.broken);
    // In the folder of the user's own file that file is not a project's.
    if let Some(project) = search.project.as_ref().filter(|project| !loaded.has_read(&project.file)) {
        loaded.add_project(project, sources);
    }
    let of_project = imported.into_iter().filter(|server| server.source.defined_by == DefinedBy::Project);
    for server in of_project {
        loaded.propose(server, sources);
    }
    for entry in over_projects {
        loaded.restrict(entry);
    }
    Ok(loaded)
}

impl Loaded {
    /// Whether a file was read already, under this name or another.
    fn has_read(&self, file: &Path) -> bool {
        let real = paths::real(file).ok();
        real.is_some() && self.files.iter().any(|read| paths::real(read).ok() == real)
    }

    fn read_user_file(&mut self, sources: &Sources<'_>) -> Result<FileContents, ConfigError> {
        let found = match (sources.named, &sources.paths.config) {
            (Some(file), _) => Some(file.to_owned()),
            (None, Some(folder)) => file_in(folder)?,
            (None, None) => None,
        };
        self.own_file = found.clone().or_else(|| sources.paths.user_config());
        let Some(file) = found else { return Ok(FileContents::default()) };
        let mut contents = FileContents::of_user(&Document::read(&file)?, sources.paths.home.as_ref())?;
        self.config.warnings.append(&mut contents.warnings);
        self.inputs.append(&mut contents.inputs);
        self.files.push(file);
        Ok(contents)
    }

    fn import(&mut self, sources: &Sources<'_>, project: Option<&Path>) -> Vec<ServerConfig> {
        let formats = &self.config.settings.imports.value;
        let search = SearchRoots {
            home: sources.paths.home.as_deref(),
            config: sources.paths.config.as_deref().and_then(Path::parent),
            project,
            environment: sources.environment,
        };
        let imported = import::read_all(formats, &search);
        self.config.warnings.extend(imported.warnings);
        self.inputs.extend(imported.inputs);
        let user = sources.project.map(|from| from.user);
        self.without_untrusted(imported.servers, project, user)
    }

    /// Drops the servers of project files that another user owns or can change.
    fn without_untrusted(
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
            let is_refused = server.source.defined_by == DefinedBy::Project && {
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

    /// Adds servers; if two have the same name, the first is kept.
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

    /// Adds the entries of the user. An entry with a transport replaces an imported server; one without changes it.
    /// Returns the entries without a transport that match no imported server; they may change a server of the project.
    fn add_user_entries(&mut self, entries: Vec<Entry>, broken: &[(String, ConfigError)]) -> Vec<Entry> {
        let mut over_projects = Vec::new();
        for (label, error) in broken {
            // The invalid entry may have disabled the imported server, so that one is not used either.
            ServerName::from_label(label).ok().and_then(|name| self.config.servers.remove(&name));
            self.set_aside(label, error);
        }
        for entry in entries {
            let label = entry.label.clone();
            let server = match self.config.servers.remove(&entry.name) {
                Some(known) if !entry.draft.has_transport() => Ok(entry.draft.apply_to(known)),
                None if !entry.draft.has_transport() => {
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

    /// Warns about an invalid entry, which is not used.
    fn set_aside(&mut self, label: &str, error: &ConfigError) {
        let warning = Warning::of_entry(WarningKind::Broken, error.place(), label, error.problem());
        self.config.warnings.push(warning);
    }

    /// Whether the user has an invalid entry of this name, which may have disabled the server.
    fn is_blocked(&self, name: &ServerName) -> bool {
        let is_own = |warning: &&Warning| Some(&warning.place.file) == self.own_file.as_ref();
        let broken = self.config.warnings.iter().filter(|warning| warning.kind == WarningKind::Broken);
        broken.filter(is_own).any(|warning| warning.is_about(name))
    }

    /// Applies an entry of the user to a server of a project. It may only disable and narrow: the acceptance covers
    /// what was shown, not what the entry would add.
    fn restrict(&mut self, entry: Entry) {
        let Entry { name, label, source, draft } = &entry;
        let waiting = self.proposals.iter_mut().map(|proposal| &mut proposal.server);
        let server = self.config.servers.get_mut(name).or_else(|| waiting.into_iter().find(|it| it.name == *name));
        let Some(server) = server else { return self.set_aside_leftover(entry) };
        // Restrictions apply even if the entry has other keys, which are refused.
        *server = draft.clone().restrict(server.clone());
        if draft.without_restrictions() == Draft::default() {
            return;
        }
        let reason = "a project file defines this server, so this entry may only disable it or narrow its filters";
        self.config.warnings.push(Warning::of_entry(WarningKind::Broken, source.place.clone(), label, reason));
    }

    /// Warns about an entry without a transport that matches no server.
    fn set_aside_leftover(&mut self, entry: Entry) {
        let label = entry.label.clone();
        let Err(error) = entry.finish() else { return };
        let mut reason = error.problem();
        if !self.config.settings.imports.value.is_empty() {
            reason.push_str("; no imported file defines a server of this name");
        }
        self.config.warnings.push(Warning::of_entry(WarningKind::Broken, error.place(), &label, reason));
    }

    /// Adds the project file. An invalid file is not used, with a warning; the configuration of the user is unaffected.
    fn add_project(&mut self, project: &Project, sources: &Sources<'_>) {
        self.files.push(project.file.clone());
        let mut contents = match project.read() {
            Ok(contents) => contents,
            Err(error) => return self.config.warnings.push(project::broken(&error)),
        };
        self.config.warnings.append(&mut contents.warnings);
        self.config.settings.policy.project = std::mem::take(&mut contents.settings.policy.project);
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
            Some(known) if !entry.draft.has_transport() => *known = restrict(entry, known.clone())?,
            _ => self.propose(entry.finish()?, sources),
        }
        Ok(())
    }

    /// Adds a server of a project: it is used if the user accepted exactly this server, else it becomes a proposal.
    fn propose(&mut self, server: ServerConfig, sources: &Sources<'_>) {
        if let Some(known) = self.config.servers.get(&server.name) {
            self.config.warnings.push(shadowed(&server, known));
            return;
        }
        if self.is_blocked(&server.name) {
            return;
        }
        if self.proposals.iter().any(|other| other.server.name == server.name) {
            return;
        }
        let label = server.label.clone();
        let server = match server.with_held_files(sources.environment) {
            Ok(server) => server,
            Err(error) => return self.set_aside(&label, &error),
        };
        match Proposal::of(&server, sources.accepted) {
            Some(proposal) => self.proposals.push(proposal),
            None => {
                let server = self.trusted_by_folder(server, sources.paths.home.as_deref());
                self.config.servers.insert(server.name.clone(), server);
            }
        }
    }

    /// An accepted server of a project, with the trust of the folder that it is in.
    fn trusted_by_folder(&self, mut server: ServerConfig, home: Option<&Path>) -> ServerConfig {
        let folders = &self.config.settings.policy.trusted_folders.value;
        server.trust_lists.folder = trust::of_project(folders, &server.source, home);
        server
    }
}

/// Applies an entry of a project file to a server of the user: it may only disable it and narrow its filters.
fn restrict(entry: Entry, known: ServerConfig) -> Result<ServerConfig, ConfigError> {
    if entry.draft.without_restrictions() != Draft::default() {
        let problem = format!(
            "`mcpServers.{}` is a server of the user: a project file may only disable it and narrow its filters",
            entry.label
        );
        return Err(ConfigError::Refused { place: entry.source.place, problem });
    }
    Ok(entry.draft.restrict(known))
}

fn shadowed(server: &ServerConfig, known: &ServerConfig) -> Warning {
    let reason = format!("{} already defines a server of this name", known.source.place);
    Warning::of_entry(WarningKind::Shadowed, server.source.place.clone(), &server.label, reason)
}
