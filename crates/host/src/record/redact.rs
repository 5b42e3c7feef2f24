//! What never reaches a record, a status or an event: configured secrets, keys in addresses, and text that would
//! move somebody's cursor.
//!
//! Arguments and results are not redacted but left out: nobody can say which part of them is a secret.

use std::{borrow::Cow, fmt, sync::Arc};

use toolway_config::Secret;
use toolway_wire::{json::Raw, message::RpcError};
use url::Url;

/// Takes the secrets of one server out of what is said about it. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another goes whole.
    secrets: Arc<[Secret]>,
}

/// Shorter values stand in too many ordinary words; replacing them would say more than it hides.
const SHORTEST: usize = 4;
/// Letters of a message that are kept.
const LETTERS: usize = 600;
/// Bytes of an error that are kept as they came.
const ERROR_BYTES: usize = 16 * 1024;
/// What stands in the place of a secret.
const HIDDEN: &str = "[hidden]";

impl Redactor {
    /// One that knows these.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().filter(|secret| SHORTEST <= secret.expose().len()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self { secrets: secrets.into() }
    }

    /// The text without secrets and control characters, cut to a bound.
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

    /// The error as it came; one that is too long or holds a secret, only with its code and what may be said of it.
    pub fn error(&self, error: &RpcError) -> RpcError {
        let text = error.raw().to_string();
        // A secret may be spelt otherwise in JSON than it is.
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

/// A URI without what people put keys into: its query, its fragment and its user part.
pub fn uri(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else {
        return text.split(['?', '#']).next().unwrap_or_default().to_owned();
    };
    let asked = url.query().is_some();
    url.set_query(None);
    url.set_fragment(None);
    // An address that cannot have a user part has none.
    let _none = url.set_username("").and_then(|()| url.set_password(None));
    if asked { format!("{url}?…") } else { url.to_string() }
}

/// What it hides, it does not print.
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
    fn secrets_go_whole_and_short_words_stay() {
        let redactor = Redactor::new(["s3cret", "s3cret-and-more", "a"].map(Secret::new));
        assert_eq!(
            redactor.text("bad key s3cret-and-more\u{1b}[31m, or s3cret?"),
            "bad key [hidden][31m, or [hidden]?"
        );
        assert_eq!(format!("{redactor:?}"), "Redactor { secrets: 2 }");
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = Redactor::default().text(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), LETTERS + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn an_error_stays_as_it_came_unless_it_tells_a_secret() {
        let redactor = Redactor::new([Secret::new("s3\"cret")]);
        let plain = RpcError::with_data(-32000, "no licence", [1]);
        assert_eq!(redactor.error(&plain), plain);
        let telling = RpcError::with_data(-32000, "the key s3\"cret is old", ["s3\"cret"]);
        assert_eq!(redactor.error(&telling), RpcError::new(-32000, "the key [hidden] is old"));
        let long = redactor.error(&RpcError::with_data(-32000, "x", "y".repeat(20_000)));
        assert_eq!(long, RpcError::new(-32000, "x"));
    }

    #[test]
    fn an_address_loses_its_keys() {
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
