//! Entries of other hosts copied into a Toolway file; their secrets become references.

use std::{collections::BTreeMap, convert::Infallible};

use serde_json::{Value, json};
use toolway_config::{
    Config, Keychain, Secret, SecretName, ServerConfig,
    clear::{Detached, SecretNames, detach},
    document::Document,
    edit::{Change, Edit, NewValue, edit_text},
    import::{copy, input_secret},
    keychain::KeychainError,
    server::Format,
};

use crate::world::{Chain, World};

/// A vault beside the keychain of the world.
#[derive(Debug, Default)]
struct Stored(BTreeMap<SecretName, Secret>);

impl SecretNames for Stored {
    type Error = Infallible;

    fn choose(&mut self, wanted: SecretName, _key: &str, value: &Secret) -> Result<SecretName, Infallible> {
        let is_free = |name: &SecretName| self.0.get(name).is_none_or(|held| held == value);
        let name = wanted.candidates().find(is_free).unwrap();
        self.0.insert(name.clone(), value.clone());
        Ok(name)
    }
}

impl Keychain for Stored {
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        Chain.get(service, entry)
    }

    fn stored(&self, name: &SecretName) -> Result<Secret, KeychainError> {
        self.0.get(name).cloned().ok_or(KeychainError::Missing)
    }
}

/// The copy of a server without its secrets, and the key and name of each.
fn detached(world: &World, server: &ServerConfig, stored: &mut Stored) -> Option<(NewValue, Vec<String>)> {
    let copied = copy(server, Some(&world.home())).ok()?;
    let Ok(Detached { entry, secrets }) = detach(&server.name, &copied.entry, stored);
    Some((entry, secrets.iter().map(|secret| format!("{} {}", secret.key, secret.name)).collect()))
}

#[test]
fn copy_is_equivalent_and_has_no_secrets() {
    let world = World::of_all_hosts();
    for format in Format::OTHERS {
        let imported = world.import(&[format]);
        for server in imported.servers.clone() {
            let mut stored = Stored::default();
            for input in imported.inputs_of(&server) {
                stored.0.insert(input_secret(&server, &input.id), Secret::new("typed"));
            }
            let Some((entry, _)) = detached(&world, &server, &mut stored) else {
                // A placeholder that this host does not support: in a file that several hosts read, or invalid.
                let shared = server.source.place.file.ends_with(".mcp.json") && format != Format::ClaudeCode;
                assert!(shared || server.label == "Foreign", "{}", server.source.place);
                continue;
            };
            assert!(!entry.json().to_string().contains("sk-abcdef"), "{entry:?}");
            let file = world.home().join("toolway.json");
            let add = Edit::Add { label: server.label.clone(), entry };
            let Change::Text { text, .. } = edit_text(&add, None, &file, "").unwrap() else { panic!("JSON") };
            let config = Config::of(&Document::of(&file, &text).unwrap(), Some(&world.home())).unwrap();
            let ours = config.servers.values().next().unwrap();
            let (mine, theirs) = (world.line_with(ours, &stored), world.line(&server));
            match theirs.starts_with("refused") {
                true => assert!(mine.starts_with("refused"), "{format} {mine}"),
                false => assert_eq!(mine, theirs, "{format} {text}"),
            }
            assert_eq!(ours.filters.tool_names, server.filters.tool_names, "{format}");
            assert_eq!((ours.timeouts, ours.standing), (server.timeouts, server.standing), "{format}");
        }
    }
}

#[test]
fn what_an_entry_says_of_tasks_is_copied() {
    let file = std::path::Path::new("/home/ada/other.json");
    let text = r#"{"mcpServers": {"jobs": {"command": "jobs",
        "tasks": {"background": false, "ttl": "1h", "pollInterval": "2s"}}}}"#;
    let config = Config::of(&Document::of(file, text).unwrap(), None).unwrap();
    let copied = copy(config.servers.values().next().unwrap(), None).unwrap();
    assert_eq!(copied.entry.json()["tasks"], json!({ "background": false, "ttl": 3_600, "pollInterval": 2 }));
}

