//! Which server a command means: one on the command line, or one by name.

use std::ffi::OsStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{
    Config, Environment, Prefix, Secret, ServerConfig, ServerName, Settings,
    server::{Need, Standing, Timeouts, Transport, auth::Auth},
};
use toolway_host::{
    catalog::{Listing, Origin},
    connection::{Program, ServerAddress, WantedServer, Way},
};
use url::Url;

use crate::{app::App, loading, output::Output, report::Report, similar, unused::Unused, wiring};

/// A server, and what must not be shown of it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The server as it is wanted.
    pub(crate) server: WantedServer,
    /// Its entry, if it has one.
    pub(crate) entry: Option<ServerConfig>,
    /// What holds for all servers.
    pub(crate) settings: Settings,
    /// What is masked where the wire is shown.
    pub(crate) secrets: Vec<Secret>,
}

/// A server and one of its things.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) target: Target,
    /// The name as the server spells it.
    pub(crate) name: String,
    /// The whole word, which may be a public name.
    pub(crate) word: String,
}

/// What a server is called that has no entry.
const ONE_OFF: &str = "server";

impl App {
    /// The server of a command whose first word names it unless an option does; the word is taken away.
    pub(crate) fn target(&self, words: &mut Vec<String>, output: &mut Output) -> Result<Target, Report> {
        if let Some(target) = self.target_by_option(output)? {
            return Ok(target);
        }
        let config = self.config_for(words.first().map(String::as_str), output)?;
        if words.is_empty() {
            return Err(no_server(&config));
        }
        self.named(&config, &words.remove(0))
    }

    /// The servers of a command that takes any number of them: those that are named, or the one an option gives, or
    /// all there are.
    pub(crate) fn targets(&self, names: &[String], output: &mut Output) -> Result<Vec<Target>, Report> {
        if let Some(target) = self.target_by_option(output)? {
            return match names {
                [] => Ok(vec![target]),
                _ => Err(Report::usage("arguments", "The server is given twice.")),
            };
        }
        let config = self.config_for(names.iter().map(String::as_str), output)?;
        if config.servers.is_empty() {
            return Err(no_server(&config));
        }
        if names.is_empty() {
            return Ok(config.servers.values().map(|server| self.configured(&config, server)).collect());
        }
        names.iter().map(|name| entry(&config, name).map(|entry| self.configured(&config, entry))).collect()
    }

    /// The servers a command looks at, and where it looks at all: what else stands in the files and is not used.
    pub(crate) fn looked_at(
        &self,
        names: &[String],
        output: &mut Output,
    ) -> Result<(Vec<Target>, Vec<Unused>), Report> {
        if !names.is_empty() || !self.reach.names_no_server() {
            return Ok((self.targets(names, output)?, Vec::new()));
        }
        let loaded = self.load()?;
        loading::say_odd_but_gaps(&loaded, output);
        let mut unused = Unused::waiting(&loaded);
        unused.extend(Unused::set_aside(&loaded));
        let config = &loaded.config;
        if config.servers.is_empty() && unused.is_empty() {
            return Err(no_server(config));
        }
        Ok((config.servers.values().map(|server| self.configured(config, server)).collect(), unused))
    }

    /// The server and the thing that `<server>.<thing>` or `<server>__<thing>` means, or only `<thing>` where an
    /// option names the server.
    pub(crate) fn selected(&self, selector: &str, output: &mut Output) -> Result<Selected, Report> {
        let word = selector.to_owned();
        if let Some(target) = self.target_by_option(output)? {
            return Ok(Selected { target, name: word.clone(), word });
        }
        let config = self.config_for(split(selector).map(|(server, _)| server), output)?;
        let Some((server, name)) = split(selector) else {
            return Ok(Selected { target: self.owner(&config, selector)?, name: word.clone(), word });
        };
        Ok(Selected { target: self.named(&config, server)?, name: name.to_owned(), word })
    }

