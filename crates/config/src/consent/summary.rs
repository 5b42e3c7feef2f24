//! Summary of a server for the user: what would be started or connected, line by line.

use std::{fmt, path::Path};

use super::{Difference, Digest};
use crate::{
    endpoint::GOOGLE_FILE,
    interpolate::{HeldFile, Piece, Reference, Template, Unresolved},
    mask,
    server::{
        Era, Filters, Http, HttpKind, Offered, PlainHttp, Process, ServerConfig, Sharing, Transport, VariablesFile,
        Withheld,
        auth::{Auth, Grant, TextKind},
    },
    visible,
};

/// What would be started or connected, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsentSummary {
    /// Lines in display order.
    pub lines: Vec<SummaryLine>,
}

/// One line, safe for a terminal. Commands and arguments are shown unmasked, since the user accepts exactly them; secrets
/// in variables and headers are masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryLine {
    /// Subject: `command`, `argument 2`, `variable KEY`, `header X`, `hands over variable TOKEN` …
    pub what: String,
    /// Text with secrets masked.
    pub text: String,
    /// Digest of the unmasked text, so that a change of a masked value is detected.
    pub fingerprint: String,
}

/// Role of a word of a command line.
#[derive(Clone, Copy)]
enum WordRole {
    Command,
    Argument,
}

/// Extensions of files that an interpreter runs.
const SCRIPTS: [&str; 17] =
    ["bash", "bat", "cjs", "cmd", "jar", "js", "jsx", "lua", "mjs", "php", "pl", "ps1", "py", "rb", "sh", "ts", "wasm"];

impl WordRole {
    fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Argument => "argument",
        }
    }
}

impl ConsentSummary {
    /// The summary of a server.
    pub fn of(server: &ServerConfig) -> Self {
        let mut shown = Self::default();
        match &server.transport {
            Transport::Process(process) => shown.process(process, server),
            Transport::Http(http) => {
                shown.add_visible("address", visible::address(&written(&http.url)), http.url.written().expose());
                for (name, value) in &http.headers {
                    let text = mask::header(name, value);
                    shown.add(&format!("header {name}"), &text, value.written().expose());
                }
                let kind = match http.kind {
                    HttpKind::Auto => "Streamable HTTP or HTTP+SSE",
                    HttpKind::Http => "Streamable HTTP",
                    HttpKind::Sse => "HTTP+SSE",
                };
                shown.add("transport", kind, kind);
                if http.plain == PlainHttp::Anywhere {
                    shown.add("protection", "none: plain http may leave this machine", "plain");
                }
                shown.sign_in(http);
            }
        }
        if server.era != Era::Auto {
            let era = if server.era == Era::Legacy { "legacy" } else { "modern" };
            shown.add("era", era, era);
        }
        shown.offers(server);
        shown.sends(server);
        shown
    }

    /// Adds the keys that give callers more than the tools of the server, or fewer of them. A key that is not set adds no
    /// line.
    fn offers(&mut self, server: &ServerConfig) {
        if !server.extra_methods.is_empty() {
            let methods = server.extra_methods.join(", ");
            self.add("clients may call", &methods, &server.extra_methods.join("\0"));
        }
        let sharing = match server.sharing {
            Sharing::Caller => None,
            Sharing::Shared => Some("one for all callers"),
            Sharing::Session => Some("one for each session"),
        };
        if let Some(sharing) = sharing {
            self.add("connections", sharing, sharing);
        }
        let Withheld { sampling, elicitation } = server.withheld;
        for (what, is_withheld) in [("sampling", sampling), ("elicitation", elicitation)] {
            if is_withheld {
                self.add(what, "not offered to the server", what);
            }
        }
        let Filters { tool_names, prompt_names, tools, resources, prompts } = &server.filters;
        for (what, names) in [("tools", tool_names), ("prompts", prompt_names)] {
            if let Some(include) = &names.include {
                self.add(&format!("only these {what}"), &include.join(", "), &include.join("\0"));
            }
            if !names.exclude.is_empty() {
                self.add(&format!("without these {what}"), &names.exclude.join(", "), &names.exclude.join("\0"));
            }
        }
        for (what, offered) in [("tools", tools), ("resources", resources), ("prompts", prompts)] {
            if *offered != Offered::default() {
                self.add(what, "not offered", what);
            }
        }
    }

