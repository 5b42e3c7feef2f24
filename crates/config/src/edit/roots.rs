//! Adds a root to a list of a file, or removes one; comments and all other text stay.

use std::path::Path;

use jsonc_parser::cst::{CstArray, CstObject};

use super::{Change, NewValue, jsonc, read};
use crate::{
    config::FileContents,
    document::{Document, Language},
    error::ConfigError,
    server::DefinedBy,
};

/// The list that a root belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootsLevel<'a> {
    /// The top-level key `roots`.
    Top,
    /// The entry with this key under `mcpServers`.
    Server(&'a str),
    /// `gateway.clients.<name>`.
    Client(&'a str),
}

/// A change of a list of roots.
#[derive(Clone, Debug, PartialEq)]
pub enum RootsEdit {
    /// Adds a root at the end.
    Add(NewValue),
    /// Removes the root at this index.
    Remove(usize),
}

/// Plans a change of one list of roots.
pub fn plan_roots(file: &Path, level: RootsLevel<'_>, edit: &RootsEdit) -> Result<Change, ConfigError> {
    let before = read(file)?;
    if Language::of(file) != Language::Jsonc {
        let lines = match edit {
            RootsEdit::Add(root) => format!("- {}\n", root.json()),
            RootsEdit::Remove(_) => String::new(),
        };
        let verb = if lines.is_empty() { "Remove it from" } else { "Add this to" };
        return Ok(Change::Lines {
            file: file.to_owned(),
            lines,
            advice: format!("{verb} `{}` in {}.", level.key(), file.display()),
        });
    }
    let root = jsonc::parse(file, if before.trim().is_empty() { "{}\n" } else { &before })?;
    let list = level.list(&jsonc::object(&root, file)?).ok_or_else(|| jsonc::wrong(file, &level.key()))?;
    match edit {
        RootsEdit::Add(root) => drop(list.append(root.input())),
        RootsEdit::Remove(index) => {
            if let Some(element) = list.elements().into_iter().nth(*index) {
                element.remove();
            }
        }
    }
    let text = root.to_string();
    FileContents::of(&Document::of(file, &text)?, DefinedBy::User, None)?;
    Ok(Change::Text { file: file.to_owned(), before, text })
}

impl RootsLevel<'_> {
    /// The key in the file.
    pub fn key(self) -> String {
        match self {
            Self::Top => "roots".to_owned(),
            Self::Server(label) => format!("mcpServers.{label}.roots"),
            Self::Client(name) => format!("gateway.clients.{name}.roots"),
        }
    }

    /// The list, created if it is missing; `None` if a value on the way is of another type.
    fn list(self, root: &CstObject) -> Option<CstArray> {
        let holder = match self {
            Self::Top => root.clone(),
            Self::Server(label) => root.object_value_or_create("mcpServers")?.object_value_or_create(label)?,
            Self::Client(name) => {
                let gateway = root.object_value_or_create("gateway")?;
                gateway.object_value_or_create("clients")?.object_value_or_create(name)?
            }
        };
        holder.array_value_or_create("roots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(before: &str, level: RootsLevel<'_>, edit: &RootsEdit) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolway.json");
        std::fs::write(&file, before).unwrap();
        match plan_roots(&file, level, edit).unwrap() {
            Change::Text { text, .. } => text,
            other @ Change::Lines { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_root_is_added_and_removed_at_each_level_and_the_rest_stays() {
        let new = NewValue::pairs([("path", "/a")]);
        let text = r#"{ /* mine */ "mcpServers": { "files": { "command": "f" } }, "gateway": { "sse": true } }"#;
        for level in [RootsLevel::Top, RootsLevel::Server("files"), RootsLevel::Client("editor")] {
            let added = edited(text, level, &RootsEdit::Add(new.clone()));
            assert!(added.contains("/* mine */") && added.contains(r#""sse": true"#), "{added}");
            let twice = edited(&added, level, &RootsEdit::Add(NewValue::pairs([("uri", "file:///b")])));
            let removed = edited(&twice, level, &RootsEdit::Remove(0));
            assert!(removed.contains("file:///b") && !removed.contains("\"/a\""), "{removed}");
        }
        assert!(edited("", RootsLevel::Top, &RootsEdit::Add(new)).contains("\"/a\""));
    }
}
