//! A configuration file as a tree in which every value knows its line: JSON with comments, YAML or TOML, by extension.

mod jsonc;
mod section;
mod toml;
mod yaml;

use std::path::{Path, PathBuf};

use crate::{
    error::{ConfigError, Place},
    interpolate::read_bounded,
    shape::Field,
};

pub(crate) use jsonc::ACCEPTED;
pub(crate) use section::Section;

/// The values of a file.
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

/// A value, common to the three languages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// In file order; keys are unique.
    Map(Vec<Member>),
}

/// One key of an object with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) node: Node,
}

/// Why a text cannot be parsed, before the file is known.
#[derive(Debug)]
struct Problem {
    line: usize,
    kind: ProblemKind,
}

#[derive(Debug)]
enum ProblemKind {
    Syntax(String),
    DuplicateKey(String),
}

/// Language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JSON with comments and trailing commas.
    Jsonc,
    /// YAML, without aliases.
    Yaml,
    /// TOML, only for files of other hosts.
    Toml,
}

/// Maximum size of a configuration file. Some hosts keep their history in the same file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum size of a file of a project, which is untrusted.
const MAX_PROJECT_BYTES: u64 = 1024 * 1024;

// === impl Value ===

impl Value {
    /// The text of a string.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

// === impl Language ===

impl Language {
    /// The language of a file extension; JSON if it is unknown.
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
    /// Reads and parses a file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Self::of(file, &read_text(file, MAX_BYTES)?)
    }

    /// Reads an untrusted file of a project, with a smaller size limit.
    pub(crate) fn read_of_project(file: &Path) -> Result<Self, ConfigError> {
        Self::of(file, &read_text(file, MAX_PROJECT_BYTES)?)
    }

    /// Parses the text of a file.
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

    /// Path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn root(&self) -> Result<Section<'_>, ConfigError> {
        Section::of(self, String::new(), &self.root)
    }

    pub(crate) fn root_value(&self) -> &Value {
        &self.root.value
    }

    /// The value of the whole document, named `name` in errors.
    pub(crate) fn root_field(&self, name: &str) -> Field<'_> {
        Field::new(self, name.to_owned(), &self.root)
    }

    pub(crate) fn place(&self, line: usize) -> Place {
        Place { file: self.file.clone(), line }
    }
}

/// Text of a file of at most `bound` bytes.
fn read_text(file: &Path, bound: u64) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { file: file.to_owned(), source };
    let bytes = read_bounded(file, bound).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| ConfigError::Syntax {
        place: Place { file: file.to_owned(), line: line_of(error.as_bytes(), error.utf8_error().valid_up_to()) },
        problem: "not valid UTF-8".to_owned(),
    })
}

/// The line an offset is on.
fn line_of(text: &[u8], offset: usize) -> usize {
    1 + text[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// Offsets of the line breaks of a text, for many lookups.
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
        Self { line, kind: ProblemKind::Syntax(problem.into()) }
    }

    fn at(self, file: &Path) -> ConfigError {
        let place = Place { file: file.to_owned(), line: self.line };
        match self.kind {
            ProblemKind::Syntax(problem) => ConfigError::Syntax { place, problem },
            ProblemKind::DuplicateKey(key) => ConfigError::DuplicateKey { place, key },
        }
    }
}

/// Adds a member; a duplicate key is an error because parsers disagree about which one counts.
fn add(
    members: &mut Vec<Member>,
    seen: &mut std::collections::BTreeSet<String>,
    member: Member,
) -> Result<(), Problem> {
    if !seen.insert(member.key.clone()) {
        return Err(Problem { line: member.line, kind: ProblemKind::DuplicateKey(member.key) });
    }
    members.push(member);
    Ok(())
}

#[cfg(test)]
mod tests;
