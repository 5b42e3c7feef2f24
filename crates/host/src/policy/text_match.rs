//! Whether a text matches a pattern, as it is written and as a server may resolve it.
//!
//! `/tmp/../etc/passwd` matches `/tmp/*` as a text, and names a file in `/etc`. An address, and any text where the pattern
//! contains a slash, is compared again with `.`, `..`, doubled slashes, escapes and the authority resolved. If the results
//! differ, the rule cannot be evaluated.

mod resolved;

use resolved::{Address, Dots, path, plain};

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

/// Readers of addresses ignore line breaks, and many trim what surrounds a path.
fn compare(wanted: &str, text: &str, is_match: impl Fn(&str, &str) -> bool) -> Result<bool, &'static str> {
    let result = compare_as_it_is(wanted, text, &is_match)?;
    let trimmed = text.trim().replace(['\t', '\r', '\n'], "");
    let is_path = wanted.contains(['/', '\\']) || Address::parse(&trimmed, false).is_some();
    if is_path && trimmed != text && compare_as_it_is(wanted, &trimmed, &is_match)? != result {
        return Err(UNCLEAR);
    }
    Ok(result)
}

fn compare_as_it_is(wanted: &str, text: &str, is_match: impl Fn(&str, &str) -> bool) -> Result<bool, &'static str> {
    // A pattern about `..` is about the text.
    let dots = if wanted.contains("..") { Dots::Keep } else { Dots::Resolve };
    let has_slash = wanted.contains(['/', '\\']);
    let Some(address) = Address::parse(text, !wanted.contains('%')) else {
        if !has_slash || dots == Dots::Keep {
            return Ok(is_match(wanted, text));
        }
        let is_resolved_match = either(&is_match, &path(wanted, dots), &path(text, dots));
        return agreed(either(&is_match, wanted, text), &[is_resolved_match]);
    };
    let resolved = address.resolved(dots);
    let is_written_match = either(&is_match, wanted, text);
    if !has_slash {
        // It may be about the host, which is in lower case now.
        let lower = wanted.to_lowercase();
        let is_resolved_match = either(&is_match, wanted, &resolved)
            || is_match(&lower, &address.origin)
            || (is_written_match && either(&is_match, &lower, &resolved));
        return agreed(is_written_match, &[is_resolved_match]);
    }
    let mut results = vec![either(&is_match, &plain(wanted, dots), &resolved)];
    if !address.is_well_known {
        // A server may take it for a path.
        results.push(either(&is_match, &path(wanted, dots), &path(text, dots)));
    }
    if let Some(file) = address.file().filter(|_| wanted.starts_with('/')) {
        results.push(either(&is_match, &path(wanted, dots), &path(file, dots)));
    }
    agreed(is_written_match, &results)
}

/// A directory is the same with and without a slash at its end.
fn either(is_match: impl Fn(&str, &str) -> bool, wanted: &str, text: &str) -> bool {
    is_match(wanted, text) || is_match(wanted, text.trim_end_matches('/'))
}

fn agreed(written: bool, resolved: &[bool]) -> Result<bool, &'static str> {
    if resolved.iter().all(|resolved| *resolved == written) { Ok(written) } else { Err(UNCLEAR) }
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
            // A colon does not protect what follows it.
            ("/tmp/*", "/tmp/a://../../etc/passwd"),
            ("/etc/*", "/tmp/a://../../etc/passwd"),
            ("/etc/*", "/tmp:/..//etc/passwd"),
            ("src/*", "src/a://../../../etc/passwd"),
            ("ab:*/*", "ab://../../etc/passwd"),
            // There is nothing above the root of an address or a drive.
            ("file:///etc/*", "file:///../etc/passwd"),
            ("file:///etc/*", "file:///%2e%2e/etc/passwd"),
            ("https://good.example/admin/*", "https://good.example/../admin/x"),
            ("https://good.example/admin/*", "https://good.example/a/../../admin/x"),
            ("https://good.example/admin/*", "https://good.example/%2e%2e/admin/x"),
            ("C:\\Windows\\*", "C:\\..\\Windows\\x"),
            ("C:\\Windows\\*", "C:\\\\Windows\\x"),
            ("C:\\tmp\\*", "C:\\tmp\\a:\\\\..\\..\\Windows\\x"),
            // Other spellings of the same address.
            ("file:///etc/*", "file:/etc/passwd"),
            ("file:///etc/*", "file://localhost/etc/passwd"),
            ("/etc/*", "file:///etc/passwd"),
            ("https://evil.example/*", "ht\ntps://evil.example/x"),
            ("*evil.example*", " https://ev%69l.example/x"),
            ("/etc/*", " /etc/passwd"),
            ("https://good.example/admin/*", "https://good.example/a%3f/../admin/x"),
            ("https://evil.example/*", "https:/evil.example/x"),
            ("https://evil.example/*", "https:///evil.example/x"),
            ("https://evil.example/*", "https:\\\\evil.example\\x"),
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
            // A pattern is resolved as the text is.
            ("./src/*", "./src/a", true),
            ("a//b", "a//b", true),
            ("//server/share/*", "//server/share/a", true),
            ("\\\\server\\share\\*", "\\\\server\\share\\a", true),
            ("C:\\Users\\*", "C:\\Users\\ada", true),
            ("*/secrets/*", "/home/ada/secrets/a", true),
            ("*/secrets/*", "/home/ada/notes/a", false),
            ("http*://a.example/*", "https://a.example/x", true),
            ("https://a.example/*", "https://a.example/x?next=/../y", true),
            ("https://a.example:8080/*", "https://a.example:8080/x", true),
            ("https://a.example*", "https://a.example", true),
            ("memo://notes/*", "memo://notes/a", true),
            ("memo://notes/*", "memo://other/a", false),
            ("/tmp/*", "https://a.example/tmp/a", false),
            ("*a/b*", "first line\nsecond a/b\n", true),
            ("/tmp/*", "file:///etc/a", false),
            ("file:///tmp/*", "/tmp/a", false),
        ] {
            assert_eq!(matches(pattern, text), Ok(expected), "{pattern} {text}");
        }
    }
}
