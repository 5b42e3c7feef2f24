//! Finds secrets in a text however they are spelt: as they are, in JSON escapes, in URL encoding, in several layers of both,
//! and in base64.
//!
//! A text is decoded layer by layer: JSON escapes and URL encoding together, and, where it has both, each alone in every
//! order. Every layer is searched for the secrets and for what decoding makes of them. What is found is mapped back to the
//! text. Not found: a secret that was
//! changed in another way (hexadecimal, compressed, reversed, in parts).

use std::ops::Range;

use aho_corasick::AhoCorasick;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::SHORTEST;

/// Layers of encoding that are decoded.
const LAYERS: usize = 6;
/// Layers that are decoded in every order of the two encodings.
const EXACT_LAYERS: usize = 3;
/// Minimum length in bytes of a secret that is looked for in base64; what is sure of a shorter one occurs by chance.
const SHORTEST_IN_BASE64: usize = 8;

/// Finds any of a set of secrets.
#[derive(Debug)]
pub(super) struct Matcher {
    spellings: AhoCorasick,
}

/// What a layer of encoding is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decoding {
    Json,
    Url,
    Both,
}

/// A text after some layers were decoded; each byte knows the part of the original that it stands for.
struct Decoded {
    bytes: Vec<u8>,
    origins: Vec<Range<usize>>,
}

impl Matcher {
    /// Returns `None` without secrets.
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut spellings: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            spellings.push(secret.as_bytes().to_vec());
            spellings.extend(in_base64(secret.as_bytes()));
        }
        // A secret may look like an encoding itself.
        let decoded: Vec<_> = spellings.iter().map(|spelling| Decoding::Both.decode_all(spelling)).collect();
        spellings.extend(decoded.into_iter().filter(|spelling| SHORTEST <= spelling.len()));
        spellings.sort();
        spellings.dedup();
        if spellings.is_empty() {
            return None;
        }
        // This fails only for more patterns than fit into memory.
        AhoCorasick::new(spellings).ok().map(|spellings| Self { spellings })
    }

    /// The parts of a text that spell a secret, in order and without overlaps.
    pub(super) fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let text = text.as_bytes();
        let mut spans = Vec::new();
        if self.spellings.is_match(text) {
            spans.extend(self.spellings.find_overlapping_iter(text).map(|found| found.range()));
        }
        let mut search = Search { matcher: self, text, path: Vec::new(), spans, has_json: false, has_url: false };
        search.descend(text, &[Decoding::Both], LAYERS);
        if search.has_json && search.has_url {
            search.descend(text, &[Decoding::Json, Decoding::Url], EXACT_LAYERS);
        }
        merged(search.spans)
    }
}

/// The search for secrets in the layers of a text.
struct Search<'a> {
    matcher: &'a Matcher,
    text: &'a [u8],
    /// The decodings that led to the present layer.
    path: Vec<Decoding>,
    spans: Vec<Range<usize>>,
    /// A layer may have JSON escapes.
    has_json: bool,
    /// A layer may have URL encoding.
    has_url: bool,
}

impl Search<'_> {
    /// Decodes a layer in each of these ways, and what comes out of it again, down to a depth.
    fn descend(&mut self, layer: &[u8], ways: &[Decoding], depth: usize) {
        if depth == 0 {
            return;
        }
        self.has_json |= layer.contains(&b'\\');
        self.has_url |= layer.iter().any(|byte| matches!(byte, b'%' | b'+'));
        for way in ways {
            let Some(next) = way.decode(layer) else { continue };
            self.path.push(*way);
            if self.matcher.spellings.is_match(&next) {
                let Decoded { bytes, origins } = Decoded::of(self.text, &self.path);
                let found = self.matcher.spellings.find_overlapping_iter(&bytes).map(|found| found.range());
                self.spans.extend(found.map(|found| origins[found.start].start..origins[found.end - 1].end));
            }
            self.descend(&next, ways, depth - 1);
            self.path.pop();
        }
    }
}

/// Joins spans that overlap.
fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_by_key(|span| span.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut().filter(|last| span.start < last.end) {
            Some(last) => last.end = last.end.max(span.end),
            None => merged.push(span),
        }
    }
    merged
}

/// What base64 is sure to contain of a secret, whatever stands before and after it.
fn in_base64(secret: &[u8]) -> Vec<Vec<u8>> {
    if secret.len() < SHORTEST_IN_BASE64 {
        return Vec::new();
    }
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let text = [&[0; 3][..before], secret].concat();
        // Characters that have bits of what stands before, and of what follows.
        let skipped = (before * 8).div_ceil(6);
        let whole = text.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            forms.push(encoded.as_bytes()[skipped..whole].to_vec());
        }
    }
    forms
}

