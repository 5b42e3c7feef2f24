//! The checker: is this JSON, how deep is it, and where do the members of this level stand?
//!
//! Strict grammar of RFC 8259, no recursion, nothing copied, strings crossed by the word. Compared with `serde_json` by a property test and a fuzz target.

use std::{borrow::Cow, ops::Range};

/// No message may nest deeper than this, whatever a limit says; the stack of open brackets has this many bits.
pub const MAX_DEPTH: usize = 1024;

/// Why a text is not a JSON value we accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Bytes that are not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// The text ends inside a value.
    #[error("JSON ends too early")]
    Truncated,
    /// A byte that cannot stand where it stands.
    #[error("not JSON at byte {at}")]
    Unexpected {
        /// Offset of the byte.
        at: usize,
    },
    /// More open brackets than allowed.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit in force.
        limit: usize,
    },
}

/// A walk over one text.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    depth_limit: usize,
}

/// The open brackets: one bit each, set for an object.
struct Nesting {
    bits: [u64; MAX_DEPTH / 64],
    depth: usize,
}

enum Open {
    Object,
    Array,
    Nothing,
}

/// Checks that `text` is one value and nothing else; gives its span without the whitespace around it.
pub(crate) fn whole_value(text: &[u8], depth_limit: usize) -> Result<Range<usize>, JsonError> {
    if let Err(error) = std::str::from_utf8(text) {
        return Err(JsonError::NotUtf8 { at: error.valid_up_to() });
    }
    let mut scanner = Scanner::new(text, depth_limit);
    let span = scanner.value()?;
    scanner.end()?;
    Ok(span)
}

/// The text of a string literal (quotes included in `literal`); `None` when it holds half a surrogate pair.
pub(crate) fn decode_string(literal: &[u8]) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len().checked_sub(1)?)?;
    if memchr::memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(literal).ok().map(Cow::Owned)
}

