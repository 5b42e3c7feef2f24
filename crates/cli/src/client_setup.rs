//! How to set up well-known clients for the gateway: a command to run, or lines for a file.

use serde_json::{Value, json};

/// Set-up of one client.
pub(crate) struct ClientSetup {
    /// Name of the application.
    pub(crate) client: &'static str,
    /// File to add the text to; `None` if the text is a command to run.
    pub(crate) file: Option<&'static str>,
    pub(crate) text: String,
}

impl ClientSetup {
    /// The set-up with where it goes.
    pub(crate) fn shown(&self) -> String {
        let place = self.file.map_or_else(|| "run".to_owned(), |file| format!("add to {file}"));
        let lines: Vec<String> = self.text.lines().map(|line| format!("  {line}")).collect();
        format!("{} ({place}):\n{}", self.client, lines.join("\n"))
    }
}

/// Name of the server in the client's configuration.
const NAME: &str = "toolway";

/// The set-up of each client for a gateway at `url`; without a `key` if access is open.
pub(crate) fn setups(url: &str, key: Option<&str>) -> Vec<ClientSetup> {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let header = bearer.as_ref().map(|bearer| format!(" --header 'Authorization: {bearer}'")).unwrap_or_default();
    let with_headers = |mut entry: Value| {
        if let Some(bearer) = &bearer {
            entry["headers"] = json!({ "Authorization": bearer });
        }
        entry
    };
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let codex_header = bearer
        .as_ref()
        .map(|bearer| format!("\nhttp_headers = {{ \"Authorization\" = \"{bearer}\" }}"))
        .unwrap_or_default();
    let command = |client, text| ClientSetup { client, file: None, text };
    let file = |client, file, text| ClientSetup { client, file: Some(file), text };
    vec![
        command("Claude Code", format!("claude mcp add --scope user --transport http {NAME} {url}{header}")),
        file("Codex", "~/.codex/config.toml", format!("[mcp_servers.{NAME}]\nurl = \"{url}\"{codex_header}")),
        file(
            "Cursor",
            "~/.cursor/mcp.json",
            pretty(&json!({ "mcpServers": { NAME: with_headers(json!({ "url": url })) } })),
        ),
        command(
            "VS Code",
            format!("code --add-mcp '{}'", with_headers(json!({ "name": NAME, "type": "http", "url": url }))),
        ),
        command("Gemini CLI", format!("gemini mcp add --scope user --transport http {NAME} {url}{header}")),
    ]
}

/// All set-ups as text.
pub(crate) fn text(url: &str, key: Option<&str>) -> String {
    setups(url, key).iter().map(ClientSetup::shown).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::{setups, text};

    #[test]
    fn each_client_gets_a_command_or_a_file() {
        let url = "http://127.0.0.1:7717/mcp";
        let all = setups(url, Some("tw_1"));
        let of = |client: &str| all.iter().find(|setup| setup.client == client).unwrap().text.clone();
        assert_eq!(
            of("Claude Code"),
            "claude mcp add --scope user --transport http toolway http://127.0.0.1:7717/mcp --header 'Authorization: Bearer tw_1'"
        );
        assert_eq!(
            of("Codex"),
            "[mcp_servers.toolway]\nurl = \"http://127.0.0.1:7717/mcp\"\nhttp_headers = { \"Authorization\" = \"Bearer tw_1\" }"
        );
        let cursor: serde_json::Value = serde_json::from_str(&of("Cursor")).unwrap();
        assert_eq!(cursor["mcpServers"]["toolway"]["headers"]["Authorization"], "Bearer tw_1");
        let code = of("VS Code");
        let code: serde_json::Value =
            serde_json::from_str(code.strip_prefix("code --add-mcp '").unwrap().strip_suffix('\'').unwrap()).unwrap();
        assert_eq!((&code["name"], &code["url"]), (&"toolway".into(), &url.into()));
        assert!(of("Gemini CLI").ends_with(" toolway http://127.0.0.1:7717/mcp --header 'Authorization: Bearer tw_1'"));
        assert!(!text(url, None).contains("Bearer"));
    }
}
