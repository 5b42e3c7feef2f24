//! Converts an entry of another host to a Toolway entry. Its secrets are still in clear: `clear::detach` replaces them.

use std::{path::Path, time::Duration};

use crate::{
    FileAccess, Pattern,
    call_limits::CallLimit,
    clear::escaped,
    edit::NewValue,
    error::ConfigError,
    interpolate::{Piece, Reference, Template},
    secret::SecretName,
    server::{
        Era, Filters, Http, HttpKind, NameFilter, Offered, PlainHttp, Process, Reconnect, ServerConfig, Sharing,
        Source, Start, Transport, auth::TextKind,
    },
};

/// An entry to write into a Toolway file.
#[derive(Clone, Debug, PartialEq)]
pub struct CopiedEntry {
    /// Key under `mcpServers`.
    pub label: String,
    /// Value of the entry, with its secrets in clear.
    pub entry: NewValue,
}

/// Converts a server to an entry for the user file, whose programs run in `home`. The entry must not be written before its
/// secrets are replaced.
pub fn copy(server: &ServerConfig, home: Option<&Path>) -> Result<CopiedEntry, ConfigError> {
    let mut copier = Copier { server, home, members: Vec::new() };
    match &server.transport {
        Transport::Process(process) => copier.process(process)?,
        Transport::Http(http) => copier.http(http)?,
    }
    copier.rest();
    Ok(CopiedEntry { label: server.label.clone(), entry: NewValue::Object(copier.members) })
}

/// Name of the stored secret that has the value of an input in the copied entry.
pub fn input_secret(server: &ServerConfig, id: &str) -> SecretName {
    SecretName::derived(&[server.name.as_str(), id])
}

struct Copier<'a> {
    server: &'a ServerConfig,
    home: Option<&'a Path>,
    members: Vec<(String, NewValue)>,
}

