//! A server that a user pastes into the console: a snippet of JSON, a command line, or a URL.

use std::path::Path;

use serde_json::{Map, Value, json};
use toolway_config::{
    Config, ServerName, document::Document, edit::NewValue, interpolate::Reference, server::Transport,
};
use toolway_console::backend::{ParsedServer, Problem};
use url::Url;

/// Sections in which hosts keep their servers.
const SECTIONS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "context_servers"];
/// Programs that download what they run.
const INSTALLERS: [&str; 8] = ["npx", "npm", "pnpm", "bunx", "uvx", "uv", "pipx", "docker"];

/// A server as pasted.
#[derive(Debug)]
pub(crate) struct PastedServer {
    /// Key for the entry.
    pub(crate) label: String,
    pub(crate) name: ServerName,
    /// The entry as pasted, with its secrets in clear.
    pub(crate) entry: Value,
}

impl PastedServer {
    /// Reads the text. A given name replaces the one in the snippet.
    pub(crate) fn read(text: &str, name: Option<&str>) -> Result<Self, Problem> {
        let text = text.trim().trim_start_matches("$ ").trim();
        let (found, entry) = match text.chars().next() {
            None => return Err(Problem::new("paste a configuration snippet, a command or a URL")),
            Some('{' | '[' | '"') => snippet(text, name)?,
            Some(_) if text.starts_with("http://") || text.starts_with("https://") => url(text)?,
            Some(_) => command(text)?,
        };
        let label = name.map_or(found, str::to_owned);
        let invalid = |error: toolway_config::server::InvalidServerName| Problem::new(error.to_string());
        let name = ServerName::from_label(&label).map_err(invalid)?;
        Ok(Self { label, name, entry })
    }

    /// The entry to write, with its secrets in clear.
    pub(crate) fn new_entry(&self) -> Result<NewValue, Problem> {
        NewValue::of_json(&self.entry).ok_or_else(|| Problem::new("the entry contains `null`"))
    }

    /// The configuration with this server alone; fails if the entry is invalid.
    pub(crate) fn config(&self) -> Result<Config, Problem> {
        let text = json!({ "mcpServers": { &self.label: self.entry } }).to_string();
        let document = Document::of(Path::new("toolway.json"), &text);
        let config = document.and_then(|document| Config::of(&document, None));
        config.map_err(|error| Problem::new(format!("the entry is invalid: {error}")))
    }

