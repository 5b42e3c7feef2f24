//! The id of a message that is too long to keep, or too odd to read, found while its bytes go by.
//!
//! A line over the bound must fail the call it answers, and some servers put the id last. So the line is skimmed:
//! only the depth, the strings and the keys of the outermost object are followed, in constant memory. A request of
//! the peer's has a number of the peer's and answers nothing, so a method is looked for as well.

use bytes::Bytes;

use super::Raw;
use crate::message::Id;

/// A string id longer than this is not one of ours.
const MAX_ID: usize = 64;

/// Follows one JSON object as its bytes go by.
#[derive(Debug, Default)]
pub(crate) struct Skimmer {
    depth: usize,
    inside: Inside,
    /// The last string at the outermost level, or the value of `id`.
    word: Vec<u8>,
    /// What the next token of the outermost object is.
    next: Next,
    id: Option<Vec<u8>>,
    has_method: bool,
}

/// What a message turned out to be about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skimmed {
    /// The id, if it had one that is one.
    pub(crate) id: Option<Id>,
    /// Whether it had a method, and so answers nothing.
    pub(crate) is_request: bool,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Inside {
    #[default]
    Nothing,
    String,
    Escape,
    Scalar,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Next {
    #[default]
    Key,
    IdValue,
    OtherValue,
}

impl Skimmer {
    /// Follows the next bytes.
    pub(crate) fn skim(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// All of a text that is at hand.
    pub(crate) fn whole(text: &[u8]) -> Skimmed {
        let mut skimmer = Self::default();
        skimmer.skim(text);
        skimmer.found()
    }

    /// What was found, once the object has gone by.
    pub(crate) fn found(self) -> Skimmed {
        let id = self.id.and_then(|id| Raw::parse(Bytes::from(id)).ok()).and_then(Id::from_raw);
        Skimmed { id, is_request: self.has_method }
    }

    fn step(&mut self, byte: u8) {
        match self.inside {
            Inside::Escape => {
                self.keep(byte);
                self.inside = Inside::String;
            }
            Inside::String => self.in_string(byte),
            Inside::Scalar if matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n') => {
                self.inside = Inside::Nothing;
                self.value_ends();
                self.between(byte);
            }
            Inside::Scalar => self.keep(byte),
            Inside::Nothing => self.between(byte),
        }
    }

    fn in_string(&mut self, byte: u8) {
        self.keep(byte);
        match byte {
            b'\\' => self.inside = Inside::Escape,
            b'"' => {
                self.inside = Inside::Nothing;
                self.value_ends();
            }
            _ => {}
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => {
                self.next = if self.word == b"\"id\"" { Next::IdValue } else { Next::OtherValue };
                self.has_method |= self.word == b"\"method\"";
            }
            b',' if self.depth == 1 => self.next = Next::Key,
            b'"' => {
                self.inside = Inside::String;
                self.word.clear();
                self.keep(byte);
            }
            b' ' | b'\t' | b'\r' | b'\n' | b':' | b',' => {}
            _ => {
                self.inside = Inside::Scalar;
                self.word.clear();
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() <= MAX_ID {
            self.word.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if self.depth == 1 && self.next == Next::IdValue && self.word.len() <= MAX_ID {
            self.id = Some(std::mem::take(&mut self.word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Skimmer;

    fn skimmed(text: &str, step: usize) -> Option<String> {
        let mut skimmer = Skimmer::default();
        for chunk in text.as_bytes().chunks(step) {
            skimmer.skim(chunk);
        }
        skimmer.found().id.map(|id| id.to_string())
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":9,"t":"\"id\":8"}}"#, Some("7")),
            (r#"{"result":{"id":9,"deep":[{"id":1}]},"jsonrpc":"2.0", "id" : "a\"b" }"#, Some(r#""a\"b""#)),
            (r#"{"result":"id","id":12}"#, Some("12")),
            (r#"{"result":{"id":9}}"#, None),
            (r#"{"id":{"x":1},"result":1}"#, None),
            (r#"[{"id":1}]"#, None),
        ] {
            for step in [1, 3, 1_000] {
                assert_eq!(skimmed(text, step).as_deref(), id, "{text}");
            }
        }
    }

    #[test]
    fn a_request_is_told_from_an_answer() {
        for (text, is_request) in [
            (r#"{"id":7,"method":"ping"}"#, true),
            (r#"{"id":7,"params":{},"method" : "x""#, true),
            (r#"{"id":7,"result":{"method":"x"}}"#, false),
            (r#"{"id":7,"result":"method"}"#, false),
        ] {
            assert_eq!(Skimmer::whole(text.as_bytes()).is_request, is_request, "{text}");
        }
    }
}