#[test]
fn each_secret_is_named_after_its_server_and_key() {
    let world = World::empty();
    let text = r#"{ "mcpServers": {
        "Git Hub": {
            "command": "x",
            "args": ["--api-key", "hunter2", "--level=debug", "--token=ghp_0123456789abcdef", "plain"],
            "env": { "GITHUB_TOKEN": "ghp_0123456789abcdef", "LOG_LEVEL": "debug", "WORD": "${literal}" } },
        "Remote": { "type": "http", "url": "https://ada:s3cret@example.org/?q=1",
            "headers": { "Authorization": "Bearer abc", "Accept": "text/plain" } },
        "Keyed": { "type": "http", "url": "https://example.org/mcp?api_key=hunter2" }
    } }"#;
    std::fs::create_dir_all(world.home().join(".mcp-inspector")).unwrap();
    std::fs::write(world.home().join(".mcp-inspector/mcp.json"), text).unwrap();
    let copied: Vec<(Value, Vec<String>)> = world
        .import(&[Format::Inspector])
        .servers
        .iter()
        .map(|server| detached(&world, server, &mut Stored::default()).unwrap())
        .map(|(entry, secrets)| (entry.json(), secrets))
        .collect();
    assert_eq!(
        copied[0].0,
        json!({
            "command": "x",
            "args": ["--api-key", "${secret:git-hub-api-key}", "--level=debug", "--token=${secret:git-hub-token}", "plain"],
            "env": { "GITHUB_TOKEN": "${secret:git-hub-GITHUB_TOKEN}", "LOG_LEVEL": "debug", "WORD": "$${literal}" },
        })
    );
    assert_eq!(copied[0].1, ["args git-hub-api-key", "args git-hub-token", "env.GITHUB_TOKEN git-hub-GITHUB_TOKEN"]);
    assert_eq!(
        copied[1].0,
        json!({
            "url": "https://ada:${secret:remote-password}@example.org/?q=1",
            "headers": { "Authorization": "Bearer ${secret:remote-Authorization}", "Accept": "text/plain" },
            "type": "http",
        })
    );
    assert_eq!(copied[2].0["url"], "https://example.org/mcp?api_key=${secret:keyed-api_key}");
}

#[test]
fn secrets_in_arguments_and_variables_become_references() {
    let world = World::empty();
    let text = r#"{ "mcpServers": { "Db": {
        "command": "x",
        "args": ["postgres://u:hunter1@db/x", "--url=http://a:hunter2@h/?token=hunter3&page=2", "--password=hunter4=5",
            "-e", "MYPASS=hunter6", "--header", "Authorization: Bearer hunter7", "redis://:${PW}@cache", "plain"],
        "env": { "DATABASE_URL": "postgres://u:hunter8@db/x", "MYPASS": "hunter9", "MODE": "${MODE:-fast}",
            "API_KEY": "${API_KEY:-hunter10}" } } } }"#;
    world.write("home/.claude.json", text);
    let servers = world.import(&[Format::ClaudeCode]).servers;
    let (entry, secrets) = detached(&world, &servers[0], &mut Stored::default()).unwrap();
    assert_eq!(
        entry.json(),
        json!({
            "command": "x",
            "args": ["postgres://u:${secret:db-password}@db/x",
                "--url=http://a:${secret:db-password-2}@h/?token=${secret:db-token}&page=2", "--password=${secret:db-password-3}",
                "-e", "MYPASS=${secret:db-MYPASS}", "--header", "Authorization: Bearer ${secret:db-header}",
                "redis://:${PW}@cache", "plain"],
            "env": { "DATABASE_URL": "${secret:db-DATABASE_URL}", "MYPASS": "${secret:db-MYPASS-2}", "MODE": "${MODE:-fast}",
                "API_KEY": "${API_KEY:-${secret:db-API_KEY}}" },
        })
    );
    assert_eq!(
        secrets,
        [
            "args db-password",
            "args db-password-2",
            "args db-token",
            "args db-password-3",
            "args db-MYPASS",
            "args db-header",
            "env.DATABASE_URL db-DATABASE_URL",
            "env.MYPASS db-MYPASS-2",
            "env.API_KEY db-API_KEY",
        ]
    );
}
