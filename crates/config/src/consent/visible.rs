//! Untrusted text made visible for a person who decides by it: hidden and look-alike characters are escaped, hosts are in
//! their ASCII form.

use url::Url;

/// How much of a text is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escaped {
    /// Characters that are not visible, or look like ASCII ones.
    Deceptive,
    /// All characters that are not visible ASCII.
    AllButAscii,
}

/// The text with such characters as `\u{…}`.
pub(super) fn visible(text: &str, escaped: Escaped) -> String {
    let mut shown = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_alphanumeric()) {
        let mixed = word.chars().any(|letter| letter.is_ascii_alphabetic());
        for letter in word.chars() {
            let deceptive = is_invisible(letter) || is_form_of_ascii(letter) || mixed && is_foreign_letter(letter);
            if deceptive || escaped == Escaped::AllButAscii && !letter.is_ascii() {
                shown.extend(letter.escape_unicode());
            } else {
                shown.push(letter);
            }
        }
    }
    shown
}

/// A URL as written, with its host in ASCII (punycode), as it is looked up.
pub(super) fn address(written: &str) -> String {
    let Some((scheme, rest)) = written.split_once("://") else { return visible(written, Escaped::AllButAscii) };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let ascii = match authority.is_ascii() {
        true => None,
        false => Url::parse(&format!("{scheme}://{authority}")).ok(),
    };
    let host = ascii.as_ref().and_then(|url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{}{port}", url.host_str()?))
    });
    let authority = host.unwrap_or_else(|| visible(authority, Escaped::AllButAscii));
    format!("{}://{authority}{}", visible(scheme, Escaped::AllButAscii), visible(path, Escaped::AllButAscii))
}

/// Control characters, spaces other than the usual one, and characters that Unicode calls default-ignorable.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || (letter.is_whitespace() && letter != ' ')
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Other forms of ASCII characters: full width, mathematical, enclosed, slashes, dots, quotes and dashes.
fn is_form_of_ascii(letter: char) -> bool {
    matches!(letter,
        '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '\u{2024}' | '\u{2032}'..='\u{2037}' | '\u{2044}'
        | '\u{2100}'..='\u{214f}' | '\u{2212}' | '\u{2215}'..='\u{2217}' | '\u{2223}' | '\u{223c}' | '\u{2236}'
        | '\u{29f8}' | '\u{29f5}' | '\u{2460}'..='\u{24ff}' | '\u{3002}' | '\u{a789}' | '\u{ff01}'..='\u{ff5e}'
        | '\u{1d400}'..='\u{1d7ff}')
}

/// A letter outside the Latin script; next to ASCII letters it may pass for one of them.
fn is_foreign_letter(letter: char) -> bool {
    letter.is_alphabetic() && !matches!(letter, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
}

#[cfg(test)]
mod tests {
    use super::{Escaped, address, visible};

    #[test]
    fn host_is_shown_as_it_is_looked_up() {
        for (written, shown) in [
            ("https://example.org/mcp?q=1", "https://example.org/mcp?q=1"),
            ("https://ex\u{430}mple.org/mcp", "https://xn--exmple-4nf.org/mcp"),
            ("https://b\u{fc}cher.example:8443", "https://xn--bcher-kva.example:8443"),
            ("https://example.org/\u{200b}x", "https://example.org/\\u{200b}x"),
        ] {
            assert_eq!(address(written), shown);
        }
        assert!(address("https://example.org\u{2044}evil.example/x").is_ascii(), "no other slash");
    }

    #[test]
    fn hidden_and_look_alike_characters_are_escaped() {
        for (text, shown) in [
            ("a\u{ad}b\u{34f}\u{3164}\u{fe0f}\u{e0041}", "a\\u{ad}b\\u{34f}\\u{3164}\\u{fe0f}\\u{e0041}"),
            ("a\u{a0}b\n", "a\\u{a0}b\\u{a}"),
            ("n\u{440}x \u{ff52}m", "n\\u{440}x \\u{ff52}m"),
            ("/home/j\u{fc}rgen/\u{434}\u{43e}\u{43a}", "/home/j\u{fc}rgen/\u{434}\u{43e}\u{43a}"),
        ] {
            assert_eq!(visible(text, Escaped::Deceptive), shown);
        }
        assert_eq!(visible("\u{441}at", Escaped::AllButAscii), "\\u{441}at");
    }
}
