//! Entries as people paste them, and what is left of them.

use std::{collections::BTreeMap, convert::Infallible, path::Path};

use serde_json::{Value, json};

use super::{SecretNames, detach, detach_changes, members_with_secrets};
use crate::{
    Config, Environment, Keychain, Secret, SecretName,
    document::Document,
    edit::NewValue,
    keychain::KeychainError,
    server::{ServerName, Transport, auth::TextKind},
};

/// Secrets by name, as a vault has them.
#[derive(Debug, Default)]
struct Names(BTreeMap<SecretName, Secret>);

impl SecretNames for Names {
    type Error = Infallible;

    fn choose(&mut self, wanted: SecretName, _key: &str, value: &Secret) -> Result<SecretName, Infallible> {
        let is_free = |name: &SecretName| self.0.get(name).is_none_or(|held| held == value);
        let name = wanted.candidates().find(is_free).unwrap();
        self.0.insert(name.clone(), value.clone());
        Ok(name)
    }
}

impl Keychain for Names {
    fn get(&self, _service: &str, _entry: &str) -> Result<Secret, KeychainError> {
        Err(KeychainError::Missing)
    }

    fn stored(&self, name: &SecretName) -> Result<Secret, KeychainError> {
        self.0.get(name).cloned().ok_or(KeychainError::Missing)
    }
}

fn server() -> ServerName {
    "shop".parse().unwrap()
}

/// The entry without its secrets, and the names under which they are stored.
fn detached(entry: &Value) -> (Value, Names) {
    let mut names = Names::default();
    let Ok(detached) = detach(&server(), &NewValue::of_json(entry).unwrap(), &mut names);
    (detached.entry.json(), names)
}

fn document(entry: &Value) -> Document {
    let text = json!({ "mcpServers": { "shop": entry } }).to_string();
    Document::of(Path::new("/x/toolway.json"), &text).unwrap()
}

#[test]
fn secrets_of_a_pasted_entry_become_references() {
    for (entry, left) in [
        (
            json!({ "env": { "TOKEN": "hunter2", "LEVEL": "debug" } }),
            json!({ "env": { "TOKEN": "${secret:shop-TOKEN}", "LEVEL": "debug" } }),
        ),
        (json!({ "env": { "X": "ghp_0123456789" } }), json!({ "env": { "X": "${secret:shop-X}" } })),
        (json!({ "env": { "TOKEN": "${TOKEN}" } }), json!({ "env": { "TOKEN": "${TOKEN}" } })),
        (json!({ "env": { "TOKEN": "${secret:a}" } }), json!({ "env": { "TOKEN": "${secret:a}" } })),
        (json!({ "env": { "TOKEN": "${A}hunter2" } }), json!({ "env": { "TOKEN": "${A}${secret:shop-TOKEN}" } })),
        (json!({ "env": { "TOKEN": "${T:-hunter2}" } }), json!({ "env": { "TOKEN": "${T:-${secret:shop-TOKEN}}" } })),
        (json!({ "env": { "AUTH": "${USER}:${PASS}" } }), json!({ "env": { "AUTH": "${USER}:${PASS}" } })),
        (json!({ "env": { "TOKEN": "a$${b}c" } }), json!({ "env": { "TOKEN": "${secret:shop-TOKEN}" } })),
        (
            json!({ "env": { "HEADERS": "{\"Authorization\": \"Bearer ntn_1\", \"V\": \"2\"}" } }),
            json!({ "env": { "HEADERS": "${secret:shop-HEADERS}" } }),
        ),
        (
            json!({ "headers": { "Authorization": "Bearer abc", "Accept": "text/plain", "X-Read-Only": "true" } }),
            json!({ "headers": { "Authorization": "Bearer ${secret:shop-Authorization}", "Accept": "text/plain", "X-Read-Only": "true" } }),
        ),
        (json!({ "headers": { "A": "Bearer ${X}" } }), json!({ "headers": { "A": "Bearer ${X}" } })),
        (
            json!({ "args": ["--token", "hunter2", "--api-key=hunter3", "-c", "export PASSWORD=hunter4; run"] }),
            json!({ "args": ["--token", "${secret:shop-token}", "--api-key=${secret:shop-api-key}", "-c",
                "export PASSWORD=${secret:shop-PASSWORD}; run"] }),
        ),
        (
            json!({ "url": "https://ada:s3cret@example.org/mcp?api_key=hunter2&q=1" }),
            json!({ "url": "https://ada:${secret:shop-password}@example.org/mcp?api_key=${secret:shop-api_key}&q=1" }),
        ),
        (json!({ "url": "https://sk-0123456789.example.org/" }), json!({ "url": "${secret:shop-url}" })),
        (
            json!({ "auth": { "kind": "basic", "username": "ada", "password": "hunter2" } }),
            json!({ "auth": { "kind": "basic", "username": "ada", "password": "${secret:shop-password}" } }),
        ),
        (
            json!({ "oauth": { "clientId": "abc", "clientSecret": "hunter2", "tokenUrl": "https://example.org/token" } }),
            json!({ "oauth": { "clientId": "abc", "clientSecret": "${secret:shop-clientSecret}", "tokenUrl": "https://example.org/token" } }),
        ),
        // Keys of other hosts have no effect, and are written.
        (
            json!({ "requestInit": { "headers": { "X": "hunter2" } }, "apiKey": "hunter3" }),
            json!({ "requestInit": { "headers": { "X": "${secret:shop-X}" } }, "apiKey": "${secret:shop-apiKey}" }),
        ),
        (
            json!({ "description": "uses ghp_0123456789, see" }),
            json!({ "description": "uses ${secret:shop-secret}, see" }),
        ),
        (
            json!({ "command": "/nix/store/0c5b4p9xk1y3b7kz1q2w-node-20.1.0/bin/node", "includeTools": ["get_token_0123456789abcdef"] }),
            json!({ "command": "/nix/store/0c5b4p9xk1y3b7kz1q2w-node-20.1.0/bin/node", "includeTools": ["get_token_0123456789abcdef"] }),
        ),
    ] {
        assert_eq!(detached(&entry).0, left, "{entry}");
        assert_eq!(detached(&left).0, left, "nothing is left to replace");
        assert_eq!(document(&left).clear_secrets(), []);
        assert_eq!(document(&entry).clear_secrets().is_empty(), entry == left, "{entry}");
    }
}

