//! Whether a text that stands in a file looks like a secret, and the text without it.

mod stretch;

pub(crate) use stretch::{REFERENCE, Role, secrets};

use crate::interpolate::{Piece, Reference, Template};

/// Parts of a name that mean: this is secret.
const NAMES: [&str; 17] = [
    "token",
    "key",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "auth",
    "credential",
    "cookie",
    "session",
    "bearer",
    "private",
    "signature",
    "sig",
    "pat",
];

/// How well-known secrets begin.
const BEGINNINGS: [&str; 16] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "-----BEGIN",
];

/// Headers whose value is no secret.
const HARMLESS_HEADERS: [&str; 6] =
    ["accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version", "cache-control"];

/// Values that are too plain to be one, whatever the name.
const PLAIN: [&str; 10] = ["", "0", "1", "true", "false", "yes", "no", "on", "off", "none"];

/// Shorter random texts are ids.
const LONG: usize = 20;

/// What is shown in the place of a secret.
pub(crate) const MASK: &str = "•••";

/// A variable's value as it may be shown.
pub(crate) fn variable(name: &str, value: &Template) -> String {
    shown(value, Role::Variable(name))
}

/// A header's value as it may be shown.
pub(crate) fn header(name: &str, value: &Template) -> String {
    let is_secret = |text: &str| is_secret_header(name, text.trim_start_matches("Bearer ").trim());
    if has_secret(&value.pieces(), is_secret) { MASK.to_owned() } else { shown(value, Role::Plain) }
}

/// A command, a path or an address as it may be shown.
pub(crate) fn text(value: &Template) -> String {
    if has_secret_part(value) { MASK.to_owned() } else { shown(value, Role::Plain) }
}

/// Arguments as they may be shown; one may say that the next is a secret.
pub(crate) fn arguments(arguments: &[Template]) -> Vec<String> {
    let mut before = "";
    let argument = |argument| {
        let text = shown(argument, Role::Argument(before));
        before = argument.written().expose();
        if text == *before && has_secret_part(argument) { MASK.to_owned() } else { text }
    };
    arguments.iter().map(argument).collect()
}

/// As it was written, without the stretches that are secrets; nothing is left where those are among references.
fn shown(value: &Template, role: Role<'_>) -> String {
    let (pieces, written) = (value.pieces(), value.written().expose());
    let ranges = secrets(&joined(&pieces), role);
    let is_plain = matches!(pieces.as_slice(), [Piece::Text(text)] if text == written);
    if !ranges.is_empty() && !is_plain || has_secret_default(&pieces) {
        return MASK.to_owned();
    }
    let mut shown = written.to_owned();
    ranges.into_iter().rev().for_each(|range| shown.replace_range(range, MASK));
    shown
}

/// The text with a mark for each reference.
pub(crate) fn joined(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Reference(_) => text.push(REFERENCE),
        }
    }
    text
}

fn has_secret(pieces: &[Piece], is_secret: impl Fn(&str) -> bool) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if is_secret(text)))
}

/// Whether a part of it by itself looks like a secret.
pub(crate) fn has_secret_part(value: &Template) -> bool {
    has_secret(&value.pieces(), |text| text.split(['=', '/', '&', '?', ' ', ':', '@']).any(is_secret_text))
}

/// Whether what stands in for a variable is a secret.
fn has_secret_default(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Reference(Reference::Variable { name, default: Some(default) }) => is_secret_default(name, default),
        _ => false,
    })
}

/// Whether what stands in for a variable of this name is a secret.
pub(crate) fn is_secret_default(name: &str, default: &[Piece]) -> bool {
    !secrets(&joined(default), Role::Variable(name)).is_empty() || has_secret_default(default)
}

/// Whether the value of a variable or an option of this name looks like a secret.
pub(crate) fn looks_secret(name: &str, value: &str) -> bool {
    !PLAIN.contains(&value.to_ascii_lowercase().as_str()) && (names_secret(name) || is_secret_text(value))
}

/// Whether a header's value looks like a secret: anything does that is not known to be harmless.
pub(crate) fn is_secret_header(name: &str, value: &str) -> bool {
    let harmless = HARMLESS_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    !value.is_empty() && (!harmless || is_secret_text(value))
}

/// Whether a name says that what it holds is secret; it is cut into words first, so that `monkey` has no key.
pub fn names_secret(name: &str) -> bool {
    let mut words = Vec::from([String::new()]);
    let mut before = '_';
    for letter in name.chars() {
        let begins = !letter.is_alphanumeric() || (letter.is_uppercase() && before.is_lowercase());
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    let secret = |word: &String| {
        if word.trim_end_matches(|letter: char| letter.is_ascii_digit()).ends_with("pass") {
            return !["compass", "bypass"].contains(&word.as_str());
        }
        let word = word.trim_end_matches('s');
        NAMES.contains(&word) || ["apikey", "authorization", "accesskey", "privatekey"].contains(&word)
    };
    words.iter().any(secret) || NAMES.iter().any(|secret| 4 < secret.len() && name.to_lowercase().contains(secret))
}

/// Whether a text by itself looks like a secret: a known beginning, or long and of letters and digits mixed.
pub(crate) fn is_secret_text(text: &str) -> bool {
    let token = text.rsplit(' ').next().unwrap_or_default();
    if BEGINNINGS.iter().any(|beginning| token.starts_with(beginning) && beginning.len() + 4 < token.len()) {
        return true;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+=.~".contains(&byte);
    let digits = token.bytes().filter(u8::is_ascii_digit).count();
    let letters = token.bytes().filter(u8::is_ascii_alphabetic).count();
    LONG <= token.len() && token.bytes().all(plain) && 4 <= digits && 4 <= letters && !token.contains("--")
}

#[cfg(test)]
mod tests {
    use super::{is_secret_header, is_secret_text, looks_secret, names_secret};

    #[test]
    fn names_of_secrets_are_known_by_their_words() {
        for name in [
            "GITHUB_TOKEN",
            "apiKey",
            "API_KEYS",
            "DB_PASSWORD",
            "x-api-key",
            "--auth-token",
            "CLIENTSECRET",
            "MYPASS",
            "DB_PASS",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in ["MONKEY", "KEYBOARD", "LOG_LEVEL", "PATH", "HOME", "AUTHOR", "COMPASS", "PASSIVE"] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn texts_that_look_random_are_taken_for_secrets() {
        for text in ["sk-abcdef123", "Bearer ghp_0123456789abcdef", "A1b2C3d4E5f6G7h8I9j0", "eyJhbGciOi.x.y"] {
            assert!(is_secret_text(text), "{text}");
        }
        for text in ["debug", "https://example.org/a/b/c/d/e/12345", "@modelcontextprotocol/server-memory", "/srv/data"]
        {
            assert!(!is_secret_text(text), "{text}");
        }
        assert!(!looks_secret("AUTH_DISABLED", "true"));
        assert!(looks_secret("AUTH", "hunter2"));
        assert!(is_secret_header("X-Whatever", "abc"));
        assert!(!is_secret_header("Accept", "application/json"));
    }
}
