//! Finds secrets in clear in a file, with line and key.

use std::{convert::Infallible, path::Path};

use super::{rewrite::rewrite, role::TextRole};
use crate::{
    document::{Document, Member, Node, Value},
    edit::NewValue,
    error::Place,
    secret::{Secret, SecretName},
    server::ServerName,
};

/// A secret in clear in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearSecret {
    /// File and line.
    pub place: Place,
    /// Full key, such as `mcpServers.github.env.GITHUB_TOKEN`.
    pub key: String,
    /// Label of the server; `None` if it is not in an entry of a server.
    pub server: Option<String>,
    /// A name under which it can be stored.
    pub name: SecretName,
    /// The secret.
    pub value: Secret,
    /// Key of the member of the entry that contains it: `env.NAME`, `args`, `url` …
    pub(crate) member: String,
}

/// Key of the servers.
const SERVERS: &str = "mcpServers";
/// Key of the models.
const MODELS: &str = "models";
/// Key of the assistants.
const ASSISTANTS: &str = "assistants";

impl Document {
    /// The secrets in clear in a file of Toolway's own format, also in entries that are invalid.
    pub fn clear_secrets(&self) -> Vec<ClearSecret> {
        let mut search = Search { file: self.file(), found: Vec::new() };
        for section in members(self.root_value()) {
            for member in members(&section.node.value) {
                let owner = Owner { section: &section.key, label: &member.key };
                search.node(&owner, &[], &member.node, "");
            }
            if !matches!(section.node.value, Value::Map(_)) {
                search.node(&Owner { section: &section.key, label: "" }, &[], &section.node, "");
            }
        }
        search.found
    }
}

/// The members of an entry that contain a secret in clear, as they are written: `env.NAME`, `args`, `url` …
pub fn members_with_secrets(document: &Document, label: &str) -> Vec<(String, NewValue)> {
    let mut keys: Vec<String> = Vec::new();
    for secret in document.clear_secrets() {
        if secret.server.as_deref() == Some(label) && !keys.contains(&secret.member) {
            keys.push(secret.member);
        }
    }
    let entry = entry_node(document, label);
    let value = |key: String| {
        let mut node = entry?;
        for part in key.splitn(2, '.') {
            node = member(&node.value, part)?;
        }
        Some((key, new_value(&node.value)?))
    };
    keys.into_iter().filter_map(value).collect()
}

/// The entry of a server as it is written, with its secrets in clear; `None` if it is not there, or contains `null`.
pub fn written_entry(document: &Document, label: &str) -> Option<NewValue> {
    new_value(&entry_node(document, label)?.value)
}

/// The entry of an assistant as it is written; `None` if it is not there, or contains `null`.
pub fn written_assistant(document: &Document, name: &str) -> Option<NewValue> {
    let assistants = member(document.root_value(), ASSISTANTS)?;
    new_value(&member(&assistants.value, name)?.value)
}

fn entry_node<'a>(document: &'a Document, label: &str) -> Option<&'a Node> {
    member(document.root_value(), SERVERS).and_then(|servers| member(&servers.value, label))
}

/// What a text belongs to.
struct Owner<'a> {
    section: &'a str,
    /// Label of a server, name of a model, or another key; empty for a text of the document itself.
    label: &'a str,
}

struct Search<'a> {
    file: &'a Path,
    found: Vec<ClearSecret>,
}

impl Search<'_> {
    fn node(&mut self, owner: &Owner<'_>, path: &[&str], node: &Node, before: &str) {
        match &node.value {
            Value::Null | Value::Flag(_) | Value::Number(_) => {}
            Value::Text(text) => self.text(owner, path, text, before, node.line),
            Value::List(elements) => {
                let mut before = "";
                for element in elements {
                    self.node(owner, path, element, before);
                    if let Value::Text(text) = &element.value {
                        before = text;
                    }
                }
            }
            Value::Map(members) => {
                for member in members {
                    self.node(owner, &[path, &[member.key.as_str()]].concat(), &member.node, "");
                }
            }
        }
    }

    fn text(&mut self, owner: &Owner<'_>, path: &[&str], text: &str, before: &str, line: usize) {
        let role = match owner.section {
            SERVERS => TextRole::of(path, before),
            // `env:NAME` is another spelling of `${NAME}`.
            MODELS if path == ["apiKey"] && text.starts_with("env:") => None,
            MODELS => Some(TextRole::of_model(path)),
            _ => Some(TextRole::Prose),
        };
        let Some(role) = role else { return };
        let mut words = Vec::new();
        let Ok(_) = rewrite(text, role, &mut |word: &str, value: &str| {
            words.push((word.to_owned(), Secret::new(value)));
            Ok::<String, Infallible>(String::new())
        });
        let label =
            ServerName::from_label(owner.label).map_or_else(|_| owner.label.to_owned(), |name| name.to_string());
        let key: Vec<&str> = [owner.section, owner.label].into_iter().chain(path.iter().copied()).collect();
        for (word, value) in words {
            self.found.push(ClearSecret {
                place: Place { file: self.file.to_owned(), line },
                key: key.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("."),
                server: (owner.section == SERVERS).then(|| owner.label.to_owned()),
                name: SecretName::derived(&[&label, &word]),
                value,
                member: if path.len() <= 2 { path.join(".") } else { path[0].to_owned() },
            });
        }
    }
}

fn members(value: &Value) -> &[Member] {
    match value {
        Value::Map(members) => members,
        _ => &[],
    }
}

fn member<'a>(value: &'a Value, key: &str) -> Option<&'a Node> {
    members(value).iter().find(|member| member.key == key).map(|member| &member.node)
}

/// The value as it is written again; `None` if it contains `null`.
fn new_value(value: &Value) -> Option<NewValue> {
    match value {
        Value::Null => None,
        Value::Flag(flag) => Some(NewValue::Flag(*flag)),
        Value::Number(number) => Some(NewValue::Number(*number)),
        Value::Text(text) => Some(NewValue::Text(text.clone())),
        Value::List(elements) => {
            elements.iter().map(|node| new_value(&node.value)).collect::<Option<_>>().map(NewValue::List)
        }
        Value::Map(members) => {
            let inner = members.iter().map(|member| Some((member.key.clone(), new_value(&member.node.value)?)));
            inner.collect::<Option<_>>().map(NewValue::Object)
        }
    }
}
