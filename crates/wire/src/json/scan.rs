//! Scanner: validates JSON, limits its depth and finds the members of one level.
//!
//! Strict grammar of RFC 8259, without recursion or copies; strings are scanned eight bytes at a time. A property test
//! and a fuzz target compare it with `serde_json`.

mod nesting;
mod text;

use std::ops::{ControlFlow, Range};

use nesting::{Nesting, Open};
pub(crate) use text::{decode_string, is_plain, key_is};

/// Maximum nesting depth whatever the configured limit; the stack of open brackets has this many bits.
pub const MAX_DEPTH: usize = 1024;

/// Reason why a text is not an acceptable JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Bytes that are not UTF-8.
    #[error("invalid UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// The text ends inside a value.
    #[error("JSON is truncated")]
    Truncated,
    /// An unexpected byte.
    #[error("JSON syntax error at byte {at}")]
    Unexpected {
        /// Offset of the byte.
        at: usize,
    },
    /// More open brackets than allowed.
    #[error("JSON is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit in force.
        limit: usize,
    },
}

/// A scan of one text.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether there was an escape since the start of the last key.
    escaped: bool,
    depth_limit: usize,
    /// Whether the text was validated before.
    checked: bool,
}

/// Reason of a failure; its position is in the scanner. One byte, so that the fast path stays in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Unexpected byte or end of text at `at`.
    Here,
    /// Too many open brackets.
    Deep,
}

/// A member found by a scan.
#[derive(Clone, Debug)]
pub(crate) struct FoundMember {
    /// Object that contains it.
    pub(crate) level: MemberLevel,
    /// Position of the key, quotes included.
    pub(crate) key: Range<usize>,
    /// Whether the key has no escapes.
    pub(crate) plain: bool,
    /// Position of the value.
    pub(crate) value: Range<usize>,
}

/// Object that contains a found member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberLevel {
    /// The scanned object itself.
    Outer,
    /// The value of a nested key with this index.
    Inner(usize),
    /// The value of a second-level nested key with this index.
    Innermost(usize),
}

/// A key whose own members are reported (quotes included), and such keys within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NestedKey<'a>(pub(crate) &'a [u8], pub(crate) &'a [&'a [u8]]);

