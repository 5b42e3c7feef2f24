//! JSON with comments, and where in its file each value stands.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, Value},
    common::Ranged,
    parse_to_ast,
};

use crate::error::{ConfigError, Place};

/// A file's text.
#[derive(Debug)]
pub struct Document {
    file: PathBuf,
    text: String,
}

/// One object of a document, every key at most once.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    document: &'a Document,
    /// The keys that lead here.
    path: String,
    members: Vec<(String, Value<'a>)>,
    start: usize,
}

/// What may be more than JSON in a file: comments and a comma too many.
const ACCEPTED: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

// === impl Document ===

impl Document {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(file).map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
        Ok(Self::of(file, text))
    }

    /// A text that came from a file.
    pub fn of(file: &Path, text: String) -> Self {
        Self { file: file.to_owned(), text }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn root(&self) -> Result<Section<'_>, ConfigError> {
        let parsed = parse_to_ast(&self.text, &CollectOptions::default(), &ACCEPTED).map_err(|error| {
            ConfigError::Syntax { place: self.place(error.range().start), problem: error.kind().to_string() }
        })?;
        match parsed.value {
            Some(Value::Object(object)) => Section::of(self, String::new(), object),
            _ => Err(self.expected(0, "the document", "an object")),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Place { file: self.file.clone(), line }
    }

    fn expected(&self, offset: usize, key: &str, expected: &str) -> ConfigError {
        ConfigError::Expected { place: self.place(offset), key: key.to_owned(), expected: expected.to_owned() }
    }
}

// === impl Section ===

impl<'a> Section<'a> {
    fn of(document: &'a Document, path: String, object: Object<'a>) -> Result<Self, ConfigError> {
        let start = object.range.start;
        let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
        for property in object.properties {
            let place = document.place(property.range.start);
            let key = property.name.into_string();
            if !seen.insert(key.clone()) {
                return Err(ConfigError::Twice { place, key });
            }
            members.push((key, property.value));
        }
        Ok(Self { document, path, members, start })
    }

    pub(crate) fn place(&self) -> Place {
        self.document.place(self.start)
    }

    /// The keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(key, _)| key.as_str())
    }

    /// Takes the object under a key.
    pub(crate) fn take_section(&mut self, key: &str) -> Result<Option<Self>, ConfigError> {
        let name = self.name(key);
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Self::of(self.document, name, object).map(Some),
            Some(other) => Err(self.document.expected(other.start(), &name, "an object")),
        }
    }

    /// Takes the string under a key.
    pub(crate) fn take_text(&mut self, key: &str) -> Result<Option<String>, ConfigError> {
        let name = self.name(key);
        match self.take(key) {
            None => Ok(None),
            Some(Value::StringLit(text)) => Ok(Some(text.value.into_owned())),
            Some(other) => Err(self.document.expected(other.start(), &name, "a string")),
        }
    }

    /// Takes the flag under a key.
    pub(crate) fn take_flag(&mut self, key: &str) -> Result<Option<bool>, ConfigError> {
        let name = self.name(key);
        match self.take(key) {
            None => Ok(None),
            Some(Value::BooleanLit(flag)) => Ok(Some(flag.value)),
            Some(other) => Err(self.document.expected(other.start(), &name, "true or false")),
        }
    }

    /// Takes the list of strings under a key.
    pub(crate) fn take_texts(&mut self, key: &str) -> Result<Vec<String>, ConfigError> {
        let name = self.name(key);
        let list = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(self.document.expected(other.start(), &name, "a list of strings")),
        };
        let text = |value: Value<'a>| match value {
            Value::StringLit(text) => Ok(text.value.into_owned()),
            other => Err(self.document.expected(other.start(), &name, "a list of strings")),
        };
        list.elements.into_iter().map(text).collect()
    }

    /// Takes the object of strings under a key, in order.
    pub(crate) fn take_pairs(&mut self, key: &str) -> Result<Vec<(String, String)>, ConfigError> {
        let Some(section) = self.take_section(key)? else { return Ok(Vec::new()) };
        let mut pairs = Vec::new();
        for (name, value) in section.members {
            match value {
                Value::StringLit(text) => pairs.push((name, text.value.into_owned())),
                other => {
                    let key = format!("{}.{name}", section.path);
                    return Err(self.document.expected(other.start(), &key, "a string"));
                }
            }
        }
        Ok(pairs)
    }

    /// An error about a key of this object.
    pub(crate) fn expected(&self, key: &str, expected: &str) -> ConfigError {
        self.document.expected(self.start, &self.name(key), expected)
    }

    /// A key with the keys that lead to it.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &str) -> Option<Value<'a>> {
        let index = self.members.iter().position(|(name, _)| name == key)?;
        Some(self.members.remove(index).1)
    }
}
