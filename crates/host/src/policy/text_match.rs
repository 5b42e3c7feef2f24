//! Whether a text matches a pattern, as it is written and as a server may resolve it.
//!
//! `/tmp/../etc/passwd` matches `/tmp/*` as a text, and names a file in `/etc`. An address, and any text where the pattern
//! contains a slash, is compared a second time with `.`, `..`, doubled slashes, escapes and the case of the host resolved.
//! If the two results differ, the rule cannot be evaluated.

use crate::catalog::filter::Pattern;

/// Why a text cannot be compared.
const UNCLEAR: &str = "is a path or an address that can be read in several ways";

/// Whether a text matches a pattern with `*`.
pub(super) fn matches(pattern: &str, text: &str) -> Result<bool, &'static str> {
    compare(pattern, text, |pattern, text| Pattern::from(pattern).matches(text))
}

/// Whether a text is the wanted one.
pub(super) fn equals(wanted: &str, text: &str) -> Result<bool, &'static str> {
    compare(wanted, text, |wanted, text| wanted == text)
}

fn compare(wanted: &str, text: &str, is_match: impl Fn(&str, &str) -> bool) -> Result<bool, &'static str> {
    let (has_slash, is_address) = (wanted.contains(['/', '\\']), split_scheme(text).is_some());
    // A pattern about `..` is about the text.
    let is_about_dots = wanted.contains("..");
    if !is_address && (!has_slash || is_about_dots) {
        return Ok(is_match(wanted, text));
    }
    // A directory is the same with and without a slash at its end.
    let either = |wanted: &str, text: &str| is_match(wanted, text) || is_match(wanted, text.trim_end_matches('/'));
    let decoded = if wanted.contains('%') { text.to_owned() } else { decoded(text) };
    let resolved = if is_about_dots { with_plain_authority(&decoded) } else { resolved(&decoded) };
    let is_written_match = either(wanted, text);
    let is_resolved_match = if has_slash {
        either(&with_plain_authority(&wanted.replace('\\', "/")), &resolved)
    } else {
        // It may be about the host, which is in lower case now.
        let (lower, host) = (wanted.to_lowercase(), &resolved[..authority_end(&resolved)]);
        either(wanted, &resolved) || is_match(&lower, host) || (is_written_match && either(&lower, &resolved))
    };
    if is_written_match == is_resolved_match { Ok(is_written_match) } else { Err(UNCLEAR) }
}

/// The text without `.`, `..`, doubled slashes and backslashes, and an address with a plain authority.
fn resolved(text: &str) -> String {
    let text = with_plain_authority(&text.replace('\\', "/"));
    let mut kept: Vec<&str> = Vec::new();
    let count = text.split('/').count();
    // The slashes after a scheme are kept, also in the middle of a command.
    let mut is_after_scheme = false;
    for (index, segment) in text.split('/').enumerate() {
        let is_end = index == 0 || index + 1 == count;
        match segment {
            "." => {}
            "" if is_end || is_after_scheme => kept.push(segment),
            "" => {}
            ".." => match kept.last() {
                Some(&"") if kept.len() == 1 => {}
                None | Some(&(".." | "")) => kept.push(segment),
                Some(_) => drop(kept.pop()),
            },
            _ => {
                is_after_scheme = segment.ends_with(':');
                kept.push(segment);
            }
        }
    }
    let joined = kept.join("/");
    if joined.is_empty() && text.starts_with('/') { "/".to_owned() } else { joined }
}

/// An address with its scheme and host in lower case, without user, default port and final dot.
fn with_plain_authority(text: &str) -> String {
    let Some((scheme, rest)) = split_scheme(text) else { return text.to_owned() };
    let (authority, path) = rest.split_at(authority_end(text) - (text.len() - rest.len()));
    let scheme = scheme.to_lowercase();
    let default_port = match scheme.as_str() {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => ":",
    };
    let host = authority.rsplit('@').next().unwrap_or_default().to_lowercase();
    let host = host.strip_suffix(default_port).unwrap_or(&host).trim_end_matches('.');
    format!("{scheme}://{host}{path}")
}

/// Where the authority of an address ends.
fn authority_end(text: &str) -> usize {
    let start = split_scheme(text).map_or(0, |(scheme, _)| scheme.len() + "://".len());
    text[start..].find(['/', '?', '#']).map_or(text.len(), |length| start + length)
}

/// An address with its escapes decoded; any other text as it is.
fn decoded(text: &str) -> String {
    if split_scheme(text).is_none() || !text.contains('%') {
        return text.to_owned();
    }
    let (bytes, mut decoded) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
    };
    text.split_once("://").filter(|(scheme, _)| is_scheme(scheme))
}

#[cfg(test)]
mod tests {
    use super::{equals, matches};

    #[test]
    fn a_text_that_resolves_to_something_else_cannot_be_compared() {
        for (pattern, text) in [
            ("/etc/*", "/tmp/../etc/passwd"),
            ("/etc/*", "//etc/passwd"),
            ("/etc/*", "/./etc/passwd"),
            ("/etc/*", "\\etc\\passwd"),
            ("/tmp/*", "/tmp/../etc/passwd"),
            ("/tmp/*", "/tmp/.."),
            ("src/*", "src/../../etc/passwd"),
            ("src/*", "./src/a"),
            ("C:\\Users\\*", "C:\\Users\\..\\Windows\\x"),
            ("cat /tmp/*", "cat /tmp/../etc/passwd"),
            ("https://evil.example/*", "https://EVIL.example/x"),
            ("https://evil.example/*", "HTTPS://user@evil.example.:443/x"),
            ("https://good.example/a/*", "https://good.example/a/../b"),
            ("*evil.example*", "https://EVIL.example/x"),
            ("*Evil.example*", "https://evil.example/x"),
            ("https*", "HTTPS://evil.example"),
            ("*passwd*", "file:///etc/p%61sswd"),
            ("*..*", "https://a.example/%2e%2e/b"),
            ("file:///etc/*", "file:///%65tc/passwd"),
            ("file:///etc/*", "file:///tmp/%2e%2e/etc/passwd"),
        ] {
            assert!(matches(pattern, text).is_err(), "{pattern} {text}");
        }
        assert!(equals("/etc/passwd", "/etc/./passwd").is_err());
    }

    #[test]
    fn other_texts_are_compared_as_they_are_written() {
        for (pattern, text, expected) in [
            ("/tmp/*", "/tmp/a", true),
            ("/tmp/*", "/tmp/", true),
            ("/tmp/*", "/tmp/a/../b", true),
            ("/tmp/*", "/tmp//a", true),
            ("/etc", "/etc/", true),
            ("/etc/*", "/tmp/a", false),
            ("/etc/*", "../a", false),
            ("/", "/", true),
            ("*", "/tmp/../etc", true),
            ("*..*", "/tmp/../etc", true),
            ("*password*", "a password/../b", true),
            ("https://GitHub.com/*", "https://GitHub.com/a", true),
            ("*GitHub.com*", "https://GitHub.com/a", true),
            ("*token=ABC*", "https://a.example/?token=ABC", true),
            ("*..*", "https://a.example/../b", true),
            ("*Secret*", "https://a.example/secret", false),
            ("https://a.example/*", "https://a.example/x%20y", true),
            ("https://a.example/%20*", "https://a.example/%20y", true),
            ("curl https://a.example/*", "curl https://a.example/x", true),
            ("file:///etc/*", "file:///etc/hosts", true),
            ("cat file:///etc/*", "cat file:///etc/hosts", true),
        ] {
            assert_eq!(matches(pattern, text), Ok(expected), "{pattern} {text}");
        }
    }
}