    /// The stored secrets that the text itself refers to, one sentence each: its author chose the names.
    pub(crate) fn secrets_it_gets(&self) -> Result<Vec<String>, Problem> {
        let config = self.config()?;
        let texts = config.servers.values().flat_map(|server| server.transport.texts());
        let mut sentences = Vec::new();
        for reference in texts.flat_map(|(_, text)| text.references()) {
            let Reference::Secret(name) = reference else { continue };
            let sentence = format!("the server gets your stored secret `{name}`");
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        Ok(sentences)
    }

    /// What the user has to know before consenting.
    pub(crate) fn view(&self) -> Result<ParsedServer, Problem> {
        let config = self.config()?;
        let server = config.servers.get(&self.name).ok_or_else(|| Problem::new("the entry defines no server"))?;
        let text = |key: &str| self.entry[key].as_str().map(str::to_owned);
        let mut warnings: Vec<String> = config.warnings.iter().map(|warning| warning.message.clone()).collect();
        let (kind, runs) = match &server.transport {
            Transport::Process(_) => {
                let program = text("command").unwrap_or_default();
                if INSTALLERS.contains(&program.as_str()) {
                    warnings.push(format!("`{program}` may download a program from the internet and run it as you"));
                }
                ("stdio", Some(self.command_line(&program)))
            }
            Transport::Http(_) => ("http", None),
        };
        let url = text("url").or_else(|| text("httpUrl")).or_else(|| text("serverUrl")).filter(|_| kind == "http");
        if url.as_deref().is_some_and(toolway_config::is_insecure_http_url) {
            warnings.push("the connection is not encrypted".to_owned());
        }
        let (name, entry, environment) = (self.label.clone(), self.entry.clone(), self.environment());
        Ok(ParsedServer { name, entry, kind, runs, url, environment, warnings })
    }

    fn command_line(&self, program: &str) -> String {
        let arguments = self.entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = std::iter::once(program).chain(arguments).collect();
        shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
    }

    /// Variables that the entry sets or refers to.
    fn environment(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.entry["env"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let text = self.entry.to_string();
        for reference in text.split("${").skip(1) {
            let reference = reference.strip_prefix("env:").unwrap_or(reference);
            let name: String = reference.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let is_variable =
                matches!(reference.get(name.len()..), Some(rest) if rest.starts_with(['}']) || rest.starts_with(":-"));
            if is_variable && !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// The entry of a snippet, with or without what surrounds it.
fn snippet(text: &str, wanted: Option<&str>) -> Result<(String, Value), Problem> {
    let text = text.trim_end_matches(',');
    let whole = if text.starts_with('"') { format!("{{{text}}}") } else { text.to_owned() };
    let root: Value =
        serde_json::from_str(&whole).map_err(|error| Problem::new(format!("the snippet is not JSON: {error}")))?;
    let root = root.get("mcp").filter(|inner| inner.is_object()).cloned().unwrap_or(root);
    if is_entry(&root) {
        return Ok((derived(&root), root));
    }
    let section = SECTIONS.iter().find_map(|key| root.get(*key)).unwrap_or(&root);
    let no_entry = || Problem::new("the snippet has no server: an entry needs `command` or `url`");
    let entries: Vec<(&String, &Value)> =
        section.as_object().ok_or_else(no_entry)?.iter().filter(|(_, entry)| is_entry(entry)).collect();
    match *entries {
        [] => Err(no_entry()),
        [(label, entry)] => Ok((label.clone(), entry.clone())),
        _ => {
            let named = entries.iter().find(|(label, _)| Some(label.as_str()) == wanted);
            let names: Vec<&str> = entries.iter().map(|(label, _)| label.as_str()).collect();
            let several =
                || Problem::new(format!("the snippet has several servers; give the name of one: {}", names.join(", ")));
            named.map(|(label, entry)| ((*label).clone(), (*entry).clone())).ok_or_else(several)
        }
    }
}

fn is_entry(value: &Value) -> bool {
    ["command", "url", "httpUrl", "serverUrl"].iter().any(|key| value.get(*key).is_some_and(|value| !value.is_object()))
}

fn url(text: &str) -> Result<(String, Value), Problem> {
    let parsed = Url::parse(text).map_err(|error| Problem::new(format!("invalid URL: {error}")))?;
    if parsed.host_str().is_none() {
        return Err(Problem::new("invalid URL: it has no host"));
    }
    Ok((name_of_url(&parsed), json!({ "url": text })))
}

/// A command line, with variables before the program. No shell runs.
fn command(text: &str) -> Result<(String, Value), Problem> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    let words =
        words.ok_or_else(|| Problem::new("the command cannot be split into words; check for an unclosed quote"))?;
    let is_variable = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name).unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let variables: Map<String, Value> = words
        .iter()
        .take_while(is_variable)
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let mut words = words.iter().skip(variables.len());
    let program = words.next().ok_or_else(|| Problem::new("the command has no program"))?;
    let arguments: Vec<&String> = words.collect();
    let mut entry = json!({ "command": program });
    if !arguments.is_empty() {
        entry["args"] = json!(arguments);
    }
    if !variables.is_empty() {
        entry["env"] = variables.into();
    }
    Ok((derived(&entry), entry))
}

/// A name for an entry that has none.
fn derived(entry: &Value) -> String {
    let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry[*key].as_str());
    if let Some(url) = url.and_then(|url| Url::parse(url).ok()) {
        return name_of_url(&url);
    }
    let program = entry["command"].as_str().unwrap_or_default();
    let arguments = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let package = arguments
        .filter(|word| !word.starts_with('-') && !matches!(*word, "run" | "exec" | "x" | "tool"))
        .find(|word| INSTALLERS.contains(&program) && !word.contains('='));
    let whole = package.unwrap_or(program);
    let last = whole.trim_end_matches('/').rsplit('/').next().unwrap_or(whole);
    let plain = last.split('@').find(|part| !part.is_empty()).unwrap_or(last);
    let plain = plain.trim_start_matches("server-").trim_start_matches("mcp-server-").trim_start_matches("mcp-");
    let plain = plain.trim_end_matches("-mcp").trim_end_matches("-server");
    if plain.is_empty() { "server".to_owned() } else { plain.to_owned() }
}

/// The part of a host name that names its owner: `example` of `mcp.example.com`.
fn name_of_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or("server");
    if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') || host == "localhost" {
        return "local".to_owned();
    }
    let parts: Vec<&str> = host.split('.').collect();
    parts.len().checked_sub(2).and_then(|at| parts.get(at)).unwrap_or(&host).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::PastedServer;