    /// Adds the lines of `auth` and `oauth`.
    fn sign_in(&mut self, http: &Http) {
        let facts = http.auth.iter().flat_map(|auth| auth.facts()).chain(http.oauth.facts());
        for (key, value) in facts {
            let text = value.to_string();
            self.add(key, text.trim_matches('"'), &text);
        }
        for (key, text_kind, value) in http.sign_in_texts() {
            let text = if text_kind == TextKind::Secret { mask::variable(key, value) } else { written(value) };
            self.add(key, &text, value.written().expose());
        }
        if let Some(Auth::Grant { grant: Grant::Google { credentials, .. }, .. }) = http.auth.as_deref() {
            let whose = match credentials {
                Some(file) => written(file),
                None => format!("those of {GOOGLE_FILE}, of `gcloud` or of this machine"),
            };
            self.add("hands over Google credentials", &format!("a token for {whose}"), &whose);
        }
    }

    fn process(&mut self, process: &Process, server: &ServerConfig) {
        let command = visible::ascii(&written(&process.command));
        self.add_visible("command", command, process.command.written().expose());
        for (index, argument) in process.arguments.iter().enumerate() {
            self.add(&format!("argument {}", index + 1), &written(argument), argument.written().expose());
        }
        self.programs(process, server);
        let folder = server.source.folder.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default();
        match &process.directory {
            Some(directory) => {
                let base = server.source.base.display();
                let exact = format!("{base}\0{folder}\0{}", directory.written().expose());
                self.add("directory", &format!("{} (from {base})", written(directory)), &exact);
            }
            None => self.add("directory", &folder, &folder),
        }
        for (name, value) in &process.variables {
            self.add(&format!("variable {name}"), &mask::variable(name, value), value.written().expose());
        }
        if let Some(file) = &process.variables_file {
            self.variables_file(file);
        }
    }

    /// Adds the names of the variables in an `envFile`, not their values, which are usually secret.
    fn variables_file(&mut self, file: &VariablesFile) {
        let mut text = written(&file.path);
        if let Some(outside) = file.snapshot.as_ref().and_then(|snapshot| snapshot.outside.as_ref()) {
            text.push_str(&format!(", which is outside of the project: {}", outside.display()));
        }
        if let Some(Err(problem)) = file.snapshot.as_ref().map(|snapshot| &snapshot.variables) {
            text.push_str(&format!(", which cannot be used: {problem}"));
        }
        self.add("variables of file", &text, file.path.written().expose());
        let snapshot = file.snapshot.iter().filter_map(|snapshot| snapshot.variables.as_ref().ok());
        for (name, value) in snapshot.flatten() {
            self.add(&format!("variable {name} of the file"), mask::MASK, value.expose());
        }
    }

    /// Adds every variable, file, keychain entry and stored secret that the server would get.
    fn sends(&mut self, server: &ServerConfig) {
        let mut sent: Vec<(String, String)> = Vec::new();
        for (key, template) in server.transport.texts() {
            for reference in template.references() {
                let what = match &reference {
                    Reference::Variable { name, .. } => format!("variable {name}"),
                    Reference::File(path) => format!("file {path}"),
                    Reference::Keychain { service, entry } => format!("keychain entry {service}/{entry}"),
                    Reference::Secret(name) => format!("secret {name}"),
                    Reference::Input(id) => format!("input {id}"),
                    _ => continue,
                };
                if sent.contains(&(what.clone(), key.clone())) {
                    continue;
                }
                let held = match &reference {
                    Reference::File(path) => template.held_file(path),
                    _ => None,
                };
                let (text, exact) = match held {
                    Some(file) => handed_over_file(&key, file),
                    None => (format!("in `{key}`"), key.clone()),
                };
                self.add(&format!("hands over {what}"), &text, &exact);
                sent.push((what, key.clone()));
            }
        }
    }

