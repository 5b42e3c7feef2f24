//! Removes configured secrets, credentials in URIs and control characters from records, statuses, events, conversations and
//! results for models. A secret is found however it is spelt ([`spelling`]).

mod known;
mod spelling;

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use serde_json::Value;
use toolway_config::Secret;
use toolway_wire::message::RpcError;
use url::Url;

use spelling::Matcher;

pub(crate) use known::KnownSecrets;

/// Removes the secrets of one server, or of all, from texts. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Redactor {
    /// `None`: no secrets.
    matcher: Option<Arc<Matcher>>,
    count: usize,
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
/// Bytes after the end of a cut body in which the rest of a secret is looked for.
const OVERLAP: usize = 64 * 1024;

impl Redactor {
    /// Creates a redactor for these secrets.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let secrets: Vec<Secret> = secrets.into_iter().filter(|secret| SHORTEST <= secret.expose().len()).collect();
        let matcher = Matcher::new(secrets.iter().map(Secret::expose));
        Self { matcher: matcher.map(Arc::new), count: secrets.len() }
    }

    /// Removes secrets and control characters, and truncates the text.
    pub fn text(&self, text: &str) -> String {
        let clean = self.plain(text);
        let mut letters = clean.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
        let kept: String = letters.by_ref().take(LETTERS).collect();
        let is_cut = letters.next().is_some();
        // A control character may have stood in a secret.
        let mut kept = self.plain(&kept).into_owned();
        if is_cut {
            kept.push('…');
        }
        kept
    }

    /// Removes secrets, and truncates the text. Control characters stay, for surfaces that make them visible.
    pub fn message(&self, text: &str) -> String {
        let clean = self.plain(text);
        let bare: String = clean.chars().filter(|letter| !letter.is_control()).collect();
        if matches!(self.plain(&bare), Cow::Owned(_)) {
            // One of them stands in a secret.
            return self.text(text);
        }
        match clean.char_indices().nth(LETTERS) {
            Some((end, _)) => format!("{}…", &clean[..end]),
            None => clean.into_owned(),
        }
    }

    /// Removes secrets.
    pub fn plain<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replace(text, text.len())
    }

    /// A JSON text without secrets, cut to a bound.
    pub fn body(&self, text: &str) -> String {
        self.replace(text, MAX_BODY).into_owned()
    }

    /// Removes secrets from the texts, names and numbers of a JSON value. Returns whether there were any.
    pub fn value(&self, value: &mut Value) -> Found {
        if self.matcher.is_none() {
            return Found::Nothing;
        }
        match value {
            Value::Null | Value::Bool(_) => Found::Nothing,
            Value::Number(number) => match self.plain(&number.to_string()) {
                Cow::Borrowed(_) => Found::Nothing,
                Cow::Owned(clean) => {
                    *value = clean.into();
                    Found::Secret
                }
            },
            Value::String(text) => match self.plain(text) {
                Cow::Borrowed(_) => Found::Nothing,
                Cow::Owned(clean) => {
                    *text = clean;
                    Found::Secret
                }
            },
            Value::Array(values) => values.iter_mut().fold(Found::Nothing, |found, value| found.or(self.value(value))),
            Value::Object(members) => {
                let found = members.values_mut().fold(Found::Nothing, |found, value| found.or(self.value(value)));
                let names: Vec<String> = members.keys().filter(|name| self.finds(name)).cloned().collect();
                for name in &names {
                    if let Some(value) = members.remove(name) {
                        members.insert(self.plain(name).into_owned(), value);
                    }
                }
                if names.is_empty() { found } else { Found::Secret }
            }
        }
    }

    /// Whether a text contains a secret.
    pub fn finds(&self, text: &str) -> bool {
        matches!(self.plain(text), Cow::Owned(_))
    }

    /// Returns the error unchanged, or only its code and redacted message if it is too long or contains a secret.
    pub fn error(&self, error: &RpcError) -> RpcError {
        let text = error.raw().to_string();
        if text.len() <= ERROR_BYTES && !self.finds(&text) {
            return error.clone();
        }
        RpcError::new(error.code(), &self.text(&error.message()))
    }

    /// Replaces the secrets that begin before `end`, and cuts the text there. Borrowed if there is nothing to change.
    fn replace<'a>(&self, text: &'a str, end: usize) -> Cow<'a, str> {
        let end = text.floor_char_boundary(end.min(text.len()));
        let searched = &text[..text.floor_char_boundary(text.len().min(end + OVERLAP))];
        let spans = self.matcher.as_ref().map(|matcher| matcher.spans(searched)).unwrap_or_default();
        let mut spans = spans.into_iter().filter(|span| span.start < end).peekable();
        if spans.peek().is_none() {
            return Cow::Borrowed(&text[..end]);
        }
        let (mut clean, mut after) = (String::with_capacity(end), 0);
        for Range { start, end: span_end } in spans {
            // An encoded secret may begin or end within a character of the text.
            let start = text.floor_char_boundary(start).max(after);
            clean.push_str(&text[after..start]);
            clean.push_str(HIDDEN);
            after = text.ceil_char_boundary(span_end);
        }
        clean.push_str(text.get(after..end).unwrap_or_default());
        Cow::Owned(clean)
    }
}

/// Whether a value had secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is unchanged.
    Nothing,
    /// Secrets were replaced.
    Secret,
}

impl Found {
    fn or(self, other: Self) -> Self {
        if self == Self::Secret { self } else { other }
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
        f.debug_struct("Redactor").field("secrets", &self.count).finish()
    }
}

#[cfg(test)]
mod tests;
