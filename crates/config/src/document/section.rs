//! One object of a document, from which keys are taken one by one; what is left over was not understood.

use super::{Document, Member, Node, Value};
use crate::error::{ConfigError, Place};

/// One object of a document.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    document: &'a Document,
    /// The keys that lead here.
    path: String,
    members: Vec<&'a Member>,
    line: usize,
}

impl<'a> Section<'a> {
    pub(crate) fn of(document: &'a Document, path: String, node: &'a Node) -> Result<Self, ConfigError> {
        match &node.value {
            Value::Map(members) => Ok(Self { document, path, members: members.iter().collect(), line: node.line }),
            _ => {
                let key = if path.is_empty() { "the document".to_owned() } else { path };
                Err(ConfigError::Expected { place: document.place(node.line), key, expected: "an object".to_owned() })
            }
        }
    }

    pub(crate) fn document(&self) -> &'a Document {
        self.document
    }

    pub(crate) fn place(&self) -> Place {
        self.document.place(self.line)
    }

    /// The keys that are left, in order, each with its line.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.members.iter().map(|member| (member.key.as_str(), member.line))
    }

    /// The line of a key that is still here.
    pub(crate) fn line(&self, key: &str) -> Option<usize> {
        self.members.iter().find(|member| member.key == key).map(|member| member.line)
    }

    /// Takes what stands under a key; `null` says nothing.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'a Node> {
        let index = self.members.iter().position(|member| member.key == key)?;
        let node = &self.members.remove(index).node;
        (node.value != Value::Null).then_some(node)
    }

    /// Takes the object under a key.
    pub(crate) fn take_section(&mut self, key: &str) -> Result<Option<Self>, ConfigError> {
        let name = self.name(key);
        self.take(key).map(|node| Self::of(self.document, name, node)).transpose()
    }

    /// Takes every object under every key, each with its key; what is none has its own error.
    pub(crate) fn take_sections(&mut self) -> Vec<(&'a str, Result<Self, ConfigError>)> {
        let section = |member: &&'a Member| {
            let name = self.name(&member.key);
            (member.key.as_str(), Self::of(self.document, name, &member.node))
        };
        let said = self.members.iter().filter(|member| member.node.value != Value::Null);
        let sections = said.map(section).collect();
        self.members.clear();
        sections
    }

    /// Takes the string under a key, with its line.
    pub(crate) fn take_text(&mut self, key: &str) -> Result<Option<(String, usize)>, ConfigError> {
        self.take_as(key, "a string", |node| text(node).map(|text| (text, node.line)))
    }

    /// Takes the list of strings under a key, each with its line.
    pub(crate) fn take_texts(&mut self, key: &str) -> Result<Option<Vec<(String, usize)>>, ConfigError> {
        let name = self.name(key);
        let Some(node) = self.take(key) else { return Ok(None) };
        let wrong = |node: &Node| self.wrong(node.line, &name, "a list of strings");
        let Value::List(elements) = &node.value else { return Err(wrong(node)) };
        let element = |node: &Node| text(node).map(|text| (text, node.line)).ok_or_else(|| wrong(node));
        elements.iter().map(element).collect::<Result<_, _>>().map(Some)
    }

    /// Takes what stands under a key, if it is what was expected.
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

    /// A key with the keys that lead to it.
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