    /// The one server that listed something of this name, where names carry no server's.
    fn owner(&self, config: &Config, name: &str) -> Result<Target, Report> {
        let has = |entry: &&ServerConfig| {
            let listing = wiring::recalled(&self.paths, config, entry);
            let tool = |listing: &Listing| listing.tools.iter().any(|tool| tool.item.name == name);
            let prompt = |listing: &Listing| listing.prompts.iter().any(|prompt| prompt.item.name == name);
            listing.is_some_and(|listing| tool(&listing) || prompt(&listing))
        };
        let owners: Vec<&ServerConfig> =
            config.servers.values().filter(|entry| entry.is_enabled()).filter(has).collect();
        match owners.as_slice() {
            [owner] if config.settings.prefix.value != Prefix::Always => Ok(self.configured(config, owner)),
            [] if config.find(name).is_some() => {
                let message = format!("`{name}` is a server; which of its tools? Say `{name}.<tool>`.");
                let hint = format!("`toolway tools {name}` lists what it has.");
                Err(Report::usage("unknown_tool", message).hint(hint))
            }
            [] => {
                let message = format!("`{name}` names no server; say `<server>.{name}`.");
                Err(known_servers(Report::usage("unknown_server", message), config))
            }
            owners => {
                let message = format!("`{name}` names no server.");
                let whole: Vec<String> = owners.iter().map(|owner| format!("`{}.{name}`", owner.name)).collect();
                Err(Report::usage("unknown_server", message).hint(format!("Did you mean {}?", whole.join(" or "))))
            }
        }
    }

    fn target_by_option(&self, output: &mut Output) -> Result<Option<Target>, Report> {
        let reach = &self.reach;
        let goes_with = |option: &str, other: &str, own: &str| {
            Report::usage("arguments", format!("{option} goes with {other}; a named server has its own {own}."))
        };
        match (&reach.stdio, &reach.url, &reach.by_name) {
            (_, None, _) if !reach.header.is_empty() => Err(goes_with("--header", "--url", "headers")),
            (None, ..) if !reach.env.is_empty() => Err(goes_with("--env", "--stdio", "`env`")),
            (None, ..) if reach.cwd.is_some() => Err(goes_with("--cwd", "--stdio", "`cwd`")),
            (None, None, None) => Ok(None),
            (Some(command), None, None) => self.process(command).map(Some),
            (None, Some(url), None) => self.address(url).map(Some),
            (None, None, Some(name)) => self.named(&self.config_for([name.as_str()], output)?, name).map(Some),
            _ => Err(Report::usage("arguments", "Give one server: --stdio, --url or a name.")),
        }
    }

    /// The program of `--stdio`, with the variables of `--env` in the folder of `--cwd`.
    fn process(&self, command: &Secret) -> Result<Target, Report> {
        let mut words = shlex::split(command.expose()).unwrap_or_default().into_iter();
        let Some(program) = words.next() else {
            return Err(Report::usage("arguments", "--stdio needs a command; a quote may not be closed."));
        };
        let variables = self.variables()?;
        let secrets = variables.values().map(|value| Secret::new(value.to_string_lossy())).collect();
        // As it is from here: where its era is remembered, the same word elsewhere is another folder.
        let directory = self.reach.cwd.as_deref().map(std::path::absolute).transpose();
        let directory = directory.map_err(|error| Report::usage("arguments", format!("--cwd: {error}.")))?;
        let program = Program { arguments: words.collect(), directory, variables, ..Program::new(program) };
        self.one_off(ServerAddress::Process(program), secrets)
    }

