//! One object of a document. The reader takes keys one by one; the remaining keys are unknown.

use super::{Document, Member, Node, Value};
use crate::error::{ConfigError, Place};

/// One object of a document.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    document: &'a Document,
    /// Keys above this object, joined with dots; empty for the root.
    path: String,
    members: Vec<&'a Member>,
    line: usize,
}

impl<'a> Section<'a> {
    pub(crate) fn of(document: &'a Document, path: String, node: &'a Node) -> Result<Self, ConfigError> {
        match &node.value {
            Value::Map(members) => Ok(Self { document, path, members: members.iter().collect(), line: node.line }),
            _ if path.is_empty() => Err(ConfigError::Refused {
                place: document.place(node.line),
                problem: "the document must be an object".to_owned(),
            }),
            _ => Err(ConfigError::Expected {
                place: document.place(node.line),
                key: path,
                expected: "an object".to_owned(),
            }),
        }
    }

    pub(crate) fn document(&self) -> &'a Document {
        self.document
    }

    pub(crate) fn place(&self) -> Place {
        self.document.place(self.line)
    }

    /// Remaining keys in order, each with its line.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.members.iter().map(|member| (member.key.as_str(), member.line))
    }

    /// Line of a remaining key.
    pub(crate) fn line(&self, key: &str) -> Option<usize> {
        self.members.iter().find(|member| member.key == key).map(|member| member.line)
    }

    /// Whether a remaining key is `true` or `false`.
    pub(crate) fn is_flag(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key && matches!(member.node.value, Value::Flag(_)))
    }

    /// Whether a remaining key is a list.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key && matches!(member.node.value, Value::List(_)))
    }

    /// Takes the value of a key; `null` counts as missing.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'a Node> {
        let index = self.members.iter().position(|member| member.key == key)?;
        let node = &self.members.remove(index).node;
        (node.value != Value::Null).then_some(node)
    }

    /// Takes the object of a key.
    pub(crate) fn take_section(&mut self, key: &str) -> Result<Option<Self>, ConfigError> {
        let name = self.name(key);
        self.take(key).map(|node| Self::of(self.document, name, node)).transpose()
    }

    /// Takes the objects of all keys, each with its key, or with an error if the value is not an object.
    pub(crate) fn take_sections(&mut self) -> Vec<(&'a str, Result<Self, ConfigError>)> {
        let section = |member: &&'a Member| {
            let name = self.name(&member.key);
            (member.key.as_str(), Self::of(self.document, name, &member.node))
        };
        let present = self.members.iter().filter(|member| member.node.value != Value::Null);
        let sections = present.map(section).collect();
        self.members.clear();
        sections
    }

    /// Takes the string of a key, with its line.
    pub(crate) fn take_text(&mut self, key: &str) -> Result<Option<(String, usize)>, ConfigError> {
        self.take_as(key, "a string", |node| text(node).map(|text| (text, node.line)))
    }

    /// Takes the list of strings of a key, each with its line.
    pub(crate) fn take_texts(&mut self, key: &str) -> Result<Option<Vec<(String, usize)>>, ConfigError> {
        let name = self.name(key);
        let Some(node) = self.take(key) else { return Ok(None) };
        let wrong = |node: &Node| self.wrong(node.line, &name, "a list of strings");
        let Value::List(elements) = &node.value else { return Err(wrong(node)) };
        let element = |node: &Node| text(node).map(|text| (text, node.line)).ok_or_else(|| wrong(node));
        elements.iter().map(element).collect::<Result<_, _>>().map(Some)
    }

    /// Takes the value of a key if `read` accepts it; otherwise the error says what was expected.
    pub(crate) fn take_as<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Node) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let name = self.name(key);
        let Some(node) = self.take(key) else { return Ok(None) };
        read(node).map(Some).ok_or_else(|| self.wrong(node.line, &name, expected))
    }

    /// Full path of a key.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn wrong(&self, line: usize, name: &str, expected: &str) -> ConfigError {
        ConfigError::Expected { place: self.document.place(line), key: name.to_owned(), expected: expected.to_owned() }
    }
}

fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}
