//! A server that a user pastes into the console: a snippet of JSON, a command line, or a URL.

use std::path::Path;

use serde_json::{Map, Value, json};
use toolway_config::{
    Config, ConfigError, ServerName,
    document::Document,
    edit::NewValue,
    import::{CopiedEntry, copy, input_secret, is_installer, label_for, read_snippet},
    interpolate::Reference,
    server::Transport,
};
use toolway_console::backend::Problem;
use url::Url;

/// Keys with which a snippet of YAML begins.
const CONTAINERS: [&str; 6] = ["mcpServers", "mcp_servers", "servers", "mcp", "context_servers", "extensions"];

/// A server as pasted.
#[derive(Clone, Debug)]
pub(crate) struct PastedServer {
    /// Key for the entry.
    pub(crate) label: String,
    pub(crate) name: ServerName,
    /// The entry as pasted, with its secrets in clear.
    pub(crate) entry: Value,
    /// What was not understood or has no effect.
    pub(crate) warnings: Vec<String>,
}

/// What a user has to know of a server before consenting.
#[derive(Debug)]
pub(crate) struct ServerSummary {
    /// The command line that would run, for a program.
    pub(crate) runs: Option<String>,
    /// The URL that would be connected to, for a server over HTTP.
    pub(crate) url: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// An entry of Toolway's own format, made from the text.
struct Found {
    label: String,
    entry: Value,
    warnings: Vec<String>,
}

impl PastedServer {
    /// Reads the text. A given name replaces the one in the snippet.
    pub(crate) fn read(text: &str, name: Option<&str>) -> Result<Self, Problem> {
        let text = text.trim().trim_start_matches("$ ").trim();
        let found = match text {
            "" => return Err(Problem::new("paste a configuration snippet, a command or a URL")),
            _ if looks_like_snippet(text) => snippet(text, name)?,
            _ if looks_like_url(text) => url(text)?,
            _ => command(text)?,
        };
        let Found { label, entry, warnings } = found;
        let label = name.map_or(label, str::to_owned);
        let invalid = |error: toolway_config::server::InvalidServerName| Problem::new(error.to_string());
        let name = ServerName::from_label(&label).map_err(invalid)?;
        Ok(Self { label, name, entry, warnings })
    }

    /// The entry to write, with its secrets in clear.
    pub(crate) fn new_entry(&self) -> Result<NewValue, Problem> {
        NewValue::of_json(&self.entry).ok_or_else(|| Problem::new("the entry contains `null`"))
    }

    /// The configuration with this server alone; fails if the entry is invalid.
    pub(crate) fn config(&self) -> Result<Config, Problem> {
        self.checked().map_err(|error| Problem::new(format!("the entry is invalid: {error}")))
    }

