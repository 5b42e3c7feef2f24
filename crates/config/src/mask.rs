//! Detection and masking of secrets in configured strings.

mod ranges;
mod words;

pub(crate) use ranges::{REFERENCE, Role, secrets};

use crate::interpolate::{Piece, Reference, Template};

/// Words in a name that mark its value as secret.
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

/// Prefixes of well-known secrets.
const BEGINNINGS: [&str; 34] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "ntn_",
    "lin_api_",
    "sntrys_",
    "sntryu_",
    "npm_",
    "pypi-",
    "hf_",
    "gsk_",
    "xai-",
    "pplx-",
    "tvly-",
    "figd_",
    "dop_v1_",
    "shpat_",
    "ATATT",
    "AKIA",
    "AIza",
    "eyJ",
    "-----BEGIN",
];

/// Headers whose values are not secret.
const HARMLESS_HEADERS: [&str; 6] =
    ["accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version", "cache-control"];

/// Values that are never secret, whatever the name.
const PLAIN: [&str; 10] = ["", "0", "1", "true", "false", "yes", "no", "on", "off", "none"];

/// Minimum length of a random-looking secret; shorter ones are IDs.
const MIN_LENGTH: usize = 20;

/// Replacement for a masked secret.
pub(crate) const MASK: &str = "•••";

/// The value of a variable, with secrets masked.
pub(crate) fn variable(name: &str, value: &Template) -> String {
    shown(value, Role::Variable(name))
}

/// The value of a header, with secrets masked.
pub(crate) fn header(name: &str, value: &Template) -> String {
    let is_secret = |text: &str| is_secret_header(name, text.trim_start_matches("Bearer ").trim());
    if has_secret(&value.pieces(), is_secret) { MASK.to_owned() } else { shown(value, Role::Header(name)) }
}

/// A command, a path or a URL, with secrets masked.
pub(crate) fn text(value: &Template) -> String {
    if has_secret_part(value) { MASK.to_owned() } else { shown(value, Role::Plain) }
}

/// Arguments, with secrets masked; an option may mark the next argument as secret.
pub(crate) fn arguments(arguments: &[Template]) -> Vec<String> {
    let mut before = "";
    let argument = |argument| {
        let text = shown(argument, Role::Argument(before));
        before = argument.written().expose();
        if text == *before && has_secret_part(argument) { MASK.to_owned() } else { text }
    };
    arguments.iter().map(argument).collect()
}

/// The string as written, with secret ranges masked; masked as a whole if it mixes secrets and references.
fn shown(value: &Template, role: Role<'_>) -> String {
    let (pieces, written) = (value.pieces(), value.written().expose());
    let ranges = secrets(&joined(&pieces), role);
    let is_plain = matches!(pieces.as_slice(), [Piece::Text(text)] if text == written);
    if !ranges.is_empty() && !is_plain || has_secret_default(&pieces) || has_default_of(&pieces, role) {
        return MASK.to_owned();
    }
    let mut shown = written.to_owned();
    ranges.into_iter().rev().for_each(|range| shown.replace_range(range, MASK));
    shown
}

/// The string with [`REFERENCE`] for each reference.
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

/// Whether a part of the string looks like a secret by itself.
pub(crate) fn has_secret_part(value: &Template) -> bool {
    has_secret(&value.pieces(), |text| text.split(['=', '/', '&', '?', ' ', ':', '@']).any(is_secret_text))
}

/// Whether the default of a variable is a secret in this role.
fn has_default_of(pieces: &[Piece], role: Role<'_>) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Reference(Reference::Variable { default: Some(default), .. }) => {
            !secrets(&joined(default), role).is_empty() || has_default_of(default, role)
        }
        _ => false,
    })
}

/// Whether the default of a variable is a secret.
fn has_secret_default(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Reference(Reference::Variable { name, default: Some(default) }) => is_secret_default(name, default),
        _ => false,
    })
}

/// Whether the default of a variable of this name is a secret.
pub(crate) fn is_secret_default(name: &str, default: &[Piece]) -> bool {
    !secrets(&joined(default), Role::Variable(name)).is_empty() || has_secret_default(default)
}

/// Whether the value of a variable or an option of this name looks like a secret.
pub(crate) fn looks_secret(name: &str, value: &str) -> bool {
    !is_plain(value) && (is_secret_name(name) || is_secret_text(value))
}

/// Whether a value is never secret, whatever the name.
pub(crate) fn is_plain(value: &str) -> bool {
    PLAIN.contains(&value.to_ascii_lowercase().as_str())
}

/// Whether the value of a header is treated as secret: all are, except for known harmless headers.
pub(crate) fn is_secret_header(name: &str, value: &str) -> bool {
    let harmless = HARMLESS_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    !is_plain(value) && (!harmless || is_secret_text(value))
}

/// Whether a name marks its value as secret. Compares whole words, so that `monkey` does not match `key`.
pub fn is_secret_name(name: &str) -> bool {
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

/// Whether a text begins as the keys of well-known services do.
pub fn looks_like_key(text: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning) && beginning.len() + 4 < text.len())
}

/// Whether a text looks like a secret by itself: a known prefix, or a long mix of letters and digits.
pub(crate) fn is_secret_text(text: &str) -> bool {
    let token = text.rsplit(' ').next().unwrap_or_default();
    if looks_like_key(token) {
        return true;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+=.~".contains(&byte);
    let digits = token.bytes().filter(u8::is_ascii_digit).count();
    let letters = token.bytes().filter(u8::is_ascii_alphabetic).count();
    MIN_LENGTH <= token.len() && token.bytes().all(plain) && 4 <= digits && 4 <= letters && !token.contains("--")
}

#[cfg(test)]
mod tests {
    use super::{is_secret_header, is_secret_name, is_secret_text, looks_secret};

    #[test]
    fn secret_names_are_detected_by_their_words() {
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
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["MONKEY", "KEYBOARD", "LOG_LEVEL", "PATH", "HOME", "AUTHOR", "COMPASS", "PASSIVE"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn random_looking_texts_are_treated_as_secrets() {
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