/// Whether a key literal (quotes included) says `key`.
pub(crate) fn key_is(literal: &[u8], key: &str) -> bool {
    decode_string(literal).is_some_and(|text| text == key)
}

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8], depth_limit: usize) -> Self {
        Self { bytes, at: 0, depth_limit: depth_limit.min(MAX_DEPTH) }
    }

    /// Crosses one value of any kind; gives its span.
    pub(crate) fn value(&mut self) -> Result<Range<usize>, JsonError> {
        self.space();
        let start = self.at;
        let mut nesting = Nesting { bits: [0; MAX_DEPTH / 64], depth: 0 };
        loop {
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    self.space();
                    if self.peek()? == b'}' {
                        self.at += 1;
                        self.room(nesting.depth)?;
                    } else {
                        self.room(nesting.depth)?;
                        nesting.push(true);
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    self.space();
                    self.room(nesting.depth)?;
                    if self.peek()? == b']' {
                        self.at += 1;
                    } else {
                        nesting.push(false);
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            if self.close(&mut nesting)? {
                return Ok(start..self.at);
            }
            self.space();
        }
    }

    /// Crosses an object and reports the spans of its keys (quotes included) and values.
    pub(crate) fn members(&mut self, mut visit: impl FnMut(Range<usize>, Range<usize>)) -> Result<(), JsonError> {
        self.space();
        self.expect(b'{')?;
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            let value = self.inner_value()?;
            visit(key, value);
            self.space();
            match self.next()? {
                b',' => self.space(),
                b'}' => return Ok(()),
                _ => return Err(JsonError::Unexpected { at: self.at - 1 }),
            }
        }
    }

    /// Crosses an array; gives the spans of its elements.
    pub(crate) fn elements(&mut self) -> Result<Vec<Range<usize>>, JsonError> {
        let mut spans = Vec::new();
        self.space();
        self.expect(b'[')?;
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(spans);
        }
        loop {
            spans.push(self.inner_value()?);
            self.space();
            match self.next()? {
                b',' => self.space(),
                b']' => return Ok(spans),
                _ => return Err(JsonError::Unexpected { at: self.at - 1 }),
            }
        }
    }

    /// Nothing but whitespace may be left.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.at < self.bytes.len() { Err(JsonError::Unexpected { at: self.at }) } else { Ok(()) }
    }

    /// A value one level down: the bracket around it counts.
    fn inner_value(&mut self) -> Result<Range<usize>, JsonError> {
        self.depth_limit = self.depth_limit.checked_sub(1).ok_or(JsonError::TooDeep { limit: 0 })?;
        let span = self.value().map_err(|error| match error {
            JsonError::TooDeep { limit } => JsonError::TooDeep { limit: limit + 1 },
            other => other,
        });
        self.depth_limit += 1;
        span
    }

    /// After a complete value: closes what can be closed; true when the outermost value is complete.
    fn close(&mut self, nesting: &mut Nesting) -> Result<bool, JsonError> {
        loop {
            let open = nesting.top();
            if matches!(open, Open::Nothing) {
                return Ok(true);
            }
            self.space();
            match (open, self.next()?) {
                (Open::Object, b',') => {
                    self.space();
                    self.key()?;
                    return Ok(false);
                }
                (Open::Array, b',') => return Ok(false),
                (Open::Object, b'}') | (Open::Array, b']') => nesting.depth -= 1,
                _ => return Err(JsonError::Unexpected { at: self.at - 1 }),
            }
        }
    }

    fn room(&self, depth: usize) -> Result<(), JsonError> {
        if depth < self.depth_limit { Ok(()) } else { Err(JsonError::TooDeep { limit: self.depth_limit }) }
    }

    /// A key, its colon and the whitespace after it; gives the span of the key.
    fn key(&mut self) -> Result<Range<usize>, JsonError> {
        let start = self.at;
        if self.peek()? != b'"' {
            return Err(JsonError::Unexpected { at: self.at });
        }
        self.string()?;
        let key = start..self.at;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(key)
    }

    fn scalar(&mut self) -> Result<(), JsonError> {
        match self.peek()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => Err(JsonError::Unexpected { at: self.at }),
        }
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            self.plain();
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                _ => return Err(JsonError::Unexpected { at: self.at - 1 }),
            }
        }
    }

    /// Crosses what stands for itself in a string, eight bytes at a time: long strings are what large messages
    /// consist of.
    fn plain(&mut self) {
        while let Some(word) = self.bytes.get(self.at..self.at + 8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            let special = special_bytes(u64::from_le_bytes(bytes));
            if special != 0 {
                self.at += (special.trailing_zeros() / 8) as usize;
                return;
            }
            self.at += 8;
        }
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len());
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.next()? {
                byte if byte.is_ascii_hexdigit() => Ok(()),
                _ => Err(JsonError::Unexpected { at: self.at - 1 }),
            }),
            _ => Err(JsonError::Unexpected { at: self.at - 1 }),
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return Err(JsonError::Unexpected { at: self.at - 1 }),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(())
    }

    fn some_digits(&mut self) -> Result<(), JsonError> {
        if !self.peek()?.is_ascii_digit() {
            return Err(JsonError::Unexpected { at: self.at });
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), JsonError> {
        for expected in word {
            if self.next()? != *expected {
                return Err(JsonError::Unexpected { at: self.at - 1 });
            }
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.next()? == byte { Ok(()) } else { Err(JsonError::Unexpected { at: self.at - 1 }) }
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, JsonError> {
        self.bytes.get(self.at).copied().ok_or(JsonError::Truncated)
    }

    fn next(&mut self) -> Result<u8, JsonError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }
}

impl Nesting {
    fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.bits[word] = (self.bits[word] & !(1 << bit)) | (u64::from(object) << bit);
        self.depth += 1;
    }

    fn top(&self) -> Open {
        let Some(last) = self.depth.checked_sub(1) else { return Open::Nothing };
        if self.bits[last / 64] >> (last % 64) & 1 == 1 { Open::Object } else { Open::Array }
    }
}

/// The high bit of the first byte that is a quote, a backslash or a control character; bits after it mean nothing.
fn special_bytes(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(EACH) & !word;
    let control = word.wrapping_sub(EACH * 0x20) & !word;
    (zero(word ^ (EACH * 0x22)) | zero(word ^ (EACH * 0x5c)) | control) & HIGH
}