    fn read(text: &str) -> (String, serde_json::Value) {
        let pasted = PastedServer::read(text, None).unwrap();
        pasted.config().unwrap();
        (pasted.label, pasted.entry)
    }

    #[test]
    fn snippets_of_every_shape_are_read() {
        let entry = json!({ "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"] });
        for snippet in [
            json!({ "mcpServers": { "memory": entry } }).to_string(),
            json!({ "servers": { "memory": entry } }).to_string(),
            json!({ "mcp": { "servers": { "memory": entry } } }).to_string(),
            json!({ "memory": entry }).to_string(),
            format!("\"memory\": {entry},"),
            entry.to_string(),
        ] {
            assert_eq!(read(&snippet), ("memory".to_owned(), entry.clone()), "{snippet}");
        }
    }

    #[test]
    fn commands_and_urls_get_a_name() {
        let (name, entry) = read("$ TOKEN=abc npx -y @scope/mcp-server-github@1.2.3 --read-only");
        assert_eq!(name, "github");
        assert_eq!(entry["env"]["TOKEN"], "abc");
        assert_eq!(entry["args"], json!(["-y", "@scope/mcp-server-github@1.2.3", "--read-only"]));
        assert_eq!(
            read("https://mcp.example.com/mcp"),
            ("example".to_owned(), json!({ "url": "https://mcp.example.com/mcp" }))
        );
        assert_eq!(read("http://127.0.0.1:9/mcp").0, "local");
        assert_eq!(read("/opt/tools/files-server --x").0, "files");
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{\"a\":{\"b\":1}}",
            "[1]",
            "http://",
            "run 'half",
            "A=b",
            "{\"mcpServers\":{\"a\":{\"command\":7}}}",
        ] {
            let read = PastedServer::read(text, None).and_then(|pasted| pasted.config().map(drop));
            assert!(read.is_err(), "{text}");
        }
        let two = json!({ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }).to_string();
        assert!(PastedServer::read(&two, None).unwrap_err().message.contains("a, b"));
        assert_eq!(PastedServer::read(&two, Some("b")).unwrap().entry["command"], "b");
    }

    #[test]
    fn user_sees_what_would_run() {
        let view = PastedServer::read("npx -y 'a b'", Some("x")).unwrap().view().unwrap();
        assert_eq!((view.kind, view.runs.as_deref()), ("stdio", Some("npx -y 'a b'")));
        assert!(view.warnings[0].contains("download"));
        let view =
            PastedServer::read("{\"url\":\"https://e.org/mcp\",\"headers\":{\"A\":\"${KEY}\"}}", None).unwrap().view();
        let view = view.unwrap();
        assert_eq!((view.kind, view.url.as_deref()), ("http", Some("https://e.org/mcp")));
        assert_eq!(view.environment, ["KEY"]);
    }
}
