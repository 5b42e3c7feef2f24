//! Which server a command means: one on the command line, or one by name.

use std::{collections::BTreeMap, ffi::OsStr};

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{Config, Endpoint, Environment, NoKeychain, Secret, ServerConfig, server::Standing};
use toolway_host::connection::{Program, ServerAddress};
use url::Url;

use crate::{app::App, output::Output, report::Report, similar};

/// A server, and what must not be shown of it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its name in the configuration, if it has one.
    pub(crate) name: Option<String>,
    pub(crate) address: ServerAddress,
    pub(crate) secrets: Vec<Secret>,
}

/// A server and one of its things.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) target: Target,
    /// The name as the server spells it.
    pub(crate) name: String,
}

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

    /// The server and the thing that `<server>.<thing>` or `<server>__<thing>` means, or only `<thing>` where an
    /// option names the server.
    pub(crate) fn selected(&self, selector: &str, output: &mut Output) -> Result<Selected, Report> {
        if let Some(target) = self.target_by_option(output)? {
            return Ok(Selected { target, name: selector.to_owned() });
        }
        let config = self.config_for(split(selector).map(|(server, _)| server), output)?;
        let Some((server, name)) = split(selector) else {
            let message = format!("`{selector}` names no server; say `<server>.{selector}`.");
            return Err(known_servers(Report::usage("unknown_server", message), &config));
        };
        Ok(Selected { target: self.named(&config, server)?, name: name.to_owned() })
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
            (None, Some(url), None) => Target::http(url, &reach.header).map(Some),
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
        Ok(Target { name: None, address: ServerAddress::Process(program), secrets })
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
        let Some(server) = config.find(name) else {
            let report = Report::usage("unknown_server", format!("There is no server `{name}`."));
            let names = config.servers.keys().map(|known| known.as_str());
            let report = match similar::to(name, names) {
                Some(near) => report.hint(format!("Did you mean `{near}`?")),
                None => report,
            };
            return Err(known_servers(report, config));
        };
        if server.standing == Standing::Disabled {
            let message = format!("`{}` is disabled in {}.", server.name, server.source.place);
            return Err(Report::usage("disabled", message));
        }
        Target::configured(server, server.endpoint(&self.environment, &NoKeychain)?)
    }
}

impl Target {
    fn http(url: &Secret, headers: &[Secret]) -> Result<Self, Report> {
        let mut pairs = Vec::new();
        for header in headers {
            let (name, value) = header
                .expose()
                .split_once(':')
                .ok_or_else(|| Report::usage("arguments", "--header needs the form `Name: value`."))?;
            pairs.push((name.trim().to_owned(), Secret::new(value.trim())));
        }
        Self::address(None, url, &pairs)
    }

    fn configured(server: &ServerConfig, endpoint: Endpoint) -> Result<Self, Report> {
        let name = Some(server.name.to_string());
        let (command, arguments, variables, directory) = match endpoint {
            Endpoint::Http { url, headers, .. } => return Self::address(name, &url, &headers),
            Endpoint::Process { command, arguments, variables, directory } => {
                (command, arguments, variables, directory)
            }
        };
        let program = Program {
            command,
            arguments: arguments.iter().map(|argument| argument.expose().to_owned()).collect(),
            directory,
            variables: variables
                .iter()
                .map(|(name, value)| (name.into(), value.expose().into()))
                .collect::<BTreeMap<_, _>>(),
        };
        let secrets = variables.into_iter().map(|(_, value)| value).collect();
        Ok(Self { name, address: ServerAddress::Process(program), secrets })
    }

    fn address(name: Option<String>, url: &Secret, headers: &[(String, Secret)]) -> Result<Self, Report> {
        let parsed = Url::parse(url.expose()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = parsed.ok_or_else(|| Report::usage("arguments", "--url needs an http or https address."))?;
        let mut map = HeaderMap::new();
        let mut secrets: Vec<Secret> = url.password().map(Secret::new).into_iter().collect();
        secrets.extend(url.query_pairs().map(|(_, value)| Secret::new(value)));
        for (header, value) in headers {
            let bad = || Report::usage("arguments", format!("`{header}` is no header that can be sent."));
            let header_name: HeaderName = header.parse().map_err(|_| bad())?;
            let mut text = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
            text.set_sensitive(true);
            map.append(header_name, text);
            let bare = value.expose().rsplit(' ').next().unwrap_or_default();
            secrets.extend([value.clone(), Secret::new(bare)]);
        }
        Ok(Self { name, address: ServerAddress::Http { url, headers: map }, secrets })
    }
}

/// `<server>.<thing>` or `<server>__<thing>`, whichever comes first: no server's name has either in it.
pub(crate) fn split(selector: &str) -> Option<(&str, &str)> {
    let dot = selector.find('.').map(|at| (at, 1));
    let bars = selector.find("__").map(|at| (at, 2));
    let (at, length) = dot.into_iter().chain(bars).min()?;
    let (server, thing) = (&selector[..at], &selector[at + length..]);
    (!server.is_empty() && !thing.is_empty()).then_some((server, thing))
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