// === impl Decoding ===

impl Decoding {
    /// One layer decoded; `None` if that changes nothing.
    fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        let mut decoded = Vec::with_capacity(text.len());
        self.each(text, |bytes, _| decoded.extend_from_slice(bytes));
        (decoded != text).then_some(decoded)
    }

    /// All layers decoded.
    fn decode_all(self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for _ in 0..LAYERS {
            let Some(next) = self.decode(&text) else { break };
            text = next;
        }
        text
    }

    /// Calls `put` for each escape, and for what stands between two of them, with what it means and where it stands.
    fn each(self, text: &[u8], mut put: impl FnMut(&[u8], Range<usize>)) {
        let (mut after, mut at) = (0, 0);
        while let Some(skipped) = text[at..].iter().position(|byte| self.may_begin(*byte)) {
            at += skipped;
            let rest = &text[at..];
            let escape = match rest[0] {
                b'\\' => json_escape(rest),
                b'%' => url_escape(rest),
                _ => Some(Escape { meaning: Meaning::Byte(b' '), length: 1 }),
            };
            let Some(Escape { meaning, length }) = escape else {
                at += 1;
                continue;
            };
            put(&text[after..at], after..at);
            match meaning {
                Meaning::Byte(byte) => put(&[byte], at..at + length),
                Meaning::Character(character) => put(character.encode_utf8(&mut [0; 4]).as_bytes(), at..at + length),
            }
            at += length;
            after = at;
        }
        put(&text[after..], after..text.len());
    }

    /// Whether an escape may begin with this byte.
    fn may_begin(self, byte: u8) -> bool {
        match byte {
            b'\\' => self != Self::Url,
            b'%' | b'+' => self != Self::Json,
            _ => false,
        }
    }
}

// === impl Decoded ===

impl Decoded {
    /// Decodes layers of a text.
    fn of(text: &[u8], layers: &[Decoding]) -> Self {
        let mut decoded = Self { bytes: text.to_vec(), origins: (0..text.len()).map(|at| at..at + 1).collect() };
        for decoding in layers {
            let (mut bytes, mut origins) = (Vec::new(), Vec::new());
            decoding.each(&decoded.bytes, |meaning, span| {
                bytes.extend_from_slice(meaning);
                if meaning.len() == span.len() {
                    return origins.extend_from_slice(&decoded.origins[span]);
                }
                let origin = decoded.origins[span.start].start..decoded.origins[span.end - 1].end;
                origins.extend(meaning.iter().map(|_| origin.clone()));
            });
            decoded = Self { bytes, origins };
        }
        decoded
    }
}

/// An escape sequence.
struct Escape {
    meaning: Meaning,
    /// Bytes of the sequence.
    length: usize,
}

enum Meaning {
    Byte(u8),
    Character(char),
}

/// The escape of a JSON string, or of a string literal as other languages print it, at the beginning of a text.
fn json_escape(text: &[u8]) -> Option<Escape> {
    let byte = |byte: u8| Some(Escape { meaning: Meaning::Byte(byte), length: 2 });
    match text.get(1)? {
        quoted @ (b'"' | b'\\' | b'/' | b'\'') => byte(*quoted),
        b'b' => byte(8),
        b'f' => byte(12),
        b'n' => byte(b'\n'),
        b'r' => byte(b'\r'),
        b't' => byte(b'\t'),
        b'x' => Some(Escape { meaning: Meaning::Byte(u8::try_from(hexadecimal(text.get(2..4)?)?).ok()?), length: 4 }),
        b'u' => {
            let first = hexadecimal(text.get(2..6)?)?;
            if let Some(character) = char::from_u32(first) {
                return Some(Escape { meaning: Meaning::Character(character), length: 6 });
            }
            let second =
                text.get(6..8).filter(|escape| *escape == b"\\u").and_then(|_| hexadecimal(text.get(8..12)?))?;
            let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            let high = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
            let character = char::from_u32(0x10000 + (high << 10) + low)?;
            Some(Escape { meaning: Meaning::Character(character), length: 12 })
        }
        _ => None,
    }
}

/// The escape of a URL at the beginning of a text.
fn url_escape(text: &[u8]) -> Option<Escape> {
    if matches!(text.get(1)?, b'u' | b'U') {
        let character = char::from_u32(hexadecimal(text.get(2..6)?)?)?;
        return Some(Escape { meaning: Meaning::Character(character), length: 6 });
    }
    let byte = u8::try_from(hexadecimal(text.get(1..3)?)?).ok()?;
    Some(Escape { meaning: Meaning::Byte(byte), length: 3 })
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    let digit = |value: u32, digit: &u8| Some(value * 16 + char::from(*digit).to_digit(16)?);
    digits.iter().try_fold(0, digit)
}
