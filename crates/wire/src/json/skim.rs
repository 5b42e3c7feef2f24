//! Finds the id of a message that is too long or invalid, while its bytes pass by.
//!
//! A line over the limit must fail the call it answers, and some servers write the id last. The skimmer tracks only
//! depth, strings and the keys of the outermost object, in constant memory. It also looks for a method, because a
//! request of the peer answers none of ours.

use bytes::Bytes;

use super::Raw;
use crate::message::Id;

/// Maximum length of a string id; ours are shorter.
const MAX_ID: usize = 64;

/// Tracks one JSON object while its bytes pass by.
#[derive(Debug, Default)]
pub(crate) struct Skimmer {
    depth: usize,
    inside: Inside,
    /// The last token at the outermost level.
    token: Vec<u8>,
    /// Meaning of the next token of the outermost object.
    next: Next,
    id: Option<Vec<u8>>,
    has_method: bool,
}

/// Result of skimming a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skimmed {
    /// The id, if there is a valid one.
    pub(crate) id: Option<Id>,
    /// Whether it has a method, and so is not a response.
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
    /// Processes the next bytes.
    pub(crate) fn skim(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// Skims a complete text.
    pub(crate) fn whole(text: &[u8]) -> Skimmed {
        let mut skimmer = Self::default();
        skimmer.skim(text);
        skimmer.found()
    }

    /// The result after the last byte.
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
                self.next = if self.token == b"\"id\"" { Next::IdValue } else { Next::OtherValue };
                self.has_method |= self.token == b"\"method\"";
            }
            b',' if self.depth == 1 => self.next = Next::Key,
            b'"' => {
                self.inside = Inside::String;
                self.token.clear();
                self.keep(byte);
            }
            b' ' | b'\t' | b'\r' | b'\n' | b':' | b',' => {}
            _ => {
                self.inside = Inside::Scalar;
                self.token.clear();
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= MAX_ID {
            self.token.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if self.depth == 1 && self.next == Next::IdValue && self.token.len() <= MAX_ID {
            self.id = Some(std::mem::take(&mut self.token));
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
    fn id_is_found_anywhere() {
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
    fn request_is_distinguished_from_response() {
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
