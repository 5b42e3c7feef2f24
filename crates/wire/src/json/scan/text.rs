//! Strings: crossed by the word, read where somebody needs them.

use std::borrow::Cow;

use super::{Scanner, Stop};

/// Words that a short string has at most: enough for the longest keys that the protocol has.
const SHORT: usize = 6;
/// A string that has gone on for this long is likely to go on; then wider instructions pay.
const LONG: usize = 64;
/// Bytes looked at twice while they are in the nearest cache.
const WINDOW: usize = 4096;

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

impl Scanner<'_> {
    /// Where the string that begins here ends, if it is plain and not long.
    #[inline(always)]
    pub(super) fn quoted(&self) -> Option<usize> {
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
    pub(super) fn string(&mut self) -> Result<(), Stop> {
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
        if self.checked {
            let rest = &self.bytes[self.at..];
            self.at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            return false;
        }
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