    /// The configuration with this server alone.
    pub(crate) fn checked(&self) -> Result<Config, ConfigError> {
        let text = json!({ "mcpServers": { &self.label: self.entry } }).to_string();
        Config::of(&Document::of(Path::new("toolway.json"), &text)?, None)
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
    pub(crate) fn summary(&self) -> Result<ServerSummary, Problem> {
        let config = self.config()?;
        let server = config.servers.get(&self.name).ok_or_else(|| Problem::new("the entry defines no server"))?;
        let text = |key: &str| self.entry[key].as_str().map(str::to_owned);
        let mut warnings = self.warnings.clone();
        warnings.extend(config.warnings.iter().map(|warning| warning.message.clone()));
        let mut runs = None;
        let mut url = None;
        match &server.transport {
            Transport::Process(_) => {
                let program = text("command").unwrap_or_default();
                if is_installer(&program) {
                    warnings.push(format!("`{program}` may download a program from the internet and run it as you"));
                }
                runs = Some(self.command_line(&program));
            }
            Transport::Http(_) => url = text("url"),
        }
        if url.as_deref().is_some_and(toolway_config::is_insecure_http_url) {
            warnings.push("the connection is not encrypted".to_owned());
        }
        Ok(ServerSummary { runs, url, warnings })
    }

    fn command_line(&self, program: &str) -> String {
        let arguments = self.entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = std::iter::once(program).chain(arguments).collect();
        shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
    }
}

/// The server of a snippet, in the shape of any application that `toolway import` reads.
fn snippet(text: &str, wanted: Option<&str>) -> Result<Found, Problem> {
    let unreadable = |error: toolway_config::ConfigError| Problem::new(format!("the snippet is invalid: {error}"));
    let imported = read_snippet(text).map_err(unreadable)?;
    let labels: Vec<&str> = imported.servers.iter().map(|server| server.label.as_str()).collect();
    let server = match *imported.servers.as_slice() {
        [] => return Err(Problem::new("the snippet has no server: an entry needs `command` or `url`")),
        [ref server] => server,
        ref servers => servers.iter().find(|server| Some(server.label.as_str()) == wanted).ok_or_else(|| {
            Problem::new(format!("the snippet has several servers; give the name of one: {}", labels.join(", ")))
        })?,
    };
    let mut warnings: Vec<String> = imported.warnings.iter().map(|warning| warning.message.clone()).collect();
    warnings.extend(imported.inputs_of(server).map(|input| {
        let name = input_secret(server, &input.id);
        format!("it needs the input `{}`; store its value with `toolway secret set {name}`", input.id)
    }));
    let CopiedEntry { label, entry } = copy(server, None).map_err(unreadable)?;
    Ok(Found { label, entry: entry.json(), warnings })
}

fn url(text: &str) -> Result<Found, Problem> {
    let parsed = Url::parse(text).map_err(|error| Problem::new(format!("`{text}` is not a URL: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        let scheme = parsed.scheme();
        let problem = format!("`{text}` is not the URL of a server: `{scheme}://` is neither `http://` nor `https://`");
        return Err(Problem::new(problem));
    }
    if parsed.host_str().is_none() {
        return Err(Problem::new(format!("`{text}` is not a URL: it has no host")));
    }
    Ok(Found { label: label_for(Some(text), None, &[]), entry: json!({ "url": text }), warnings: Vec::new() })
}

/// Whether a text is one word with a scheme, so it is meant as a URL and not as a program.
fn looks_like_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Whether a text is a snippet and not a command: JSON, TOML, a fenced block, or YAML with a container of servers.
fn looks_like_snippet(text: &str) -> bool {
    let starts = text.starts_with(['{', '[', '"']) || text.starts_with("```") || text.starts_with("//");
    let first = text.lines().next().unwrap_or_default().trim_end();
    starts || first.strip_suffix(':').is_some_and(|key| CONTAINERS.contains(&key))
}

/// A command line, with variables before the program. No shell runs.
fn command(text: &str) -> Result<Found, Problem> {
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
    let words: Vec<&str> = arguments.iter().map(|word| word.as_str()).collect();
    Ok(Found { label: label_for(None, Some(program), &words), entry, warnings: Vec::new() })
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
        let package = "@modelcontextprotocol/server-memory";
        for snippet in [
            json!({ "mcpServers": { "memory": entry } }).to_string(),
            json!({ "servers": { "memory": entry } }).to_string(),
            json!({ "mcp": { "servers": { "memory": entry } } }).to_string(),
            json!({ "mcp": { "memory": { "type": "local", "command": ["npx", "-y", package] } } }).to_string(),
            json!({ "mcp": { "memory": entry } }).to_string(),
            json!({ "mcpServers": { "memory": { "command": ["npx", "-y", package] } } }).to_string(),
            json!({ "context_servers": { "memory": entry } }).to_string(),
            json!({ "context_servers": { "memory": { "command": { "path": "npx", "args": ["-y", package] } } } })
                .to_string(),
            format!("[mcp_servers.memory]\ncommand = \"npx\"\nargs = [\"-y\", \"{package}\"]\n"),
            format!("mcp_servers:\n  memory:\n    command: npx\n    args: [-y, \"{package}\"]\n"),
            format!(
                "extensions:\n  memory:\n    type: stdio\n    cmd: npx\n    args: [-y, \"{package}\"]\n    enabled: true\n"
            ),
            format!("```json\n{}\n```", json!({ "mcpServers": { "memory": entry } })),
            json!([{ "name": "memory", "command": "npx", "args": ["-y", package] }]).to_string(),
            json!({ "memory": entry }).to_string(),
            format!("\"memory\": {entry},"),
            entry.to_string(),
        ] {
            assert_eq!(read(&snippet), ("memory".to_owned(), entry.clone()), "{snippet}");
        }
    }

    #[test]
    fn every_spelling_of_a_url_is_read() {
        for key in ["url", "serverUrl", "baseUrl", "uri"] {
            let entry = json!({ key: "https://mcp.example.com/mcp" });
            for snippet in [json!({ "mcpServers": { "x": entry } }), json!({ "x": entry })] {
                let expected = ("x".to_owned(), json!({ "url": "https://mcp.example.com/mcp" }));
                assert_eq!(read(&snippet.to_string()), expected, "{snippet}");
            }
        }
        let (_, entry) = read(&json!({ "mcpServers": { "x": { "httpUrl": "https://e.org/mcp" } } }).to_string());
        assert_eq!(entry, json!({ "url": "https://e.org/mcp", "type": "http" }));
    }

    #[test]
    fn text_with_another_scheme_is_no_program() {
        for text in ["htp://x", "htp://x/mcp", "ftp://example.org"] {
            let problem = PastedServer::read(text, None).unwrap_err().message;
            assert!(problem.contains("is neither `http://` nor `https://`"), "{problem}");
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
        let summary = PastedServer::read("npx -y 'a b'", Some("x")).unwrap().summary().unwrap();
        assert_eq!((summary.runs.as_deref(), summary.url), (Some("npx -y 'a b'"), None));
        assert!(summary.warnings[0].contains("download"));
        let entry = r#"{"url":"http://example.org/mcp","allowInsecureHttp":true}"#;
        let summary = PastedServer::read(entry, None).unwrap().summary().unwrap();
        assert_eq!((summary.runs, summary.url.as_deref()), (None, Some("http://example.org/mcp")));
        assert!(summary.warnings.iter().any(|warning| warning.contains("not encrypted")));
    }
}
