//! Removes configured secrets, credentials in URIs and control characters from records, statuses and events.
//!
//! Arguments and results are not redacted but omitted, because their secret parts cannot be identified.

use std::{borrow::Cow, fmt, sync::Arc};

use toolway_config::Secret;
use toolway_wire::{json::Raw, message::RpcError};
use url::Url;

/// Removes the secrets of one server from texts. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another one is replaced completely.
    secrets: Arc<[Secret]>,
}

/// Minimum length of a secret in bytes. Shorter values occur in ordinary words, and replacing them would reveal them.
const SHORTEST: usize = 4;
/// Maximum length of a message in characters.
const LETTERS: usize = 600;
/// Maximum size of an error in bytes that is kept unchanged.
const ERROR_BYTES: usize = 16 * 1024;
/// Replacement of a secret.
const HIDDEN: &str = "[hidden]";
/// Bytes of a body that are kept.
const MAX_BODY: usize = 1024 * 1024;

impl Redactor {
    /// Creates a redactor for these secrets.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().filter(|secret| SHORTEST <= secret.expose().len()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self { secrets: secrets.into() }
    }

    /// Removes secrets and control characters, and truncates the text.
    pub fn text(&self, text: &str) -> String {
        let mut clean = Cow::Borrowed(text);
        for secret in self.secrets.iter().filter(|secret| text.contains(secret.expose())) {
            clean = Cow::Owned(clean.replace(secret.expose(), HIDDEN));
        }
        let mut letters = clean.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
        let mut kept: String = letters.by_ref().take(LETTERS).collect();
        if letters.next().is_some() {
            kept.push('…');
        }
        kept
    }

    /// A JSON text with secrets replaced, cut to a bound. A secret is also found as it is spelt in JSON.
    pub fn body(&self, text: &str) -> String {
        let mut clean = Cow::Borrowed(text);
        for secret in self.secrets.iter() {
            let spelt = Raw::of(secret.expose()).to_string();
            for form in [spelt.trim_matches('"'), secret.expose()] {
                if clean.contains(form) {
                    clean = Cow::Owned(clean.replace(form, HIDDEN));
                }
            }
        }
        let end = clean.floor_char_boundary(MAX_BODY.min(clean.len()));
        clean[..end].to_owned()
    }

    /// Returns the error unchanged, or only its code and redacted message if it is too long or contains a secret.
    pub fn error(&self, error: &RpcError) -> RpcError {
        let text = error.raw().to_string();
        // JSON escapes can change the spelling of a secret.
        let told = |secret: &&Secret| {
            let spelt = Raw::of(secret.expose()).to_string();
            text.contains(secret.expose()) || text.contains(spelt.trim_matches('"'))
        };
        if text.len() <= ERROR_BYTES && self.secrets.iter().find(told).is_none() {
            return error.clone();
        }
        RpcError::new(error.code(), &self.text(&error.message()))
    }
}

/// Removes query, fragment and user information, which can contain credentials, from a URI.
pub fn uri(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else {
        return text.split(['?', '#']).next().unwrap_or_default().to_owned();
    };
    let asked = url.query().is_some();
    url.set_query(None);
    url.set_fragment(None);
    // This fails only for URIs that cannot have user information.
    let _none = url.set_username("").and_then(|()| url.set_password(None));
    if asked { format!("{url}?…") } else { url.to_string() }
}

/// Prints the number of secrets only.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use toolway_config::Secret;
    use toolway_wire::message::RpcError;

    use super::{LETTERS, Redactor, uri};

    #[test]
    fn secrets_are_replaced_completely_and_short_values_stay() {
        let redactor = Redactor::new(["s3cret", "s3cret-and-more", "a"].map(Secret::new));
        assert_eq!(
            redactor.text("bad key s3cret-and-more\u{1b}[31m, or s3cret?"),
            "bad key [hidden][31m, or [hidden]?"
        );
        assert_eq!(format!("{redactor:?}"), "Redactor { secrets: 2 }");
    }

    #[test]
    fn long_text_is_truncated() {
        let long = Redactor::default().text(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), LETTERS + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn error_is_unchanged_unless_it_contains_a_secret_or_is_too_long() {
        let redactor = Redactor::new([Secret::new("s3\"cret")]);
        let plain = RpcError::with_data(-32000, "no licence", [1]);
        assert_eq!(redactor.error(&plain), plain);
        let telling = RpcError::with_data(-32000, "the key s3\"cret is old", ["s3\"cret"]);
        assert_eq!(redactor.error(&telling), RpcError::new(-32000, "the key [hidden] is old"));
        let long = redactor.error(&RpcError::with_data(-32000, "x", "y".repeat(20_000)));
        assert_eq!(long, RpcError::new(-32000, "x"));
    }

    #[test]
    fn credentials_are_removed_from_uris() {
        for (said, kept) in [
            ("https://ada:key@example.org/a?token=1#x", "https://example.org/a?…"),
            ("file:///home/ada/x.txt", "file:///home/ada/x.txt"),
            ("memo://today", "memo://today"),
            ("not a uri?key=1", "not a uri"),
        ] {
            assert_eq!(uri(said), kept);
        }
    }
}