    /// Names the project files that would run although their content is not part of the digest.
    fn programs(&mut self, process: &Process, server: &ServerConfig) {
        let words = [(WordRole::Command, &process.command)];
        let words = words.into_iter().chain(process.arguments.iter().map(|argument| (WordRole::Argument, argument)));
        for (role, word) in words.filter(|(role, word)| names_project_file(*role, word, server)) {
            let text = "not covered: a later change of this file of the project is used without asking again";
            let what = format!("content of {}", written(word));
            if self.lines.iter().all(|line| line.what != visible::name(&what)) {
                self.add(&what, text, role.as_str());
            }
        }
    }

    fn add(&mut self, what: &str, text: &str, exact: &str) {
        self.add_visible(what, visible::name(text), exact);
    }

    /// Adds a line whose text is safe for a terminal.
    fn add_visible(&mut self, what: &str, text: String, exact: &str) {
        let fingerprint = Digest::of(exact.as_bytes()).to_string();
        self.lines.push(SummaryLine { what: visible::name(what), text, fingerprint });
    }

    /// Digest of all lines, with length prefixes so that different summaries have different input.
    pub(crate) fn digest(&self) -> Digest {
        let mut bytes = b"toolway consent 1".to_vec();
        for text in self.lines.iter().flat_map(|line| [&line.what, &line.text, &line.fingerprint]) {
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        Digest::of(&bytes)
    }

    /// The lines that differ in `now`.
    pub(crate) fn differences(&self, now: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for line in &self.lines {
            match now.lines.iter().find(|other| other.what == line.what) {
                Some(other) if other.fingerprint == line.fingerprint && other.text == line.text => {}
                other => differences.push(Difference {
                    what: line.what.clone(),
                    before: Some(line.text.clone()),
                    now: other.map(|other| changed(line, other)),
                }),
            }
        }
        for line in now.lines.iter().filter(|line| !self.lines.iter().any(|other| other.what == line.what)) {
            differences.push(Difference { what: line.what.clone(), before: None, now: Some(line.text.clone()) });
        }
        differences
    }
}

/// The line of a file that the server would get, and the text of its digest, which includes the content.
fn handed_over_file(key: &str, file: &HeldFile) -> (String, String) {
    let mut text = format!("in `{key}`");
    let real = file.real.as_ref().map(|real| real.display().to_string()).unwrap_or_default();
    if file.is_outside {
        text.push_str(&format!(", which is outside of the project: {real}"));
    }
    let content = match &file.content {
        Ok(content) => content.expose().to_owned(),
        Err(reason) => {
            // Without the path, which is shown already.
            let problem = match reason {
                Unresolved::File { problem, .. } => problem.clone(),
                other => format!("it {other}"),
            };
            text.push_str(&format!(", which cannot be used: {problem}"));
            String::new()
        }
    };
    (text, format!("{key}\0{real}\0{content}"))
}

/// Whether a word of a command line names a file of the project. Decided by its text: a file that appears later must not
/// change the digest.
fn names_project_file(role: WordRole, word: &Template, server: &ServerConfig) -> bool {
    if let Some(Piece::Reference(Reference::Folder)) = word.pieces().first() {
        return true;
    }
    let (text, folder) = (word.written().expose(), server.source.folder.as_deref());
    if Path::new(text).is_absolute() {
        return folder.is_some_and(|folder| Path::new(text).starts_with(folder));
    }
    let extension = Path::new(text).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_script = !text.starts_with('-') && SCRIPTS.contains(&extension.to_ascii_lowercase().as_str());
    match role {
        WordRole::Command => text.contains('/') && !text.starts_with("~/"),
        WordRole::Argument => text.starts_with("./") || is_script && !text.contains("://") && !text.starts_with("~/"),
    }
}

/// The new text; says so if only the masked value changed.
fn changed(before: &SummaryLine, now: &SummaryLine) -> String {
    if before.text == now.text { format!("{} (another value)", now.text) } else { now.text.clone() }
}

impl fmt::Display for ConsentSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{}: {}", line.what, line.text))
    }
}

/// A string with its references as written.
fn written(template: &Template) -> String {
    template.written().expose().to_owned()
}
