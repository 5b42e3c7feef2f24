//! Converts an entry of another host to a Toolway entry, without the secrets.

use std::{ops::Range, path::Path};

use crate::{
    edit::NewValue,
    error::ConfigError,
    interpolate::{INPUTS, Piece, Reference, Template, input_entry},
    mask::{self, REFERENCE, Role, is_secret_default, secrets},
    server::{
        Era, Filters, Http, HttpKind, NameFilter, Offered, PlainHttp, Process, Reconnect, ServerConfig, Source, Start,
        Transport, auth::TextKind,
    },
};

/// An entry to write into a Toolway file.
#[derive(Clone, Debug, PartialEq)]
pub struct CopiedEntry {
    /// Key under `mcpServers`.
    pub label: String,
    /// Value of the entry.
    pub entry: NewValue,
    /// Secrets that were not copied.
    pub left_out: Vec<LeftOut>,
}

/// A secret that was replaced by a reference to a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Key of the secret in the original entry.
    pub key: String,
    /// Name of the variable to set.
    pub variable: String,
}

/// Converts a server to an entry for the user file, whose programs run in `home`. Values that look like secrets become
/// references to variables.
pub fn copy(server: &ServerConfig, home: Option<&Path>) -> Result<CopiedEntry, ConfigError> {
    let mut copier = Copier { server, home, members: Vec::new(), left_out: Vec::new() };
    match &server.transport {
        Transport::Process(process) => copier.process(process)?,
        Transport::Http(http) => copier.http(http)?,
    }
    copier.rest();
    let Copier { members, left_out, .. } = copier;
    Ok(CopiedEntry { label: server.label.clone(), entry: NewValue::Object(members), left_out })
}

struct Copier<'a> {
    server: &'a ServerConfig,
    home: Option<&'a Path>,
    members: Vec<(String, NewValue)>,
    left_out: Vec<LeftOut>,
}

