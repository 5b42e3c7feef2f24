//! Loads the configuration of a command: defaults < user < project < environment < flags. Of a project's servers only the
//! accepted ones are used.

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use toolway_config::{
    Config, ConfigError, Environment, Loaded, Paths, ServerName, Sources,
    consent::{Accepted, Proposal},
    layers::Flags,
    load,
    load::ProjectStart,
    project::{self, Search},
    warning::{Warning, WarningKind},
};
use toolway_host::{host::ChangedConfig, private_file::user};

use crate::{app::App, output::Output, report::Report, watched_config::WatchedConfig};

/// Number of configuration warnings that other commands than `config` print.
const SHOWN: usize = 5;

impl App {
    /// Loads all layers without prompting or printing.
    pub(crate) fn load(&self) -> Result<Loaded, Report> {
        Ok(self.try_load()?)
    }

    /// Like [`Self::load`], with the error as a value.
    pub(crate) fn try_load(&self) -> Result<Loaded, ConfigError> {
        load_with(&self.environment, &self.paths, self.reach.config.as_ref(), self.reach.flags())
    }

    /// Loads the configuration for a process that goes on, and prints as [`Self::config`] does. Later readings fail on
    /// anything that `config check` reports as an error.
    pub(crate) fn watched_config(&self, output: &mut Output) -> Result<WatchedConfig, Report> {
        let loaded = self.load()?;
        print_warnings(&loaded, output);
        print_unaccepted(&loaded.proposals, output);
        let environment = self.environment.clone();
        let paths = self.paths.clone();
        let named = self.reach.config.clone();
        let flags = self.reach.flags();
        let read = move || {
            let loaded = load_with(&environment, &paths, named.as_ref(), flags).map_err(|error| error.to_string())?;
            let broken = loaded.config.warnings.iter().filter(|warning| warning.kind == WarningKind::Broken);
            let broken: Vec<String> = broken.map(ToString::to_string).collect();
            if broken.is_empty() { Ok(loaded) } else { Err(broken.join("; ")) }
        };
        Ok(WatchedConfig::new(loaded, Box::new(read)))
    }

    /// Returns the configuration of this command each time that its files have changed.
    pub(crate) fn changed_config(&self) -> Result<Arc<ChangedConfig>, Report> {
        let loaded = self.load()?;
        let environment = self.environment.clone();
        let paths = self.paths.clone();
        let reach = self.reach.clone();
        let read = move || {
            let loaded = load_with(&environment, &paths, reach.config.as_ref(), reach.flags());
            loaded.map_err(|error| error.to_string())
        };
        let watched = WatchedConfig::new(loaded, Box::new(read));
        let known = Mutex::new(watched.current());
        Ok(Arc::new(move || {
            let now = watched.current();
            let before = std::mem::replace(&mut *known.lock(), Arc::clone(&now));
            (!Arc::ptr_eq(&before, &now)).then(|| now.config.clone())
        }))
    }

    /// The usable configuration. Prints warnings and the names of servers that are not accepted.
    pub(crate) fn config(&self, output: &mut Output) -> Result<Config, Report> {
        let loaded = self.load()?;
        print_warnings(&loaded, output);
        print_unaccepted(&loaded.proposals, output);
        Ok(loaded.config)
    }

    /// The usable configuration for a command about the servers `wanted`, or about all if it is empty. Asks the user to accept
    /// a named server that is not accepted; fails if the terminal is not interactive.
    pub(crate) fn config_for<'a>(
        &self,
        wanted: impl IntoIterator<Item = &'a str>,
        output: &mut Output,
    ) -> Result<Config, Report> {
        let mut wanted = wanted.into_iter().peekable();
        if wanted.peek().is_none() {
            return self.config(output);
        }
        let loaded = self.load()?;
        print_warnings(&loaded, output);
        let mut config = loaded.config.clone();
        for proposal in wanted.filter_map(|wanted| proposal_of(&loaded, wanted)) {
            let server = self.consent(proposal, output)?;
            config.servers.insert(server.name.clone(), server);
        }
        Ok(config)
    }

    /// The configuration of a command whose server is given by `--stdio` or `--url`. Prints warnings; proposals of the
    /// project do not concern it.
    pub(crate) fn config_of_options(&self, output: &mut Output) -> Result<Config, Report> {
        let loaded = self.load()?;
        print_warnings(&loaded, output);
        Ok(loaded.config)
    }

    /// The file that stores accepted servers; `None` without a state directory.
    pub(crate) fn acceptance_file(&self) -> Option<PathBuf> {
        acceptance_file(&self.paths)
    }

    /// The project of the current directory.
    pub(crate) fn project(&self) -> Result<Search, Report> {
        let directory =
            current_folder().ok_or_else(|| Report::usage("config", "the current directory does not exist"))?;
        Ok(project::search(&directory, self.paths.home.as_deref(), user()))
    }
}

