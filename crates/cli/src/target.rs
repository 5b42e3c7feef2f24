//! Selects the server of a command: from `--stdio` or `--url`, or by name from the configuration.

use std::ffi::OsStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{
    Config, Environment, Prefix, Secret, ServerConfig, ServerName, Settings, is_insecure_http_url,
    server::{Need, Standing, Timeouts, Transport, auth::Auth},
};
use toolway_host::{
    catalog::{ItemKind, Listing, Origin},
    connection::{Program, ServerAddress, WantedServer, Way, installer::INSTALL},
};
use url::Url;

use crate::{app::App, listing_cache, loading, output::Output, report::Report, suggestion, unused::Unused};

/// A selected server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Definition for the host.
    pub(crate) server: WantedServer,
    /// Its configuration entry; `None` for `--stdio` and `--url`.
    pub(crate) entry: Option<ServerConfig>,
    /// Settings of all servers.
    pub(crate) settings: Settings,
    /// Secrets to mask in printed messages.
    pub(crate) secrets: Vec<Secret>,
}

/// A server and one of its items.
#[derive(Clone, Debug)]
pub(crate) struct SelectedItem {
    pub(crate) target: Target,
    /// The server's own name for the item.
    pub(crate) name: String,
    /// The whole selector, which may be a public name.
    pub(crate) selector: String,
}

/// Name of a server without an entry.
const AD_HOC_NAME: &str = "server";

impl App {
    /// The server given by an option, else named by the first argument, which is removed.
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