    /// `NAME=value`, or `NAME` for one of ours. What could be a key is not repeated in a message.
    fn variables(&self) -> Result<Environment, Report> {
        let mut variables = Environment::new();
        for given in &self.reach.env {
            let (name, value) = match given.expose().split_once('=') {
                Some((name, value)) => (name, Some(value.into())),
                None => (given.expose(), self.environment.get(OsStr::new(given.expose())).cloned()),
            };
            let wrong = |sentence: String| Report::usage("arguments", sentence);
            if name.is_empty() {
                return Err(wrong("--env needs the form `NAME=value` or `NAME`.".to_owned()));
            }
            let value = value.ok_or_else(|| wrong(format!("--env {name}: no such variable is set.")))?;
            variables.insert(name.into(), value);
        }
        Ok(variables)
    }

    fn named(&self, config: &Config, name: &str) -> Result<Target, Report> {
        let server = entry(config, name)?;
        if server.standing == Standing::Disabled {
            let message = format!("`{}` is disabled in {}.", server.name, server.source.place);
            return Err(Report::usage("disabled", message));
        }
        Ok(self.configured(config, server))
    }

    /// A server as its entry says. What is secret about it is only looked up to be masked.
    fn configured(&self, config: &Config, entry: &ServerConfig) -> Target {
        let endpoint = self.show.verbose.then(|| entry.endpoint(&self.environment, &*self.keychain()).ok()).flatten();
        Target {
            server: WantedServer::configured(config, entry),
            entry: Some(entry.clone()),
            settings: config.settings.clone(),
            secrets: endpoint.map(|endpoint| entry.secrets(&endpoint)).unwrap_or_default(),
        }
    }

    /// A server that no configuration knows, with the clocks of one that says nothing about time.
    fn one_off(&self, address: ServerAddress, secrets: Vec<Secret>) -> Result<Target, Report> {
        let settings = self.settings()?;
        let name = ServerName::from_label(ONE_OFF).map_err(|error| Report::usage("arguments", error.to_string()))?;
        let mut server = WantedServer::new(name, Way::Address(address));
        let clocks = Timeouts::default().clocks(settings.request_timeout.value);
        server.clocks.call = toolway_wire::exchange::Terms { idle: clocks.idle, total: Some(clocks.total) };
        "the command line".clone_into(&mut server.source);
        Ok(Target { server, entry: None, settings, secrets })
    }

    /// The address of `--url`, with the headers of `--header`.
    fn address(&self, url: &Secret) -> Result<Target, Report> {
        let parsed = Url::parse(url.expose()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = parsed.ok_or_else(|| Report::usage("arguments", "--url needs an http or https address."))?;
        let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
        for header in &self.reach.header {
            let wrong = || Report::usage("arguments", "--header needs the form `Name: value`.");
            let (name, value) = header.expose().split_once(':').ok_or_else(wrong)?;
            let (name, value) = (name.trim(), value.trim());
            let bad = || Report::usage("arguments", format!("`{name}` is no header that can be sent."));
            let mut text = HeaderValue::from_str(value).map_err(|_| bad())?;
            text.set_sensitive(true);
            headers.append(name.parse::<HeaderName>().map_err(|_| bad())?, text);
            secrets.extend(secrets_of_header(&Secret::new(value)));
        }
        secrets.extend(secrets_of_url(&url));
        self.one_off(ServerAddress::Http { url, headers }, secrets)
    }
}

impl Target {
    /// Something of this server, by the server's own name for it.
    pub(crate) fn origin(&self, raw_name: &str) -> Origin {
        Origin { server: self.server.name.clone(), raw_name: raw_name.to_owned() }
    }

    /// Whether somebody signs in to it once it asks for that; the refusal says how then.
    pub(crate) fn is_signed_in_to(&self) -> bool {
        self.server.credential().is_none() && self.entry.as_ref().is_some_and(signs_in)
    }

