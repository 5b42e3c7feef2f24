//! A snippet as a README shows it: entries in the container of any application, in one that none has, or in none.
//!
//! A shape of one application is read by the rules of that application; the rest by those of Toolway's own entries, which
//! know the spellings of others.

use std::path::Path;

use super::{
    Host, Imported,
    entry::FileReader,
    label_for, read_as_own, recognise,
    recognise::{BESIDE_ENTRIES, is_entry},
};
use crate::{
    config::Config,
    document::{Document, Member, Value},
    error::ConfigError,
    server::Format,
    warning::Strictness,
};

pub(super) const HOST: Host = Host { format: Format::Snippet, locations: &[], read };

/// Reads a snippet: JSON with or without what surrounds the entries, TOML or YAML. An invalid entry is an error.
pub fn read_snippet(text: &str) -> Result<Imported, ConfigError> {
    let document = document(text)?;
    let Some(format) = recognise(&document) else {
        let Config { servers, warnings, .. } = Config::of(&document, None)?;
        return Ok(Imported { servers: servers.into_values().collect(), warnings, ..Imported::default() });
    };
    let imported = read_as_own(&document, format, None)?;
    match imported.warnings.iter().find_map(|warning| warning.as_error(Strictness::Usual)) {
        Some(error) => Err(error),
        None => Ok(imported),
    }
}

/// The document of a snippet, by its first characters.
fn document(text: &str) -> Result<Document, ConfigError> {
    let text = without_fence(text).trim_end_matches(',');
    match text.chars().next() {
        Some('"') => Document::of(Path::new("snippet.json"), &format!("{{{text}}}")),
        // A table of TOML has a name in its brackets, a list of JSON has a value.
        Some('[') if text[1..].trim_start().starts_with(|first: char| first.is_ascii_alphabetic()) => {
            Document::of(Path::new("snippet.toml"), text)
        }
        Some('{' | '[' | '/') | None => Document::of(Path::new("snippet.json"), text),
        Some(_) => Document::of(Path::new("snippet.yaml"), text),
    }
}

/// The text without the lines of a fenced code block around it.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```") else { return text };
    let inside = inside.split_once('\n').map_or("", |(_, inside)| inside);
    inside.trim_end().trim_end_matches("```").trim()
}

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let document = reader.document;
    let mut root = document.root()?;
    let Value::Map(members) = document.root_value() else { return Ok(()) };
    if is_entry(members) {
        reader.own_entry(&label_of(members), root);
        return Ok(());
    }
    for container in ["mcp", "mcp_servers"] {
        if let Some(entries) = root.take_section(container)? {
            reader.own_entries(entries);
        }
    }
    for key in BESIDE_ENTRIES {
        root.take(key);
    }
    reader.own_entries(root);
    Ok(())
}

/// A label from the program or URL of an entry.
fn label_of(members: &[Member]) -> String {
    let value = |key: &str| members.iter().find(|member| member.key == key).map(|member| &member.node.value);
    let text = |key: &str| value(key).and_then(Value::as_text);
    let words = |key: &str| match value(key) {
        Some(Value::List(words)) => words.iter().filter_map(|word| word.value.as_text()).collect(),
        _ => Vec::new(),
    };
    let url = ["url", "httpUrl", "serverUrl", "baseUrl", "uri"].into_iter().find_map(text);
    let listed = words("command");
    let command = text("command").or_else(|| text("cmd")).or_else(|| listed.first().copied());
    let arguments: Vec<&str> = listed.iter().skip(1).copied().chain(words("args")).collect();
    label_for(url, command, &arguments)
}
