//! A JSON text in pieces: a request repeats most of the request before it, and what is repeated is stored once. Also where
//! in a JSON text a byte is.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// Depth of arrays and objects between whose members a text is split.
const DEPTH: usize = 2;
/// Bytes that a piece has at least, except for the last one.
const SHORTEST: usize = 64;
/// Characters of a name in a path.
const NAME: usize = 80;

/// Digest of a piece, by which it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct PieceId(String);

impl PieceId {
    pub(super) fn of(piece: &str) -> Self {
        Self(hex(&digest(&SHA256, piece.as_bytes()).as_ref()[..16]))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// SHA-256 of a whole request, in hex.
pub(super) fn sha256(text: &[u8]) -> String {
    hex(digest(&SHA256, text).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The pieces of a JSON text; together they are the text.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut depth = 0_usize;
    let mut scan = Strings::default();
    for (at, byte) in text.bytes().enumerate() {
        if scan.push(byte) == Place::String {
            continue;
        }
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth <= DEPTH && SHORTEST <= at + 1 - start => {
                pieces.push(&text[start..=at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// The JSON pointer of the value that a byte of a text belongs to.
pub(super) fn pointer(text: &str, offset: usize) -> String {
    let mut path: Vec<Step> = Vec::new();
    let mut scan = Strings::default();
    let mut name_from = None;
    for (at, byte) in text.bytes().enumerate().take(offset) {
        let place = scan.push(byte);
        let is_name = matches!(path.last(), Some(Step::Member { is_name: true, .. }));
        match (place, byte) {
            (Place::String, b'"') if is_name && name_from.is_none() => name_from = Some(at + 1),
            (Place::End, _) => {
                if let (Some(from), Some(Step::Member { name, .. })) = (name_from.take(), path.last_mut()) {
                    *name = text[from..at].chars().take(NAME).collect();
                }
            }
            (Place::String, _) => {}
            (Place::Outside, b'{') => path.push(Step::Member { name: String::new(), is_name: true }),
            (Place::Outside, b'[') => path.push(Step::Element(0)),
            (Place::Outside, b'}' | b']') => drop(path.pop()),
            (Place::Outside, b':') => {
                if let Some(Step::Member { is_name, .. }) = path.last_mut() {
                    *is_name = false;
                }
            }
            (Place::Outside, b',') => match path.last_mut() {
                Some(Step::Element(index)) => *index += 1,
                Some(Step::Member { name, is_name }) => (*name, *is_name) = (String::new(), true),
                None => {}
            },
            (Place::Outside, _) => {}
        }
    }
    let steps = path.iter().map(|step| match step {
        Step::Member { name, .. } if name.is_empty() => String::new(),
        Step::Member { name, .. } => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        Step::Element(index) => format!("/{index}"),
    });
    let pointer: String = steps.collect();
    if pointer.is_empty() { "/".to_owned() } else { pointer }
}

enum Step {
    Member { name: String, is_name: bool },
    Element(usize),
}

/// Tells what is inside of strings.
#[derive(Default)]
struct Strings {
    is_open: bool,
    is_escaped: bool,
}

/// Where a byte is. The first quotation mark of a string counts as inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    String,
    /// The last quotation mark of a string.
    End,
}

impl Strings {
    fn push(&mut self, byte: u8) -> Place {
        if !self.is_open {
            self.is_open = byte == b'"';
            return if self.is_open { Place::String } else { Place::Outside };
        }
        if std::mem::take(&mut self.is_escaped) {
            return Place::String;
        }
        self.is_escaped = byte == b'\\';
        self.is_open = byte != b'"';
        if self.is_open { Place::String } else { Place::End }
    }
}

#[cfg(test)]
mod tests {
    use super::{pointer, split};

    const TEXT: &str = r#"{"model":"m","messages":[{"role":"user","content":"a, \"b\" [c]"},{"role":"assistant","content":[{"type":"text","text":"one, two {three}, four, five"}]},{"role":"user","content":"the last one of all"}],"a/b":{"c~":[1,2]},"max":5}"#;

    #[test]
    fn pieces_together_are_the_text_and_a_longer_text_shares_them() {
        let pieces = split(TEXT);
        assert_eq!(pieces.concat(), TEXT);
        assert!(2 < pieces.len(), "{pieces:?}");
        let longer = TEXT.replace(
            "],\"a/b\"",
            ",{\"role\":\"assistant\",\"content\":\"something new at the end, of some length\"}],\"a/b\"",
        );
        let shared = split(&longer).iter().zip(&pieces).take_while(|(one, other)| *one == *other).count();
        assert!(2 <= shared, "{shared} of {pieces:?}");
        for text in
            ["", "{}", "[\"a,b\"]", "not JSON, at all \" with, an open string, that is longer than sixty-four bytes"]
        {
            assert_eq!(split(text).concat(), text);
        }
    }

    #[test]
    fn a_byte_is_found_by_its_path() {
        let at = |needle: &str| pointer(TEXT, TEXT.find(needle).unwrap());
        assert_eq!(at("three"), "/messages/1/content/0/text");
        assert_eq!(at("[c]"), "/messages/0/content");
        assert_eq!(at("2]}"), "/a~1b/c~0/1");
        assert_eq!(at("5}"), "/max");
        assert_eq!(pointer(TEXT, 0), "/");
        assert_eq!(pointer(TEXT, TEXT.len() + 10), "/");
        assert_eq!(pointer("]}\",,", 5), "/");
    }
}