/// The project server of this name that is not accepted, if there is one.
pub(crate) fn proposal_of<'a>(loaded: &'a Loaded, wanted: &str) -> Option<&'a Proposal> {
    let name = ServerName::from_label(wanted).ok()?;
    loaded.proposals.iter().find(|proposal| proposal.server.name == name)
}

/// The warning about an unusable entry of this name, if there is one.
pub(crate) fn gap<'a>(config: &'a Config, wanted: &str) -> Option<&'a Warning> {
    let name = ServerName::from_label(wanted).ok()?;
    config.warnings.iter().find(|warning| warning.is_exclusion() && warning.is_about(&name))
}

/// The failure of a command that names an unusable entry.
pub(crate) fn unusable(gap: &Warning) -> Report {
    Report::usage("config", gap.to_string()).hint("fix this entry; the other servers are not affected")
}

/// Loads the configuration for shell completion; empty if it is invalid.
pub(crate) fn load_quietly(environment: &Environment, named: Option<&PathBuf>) -> Loaded {
    load_with(environment, &Paths::of(environment), named, Flags::default()).unwrap_or_default()
}

fn load_with(
    environment: &Environment,
    paths: &Paths,
    named: Option<&PathBuf>,
    flags: Flags,
) -> Result<Loaded, ConfigError> {
    let directory = current_folder();
    let project = directory.as_deref().map(|directory| ProjectStart { directory, user: user() });
    // An unreadable file counts as nothing accepted; accepting a server reports the error.
    let accepted = acceptance_file(paths).and_then(|file| Accepted::read(&file).ok()).unwrap_or_default();
    load(&Sources { environment, paths, named: named.map(PathBuf::as_path), project, flags, accepted: &accepted })
}

fn acceptance_file(paths: &Paths) -> Option<PathBuf> {
    paths.state.as_ref().map(|folder| folder.join("accepted.json"))
}

fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// Prints the most important warnings. `config check` prints all.
fn print_warnings(loaded: &Loaded, output: &mut Output) {
    let is_theirs = |warning: &Warning| !loaded.files.contains(&warning.place.file);
    let is_news = |warning: &&Warning| warning.kind != WarningKind::IgnoredKey || !is_theirs(warning);
    let mut warnings: Vec<&Warning> = loaded.config.warnings.iter().filter(is_news).collect();
    // Unusable entries first.
    warnings.sort_by_key(|warning| !warning.is_exclusion());
    for warning in warnings.iter().take(SHOWN) {
        output.notice(&format!("toolway: {warning}"));
    }
    if SHOWN < warnings.len() {
        output.notice(&format!(
            "toolway: {} more warnings; run `toolway config check` to see all",
            warnings.len() - SHOWN
        ));
    }
}

/// Like [`print_warnings`], for a command that lists unusable entries itself.
pub(crate) fn print_warnings_except_gaps(loaded: &Loaded, output: &mut Output) {
    let mut rest = loaded.clone();
    rest.config.warnings.retain(|warning| !warning.is_exclusion());
    print_warnings(&rest, output);
}

fn print_unaccepted(proposals: &[Proposal], output: &mut Output) {
    let names: Vec<&str> = proposals.iter().map(|proposal| proposal.server.name.as_str()).collect();
    if let Some(first) = names.first() {
        output.notice(&format!(
            "toolway: servers of the project are ignored until you accept them: {}; review one with `toolway servers \
             accept {first}`",
            names.join(", ")
        ));
    }
}
