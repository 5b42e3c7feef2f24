//! Adds, changes or removes one entry of a top-level object of a JSON text; every other character stays.

use std::path::Path;

use jsonc_parser::cst::{CstObject, CstRootNode};

use super::NewValue;
use crate::{
    document::ACCEPTED,
    error::{ConfigError, Place},
};

/// Where an entry is: the key of a top-level object, and its own key there.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPath<'a> {
    pub(super) section: &'static str,
    pub(super) label: &'a str,
}

impl<'a> EntryPath<'a> {
    /// The entry of a server.
    pub(super) fn of_server(label: &'a str) -> Self {
        Self { section: "mcpServers", label }
    }
}

/// Adds an entry at the end.
pub(super) fn put(file: &Path, text: &str, path: EntryPath<'_>, entry: &NewValue) -> Result<String, ConfigError> {
    let EntryPath { section, label } = path;
    if text.trim().is_empty() {
        let entries = NewValue::Object(vec![(label.to_owned(), entry.clone())]);
        let root = parse(file, "{}")?;
        object(&root, file)?.append(section, entries.input());
        return Ok(format!("{root}\n"));
    }
    let root = parse(file, text)?;
    let entries = object(&root, file)?.object_value_or_create(section).ok_or_else(|| wrong(file, section))?;
    entries.append(label, entry.input());
    Ok(root.to_string())
}

/// Changes keys of an entry (`env.NAME` inside of `env`); a missing entry is created.
pub(super) fn change(
    file: &Path,
    text: &str,
    path: EntryPath<'_>,
    changes: &[(String, Option<NewValue>)],
) -> Result<String, ConfigError> {
    let mut text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
    let root = parse(file, &text)?;
    let EntryPath { section, label } = path;
    let entries = object(&root, file)?.object_value_or_create(section).ok_or_else(|| wrong(file, section))?;
    if entries.get(label).is_none() {
        return put(file, &text, path, &NewValue::nested(changes));
    }
    // One at a time: a member that was inserted as text is not a node yet.
    for (key, value) in changes {
        text = change_one(file, &text, path, key, value.as_ref())?;
    }
    Ok(text)
}

fn change_one(
    file: &Path,
    text: &str,
    path: EntryPath<'_>,
    key: &str,
    value: Option<&NewValue>,
) -> Result<String, ConfigError> {
    let root = parse(file, text)?;
    let EntryPath { section, label } = path;
    let entries = object(&root, file)?.object_value(section).ok_or_else(|| wrong(file, section))?;
    let entry = entries.object_value(label).ok_or_else(|| wrong(file, label))?;
    match key.split_once('.') {
        Some((outer, inner)) if entry.get(outer).is_some() => {
            set(&entry.object_value(outer).ok_or_else(|| wrong(file, outer))?, inner, value);
        }
        Some((outer, inner)) => {
            let object = value.map(|value| NewValue::Object(vec![(inner.to_owned(), value.clone())]));
            set(&entry, outer, object.as_ref());
        }
        None => set(&entry, key, value),
    }
    Ok(root.to_string())
}

fn set(entry: &CstObject, key: &str, value: Option<&NewValue>) {
    match (entry.get(key), value) {
        (Some(member), Some(value)) => member.set_value(value.input()),
        (Some(member), None) => member.remove(),
        (None, Some(value)) => append(entry, key, value),
        (None, None) => {}
    }
}

/// Removes an entry.
pub(super) fn remove(file: &Path, text: &str, path: EntryPath<'_>) -> Result<String, ConfigError> {
    let root = parse(file, text)?;
    let EntryPath { section, label } = path;
    let entries = object(&root, file)?.object_value(section).ok_or_else(|| wrong(file, section))?;
    entries.get(label).ok_or_else(|| wrong(file, label))?.remove();
    Ok(root.to_string())
}

/// Adds a member; an object on one line stays on one line.
fn append(entry: &CstObject, key: &str, value: &NewValue) {
    let before = entry.to_string();
    if before.contains('\n') || entry.properties().is_empty() {
        entry.append(key, value.input());
        return;
    }
    let end = before.strip_suffix('}').unwrap_or(&before).trim_end();
    let space = &before[end.len()..before.len() - 1];
    let comma = if end.ends_with(',') { "" } else { "," };
    let member = format!("{}: {}", serde_json::Value::from(key), value.json());
    let line = format!("{end}{comma} {member}{space}}}");
    // Only the parser can create nodes, so the new line is parsed as a whole.
    match CstRootNode::parse(&line, &ACCEPTED).ok().and_then(|root| root.value()) {
        Some(_) => replace_text(entry, &line),
        None => {
            entry.append(key, value.input());
        }
    }
}

/// Replaces an object by a text.
fn replace_text(entry: &CstObject, line: &str) {
    // A number is written verbatim, whatever its text.
    let _replaced = entry.clone().replace_with(jsonc_parser::cst::CstInputValue::Number(line.to_owned()));
}

pub(super) fn parse(file: &Path, text: &str) -> Result<CstRootNode, ConfigError> {
    CstRootNode::parse(text, &ACCEPTED).map_err(|error| {
        let place = Place { file: file.to_owned(), line: error.line_display() };
        ConfigError::Syntax { place, problem: error.kind().to_string() }
    })
}

pub(super) fn object(root: &CstRootNode, file: &Path) -> Result<CstObject, ConfigError> {
    root.object_value_or_create().ok_or_else(|| ConfigError::Refused {
        place: Place { file: file.to_owned(), line: 0 },
        problem: "the document must be an object".to_owned(),
    })
}

pub(super) fn wrong(file: &Path, key: &str) -> ConfigError {
    ConfigError::Expected {
        place: Place { file: file.to_owned(), line: 0 },
        key: key.to_owned(),
        expected: "an object".to_owned(),
    }
}