impl Copier<'_> {
    fn process(&mut self, process: &Process) -> Result<(), ConfigError> {
        let command = self.text("command", &process.command, Role::Plain)?;
        self.put("command", NewValue::Text(command));
        let (mut arguments, mut before) = (Vec::new(), "");
        for argument in &process.arguments {
            arguments.push(NewValue::Text(self.text("args", argument, Role::Argument(before))?));
            before = argument.written().expose();
        }
        self.put_unless_empty("args", arguments);
        let variables = self.pairs("env", &process.variables, Role::Variable)?;
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
        let url = self.address(&http.url)?;
        self.put("url", NewValue::Text(url));
        let headers = self.pairs("headers", &http.headers, Role::Header)?;
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
            let role = if text_kind == TextKind::Secret { Role::Header(last(key)) } else { Role::Plain };
            let text = if text_kind == TextKind::File { self.path(key, text)? } else { self.text(key, text, role)? };
            values.push((key, NewValue::Text(text)));
        }
        for section in ["auth", "oauth"] {
            let of_section = values.iter().filter(|(key, _)| key.split('.').next() == Some(section));
            let members = of_section.map(|(key, value)| (last(key).to_owned(), value.clone()));
            self.put_pairs(section, members.collect());
        }
        Ok(())
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
        self.reconnect();
        if let Some(start) = server.start {
            self.put("lazy", NewValue::Flag(start == Start::WhenNeeded));
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

    fn pairs<'b>(
        &mut self,
        key: &str,
        pairs: &'b [(String, Template)],
        role: fn(&'b str) -> Role<'b>,
    ) -> Result<Vec<(String, NewValue)>, ConfigError> {
        let mut copied = Vec::new();
        for (name, text) in pairs {
            let text = self.text(&format!("{key}.{name}"), text, role(name))?;
            copied.push((name.clone(), NewValue::Text(text)));
        }
        Ok(copied)
    }

    /// A string in Toolway's syntax; each secret range becomes a variable.
    fn text(&mut self, key: &str, template: &Template, role: Role<'_>) -> Result<String, ConfigError> {
        let pieces = template.pieces();
        let joined = mask::joined(&pieces);
        let mut ranges = secrets(&joined, role);
        if matches!(role, Role::Variable(_)) && !ranges.is_empty() {
            let whole = 0..joined.len();
            ranges = vec![whole];
        }
        let left_out = ranges.into_iter().map(|range| {
            let variable = self.leave_out(key, named(&joined, &range, role));
            (range, format!("${{{variable}}}"))
        });
        let left_out: Vec<_> = left_out.collect();
        let (mut text, mut at) = (String::new(), 0);
        for piece in pieces {
            let (length, kept) = match &piece {
                Piece::Text(plain) => (plain.len(), None),
                Piece::Reference(reference) => (REFERENCE.len_utf8(), Some(self.reference(key, reference, template)?)),
            };
            put_without(&mut text, &joined, at..at + length, kept, &left_out);
            at += length;
        }
        Ok(text)
    }

    /// A reference in Toolway's syntax; a secret default is left out.
    fn reference(&mut self, key: &str, reference: &Reference, template: &Template) -> Result<String, ConfigError> {
        match reference {
            Reference::Variable { name, default: Some(default) } if is_secret_default(name, default) => {
                self.left_out.push(LeftOut { key: key.to_owned(), variable: name.clone() });
                Ok(format!("${{{name}}}"))
            }
            _ => in_own_syntax(reference, self.server).ok_or_else(|| self.unknown(key, template)),
        }
    }

    /// A URL; one with a key in its path or query is replaced as a whole.
    fn address(&mut self, template: &Template) -> Result<String, ConfigError> {
        let joined = mask::joined(&template.pieces());
        let is_key = |range: &Range<usize>| !joined[range.end..].starts_with('@');
        if mask::has_secret_part(template) || secrets(&joined, Role::Plain).iter().any(is_key) {
            return Ok(format!("${{{}}}", self.leave_out("url", Role::Header("url"))));
        }
        self.text("url", template, Role::Plain)
    }

    /// Chooses the variable that replaces a secret, and records it.
    fn leave_out(&mut self, key: &str, role: Role<'_>) -> String {
        let upper = |text: &str| {
            let upper = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
            text.chars().map(upper).collect::<String>()
        };
        let server = upper(self.server.name.as_str());
        let wanted = match role {
            Role::Variable(name) if crate::interpolate::is_name(name) => name.to_owned(),
            Role::Variable(name) | Role::Header(name) => format!("{server}_{}", upper(name)),
            Role::Argument(option) if option.starts_with('-') => {
                format!("{server}_{}", upper(option.trim_start_matches('-')))
            }
            Role::Argument(_) | Role::Plain => format!("{server}_SECRET"),
        };
        let wanted =
            if wanted.starts_with(|first: char| first.is_ascii_digit()) { format!("_{wanted}") } else { wanted };
        let variable = self.free(wanted);
        self.left_out.push(LeftOut { key: key.to_owned(), variable: variable.clone() });
        variable
    }

    /// The name, with a number appended if it is taken by another secret.
    fn free(&self, wanted: String) -> String {
        let is_free = |name: &String| self.left_out.iter().all(|left| left.variable != *name);
        let numbered = (2_usize..).map(|number| format!("{wanted}_{number}"));
        std::iter::once(wanted.clone()).chain(numbered).find(is_free).unwrap_or(wanted)
    }

    /// An absolute path.
    fn path(&mut self, key: &str, template: &Template) -> Result<String, ConfigError> {
        let text = self.text(key, template, Role::Plain)?;
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

/// Role that names a secret: from the key before it if there is one, else from the role of the text.
fn named<'a>(text: &'a str, range: &Range<usize>, role: Role<'a>) -> Role<'a> {
    if matches!(role, Role::Variable(_) | Role::Header(_)) {
        return role;
    }
    if text[range.end..].starts_with('@') {
        return Role::Header("password");
    }
    let key = text[..range.start].strip_suffix('=').and_then(|before| before.rsplit(['?', '&', ';', '#', ' ']).next());
    let key = key.map(|key| key.trim_start_matches('-')).filter(|key| !key.is_empty());
    key.map_or(role, Role::Header)
}

/// Appends a range of the text, or `kept` instead of it, with the left-out ranges replaced by their variables.
fn put_without(
    text: &mut String,
    joined: &str,
    stretch: Range<usize>,
    kept: Option<String>,
    left_out: &[(Range<usize>, String)],
) {
    let mut at = stretch.start;
    for (range, variable) in left_out.iter().filter(|(range, _)| range.start < stretch.end && stretch.start < range.end)
    {
        text.push_str(&escaped(&joined[at..range.start.max(at)]));
        if stretch.start <= range.start {
            text.push_str(variable);
        }
        at = range.end.min(stretch.end);
    }
    match kept {
        Some(kept) if at == stretch.start => text.push_str(&kept),
        Some(_) => {}
        None => text.push_str(&escaped(&joined[at..stretch.end])),
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
        Reference::Input(id) => {
            let entry = input_entry(&server.source.place.file, server.name.as_str(), id);
            Some(format!("${{keychain:{INPUTS}/{entry}}}"))
        }
        Reference::Home => Some("${HOME}".to_owned()),
        Reference::Folder => folder.as_deref().map(path_text),
        Reference::FolderName => folder.as_deref()?.file_name()?.to_str().map(str::to_owned),
        Reference::Separator => Some("/".to_owned()),
        Reference::Unknown(_) => None,
    }
}

/// Escapes a literal text.
fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
