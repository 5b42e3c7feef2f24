//! The checker: is this JSON, how deep is it, and where do the members of this level stand?
//!
//! Strict grammar of RFC 8259, no recursion, nothing copied, strings crossed by the word. Compared with `serde_json` by a property test and a fuzz target.

mod nesting;
mod text;

use std::ops::Range;

use nesting::{Nesting, Open};
pub(crate) use text::{decode_string, is_plain, key_is};

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
    /// Whether somebody has walked over this text before and found no fault with it.
    checked: bool,
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
    /// One of an object inside that: that of this place among the keys that are opened there.
    Innermost(usize),
}

/// A key whose value is looked into, quotes included, and those that are looked into in there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened<'a>(pub(crate) &'a [u8], pub(crate) &'a [&'a [u8]]);

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

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8], depth_limit: usize) -> Self {
        Self { bytes, at: 0, escaped: false, depth_limit: depth_limit.min(MAX_DEPTH), checked: false }
    }

    /// A walk over a text that was found to be a value before: what cannot stand in a long string is not looked for again.
    pub(crate) fn again(bytes: &'a [u8]) -> Self {
        Self { checked: true, ..Self::new(bytes, MAX_DEPTH) }
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
    pub(crate) fn members_with(
        &mut self,
        opened: &[Opened<'_>],
        mut visit: impl FnMut(Found),
    ) -> Result<(), JsonError> {
        let inner = self.depth_limit.saturating_sub(1);
        let crossed = self.cross_object(self.depth_limit, |scanner, key| {
            let (start, plain) = (scanner.at, !scanner.escaped);
            let literal = &scanner.bytes[key.clone()];
            match opened.iter().position(|opened| opened.0 == literal).filter(|_| scanner.byte() == b'{') {
                Some(place) => scanner.cross_opened(inner, (place, opened[place].1), &mut visit)?,
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
        let mut nesting = Nesting::new();
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

    /// Crosses an object that stands at an opened key, and reports its members, and before them those of what is opened
    /// in it.
    #[inline]
    fn cross_opened(
        &mut self,
        limit: usize,
        (place, opened): (usize, &[&[u8]]),
        visit: &mut impl FnMut(Found),
    ) -> Result<(), Stop> {
        let inner = limit.saturating_sub(1);
        self.cross_object(limit, |scanner, key| {
            let (start, plain) = (scanner.at, !scanner.escaped);
            let literal = &scanner.bytes[key.clone()];
            match opened.iter().position(|opened| *opened == literal).filter(|_| scanner.byte() == b'{') {
                Some(place) => scanner.cross_object(inner, |scanner, key| {
                    let plain = !scanner.escaped;
                    let value = scanner.cross_value(inner.saturating_sub(1))?;
                    visit(Found { level: Level::Innermost(place), key, plain, value });
                    Ok(())
                })?,
                None => scanner.cross_value(inner).map(|_| ())?,
            }
            visit(Found { level: Level::Inner(place), key, plain, value: start..scanner.at });
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