impl Copier<'_> {
    fn process(&mut self, process: &Process) -> Result<(), ConfigError> {
        let command = self.text("command", &process.command)?;
        self.put("command", NewValue::Text(command));
        let arguments = process.arguments.iter().map(|argument| self.text("args", argument).map(NewValue::Text));
        let arguments = arguments.collect::<Result<_, _>>()?;
        self.put_unless_empty("args", arguments);
        let variables = self.pairs("env", &process.variables)?;
        self.put_pairs("env", variables);
        if let Some(file) = &process.variables_file {
            let file = self.path("envFile", &file.path)?;
            self.put("envFile", NewValue::Text(file));
        }
        match (&process.directory, &self.server.source.folder) {
            (Some(directory), _) => {
                let directory = self.path("cwd", directory)?;
                self.put("cwd", NewValue::Text(directory));
            }
            (None, Some(folder)) if self.home != Some(folder) => {
                self.put("cwd", NewValue::Text(path_text(folder)));
            }
            _ => {}
        }
        Ok(())
    }

    fn http(&mut self, http: &Http) -> Result<(), ConfigError> {
        let url = self.text("url", &http.url)?;
        self.put("url", NewValue::Text(url));
        let headers = self.pairs("headers", &http.headers)?;
        self.put_pairs("headers", headers);
        match http.kind {
            HttpKind::Auto => {}
            HttpKind::Http => self.put("type", NewValue::Text("http".to_owned())),
            HttpKind::Sse => self.put("type", NewValue::Text("sse".to_owned())),
        }
        if http.plain == PlainHttp::Anywhere {
            self.put("allowInsecureHttp", NewValue::Flag(true));
        }
        self.sign_in(http)
    }

    /// Adds `auth` and `oauth`.
    fn sign_in(&mut self, http: &Http) -> Result<(), ConfigError> {
        let facts = http.auth.iter().flat_map(|auth| auth.facts()).chain(http.oauth.facts());
        let mut values: Vec<(&str, NewValue)> = facts.filter_map(|(key, value)| Some((key, fact(&value)?))).collect();
        for (key, text_kind, text) in http.sign_in_texts() {
            let text = if text_kind == TextKind::File { self.path(key, text)? } else { self.text(key, text)? };
            values.push((key, NewValue::Text(text)));
        }
        for section in ["auth", "oauth"] {
            let of_section = values.iter().filter(|(key, _)| key.split('.').next() == Some(section));
            let members = of_section.map(|(key, value)| (last(key).to_owned(), value.clone()));
            self.put_pairs(section, members.collect());
        }
        Ok(())
    }

    /// Adds what the entry says of sampling, if it does not forbid it.
    fn sampling(&mut self) {
        let set = &self.server.sampling;
        let Some(allow) = set.allow.filter(|_| !set.is_forbidden()) else { return };
        let counts = [("maxTokens", set.max_tokens), ("requestsPerHour", set.requests_per_hour)];
        let counts = counts.into_iter().filter_map(|(key, count)| Some((key, NewValue::Number(f64::from(count?)))));
        let allow = ("allow", NewValue::Text(allow.as_str().to_owned()));
        let members = [allow].into_iter().chain(counts).map(|(key, value)| (key.to_owned(), value));
        self.put("sampling", NewValue::Object(members.collect()));
    }

    /// Adds the limits of the entry.
    fn limits(&mut self) {
        fn object(limit: &CallLimit) -> Vec<(String, NewValue)> {
            let members = limit.values().into_iter();
            members.filter_map(|(key, value)| Some((key.to_owned(), NewValue::Number(value.as_f64()?)))).collect()
        }
        let limits = &self.server.limits;
        if limits.is_empty() {
            return;
        }
        let tools = limits.tools.iter().map(|tool| (tool.written.clone(), NewValue::Object(object(&tool.limit))));
        let tools = (!limits.tools.is_empty()).then(|| ("tools".to_owned(), NewValue::Object(tools.collect())));
        let members = object(&limits.all).into_iter().chain(tools).collect();
        self.put("limits", NewValue::Object(members));
    }

    /// Adds what the entry says of tasks.
    fn tasks(&mut self) {
        let set = self.server.tasks;
        let seconds = |time: Duration| NewValue::Number(time.as_secs_f64());
        let members = [
            ("background", set.background.map(NewValue::Flag)),
            ("ttl", set.ttl.map(seconds)),
            ("pollInterval", set.poll_interval.map(seconds)),
        ];
        let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let members: Vec<_> = members.collect();
        self.put_pairs("tasks", members);
    }

    fn rest(&mut self) {
        let server = self.server;
        if !server.is_enabled() {
            self.put("enabled", NewValue::Flag(false));
        }
        if server.need == crate::server::Need::Required {
            self.put("required", NewValue::Flag(true));
        }
        match server.era {
            Era::Auto => {}
            Era::Legacy => self.put("era", NewValue::Text("legacy".to_owned())),
            Era::Modern => self.put("era", NewValue::Text("modern".to_owned())),
        }
        let times =
            [("connect", server.timeouts.connect), ("idle", server.timeouts.idle), ("total", server.timeouts.total)];
        let times =
            times.into_iter().filter_map(|(key, time)| Some((key.to_owned(), NewValue::Number(time?.as_secs_f64()))));
        let times: Vec<_> = times.collect();
        if !times.is_empty() {
            self.put("timeouts", NewValue::Object(times));
        }
        self.names("includeTools", "excludeTools", &server.filters.tool_names);
        self.names("includePrompts", "excludePrompts", &server.filters.prompt_names);
        let Filters { tools, resources, prompts, .. } = &server.filters;
        let is_off = |offered: &Offered| *offered == Offered::No;
        for (key, off) in [
            ("tools", is_off(tools)),
            ("resources", is_off(resources)),
            ("prompts", is_off(prompts)),
            ("sampling", server.withheld.sampling),
            ("elicitation", server.withheld.elicitation),
        ] {
            if off {
                self.put(key, NewValue::Flag(false));
            }
        }
        self.sampling();
        self.tasks();
        self.reconnect();
        if let Some(start) = server.start {
            self.put("lazy", NewValue::Flag(start == Start::WhenNeeded));
        }
        if let Some(time) = server.idle_stop {
            self.put("idleStop", NewValue::Number(time.as_secs_f64()));
        }
        match server.sharing {
            Sharing::Caller => {}
            Sharing::Shared => self.put("sharing", NewValue::Text("shared".to_owned())),
            Sharing::Session => self.put("sharing", NewValue::Text("session".to_owned())),
        }
        if let Some(replicas) = server.replicas {
            self.put("replicas", NewValue::Text(replicas.as_str().to_owned()));
        }
        if let Some(sessions) = server.sessions {
            self.put("sessions", NewValue::Text(sessions.as_str().to_owned()));
        }
        self.put_unless_empty("extraMethods", server.extra_methods.iter().cloned().map(NewValue::Text).collect());
        if let Some(trust) = server.trust {
            self.put("trust", NewValue::Text(trust.as_str().to_owned()));
        }
        let texts = |patterns: &[Pattern]| patterns.iter().map(|it| NewValue::Text(it.as_str().to_owned())).collect();
        self.put_unless_empty("trustedTools", texts(&server.trust_lists.trusted_tools));
        self.put_unless_empty("requireConfirmation", texts(&server.trust_lists.require_confirmation));
        if server.trust_lists.file_access == FileAccess::RootsOnly {
            self.put("allowFileAccess", NewValue::Flag(false));
        }
        self.limits();
        if server.auto_context {
            self.put("autoContext", NewValue::Flag(true));
        }
        if let Some(description) = &server.description {
            self.put("description", NewValue::Text(description.clone()));
        }
    }

    fn names(&mut self, included: &str, excluded: &str, filter: &NameFilter) {
        let texts = |names: &[String]| names.iter().map(|name| NewValue::Text(name.clone())).collect::<Vec<_>>();
        if let Some(include) = &filter.include {
            self.put(included, NewValue::List(texts(include)));
        }
        self.put_unless_empty(excluded, texts(&filter.exclude));
    }

    fn reconnect(&mut self) {
        let Reconnect { attempts, initial_delay, max_delay } = self.server.reconnect;
        let members = [
            ("attempts", attempts.map(f64::from)),
            ("initialDelay", initial_delay.map(|time| time.as_secs_f64())),
            ("maxDelay", max_delay.map(|time| time.as_secs_f64())),
        ];
        let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), NewValue::Number(value?))));
        let members: Vec<_> = members.collect();
        self.put_pairs("reconnect", members);
    }

    fn pairs(&self, key: &str, pairs: &[(String, Template)]) -> Result<Vec<(String, NewValue)>, ConfigError> {
        let pair = |(name, text): &(String, Template)| {
            let text = self.text(&format!("{key}.{name}"), text)?;
            Ok((name.clone(), NewValue::Text(text)))
        };
        pairs.iter().map(pair).collect()
    }

    /// A string in Toolway's syntax.
    fn text(&self, key: &str, template: &Template) -> Result<String, ConfigError> {
        let piece = |piece: &Piece| match piece {
            Piece::Text(plain) => Ok(escaped(plain)),
            Piece::Reference(reference) => {
                in_own_syntax(reference, self.server).ok_or_else(|| self.unknown(key, template))
            }
        };
        template.pieces().iter().map(piece).collect()
    }

    /// An absolute path.
    fn path(&self, key: &str, template: &Template) -> Result<String, ConfigError> {
        let text = self.text(key, template)?;
        let anchored = text.starts_with(['/', '~']) || text.starts_with("${");
        Ok(if anchored { text } else { path_text(&self.server.source.base.join(text)) })
    }

    fn put(&mut self, key: &str, value: NewValue) {
        self.members.push((key.to_owned(), value));
    }

    fn put_unless_empty(&mut self, key: &str, list: Vec<NewValue>) {
        if !list.is_empty() {
            self.put(key, NewValue::List(list));
        }
    }

    fn put_pairs(&mut self, key: &str, pairs: Vec<(String, NewValue)>) {
        if !pairs.is_empty() {
            self.put(key, NewValue::Object(pairs));
        }
    }

    fn unknown(&self, key: &str, template: &Template) -> ConfigError {
        ConfigError::Refused {
            place: self.server.source.place.at(template.line()),
            problem: format!("`{}.{key}` has an unknown placeholder", self.server.label),
        }
    }
}