/// Checks that `text` is exactly one value; returns its span without surrounding whitespace.
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

    /// A scan of a validated text: control characters in long strings are not checked again.
    pub(crate) fn trusted(bytes: &'a [u8]) -> Self {
        Self { checked: true, ..Self::new(bytes, MAX_DEPTH) }
    }

    /// Scans one value and returns its span.
    pub(crate) fn value(&mut self) -> Result<Range<usize>, JsonError> {
        self.cross_value(self.depth_limit).map_err(|stop| self.error(stop))
    }

    /// Scans an object and reports the spans of its keys (quotes included) and values.
    pub(crate) fn members(&mut self, visit: impl FnMut(Range<usize>, Range<usize>)) -> Result<(), JsonError> {
        self.cross_members(visit).map_err(|stop| self.error(stop))
    }

    /// As [`Scanner::members`]; if the value of one of these keys is an object, its members are reported first.
    #[inline]
    pub(crate) fn members_with(
        &mut self,
        opened: &[NestedKey<'_>],
        mut visit: impl FnMut(FoundMember),
    ) -> Result<(), JsonError> {
        let inner = self.depth_limit.saturating_sub(1);
        let crossed = self.cross_object(self.depth_limit, |scanner, key| {
            let (start, plain) = (scanner.at, !scanner.escaped);
            let literal = &scanner.bytes[key.clone()];
            match opened.iter().position(|opened| opened.0 == literal).filter(|_| scanner.byte() == b'{') {
                Some(place) => scanner.cross_opened(inner, (place, opened[place].1), &mut visit)?,
                None => scanner.cross_value(inner).map(|_| ())?,
            }
            visit(FoundMember { level: MemberLevel::Outer, key, plain, value: start..scanner.at });
            Ok(())
        });
        crossed.map_err(|stop| self.error(stop))
    }

    /// The value of the first member with this key; the rest is not scanned.
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

    /// Scans an array and returns the spans of its elements, at most `most + 1`; the rest is not scanned.
    pub(crate) fn elements(&mut self, most: usize) -> Result<Vec<Range<usize>>, JsonError> {
        let mut spans = Vec::new();
        let crossed = self.cross_elements(|span| {
            spans.push(span);
            if most < spans.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        crossed.map(|()| spans).map_err(|stop| self.error(stop))
    }

    /// Scans an array and returns the number of its elements.
    pub(crate) fn element_count(&mut self) -> Result<usize, JsonError> {
        let mut count = 0;
        let counted = self.cross_elements(|_| {
            count += 1;
            ControlFlow::Continue(())
        });
        counted.map(|()| count).map_err(|stop| self.error(stop))
    }

    /// Checks that only whitespace remains.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.at < self.bytes.len() { Err(JsonError::Unexpected { at: self.at }) } else { Ok(()) }
    }

    fn error(&self, stop: Stop) -> JsonError {
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

    /// Scans an object or array with its contents.
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
                    // In ASCII, closing brackets are two after their opening ones.
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

    /// Scans the object of a nested key and reports its members, after those of the nested keys within it.
    #[inline]
    fn cross_opened(
        &mut self,
        limit: usize,
        (place, opened): (usize, &[&[u8]]),
        visit: &mut impl FnMut(FoundMember),
    ) -> Result<(), Stop> {
        let inner = limit.saturating_sub(1);
        self.cross_object(limit, |scanner, key| {
            let (start, plain) = (scanner.at, !scanner.escaped);
            let literal = &scanner.bytes[key.clone()];
            match opened.iter().position(|opened| *opened == literal).filter(|_| scanner.byte() == b'{') {
                Some(place) => scanner.cross_object(inner, |scanner, key| {
                    let plain = !scanner.escaped;
                    let value = scanner.cross_value(inner.saturating_sub(1))?;
                    visit(FoundMember { level: MemberLevel::Innermost(place), key, plain, value });
                    Ok(())
                })?,
                None => scanner.cross_value(inner).map(|_| ())?,
            }
            visit(FoundMember { level: MemberLevel::Inner(place), key, plain, value: start..scanner.at });
            Ok(())
        })
    }

    /// Scans an object at most `limit` levels deep; `cross` scans each value.
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

    /// Calls `visit` with the span of each element, until it breaks.
    fn cross_elements(&mut self, mut visit: impl FnMut(Range<usize>) -> ControlFlow<()>) -> Result<(), Stop> {
        let inner = self.depth_limit.checked_sub(1).ok_or(Stop::Deep)?;
        self.space();
        self.expect(b'[')?;
        self.space();
        if self.byte() == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            if visit(self.cross_value(inner)?).is_break() {
                return Ok(());
            }
            self.space();
            match self.byte() {
                b',' => self.at += 1,
                _ => return self.expect(b']'),
            }
        }
    }

    /// After a complete value: closes brackets; returns whether the outermost value is complete.
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

    /// Scans a key, its colon and the whitespace after it; returns the span of the key.
    #[inline]
    fn key(&mut self) -> Result<Range<usize>, Stop> {
        let start = self.at;
        // Fast path: nearly all keys are short, without escapes, and followed directly by colon and value.
        if let Some(end) = self.quoted()
            && let Some([b':', b'!'..=u8::MAX]) = self.bytes.get(end..end + 2)
        {
            self.escaped = false;
            self.at = end + 1;
            return Ok(start..end);
        }
        self.spaced_key()
    }

    /// As [`Scanner::key`], for any key.
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

    /// Scans one or more digits.
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
        // There is usually no whitespace.
        while self.byte() <= b' ' && matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// The current byte; NUL at the end, which is never valid outside a string.
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
    }
}
