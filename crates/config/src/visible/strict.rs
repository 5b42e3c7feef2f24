//! The stricter level, for names, commands and URLs: look-alike characters are escaped as well, and layout; hosts are in
//! their ASCII form.

use url::Url;

use super::{
    character::{is_hidden, is_mark},
    escape, has_hidden,
};

/// How much of a text is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaped {
    /// Characters that are not visible, or look like ASCII ones.
    Deceptive,
    /// All characters that are not visible ASCII.
    AllButAscii,
}

/// A name, with characters that are not visible, or look like ASCII ones, as `\u{…}`.
pub fn name(text: &str) -> String {
    visible(text, Escaped::Deceptive)
}

/// A command, with all characters that are not visible ASCII as `\u{…}`.
pub fn ascii(text: &str) -> String {
    visible(text, Escaped::AllButAscii)
}

fn visible(text: &str, escaped: Escaped) -> String {
    let mut shown = String::new();
    // Too many marks in one place are hidden, too.
    let has_hidden = has_hidden(text);
    for (start, word) in words(text) {
        let mixed = word.chars().any(|letter| letter.is_ascii_alphabetic());
        for (index, letter) in word.char_indices() {
            let imitates = letter == '\\' && text[start + index + 1..].starts_with("u{");
            let deceptive = is_invisible(letter) || is_form_of_ascii(letter) || mixed && is_foreign_letter(letter);
            let piled = has_hidden && is_mark(letter);
            if imitates || deceptive || piled || escaped == Escaped::AllButAscii && !letter.is_ascii() {
                escape(letter, &mut shown);
            } else {
                shown.push(letter);
            }
        }
    }
    shown
}

/// Words with what separates them, and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end = 0;
    text.split_inclusive(|letter: char| !letter.is_alphanumeric()).map(move |word| {
        end += word.len();
        (end - word.len(), word)
    })
}

/// A URL as written, with its host in ASCII (punycode), as it is looked up.
pub fn address(written: &str) -> String {
    let Some((scheme, rest)) = written.split_once("://") else { return ascii(written) };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let parsed = match authority.is_ascii() {
        true => None,
        false => Url::parse(&format!("{scheme}://{authority}")).ok(),
    };
    let host = parsed.as_ref().and_then(|url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| format!("{}@", ascii(user))).unwrap_or_default();
        Some(format!("{user}{}{port}", url.host_str()?))
    });
    let authority = host.unwrap_or_else(|| ascii(authority));
    format!("{}://{authority}{}", ascii(scheme), ascii(path))
}

/// Hidden characters, and spaces other than the usual one.
fn is_invisible(letter: char) -> bool {
    is_hidden(letter) || (letter.is_whitespace() && letter != ' ')
}

/// Other forms of ASCII characters: full width, small, mathematical, enclosed, slashes, bars, dots, quotes and dashes.
fn is_form_of_ascii(letter: char) -> bool {
    matches!(letter,
        '\u{1c0}'..='\u{1c3}' | '\u{2b9}'..='\u{2bd}' | '\u{2c4}'..='\u{2c8}' | '\u{2500}'..='\u{257f}' | '\u{fe50}'..='\u{fe6b}'
        | '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '\u{2024}' | '\u{2032}'..='\u{2037}' | '\u{2044}'
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
    use super::{address, ascii, name};

    #[test]
    fn host_is_shown_as_it_is_looked_up() {
        for (written, shown) in [
            ("https://example.org/mcp?q=1", "https://example.org/mcp?q=1"),
            ("https://ex\u{430}mple.org/mcp", "https://xn--exmple-4nf.org/mcp"),
            ("https://b\u{fc}cher.example:8443", "https://xn--bcher-kva.example:8443"),
            ("https://example.org/\u{200b}x", "https://example.org/\\u{200b}x"),
            ("https://good.example@ex\u{430}mple.org/", "https://good.example@xn--exmple-4nf.org/"),
            (
                "https://\u{ff47}ood.example:x@b\u{fc}cher.example",
                "https://\\u{ff47}ood.example:x@xn--bcher-kva.example",
            ),
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
            ("a\u{1c0}b\u{fe63}c\u{2502}", "a\\u{1c0}b\\u{fe63}c\\u{2502}"),
            ("n\u{440}x \u{ff52}m", "n\\u{440}x \\u{ff52}m"),
            ("/home/j\u{fc}rgen/\u{434}\u{43e}\u{43a}", "/home/j\u{fc}rgen/\u{434}\u{43e}\u{43a}"),
        ] {
            assert_eq!(name(text), shown);
        }
        assert_eq!(ascii("\u{441}at"), "\\u{441}at");
    }
}