/// The last part of a key.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Converts a value that is not a string with references.
fn fact(value: &serde_json::Value) -> Option<NewValue> {
    match value {
        serde_json::Value::Bool(flag) => Some(NewValue::Flag(*flag)),
        serde_json::Value::Number(number) => number.as_f64().map(NewValue::Number),
        serde_json::Value::String(text) => Some(NewValue::Text(text.clone())),
        serde_json::Value::Array(list) => Some(NewValue::List(list.iter().filter_map(fact).collect())),
        _ => None,
    }
}

/// A reference in Toolway's syntax; `None` if it is unknown.
fn in_own_syntax(reference: &Reference, server: &ServerConfig) -> Option<String> {
    let Source { folder, base, .. } = &server.source;
    match reference {
        Reference::Variable { name, default: None } => Some(format!("${{{name}}}")),
        Reference::Variable { name, default: Some(default) } => {
            let default = default.iter().map(|piece| match piece {
                Piece::Text(text) => Some(escaped(text)),
                Piece::Reference(reference) => in_own_syntax(reference, server),
            });
            Some(format!("${{{name}:-{}}}", default.collect::<Option<String>>()?))
        }
        Reference::File(path) if path.starts_with(['/', '~']) => Some(format!("${{file:{path}}}")),
        Reference::File(path) => Some(format!("${{file:{}}}", path_text(&base.join(path)))),
        Reference::Keychain { service, entry } => Some(format!("${{keychain:{service}/{entry}}}")),
        Reference::Secret(name) => Some(name.reference()),
        Reference::Input(id) => Some(input_secret(server, id).reference()),
        Reference::Home => Some("${HOME}".to_owned()),
        Reference::Folder => folder.as_deref().map(path_text),
        Reference::FolderName => folder.as_deref()?.file_name()?.to_str().map(str::to_owned),
        Reference::Separator => Some("/".to_owned()),
        Reference::Unknown(_) => None,
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
