//! A file as a tree in which every value knows its line: JSON with comments, YAML or TOML, by its extension.

mod jsonc;
mod section;
mod toml;
mod yaml;

use std::path::{Path, PathBuf};

use crate::{
    error::{ConfigError, Place},
    interpolate::read_bounded,
};

pub(crate) use jsonc::ACCEPTED;
pub(crate) use section::Section;

/// A file's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    file: PathBuf,
    root: Node,
}

/// One value and its line, counted from one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) line: usize,
}

/// What the three ways of writing have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// In order; a key stands here once.
    Map(Vec<Member>),
}

/// One key of an object and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) node: Node,
}

/// What a reader says about a text that is not what its extension promises.
#[derive(Debug)]
struct Problem {
    line: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Syntax(String),
    Twice(String),
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JSON; comments and a comma too many are fine.
    Jsonc,
    /// YAML, without aliases.
    Yaml,
    /// TOML, which only some hosts' files are.
    Toml,
}

/// More than this is no configuration. Some hosts keep their history in the same file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A project has no history to keep; what it takes to read its file is bounded by this.
const MAX_PROJECT_BYTES: u64 = 1024 * 1024;

// === impl Language ===

impl Language {
    /// What a file's extension promises.
    pub fn of(file: &Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml") => Self::Yaml,
            Some("toml") => Self::Toml,
            _ => Self::Jsonc,
        }
    }
}

// === impl Document ===

impl Document {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Self::of(file, &read_text(file, MAX_BYTES)?)
    }

    /// Reads a file that a stranger may have written.
    pub(crate) fn read_of_project(file: &Path) -> Result<Self, ConfigError> {
        Self::of(file, &read_text(file, MAX_PROJECT_BYTES)?)
    }

    /// A text that came from a file.
    pub fn of(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = match Language::of(file) {
            Language::Jsonc => jsonc::parse(text),
            Language::Yaml => yaml::parse(text),
            Language::Toml => toml::parse(text),
        };
        let root = root.map_err(|problem| problem.at(file))?;
        Ok(Self { file: file.to_owned(), root })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn root(&self) -> Result<Section<'_>, ConfigError> {
        Section::of(self, String::new(), &self.root)
    }

    pub(crate) fn place(&self, line: usize) -> Place {
        Place { file: self.file.clone(), line }
    }
}

/// A file's text, if it is one.
fn read_text(file: &Path, bound: u64) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { file: file.to_owned(), source };
    let bytes = read_bounded(file, bound).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| ConfigError::Syntax {
        place: Place { file: file.to_owned(), line: line_of(error.as_bytes(), error.utf8_error().valid_up_to()) },
        problem: "not UTF-8".to_owned(),
    })
}

/// The line an offset is on.
fn line_of(text: &[u8], offset: usize) -> usize {
    1 + text[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// The lines of a text, for many questions about it.
#[derive(Debug)]
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|newline| *newline < offset)
    }
}

// === impl Problem ===

impl Problem {
    fn syntax(line: usize, problem: impl Into<String>) -> Self {
        Self { line, what: What::Syntax(problem.into()) }
    }

    fn at(self, file: &Path) -> ConfigError {
        let place = Place { file: file.to_owned(), line: self.line };
        match self.what {
            What::Syntax(problem) => ConfigError::Syntax { place, problem },
            What::Twice(key) => ConfigError::Twice { place, key },
        }
    }
}

/// Adds a member; a key that is there already is a mistake, since readers disagree about which one counts.
fn add(
    members: &mut Vec<Member>,
    seen: &mut std::collections::BTreeSet<String>,
    member: Member,
) -> Result<(), Problem> {
    if !seen.insert(member.key.clone()) {
        return Err(Problem { line: member.line, what: What::Twice(member.key) });
    }
    members.push(member);
    Ok(())
}

#[cfg(test)]
mod tests;
