//! The configuration of a command: defaults < user < project < environment < flags, and of a project's servers only
//! those that a person has accepted.

use std::path::PathBuf;

use toolway_config::{
    Config, ConfigError, Environment, Loaded, Paths, ServerName, Settings, Sources,
    consent::{Accepted, Proposal},
    layers::Flags,
    load,
    load::ProjectFrom,
    project::{self, Search},
    warning::{Warning, WarningKind},
};
use toolway_host::private_file::user;

use crate::{
    app::App,
    output::Output,
    report::{Report, sentence},
};

/// Warnings that a command shows which is not about the configuration.
const SHOWN: usize = 5;

impl App {
    /// Everything, put together. Nothing is asked and nothing is said.
    pub(crate) fn load(&self) -> Result<Loaded, Report> {
        Ok(self.try_load()?)
    }

    /// The same, for whoever looks into what is wrong.
    pub(crate) fn try_load(&self) -> Result<Loaded, ConfigError> {
        load_with(&self.environment, &self.paths, self.reach.config.as_ref(), self.reach.flags())
    }

    /// Reads everything again, whenever it is asked to; what `config check` finds fault with is refused.
    pub(crate) fn reload(&self) -> impl Fn() -> Result<Config, String> + Send + Sync + use<> {
        let (environment, paths, named) = (self.environment.clone(), self.paths.clone(), self.reach.config.clone());
        let limit = self.reach.timeout;
        move || {
            let flags = Flags { request_timeout: limit, ..Flags::default() };
            let loaded = load_with(&environment, &paths, named.as_ref(), flags).map_err(|error| error.to_string())?;
            let broken = loaded.config.warnings.iter().filter(|warning| warning.kind == WarningKind::Broken);
            let broken: Vec<String> = broken.map(ToString::to_string).collect();
            if broken.is_empty() { Ok(loaded.config) } else { Err(broken.join("; ")) }
        }
    }

    /// What may be used. What is odd is said, and which servers of the project wait.
    pub(crate) fn config(&self, output: &mut Output) -> Result<Config, Report> {
        let loaded = self.load()?;
        say_odd(&loaded, output);
        say_waiting(&loaded.proposals, output);
        Ok(loaded.config)
    }

    /// What may be used by a command that is about these servers, or about all if there are none: for one that waits
    /// for a person the person is asked, and where nobody is there it is refused.
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
        say_odd(&loaded, output);
        let mut config = loaded.config.clone();
        for proposal in wanted.filter_map(|wanted| proposal_of(&loaded, wanted)) {
            let server = self.consent(proposal, output)?;
            config.servers.insert(server.name.clone(), server);
        }
        Ok(config)
    }

    /// What holds where no file is read.
    pub(crate) fn settings(&self) -> Result<Settings, Report> {
        let (paths, accepted) = (Paths::default(), Accepted::default());
        let sources = Sources {
            environment: &self.environment,
            paths: &paths,
            named: None,
            project: None,
            flags: Flags::default(),
            accepted: &accepted,
        };
        Ok(load(&sources)?.config.settings)
    }

    /// Where what was accepted is kept.
    pub(crate) fn ledger(&self) -> Option<PathBuf> {
        ledger(&self.paths)
    }

    /// The project that the current folder is in.
    pub(crate) fn project(&self) -> Result<Search, Report> {
        let directory = current_folder().ok_or_else(|| Report::usage("config", "The current folder is gone."))?;
        Ok(project::search(&directory, self.paths.home.as_deref(), user()))
    }
}

/// The server of a project that is meant and that waits for a person.
pub(crate) fn proposal_of<'a>(loaded: &'a Loaded, wanted: &str) -> Option<&'a Proposal> {
    let name = ServerName::from_label(wanted).ok()?;
    loaded.proposals.iter().find(|proposal| proposal.server.name == name)
}

/// Why an entry of this name is not used, if one stands there that is not.
pub(crate) fn gap<'a>(config: &'a Config, wanted: &str) -> Option<&'a Warning> {
    let name = ServerName::from_label(wanted).ok()?;
    config.warnings.iter().find(|warning| warning.is_a_gap() && warning.is_about(&name))
}

/// The failure of a command that names such an entry.
pub(crate) fn unusable(gap: &Warning) -> Report {
    Report::usage("config", sentence(&gap.to_string())).hint("The other servers can be used.")
}

/// Everything as completion sees it: what cannot be read is as good as empty.
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
    let project = directory.as_deref().map(|directory| ProjectFrom { directory, user: user() });
    // What cannot be read was not accepted; who accepts something is told.
    let accepted = ledger(paths).and_then(|file| Accepted::read(&file).ok()).unwrap_or_default();
    load(&Sources { environment, paths, named: named.map(PathBuf::as_path), project, flags, accepted: &accepted })
}

fn ledger(paths: &Paths) -> Option<PathBuf> {
    paths.state.as_ref().map(|folder| folder.join("accepted.json"))
}

fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// What is odd, as far as everybody has to know it. `config check` shows all.
fn say_odd(loaded: &Loaded, output: &mut Output) {
    let is_theirs = |warning: &Warning| !loaded.files.contains(&warning.place.file);
    let is_news = |warning: &&Warning| warning.kind != WarningKind::IgnoredKey || !is_theirs(warning);
    let mut warnings: Vec<&Warning> = loaded.config.warnings.iter().filter(is_news).collect();
    // What is missed comes first.
    warnings.sort_by_key(|warning| !warning.is_a_gap());
    for warning in warnings.iter().take(SHOWN) {
        output.say(&format!("toolway: {warning}"));
    }
    if SHOWN < warnings.len() {
        output.say(&format!("toolway: {} more of this kind: toolway config check", warnings.len() - SHOWN));
    }
}

/// The same, for a command that shows what is not used itself.
pub(crate) fn say_odd_but_gaps(loaded: &Loaded, output: &mut Output) {
    let mut rest = loaded.clone();
    rest.config.warnings.retain(|warning| !warning.is_a_gap());
    say_odd(&rest, output);
}

fn say_waiting(proposals: &[Proposal], output: &mut Output) {
    let names: Vec<&str> = proposals.iter().map(|proposal| proposal.server.name.as_str()).collect();
    if let Some(first) = names.first() {
        output.say(&format!(
            "toolway: not used until you accept it, since a project's file says so: {}. See it with `toolway servers \
             accept {first}`.",
            names.join(", ")
        ));
    }
}
