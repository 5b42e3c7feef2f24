//! Strings: scanned eight bytes at a time, decoded only on demand.

use std::borrow::Cow;

use super::{Scanner, Stop};

/// Maximum number of 8-byte words of a short string: enough for the longest protocol keys.
const SHORT: usize = 6;
/// Length after which a string is likely to be long, so that wider instructions pay off.
const LONG: usize = 64;
/// Window size: small enough to be scanned twice from the first-level cache.
const WINDOW: usize = 4096;

/// Decodes a string literal (quotes included in `literal`); `None` if it has a lone surrogate.
pub(crate) fn decode_string(literal: &[u8]) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len().checked_sub(1)?)?;
    if memchr::memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(literal).ok().map(Cow::Owned)
}

/// Whether a key literal (quotes included) equals `key`.
#[inline]
pub(crate) fn key_is(literal: &[u8], key: &str) -> bool {
    match literal.get(1..literal.len().saturating_sub(1)) {
        // Keys are short: a search without set-up is faster than one with vectors.
        Some(plain) if plain == key.as_bytes() => !plain.contains(&b'\\'),
        // Escapes make a literal longer than its text.
        Some(other) if other.len() <= key.len() => false,
        _ => literal.contains(&b'\\') && decode_string(literal).is_some_and(|text| text == key),
    }
}

// === impl Scanner ===

impl Scanner<'_> {
    /// End of the string that begins here, if it is short and has no escapes.
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

    /// Scans a string. Most are short without escapes, which is handled inline.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<(), Stop> {
        if let Some(end) = self.quoted() {
            self.at = end;
            return Ok(());
        }
        self.at += 1;
        self.longer_string()
    }

    /// Scans the rest of any string after its opening quote.
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

    /// Skips ordinary characters: by 8-byte words at first, by windows once the string is long.
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

    /// Skips whole windows of ordinary characters; `false` if it stopped at a special one.
    fn windows(&mut self) -> bool {
        if self.checked {
            let rest = &self.bytes[self.at..];
            self.at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            return false;
        }
        while let Some(window) = self.bytes.get(self.at..self.at + WINDOW) {
            let length = memchr::memchr2(b'"', b'\\', window).unwrap_or(WINDOW);
            // Without an early exit this loop is vectorised.
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

/// Whether a text needs no escapes as a JSON string.
pub(crate) fn is_plain(text: &str) -> bool {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).all(|word| special_bytes(u64::from_le_bytes(*word)) == 0)
}

/// Quote, backslash or control character.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Sets the high bit of the first special byte of a word; later bits are undefined.
fn special_bytes(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(EACH) & !word;
    let control = word.wrapping_sub(EACH * 0x20) & !word;
    (zero(word ^ (EACH * 0x22)) | zero(word ^ (EACH * 0x5c)) | control) & HIGH
}
