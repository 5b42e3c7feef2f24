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
    /// Whether there was an escape since the last key began.
    escaped: bool,
    depth_limit: usize,
}

/// Why the walk stopped; where is in the scanner. One byte, so that the way of a good text stays in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The byte at `at` cannot stand there, or there is none.
    Here,
    /// One bracket too many.
    Deep,
}

/// A member that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Whose it is.
    pub(crate) level: Level,
    /// Its key, quotes included.
    pub(crate) key: Range<usize>,
    /// Whether the key reads as it is spelled, without escapes.
    pub(crate) plain: bool,
    /// Its value.
    pub(crate) value: Range<usize>,
}

/// Whose member was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The object's own.
    Outer,
    /// One of an object inside it: that of this place among the opened keys.
    Inner(usize),
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

/// Words that a short string has at most.
const SHORT: usize = 2;
/// A string that has gone on for this long is likely to go on; then wider instructions pay.
const LONG: usize = 64;
/// Bytes looked at twice while they are in the nearest cache.
const WINDOW: usize = 4096;

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
#[inline]
pub(crate) fn key_is(literal: &[u8], key: &str) -> bool {
    match literal.get(1..literal.len().saturating_sub(1)) {
        Some(plain) if plain == key.as_bytes() => memchr::memchr(b'\\', plain).is_none(),
        // An escape makes a key longer than it reads.
        Some(other) if other.len() <= key.len() => false,
        _ => memchr::memchr(b'\\', literal).is_some() && decode_string(literal).is_some_and(|text| text == key),
    }
}

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8], depth_limit: usize) -> Self {
        Self { bytes, at: 0, escaped: false, depth_limit: depth_limit.min(MAX_DEPTH) }
    }

    /// Crosses one value of any kind; gives its span.
    pub(crate) fn value(&mut self) -> Result<Range<usize>, JsonError> {
        self.cross_value(self.depth_limit).map_err(|stop| self.explained(stop))
    }

    /// Crosses an object and reports the spans of its keys (quotes included) and values.
    pub(crate) fn members(&mut self, visit: impl FnMut(Range<usize>, Range<usize>)) -> Result<(), JsonError> {
        self.cross_members(visit).map_err(|stop| self.explained(stop))
    }

    /// As [`Scanner::members`]; where the value of one of these keys is an object, its own members are reported first.
    #[inline]
    pub(crate) fn members_with(&mut self, opened: &[&[u8]], mut visit: impl FnMut(Found)) -> Result<(), JsonError> {
        let inner = self.depth_limit.saturating_sub(1);
        let crossed = self.cross_object(self.depth_limit, |scanner, key| {
            let (start, plain) = (scanner.at, !scanner.escaped);
            let literal = &scanner.bytes[key.clone()];
            match opened.iter().position(|opened| *opened == literal).filter(|_| scanner.byte() == b'{') {
                Some(place) => scanner.cross_object(inner, |scanner, key| {
                    let plain = !scanner.escaped;
                    let value = scanner.cross_value(inner.saturating_sub(1))?;
                    visit(Found { level: Level::Inner(place), key, plain, value });
                    Ok(())
                })?,
                None => scanner.cross_value(inner).map(|_| ())?,
            }
            visit(Found { level: Level::Outer, key, plain, value: start..scanner.at });
            Ok(())
        });
        crossed.map_err(|stop| self.explained(stop))
    }

    /// The value of an object's first member with this key; what follows it is not read.
    pub(crate) fn member(&mut self, key: &str) -> Option<Range<usize>> {
        let inner = self.depth_limit.checked_sub(1)?;
        self.space();
        self.expect(b'{').ok()?;
        self.space();
        loop {
            let name = self.key().ok()?;
            let value = self.cross_value(inner).ok()?;
            if key_is(&self.bytes[name], key) {
                return Some(value);
            }
            self.space();
            self.expect(b',').ok()?;
            self.space();
        }
    }

    /// Crosses an array; gives the spans of its elements. Where there are more than `most`, one more than that is
    /// given and the rest is left unread.
    pub(crate) fn elements(&mut self, most: usize) -> Result<Vec<Range<usize>>, JsonError> {
        self.cross_elements(most).map_err(|stop| self.explained(stop))
    }

    /// Nothing but whitespace may be left.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.at < self.bytes.len() { Err(JsonError::Unexpected { at: self.at }) } else { Ok(()) }
    }

    fn explained(&self, stop: Stop) -> JsonError {
        match stop {
            Stop::Deep => JsonError::TooDeep { limit: self.depth_limit },
            Stop::Here if self.at < self.bytes.len() => JsonError::Unexpected { at: self.at },
            Stop::Here => JsonError::Truncated,
        }
    }

    #[inline]
    fn cross_value(&mut self, limit: usize) -> Result<Range<usize>, Stop> {
        self.space();
        let start = self.at;
        match self.byte() {
            b'{' | b'[' => self.nested(limit)?,
            _ => self.scalar()?,
        }
        Ok(start..self.at)
    }

    /// Crosses an object or an array with everything in it.
    #[inline(never)]
    fn nested(&mut self, limit: usize) -> Result<(), Stop> {
        let mut nesting = Nesting { bits: [0; MAX_DEPTH / 64], depth: 0 };
        loop {
            match self.byte() {
                open @ (b'{' | b'[') => {
                    if limit <= nesting.depth {
                        return Err(Stop::Deep);
                    }
                    self.at += 1;
                    self.space();
                    // `{` and `[` stand two before their closing brackets.
                    if self.byte() != open + 2 {
                        nesting.push(open == b'{');
                        if open == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    self.at += 1;
                }
                _ => self.scalar()?,
            }
            if self.close(&mut nesting)? {
                return Ok(());
            }
        }
    }

    #[inline]
    fn scalar(&mut self) -> Result<(), Stop> {
        match self.byte() {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => Err(Stop::Here),
        }
    }

    fn cross_members(&mut self, mut visit: impl FnMut(Range<usize>, Range<usize>)) -> Result<(), Stop> {
        let inner = self.depth_limit.saturating_sub(1);
        self.cross_object(self.depth_limit, |scanner, key| {
            let value = scanner.cross_value(inner)?;
            visit(key, value);
            Ok(())
        })
    }

    /// Crosses an object, `limit` levels deep at most; each value is crossed by whoever is given its key.
    #[inline]
    fn cross_object(
        &mut self,
        limit: usize,
        mut cross: impl FnMut(&mut Self, Range<usize>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if limit == 0 {
            return Err(Stop::Deep);
        }
        self.space();
        self.expect(b'{')?;
        self.space();
        if self.byte() == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            cross(self, key)?;
            self.space();
            match self.byte() {
                b',' => {
                    self.at += 1;
                    self.space();
                }
                _ => return self.expect(b'}'),
            }
        }
    }

    fn cross_elements(&mut self, most: usize) -> Result<Vec<Range<usize>>, Stop> {
        let inner = self.depth_limit.checked_sub(1).ok_or(Stop::Deep)?;
        let mut spans = Vec::new();
        self.space();
        self.expect(b'[')?;
        self.space();
        if self.byte() == b']' {
            self.at += 1;
            return Ok(spans);
        }
        loop {
            spans.push(self.cross_value(inner)?);
            if most < spans.len() {
                return Ok(spans);
            }
            self.space();
            match self.byte() {
                b',' => self.at += 1,
                _ => return self.expect(b']').map(|()| spans),
            }
        }
    }

    /// After a complete value: closes what can be closed; true when the outermost value is complete.
    fn close(&mut self, nesting: &mut Nesting) -> Result<bool, Stop> {
        loop {
            let open = nesting.top();
            if matches!(open, Open::Nothing) {
                return Ok(true);
            }
            self.space();
            match (open, self.byte()) {
                (Open::Object, b',') => {
                    self.at += 1;
                    self.space();
                    self.key()?;
                    return Ok(false);
                }
                (Open::Array, b',') => {
                    self.at += 1;
                    self.space();
                    return Ok(false);
                }
                (Open::Object, b'}') | (Open::Array, b']') => {
                    self.at += 1;
                    nesting.depth -= 1;
                }
                _ => return Err(Stop::Here),
            }
        }
    }

    /// A key, its colon and the whitespace after it; gives the span of the key.
    #[inline]
    fn key(&mut self) -> Result<Range<usize>, Stop> {
        let start = self.at;
        // Nearly all keys are short and plain, with the value right after the colon.
        if let Some(end) = self.quoted()
            && let Some([b':', b'!'..=u8::MAX]) = self.bytes.get(end..end + 2)
        {
            self.escaped = false;
            self.at = end + 1;
            return Ok(start..end);
        }
        self.spaced_key()
    }

    /// As [`Scanner::key`], whatever it looks like.
    #[inline(never)]
    fn spaced_key(&mut self) -> Result<Range<usize>, Stop> {
        let start = self.at;
        if self.byte() != b'"' {
            return Err(Stop::Here);
        }
        self.escaped = false;
        self.string()?;
        let key = start..self.at;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(key)
    }

    /// Where the string that begins here ends, if it is plain and not long.
    #[inline(always)]
    fn quoted(&self) -> Option<usize> {
        if self.byte() != b'"' {
            return None;
        }
        let mut at = self.at + 1;
        for _ in 0..SHORT {
            let special = special_bytes(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?));
            if special != 0 {
                at += (special.trailing_zeros() / 8) as usize;
                return (self.bytes.get(at) == Some(&b'"')).then_some(at + 1);
            }
            at += 8;
        }
        None
    }

    /// Crosses a string. Most are short and plain, and those are not worth a call.
    #[inline(always)]
    fn string(&mut self) -> Result<(), Stop> {
        if let Some(end) = self.quoted() {
            self.at = end;
            return Ok(());
        }
        self.at += 1;
        self.longer_string()
    }

    /// A string after its quote, whatever it looks like.
    #[inline(never)]
    fn longer_string(&mut self) -> Result<(), Stop> {
        loop {
            self.plain();
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                _ => return Err(Stop::Here),
            }
        }
    }

    /// Crosses what stands for itself in a string: by the word at first, in windows once it is long.
    fn plain(&mut self) {
        let start = self.at;
        while let Some(word) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            let special = special_bytes(u64::from_le_bytes(*word));
            if special != 0 {
                self.at += (special.trailing_zeros() / 8) as usize;
                return;
            }
            self.at += 8;
            if LONG < self.at - start && !self.windows() {
                return;
            }
        }
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len());
    }

    /// Crosses whole windows without anything special; false when it stands before something special.
    fn windows(&mut self) -> bool {
        while let Some(window) = self.bytes.get(self.at..self.at + WINDOW) {
            let length = memchr::memchr2(b'"', b'\\', window).unwrap_or(WINDOW);
            // Without an early exit this loop becomes vector instructions.
            let control = window[..length].iter().fold(false, |control, byte| control | (*byte < 0x20));
            if control {
                self.at += window.iter().position(|byte| is_special(*byte)).unwrap_or_default();
                return false;
            }
            self.at += length;
            if length < WINDOW {
                return false;
            }
        }
        true
    }

    fn escape(&mut self) -> Result<(), Stop> {
        self.escaped = true;
        self.at += 1;
        match self.byte() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                self.at += 1;
                Ok(())
            }
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.byte().is_ascii_hexdigit() {
                        return Err(Stop::Here);
                    }
                    self.at += 1;
                }
                Ok(())
            }
            _ => Err(Stop::Here),
        }
    }

    fn number(&mut self) -> Result<(), Stop> {
        if self.byte() == b'-' {
            self.at += 1;
        }
        match self.byte() {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.byte(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<(), Stop> {
        if !self.byte().is_ascii_digit() {
            return Err(Stop::Here);
        }
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Stop> {
        word.iter().try_for_each(|byte| self.expect(*byte))
    }

    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.byte() != byte {
            return Err(Stop::Here);
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn space(&mut self) {
        // Nearly always there is none.
        while self.byte() <= b' ' && matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// The byte here; at the end NUL, which can stand nowhere outside a string.
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
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

/// Whether a text can stand between quotes as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).all(|word| special_bytes(u64::from_le_bytes(*word)) == 0)
}

/// Ends a string, begins an escape, or cannot stand in a string.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// The high bit of the first special byte of a word; bits after it mean nothing.
fn special_bytes(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(EACH) & !word;
    let control = word.wrapping_sub(EACH * 0x20) & !word;
    (zero(word ^ (EACH * 0x22)) | zero(word ^ (EACH * 0x5c)) | control) & HIGH
}
