//! Selects the server of a command: from `--stdio` or `--url`, or by name from the configuration.

use toolway_config::{
    Config, Environment, Prefix, Secret, ServerConfig, ServerName, Settings,
    server::{Need, Standing, Transport, auth::Auth},
};
use toolway_host::{
    catalog::{ItemKind, Listing, Origin},
    connection::{ServerAddress, WantedServer, Way},
    host::Host,
};

use crate::{
    ad_hoc_server::{self, AdHocServer},
    app::App,
    installed_package, listing_cache, loading,
    output::Output,
    report::Report,
    suggestion,
    unused::Unused,
};

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
    /// Without any prefix it is the first one.
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
            [first, ..] if config.settings.prefix.value == Prefix::Never => Ok(self.configured(config, first)),
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

    /// The server of `--stdio`, `--url` or `--server`, with the settings of the configuration; `None` without such an option.
    fn target_by_option(&self, output: &mut Output) -> Result<Option<Target>, Report> {
        if let Some(name) = &self.reach.by_name {
            ad_hoc_server::refuse_with_name(&self.reach)?;
            return self.named(&self.config_for([name.as_str()], output)?, name).map(Some);
        }
        if !ad_hoc_server::is_given(&self.reach)? {
            return Ok(None);
        }
        let settings = self.config_of_options(output)?.settings;
        let Some(AdHocServer { server, secrets }) = self.ad_hoc_server(&settings)? else { return Ok(None) };
        Ok(Some(Target { server, entry: None, settings, secrets }))
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
        let resolve = || entry.endpoint_with_secrets(&self.environment, &*self.keychain(&config.settings)).ok();
        let resolved = self.show.verbose.then(resolve).flatten();
        Target {
            server: WantedServer::configured(config, entry),
            entry: Some(entry.clone()),
            settings: config.settings.clone(),
            secrets: resolved.map(|resolved| resolved.secrets).unwrap_or_default(),
        }
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

    /// What is said while the server may be installing; `None` if its command is the server itself, or if it was listed
    /// before or is in the cache of its installer.
    pub(crate) fn install_note(&self, host: &Host, environment: &Environment) -> Option<String> {
        let installer = self.server.installer()?;
        let is_known = host.catalog().freshness_of(&self.server.name).is_some();
        if is_known || installed_package::is_installed(&self.server, environment) {
            return None;
        }
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