    /// What to do where the server wants a credential, or a better one.
    pub(crate) fn what_it_lacks(&self) -> String {
        match (self.server.credential(), &self.entry) {
            (Some(header), Some(entry)) => {
                let said_by = if entry.origins.contains_key("auth") { "auth" } else { "headers" };
                let place = entry.origins.get(said_by).unwrap_or(&entry.source.place);
                format!("What `{said_by}` of its entry sends in `{header}` is not, or no longer, accepted: {place}.")
            }
            (Some(header), None) => format!("What --header sends in `{header}` is not accepted."),
            (None, Some(entry)) => format!("Say in `auth` of its entry who asks ({}).", entry.source.place),
            (None, None) => "Give a token with --header 'Authorization: Bearer …'.".to_owned(),
        }
    }

    /// Whether it is a program that is started.
    pub(crate) fn is_program(&self) -> bool {
        match &self.server.way {
            Way::Configured(entry) => matches!(entry.transport, Transport::Process(_)),
            Way::Address(address) => matches!(address, ServerAddress::Process(_)),
            Way::InProcess(_) | Way::Custom(_) => false,
        }
    }

    /// Whether nothing goes on without it.
    pub(crate) fn is_required(&self) -> bool {
        self.server.need == Need::Required
    }

    /// Whether it may be used.
    pub(crate) fn is_enabled(&self) -> bool {
        self.server.standing == Standing::Enabled
    }
}

/// `Bearer <key>`: the key alone is one too.
fn secrets_of_header(value: &Secret) -> [Secret; 2] {
    [value.clone(), Secret::new(value.expose().rsplit(' ').next().unwrap_or_default())]
}

fn secrets_of_url(url: &Url) -> Vec<Secret> {
    let asked = url.query_pairs().map(|(_, value)| Secret::new(value));
    url.password().map(Secret::new).into_iter().chain(asked).collect()
}

/// `<server>.<thing>` or `<server>__<thing>`, whichever comes first: no server's name has either in it.
pub(crate) fn split(selector: &str) -> Option<(&str, &str)> {
    let dot = selector.find('.').map(|at| (at, 1));
    let bars = selector.find("__").map(|at| (at, 2));
    let (at, length) = dot.into_iter().chain(bars).min()?;
    let (server, thing) = (&selector[..at], &selector[at + length..]);
    (!server.is_empty() && !thing.is_empty()).then_some((server, thing))
}

/// Whether somebody signs in to a server once it asks for that.
fn signs_in(entry: &ServerConfig) -> bool {
    match &entry.transport {
        Transport::Http(http) => matches!(http.auth.as_deref(), None | Some(Auth::OAuth { .. })),
        Transport::Process(_) => false,
    }
}

/// The entry of this name.
pub(crate) fn entry<'a>(config: &'a Config, name: &str) -> Result<&'a ServerConfig, Report> {
    config.find(name).ok_or_else(|| {
        if let Some(gap) = loading::gap(config, name) {
            return loading::unusable(gap);
        }
        let report = Report::usage("unknown_server", format!("There is no server `{name}`."));
        let names = config.servers.keys().map(|known| known.as_str());
        let report = match similar::to(name, names) {
            Some(near) => report.hint(format!("Did you mean `{near}`?")),
            None => report,
        };
        known_servers(report, config)
    })
}

fn no_server(config: &Config) -> Report {
    known_servers(Report::usage("unknown_server", "Which server? Name one, or give --stdio or --url."), config)
}

fn known_servers(report: Report, config: &Config) -> Report {
    let names: Vec<&str> = config.servers.keys().map(|name| name.as_str()).collect();
    if names.is_empty() {
        return report
            .hint("No server is configured: put one under `mcpServers` in toolway.json, or give --stdio or --url.");
    }
    report.hint(format!("Configured: {}.", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_selector_splits_where_the_server_ends() {
        for (selector, parts) in [
            ("files.read", Some(("files", "read"))),
            ("files__read", Some(("files", "read"))),
            ("files.read__all", Some(("files", "read__all"))),
            ("files__read.all", Some(("files", "read.all"))),
            ("read", None),
            (".read", None),
            ("files.", None),
        ] {
            assert_eq!(split(selector), parts, "{selector}");
        }
    }
}