#[test]
fn server_gets_what_was_pasted() {
    let environment = Environment::from([("A".into(), "from-a".into())]);
    for entry in [
        json!({ "command": "x", "args": ["--token", "hunter2", "--key=a$${b}", "postgres://u:p/w@db/x", "-c", "X=1 TOKEN=${A}z y"],
            "env": { "TOKEN": "${A}hunter2", "KEY": "${NONE:-hunter3}", "AUTH": "a\"b\\c" } }),
        json!({ "url": "https://ada:s3cret@example.org/mcp?api_key=hunter2", "headers": { "X-Key": "Bearer abc def" },
            "auth": { "kind": "apiKey", "key": "hunter2" } }),
    ] {
        let (without, names) = detached(&entry);
        assert_ne!(without, entry);
        let endpoint = |entry: &Value| {
            let config = Config::of(&document(entry), None).unwrap();
            config.find("shop").unwrap().endpoint(&environment, &names).unwrap()
        };
        assert_eq!(endpoint(&without), endpoint(&entry));
    }
}

#[test]
fn second_secret_of_a_name_gets_a_number() {
    let mut names = Names::default();
    names.0.insert("shop-TOKEN".parse().unwrap(), Secret::new("other"));
    let changes = [("env.TOKEN", "hunter2"), ("headers.TOKEN", "hunter2"), ("headers.token", "x")];
    let changes: Vec<_> =
        changes.iter().map(|(key, value)| ((*key).to_owned(), Some(NewValue::Text((*value).to_owned())))).collect();
    let Ok(detached) = detach_changes(&server(), &changes, &mut names);
    let names: Vec<String> = detached.secrets.iter().map(|secret| format!("{} {}", secret.key, secret.name)).collect();
    assert_eq!(names, ["env.TOKEN shop-TOKEN-2", "headers.TOKEN shop-TOKEN-2", "headers.token shop-token"]);
}

#[test]
fn secrets_of_a_file_are_found_with_line_and_key() {
    let text = r#"{
        "mcpServers": {
            "Git Hub": {
                "command": "x",
                "args": ["run",
                    "--token=hunter2"],
                "env": { "TOKEN": "hunter2" }
            },
            "broken": { "url": 7, "headers": { "Authorization": "Bearer hunter2" } }
        },
        "models": {
            "big": { "vendor": "openai", "model": "m", "apiKey": "sk-0123456789" },
            "own": { "vendor": "openai", "model": "m", "apiKey": "env:KEY" }
        },
        "note": "ghp_0123456789"
    }"#;
    let document = Document::of(Path::new("/x/toolway.json"), text).unwrap();
    let found: Vec<String> = document
        .clear_secrets()
        .iter()
        .map(|secret| format!("{} {} {}", secret.place.line, secret.key, secret.name))
        .collect();
    assert_eq!(
        found,
        [
            "6 mcpServers.Git Hub.args git-hub-token",
            "7 mcpServers.Git Hub.env.TOKEN git-hub-TOKEN",
            "9 mcpServers.broken.headers.Authorization broken-Authorization",
            "12 models.big.apiKey big-apiKey",
            "15 note _-secret",
        ]
    );
    let members: Vec<(String, Value)> =
        members_with_secrets(&document, "Git Hub").into_iter().map(|(key, value)| (key, value.json())).collect();
    assert_eq!(
        members,
        [("args".to_owned(), json!(["run", "--token=hunter2"])), ("env.TOKEN".to_owned(), json!("hunter2"))]
    );
}

#[test]
fn every_secret_of_a_sign_in_is_detached() {
    for auth in [
        json!({ "kind": "bearer", "token": "word" }),
        json!({ "kind": "apiKey", "key": "word" }),
        json!({ "kind": "basic", "username": "ada", "password": "word" }),
        json!({ "kind": "clientCredentials", "clientId": "c", "clientSecret": "word" }),
        json!({ "kind": "clientCredentials", "clientId": "c", "privateKey": "word" }),
        json!({ "kind": "enterprise", "idpIssuer": "https://i.example", "idpClientId": "i", "idpClientSecret": "word",
            "idToken": "word", "clientId": "c", "clientSecret": "word" }),
        json!({ "kind": "workload", "assertion": "word" }),
    ] {
        let entry = json!({ "url": "https://example.org/", "auth": auth, "oauth": { "clientSecret": "word" } });
        let config = Config::of(&document(&detached(&entry).0), None).unwrap();
        let Transport::Http(http) = &config.find("shop").unwrap().transport else { panic!("HTTP") };
        for (key, kind, text) in http.sign_in_texts() {
            let is_reference = text.written().expose().starts_with("${secret:");
            assert_eq!(kind == TextKind::Secret, is_reference, "{key} of {auth}");
        }
    }
}
