//! The whole document: servers by name, and what was odd about it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    document::Document,
    error::ConfigError,
    server::{ServerConfig, ServerName},
};

/// What one file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The servers, by name.
    pub servers: BTreeMap<ServerName, ServerConfig>,
    /// What was read past, for the operator.
    pub warnings: Vec<String>,
}

/// Keys of the document that are not servers and not odd.
const KNOWN: [&str; 1] = ["$schema"];

impl Config {
    /// Reads a file; `home` is where its programs run when an entry does not say.
    pub fn read(file: &Path, home: Option<&PathBuf>) -> Result<Self, ConfigError> {
        Self::of(&Document::read(file)?, home)
    }

    /// Reads a document.
    pub fn of(document: &Document, home: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let mut root = document.root()?;
        let mut config = Self::default();
        if let Some(mut entries) = root.take_section("mcpServers")? {
            let labels: Vec<String> = entries.keys().map(str::to_owned).collect();
            for label in labels {
                let Some(entry) = entries.take_section(&label)? else { continue };
                let server = ServerConfig::read(&label, entry, home, &mut config.warnings)?;
                config.add(server)?;
            }
        }
        for key in root.keys().filter(|key| !KNOWN.contains(key)) {
            config.warnings.push(format!("{}: `{key}` is unknown and changes nothing", root.place()));
        }
        Ok(config)
    }

    /// The server a person means: by name, or by the label as it was pasted.
    pub fn find(&self, wanted: &str) -> Option<&ServerConfig> {
        ServerName::from_label(wanted).ok().and_then(|name| self.servers.get(&name))
    }

    fn add(&mut self, server: ServerConfig) -> Result<(), ConfigError> {
        if let Some(other) = self.servers.get(&server.name) {
            return Err(ConfigError::SameName {
                place: server.place,
                label: server.label,
                other: other.label.clone(),
                name: server.name.to_string(),
            });
        }
        self.servers.insert(server.name.clone(), server);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Config, Document};
    use crate::{ConfigError, Endpoint, Environment, Secret, server::Standing};

    fn read(text: &str) -> Result<Config, ConfigError> {
        let home = PathBuf::from("/home/ada");
        Config::of(&Document::of(Path::new("/etc/toolway.json"), text.to_owned()), Some(&home))
    }

    fn problem(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn the_common_snippet_is_read_as_people_paste_it() {
        let config = read(
            r#"{
                // from a README
                "mcpServers": {
                    "My Files": { "command": "npx", "args": ["-y", "files"], "env": { "KEY": "${KEY}" }, "cwd": "x" },
                    "remote": { "url": "https://example.org/mcp", "headers": { "Authorization": "Bearer ${KEY}" } },
                },
            }"#,
        )
        .unwrap();
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        let environment: Environment = [("KEY".into(), "k3y".into())].into();
        let files = config.find("My Files").unwrap().endpoint(&environment).unwrap();
        let secret = Secret::new;
        assert_eq!(
            files,
            Endpoint::Process {
                command: "npx".to_owned(),
                arguments: vec![secret("-y"), secret("files")],
                variables: vec![("KEY".to_owned(), secret("k3y"))],
                directory: Some(PathBuf::from("/etc/x")),
            }
        );
        let remote = config.find("remote").unwrap().endpoint(&environment).unwrap();
        let headers = vec![("Authorization".to_owned(), secret("Bearer k3y"))];
        assert_eq!(remote, Endpoint::Http { url: secret("https://example.org/mcp"), headers });
        assert!(!format!("{config:?} {remote:?}").contains("k3y"));
    }

    #[test]
    fn a_program_runs_in_the_home_when_its_entry_does_not_say() {
        let config = read(r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
        let Endpoint::Process { directory, .. } = config.find("a").unwrap().endpoint(&Environment::new()).unwrap()
        else {
            panic!("a program");
        };
        assert_eq!(directory, Some(PathBuf::from("/home/ada")));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("{\n\"mcpServers\": []\n}", "/etc/toolway.json:2: `mcpServers` must be an object"),
            (
                "{\"mcpServers\":\n{\"a\":\n{\"args\":[]}}}",
                "/etc/toolway.json:3: `mcpServers.a.command` must be the program to start, or `url` an address",
            ),
            (r#"{"mcpServers":{"a":{"command":7}}}"#, "/etc/toolway.json:1: `mcpServers.a.command` must be a string"),
            (
                r#"{"mcpServers":{"a":{"command":"x","args":"y"}}}"#,
                "/etc/toolway.json:1: `mcpServers.a.args` must be a list of strings",
            ),
            (
                r#"{"mcpServers":{"a":{"command":"x","env":{"N":1}}}}"#,
                "/etc/toolway.json:1: `mcpServers.a.env.N` must be a string",
            ),
            (
                r#"{"mcpServers":{"a":{"type":"carrier-pigeon","url":"x"}}}"#,
                "/etc/toolway.json:1: `mcpServers.a.type` must be `stdio`, `http` or `sse`",
            ),
            (
                r#"{"mcpServers":{"a b":{"command":"x"},"A-B":{"command":"y"}}}"#,
                "/etc/toolway.json:1: `A-B` and `a b` would both be called `a-b`; rename one",
            ),
            (r#"{"mcpServers":{},"mcpServers":{}}"#, "/etc/toolway.json:1: `mcpServers` stands here twice"),
        ] {
            assert_eq!(problem(text), said);
        }
        assert!(problem("{\n\n  \"mcpServers\": {,}").starts_with("/etc/toolway.json:3: "));
    }

    #[test]
    fn an_address_must_be_one_and_a_variable_set() {
        let config = read(r#"{"mcpServers":{"a":{"url":"file:///etc/passwd"},"b":{"command":"${NONE}"}}}"#).unwrap();
        let problem = |name| config.find(name).unwrap().endpoint(&Environment::new()).unwrap_err().to_string();
        assert_eq!(problem("a"), "/etc/toolway.json:1: `a.url` must be an http or https address");
        assert_eq!(problem("b"), "/etc/toolway.json:1: `b.command` needs the variable NONE, which is not set");
    }

    #[test]
    fn keys_without_a_use_are_named_and_a_disabled_server_is_known_as_such() {
        let config =
            read(r#"{"mcpServers":{"a":{"command":"x","disabled":true,"timeout":5,"comand":"y"}},"servers":{}}"#)
                .unwrap();
        assert_eq!(config.find("a").unwrap().standing, Standing::Disabled);
        assert_eq!(
            config.warnings,
            [
                "/etc/toolway.json:1: `mcpServers.a.timeout` is not used yet and changes nothing",
                "/etc/toolway.json:1: `mcpServers.a.comand` is unknown and changes nothing",
                "/etc/toolway.json:1: `servers` is unknown and changes nothing",
            ]
        );
    }
}