    /// The servers of a command that takes several: the named ones, or the one given by an option, or all.
    pub(crate) fn targets(&self, names: &[String], output: &mut Output) -> Result<Vec<Target>, Report> {
        if let Some(target) = self.target_by_option(output)? {
            return match names {
                [] => Ok(vec![target]),
                _ => Err(Report::usage("arguments", "the server is given twice, as option and as argument")),
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

    /// The servers that a diagnostic command inspects. If it inspects all, also the configuration that is not used.
    pub(crate) fn targets_to_inspect(
        &self,
        names: &[String],
        output: &mut Output,
    ) -> Result<(Vec<Target>, Vec<Unused>), Report> {
        if !names.is_empty() || !self.reach.names_no_server() {
            return Ok((self.targets(names, output)?, Vec::new()));
        }
        let loaded = self.load()?;
        loading::print_warnings_except_gaps(&loaded, output);
        let mut unused = Unused::unaccepted(&loaded);
        unused.extend(Unused::set_aside(&loaded));
        let config = &loaded.config;
        if config.servers.is_empty() && unused.is_empty() {
            return Err(no_server(config));
        }
        Ok((config.servers.values().map(|server| self.configured(config, server)).collect(), unused))
    }

    /// Joins `<server> <item>` at the beginning of the arguments to `<server>.<item>`, so that a command accepts both.
    /// An argument such as `name=value` is not an item.
    pub(crate) fn join_address(&self, words: &mut Vec<String>) {
        let [server, item, ..] = words.as_slice() else { return };
        if !self.reach.names_no_server() || split(server).is_some() || !is_item(item) {
            return;
        }
        if let Some(name) = self.known_server(server) {
            words.splice(..2, [format!("{name}.{item}")]);
        }
    }

    /// Splits `<server>.<item>` or `<server>__<item>` at the beginning of the arguments into two, so that a command
    /// accepts both. Other words, such as a URI or the label of a server, stay as they are.
    pub(crate) fn split_address(&self, words: &mut Vec<String>) {
        let Some((server, item)) = words.first().and_then(|word| split(word)) else { return };
        if !self.reach.names_no_server() || self.known_server(&words[0]).is_some() {
            return;
        }
        if let Some(name) = self.known_server(server) {
            words.splice(..1, [name.to_string(), item.to_owned()]);
        }
    }

    /// The name of a server of the configuration, accepted or not.
    fn known_server(&self, word: &str) -> Option<ServerName> {
        let loaded = self.load().ok()?;
        let proposed = || loading::proposal_of(&loaded, word).map(|proposal| &proposal.server);
        loaded.config.find(word).or_else(proposed).map(|server| server.name.clone())
    }

    /// The server and the item that `<server>.<item>` or `<server>__<item>` means, or only `<item>` where an option
    /// names the server.
    pub(crate) fn select(&self, selector: &str, kind: ItemKind, output: &mut Output) -> Result<SelectedItem, Report> {
        let whole = selector.to_owned();
        if let Some(target) = self.target_by_option(output)? {
            return Ok(SelectedItem { target, name: whole.clone(), selector: whole });
        }
        let config = self.config_for(split(selector).map(|(server, _)| server), output)?;
        let Some((server, name)) = split(selector) else {
            let target = self.owner(&config, selector, kind)?;
            return Ok(SelectedItem { target, name: whole.clone(), selector: whole });
        };
        Ok(SelectedItem { target: self.named(&config, server)?, name: name.to_owned(), selector: whole })
    }

    /// The only server with an item of this name in its cached listing, if the naming policy allows names without a server.
    fn owner(&self, config: &Config, name: &str, kind: ItemKind) -> Result<Target, Report> {
        let has = |entry: &&ServerConfig| {
            let listing = listing_cache::lookup(&self.paths, config, entry);
            let tool = |listing: &Listing| listing.tools.iter().any(|tool| tool.item.name == name);
            let prompt = |listing: &Listing| listing.prompts.iter().any(|prompt| prompt.item.name == name);
            listing.is_some_and(|listing| tool(&listing) || prompt(&listing))
        };
        let owners: Vec<&ServerConfig> =
            config.servers.values().filter(|entry| entry.is_enabled()).filter(has).collect();
        match owners.as_slice() {
            [owner] if config.settings.prefix.value != Prefix::Always => Ok(self.configured(config, owner)),
            [] if config.find(name).is_some() => {
                let message = format!("`{name}` is a server, not a {kind}; use `{name}.<{kind}>` or `{name} <{kind}>`");
                let hint = format!("list its {kind}s with `toolway {kind}s {name}`");
                let code = if kind == ItemKind::Prompt { "unknown_prompt" } else { "unknown_tool" };
                Err(Report::usage(code, message).hint(hint))
            }
            [] => {
                let message = format!("`{name}` does not name a server; use `<server>.{name}`");
                Err(known_servers(Report::usage("unknown_server", message), config))
            }
            owners => {
                let whole: Vec<String> = owners.iter().map(|owner| format!("`{}.{name}`", owner.name)).collect();
                let message = format!("`{name}` does not name a server; did you mean {}?", whole.join(" or "));
                Err(Report::usage("unknown_server", message))
            }
        }
    }

    fn target_by_option(&self, output: &mut Output) -> Result<Option<Target>, Report> {
        let reach = &self.reach;
        let goes_with = |option: &str, other: &str, own: &str| {
            Report::usage("arguments", format!("{option} requires {other}; a configured server has its own {own}"))
        };
        match (&reach.stdio, &reach.url, &reach.by_name) {
            (_, None, _) if !reach.header.is_empty() => Err(goes_with("--header", "--url", "headers")),
            (None, ..) if !reach.env.is_empty() => Err(goes_with("--env", "--stdio", "`env`")),
            (None, ..) if reach.cwd.is_some() => Err(goes_with("--cwd", "--stdio", "`cwd`")),
            (None, None, None) => Ok(None),
            (Some(command), None, None) => self.process(command).map(Some),
            (None, Some(url), None) => self.address(url).map(Some),
            (None, None, Some(name)) => self.named(&self.config_for([name.as_str()], output)?, name).map(Some),
            _ => Err(Report::usage("arguments", "give only one server: --stdio, --url or a name")),
        }
    }

    /// The server of `--stdio`, with `--env` and `--cwd`.
    fn process(&self, command: &Secret) -> Result<Target, Report> {
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
        self.ad_hoc(ServerAddress::Process(program), secrets)
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

    fn named(&self, config: &Config, name: &str) -> Result<Target, Report> {
        let server = entry(config, name)?;
        if server.standing == Standing::Disabled {
            let message = format!("server `{}` is disabled in {}", server.name, server.source.place);
            return Err(Report::usage("disabled", message));
        }
        Ok(self.configured(config, server))
    }

    /// A configured server. Its secrets are only resolved to mask them with `--verbose`.
    fn configured(&self, config: &Config, entry: &ServerConfig) -> Target {
        let endpoint = self.show.verbose.then(|| entry.endpoint(&self.environment, &*self.keychain()).ok()).flatten();
        Target {
            server: WantedServer::configured(config, entry),
            entry: Some(entry.clone()),
            settings: config.settings.clone(),
            secrets: endpoint.map(|endpoint| entry.secrets(&endpoint)).unwrap_or_default(),
        }
    }

    /// A server without an entry, with the default timeouts.
    fn ad_hoc(&self, address: ServerAddress, secrets: Vec<Secret>) -> Result<Target, Report> {
        let settings = self.settings()?;
        let name =
            ServerName::from_label(AD_HOC_NAME).map_err(|error| Report::usage("arguments", error.to_string()))?;
        let mut server = WantedServer::new(name, Way::Address(address));
        if server.installer().is_some() {
            (server.connect, server.clocks.handshake) = (INSTALL, INSTALL);
        }
        let clocks = Timeouts::default().effective(settings.request_timeout.value);
        server.clocks.call = toolway_wire::exchange::ExchangeTimeouts { idle: clocks.idle, total: Some(clocks.total) };
        "the command line".clone_into(&mut server.source);
        Ok(Target { server, entry: None, settings, secrets })
    }

    /// The server of `--url`, with `--header`.
    fn address(&self, url: &Secret) -> Result<Target, Report> {
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
        self.ad_hoc(ServerAddress::Http { url, headers }, secrets)
    }
}

impl Target {
    /// An item of this server, by the server's own name for it.
    pub(crate) fn origin(&self, raw_name: &str) -> Origin {
        Origin { server: self.server.name.clone(), raw_name: raw_name.to_owned() }
    }

    /// Whether it uses a sign-in on demand; its error then says how to sign in.
    pub(crate) fn uses_sign_in(&self) -> bool {
        self.server.credential().is_none() && self.entry.as_ref().is_some_and(signs_in)
    }

    /// What to do if the server requires or rejects a credential.
    pub(crate) fn credential_hint(&self) -> String {
        match (self.server.credential(), &self.entry) {
            (Some(header), Some(entry)) => {
                let key = if entry.origins.contains_key("auth") { "auth" } else { "headers" };
                let place = entry.origins.get(key).unwrap_or(&entry.source.place);
                format!("the server rejects the `{header}` header set by `{key}` in {place}; update it")
            }
            (Some(header), None) => format!("the server rejects the `{header}` header given with --header"),
            (None, Some(entry)) => format!("set `auth` in its entry ({})", entry.source.place),
            (None, None) => "pass a token with --header 'Authorization: Bearer …'".to_owned(),
        }
    }

    /// Whether it is a stdio server.
    pub(crate) fn is_program(&self) -> bool {
        match &self.server.way {
            Way::Configured(entry) => matches!(entry.transport, Transport::Process(_)),
            Way::Address(address) => matches!(address, ServerAddress::Process(_)),
            Way::InProcess(_) | Way::Custom(_) => false,
        }
    }

    /// What is said while the server may be installing; `None` if its command is the server itself.
    pub(crate) fn install_note(&self) -> Option<String> {
        let installer = self.server.installer()?;
        let minutes = self.server.connect.as_secs().div_ceil(60);
        Some(format!(
            "toolway: waiting for server `{}`: `{installer}` may install it on the first start; waiting up to {minutes} min, \
             Ctrl-C stops",
            self.server.label
        ))
    }

    /// Whether its entry makes it required.
    pub(crate) fn is_required(&self) -> bool {
        self.server.need == Need::Required
    }

    /// Whether it is enabled.
    pub(crate) fn is_enabled(&self) -> bool {
        self.server.standing == Standing::Enabled
    }
}

/// The whole value, and the token alone for `Bearer <token>`.
fn secrets_of_header(value: &Secret) -> [Secret; 2] {
    [value.clone(), Secret::new(value.expose().rsplit(' ').next().unwrap_or_default())]
}

fn secrets_of_url(url: &Url) -> Vec<Secret> {
    let asked = url.query_pairs().map(|(_, value)| Secret::new(value));
    url.password().map(Secret::new).into_iter().chain(asked).collect()
}

/// Splits `<server>.<item>` or `<server>__<item>` at the first separator; server names contain neither.
pub(crate) fn split(selector: &str) -> Option<(&str, &str)> {
    let dot = selector.find('.').map(|at| (at, 1));
    let bars = selector.find("__").map(|at| (at, 2));
    let (at, length) = dot.into_iter().chain(bars).min()?;
    let (server, thing) = (&selector[..at], &selector[at + length..]);
    (!server.is_empty() && !thing.is_empty()).then_some((server, thing))
}

/// Whether a word after the name of a server can name an item; `name=value`, `name:=json`, a JSON object and `-` are
/// arguments.
fn is_item(word: &str) -> bool {
    let name = word.split('(').next().unwrap_or_default();
    !word.starts_with(['{', '-']) && !name.contains('=')
}

/// Whether a server uses a sign-in on demand.
fn signs_in(entry: &ServerConfig) -> bool {
    match &entry.transport {
        Transport::Http(http) => matches!(http.auth.as_deref(), None | Some(Auth::OAuth { .. })),
        Transport::Process(_) => false,
    }
}

/// The entry of this name; an unknown name fails with a suggestion.
pub(crate) fn entry<'a>(config: &'a Config, name: &str) -> Result<&'a ServerConfig, Report> {
    config.find(name).ok_or_else(|| {
        if let Some(gap) = loading::gap(config, name) {
            return loading::unusable(gap);
        }
        let near = suggestion::did_you_mean(name, config.servers.keys().map(|known| known.as_str()));
        known_servers(Report::usage("unknown_server", format!("unknown server `{name}`{near}")), config)
    })
}

fn no_server(config: &Config) -> Report {
    let message = if config.servers.is_empty() {
        "no server is configured"
    } else {
        "no server given; name one, or use --stdio or --url"
    };
    known_servers(Report::usage("unknown_server", message), config)
}

fn known_servers(report: Report, config: &Config) -> Report {
    let names: Vec<&str> = config.servers.keys().map(|name| name.as_str()).collect();
    if names.is_empty() {
        return report.hint(
            "add a server with `toolway servers add`, copy those of another application with `toolway import`, or use \
             --stdio or --url",
        );
    }
    report.hint(format!("configured servers: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn selector_splits_after_the_server_name() {
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
