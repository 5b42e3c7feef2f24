//! The server of `--stdio` or `--url`: one more server beside those of the configuration, with its settings and its policy.
//!
//! `target` selects it as the only server of a command; `run` and `chat` add it to the configured ones.

use std::ffi::OsStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{Config, Environment, Secret, ServerName, Settings, is_insecure_http_url, server::Timeouts};
use toolway_host::connection::{Program, ServerAddress, WantedServer, Way, installer::INSTALL};
use toolway_wire::exchange::ExchangeTimeouts;
use url::Url;

use crate::{app::App, args::ReachArgs, report::Report};

/// A server without an entry in a file. It is trusted as one of the user's own file.
#[derive(Debug)]
pub(crate) struct AdHocServer {
    /// Definition for the host.
    pub(crate) server: WantedServer,
    /// Secrets to mask in printed messages.
    pub(crate) secrets: Vec<Secret>,
}

/// Name of a server without an entry, also in rules of policy.
pub(crate) const AD_HOC_NAME: &str = "server";

impl App {
    /// The server of `--stdio` or `--url` with these settings; `None` if neither is given.
    pub(crate) fn ad_hoc_server(&self, settings: &Settings) -> Result<Option<AdHocServer>, Report> {
        if !is_given(&self.reach)? {
            return Ok(None);
        }
        let (address, secrets) = match (&self.reach.stdio, &self.reach.url) {
            (Some(command), None) => self.process(command)?,
            (None, Some(url)) => self.address(url)?,
            _ => return Err(given_twice()),
        };
        let name =
            ServerName::from_label(AD_HOC_NAME).map_err(|error| Report::usage("arguments", error.to_string()))?;
        let mut server = WantedServer::new(name, Way::Address(address));
        if server.installer().is_some() {
            (server.connect, server.clocks.handshake) = (INSTALL, INSTALL);
        }
        let clocks = Timeouts::default().effective(settings.request_timeout.value);
        server.clocks.call = ExchangeTimeouts { idle: clocks.idle, total: Some(clocks.total) };
        "the command line".clone_into(&mut server.source);
        Ok(Some(AdHocServer { server, secrets }))
    }

    /// The server of `--stdio` or `--url` for a host that has the servers of `config` too. Its name must be free.
    pub(crate) fn additional_server(&self, config: &Config) -> Result<Option<WantedServer>, Report> {
        let Some(AdHocServer { server, .. }) = self.ad_hoc_server(&config.settings)? else { return Ok(None) };
        match config.servers.get(&server.name) {
            None => Ok(Some(server)),
            Some(known) => {
                let message = format!(
                    "the server of --stdio or --url is named `{AD_HOC_NAME}`, and so is the one in {}",
                    known.source.place
                );
                Err(Report::usage("arguments", message).hint("leave that one out with --servers, or rename it"))
            }
        }
    }

    /// The program of `--stdio`, with `--env` and `--cwd`, and its secrets.
    fn process(&self, command: &Secret) -> Result<(ServerAddress, Vec<Secret>), Report> {
        let mut words = shlex::split(command.expose()).unwrap_or_default().into_iter();
        let Some(program) = words.next() else {
            return Err(Report::usage("arguments", "--stdio needs a command; check for an unclosed quote"));
        };
        let variables = self.variables()?;
        let secrets = variables.values().map(|value| Secret::new(value.to_string_lossy())).collect();
        // Absolute, because the era cache uses it as part of the key.
        let directory = self.reach.cwd.as_deref().map(std::path::absolute).transpose();
        let directory = directory.map_err(|error| Report::usage("arguments", format!("--cwd: {error}")))?;
        let program = Program { arguments: words.collect(), directory, variables, ..Program::new(program) };
        Ok((ServerAddress::Process(program), secrets))
    }

    /// `NAME=value`, or `NAME` to pass on our own variable. Values may be secrets and are not quoted in messages.
    fn variables(&self) -> Result<Environment, Report> {
        let mut variables = Environment::new();
        for given in &self.reach.env {
            let (name, value) = match given.expose().split_once('=') {
                Some((name, value)) => (name, Some(value.into())),
                None => (given.expose(), self.environment.get(OsStr::new(given.expose())).cloned()),
            };
            let wrong = |message: String| Report::usage("arguments", message);
            if name.is_empty() {
                return Err(wrong("--env needs the form `NAME=value` or `NAME`".to_owned()));
            }
            let value = value.ok_or_else(|| wrong(format!("--env {name}: the variable is not set")))?;
            variables.insert(name.into(), value);
        }
        Ok(variables)
    }

    /// The address of `--url`, with `--header`, and its secrets.
    fn address(&self, url: &Secret) -> Result<(ServerAddress, Vec<Secret>), Report> {
        let parsed = Url::parse(url.expose()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = parsed.ok_or_else(|| Report::usage("arguments", "--url needs an http or https URL"))?;
        if is_insecure_http_url(url.as_str()) && !self.reach.allow_insecure_http {
            let message = "--url needs an https URL, because http to another machine is not encrypted";
            return Err(Report::usage("arguments", message).hint("pass --allow-insecure-http to allow it"));
        }
        let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
        for header in &self.reach.header {
            let wrong = || Report::usage("arguments", "--header needs the form `Name: value`");
            let (name, value) = header.expose().split_once(':').ok_or_else(wrong)?;
            let (name, value) = (name.trim(), value.trim());
            let bad = || Report::usage("arguments", format!("--header: invalid header `{name}`"));
            let mut text = HeaderValue::from_str(value).map_err(|_| bad())?;
            text.set_sensitive(true);
            headers.append(name.parse::<HeaderName>().map_err(|_| bad())?, text);
            secrets.extend(secrets_of_header(&Secret::new(value)));
        }
        secrets.extend(secrets_of_url(&url));
        Ok((ServerAddress::Http { url, headers }, secrets))
    }
}

/// Whether `--stdio` or `--url` is given. Fails on options that do not go together.
pub(crate) fn is_given(reach: &ReachArgs) -> Result<bool, Report> {
    let goes_with = |option: &str, other: &str, own: &str| {
        Err(Report::usage("arguments", format!("{option} requires {other}; a configured server has its own {own}")))
    };
    match (&reach.stdio, &reach.url) {
        (_, None) if !reach.header.is_empty() => goes_with("--header", "--url", "headers"),
        (None, _) if !reach.env.is_empty() => goes_with("--env", "--stdio", "`env`"),
        (None, _) if reach.cwd.is_some() => goes_with("--cwd", "--stdio", "`cwd`"),
        (Some(_), Some(_)) => Err(given_twice()),
        (stdio, url) => Ok(stdio.is_some() || url.is_some()),
    }
}

/// Fails if a server is given besides one that is named.
pub(crate) fn refuse_with_name(reach: &ReachArgs) -> Result<(), Report> {
    if is_given(reach)? { Err(given_twice()) } else { Ok(()) }
}

fn given_twice() -> Report {
    Report::usage("arguments", "give only one server: --stdio, --url or a name")
}

/// The whole value, and the token alone for `Bearer <token>`.
fn secrets_of_header(value: &Secret) -> [Secret; 2] {
    [value.clone(), Secret::new(value.expose().rsplit(' ').next().unwrap_or_default())]
}

fn secrets_of_url(url: &Url) -> Vec<Secret> {
    let asked = url.query_pairs().map(|(_, value)| Secret::new(value));
    url.password().map(Secret::new).into_iter().chain(asked).collect()
}
