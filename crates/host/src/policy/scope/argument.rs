//! What an answer covers of one argument.

use std::fmt;

use toolway_wire::json::{JsonKind, Raw};

use super::{canonical, place};

/// What an answer covers of one argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentScope {
    /// The same value.
    Same(SameValue),
    /// Paths below this folder, which is at least two levels deep.
    Folder(String),
    /// http and https URLs of this host and port.
    Host(String),
    /// Any value, and none.
    Any,
}

/// A value that must be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SameValue {
    /// Canonical JSON.
    Json(String),
    /// SHA-256 of long canonical JSON, in hexadecimal.
    Digest(String),
}

/// Bytes of a value that is kept. Of a longer one the digest is kept.
const MAX_VALUE: usize = 1_000;
/// Strings of a list that is looked into.
const MAX_TEXTS: usize = 64;

impl ArgumentScope {
    /// The scope of exactly this value.
    pub fn same(value: &Raw) -> Self {
        let text = canonical::text(value);
        Self::Same(match text.len() <= MAX_VALUE {
            true => SameValue::Json(text),
            false => SameValue::Digest(canonical::sha256(text.as_bytes())),
        })
    }

    /// The scopes that a user can choose for a value, least general first.
    pub fn options(value: &Raw) -> Vec<Self> {
        let mut options = vec![Self::same(value)];
        options.extend(texts(value).as_deref().and_then(Self::of_places));
        options.push(Self::Any);
        options
    }

    /// Its kind, as a word for a command line.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Same(_) => "same",
            Self::Folder(_) => "folder",
            Self::Host(_) => "host",
            Self::Any => "any",
        }
    }

    /// Whether a value is covered.
    pub(super) fn covers(&self, value: &Raw) -> bool {
        match self {
            Self::Any => true,
            Self::Same(_) => *self == Self::same(value),
            Self::Folder(folder) => all_texts(value, |text| place::is_below(folder, text)),
            Self::Host(host) => all_texts(value, |text| place::is_at(host, text)),
        }
    }

    /// The least general scope that covers this one and a value.
    pub(super) fn widened(&self, value: &Raw) -> Self {
        if self.covers(value) {
            return self.clone();
        }
        let texts = texts(value).unwrap_or_default();
        let is_place = self.is_place() || Self::same(value).is_place();
        let common = match self {
            Self::Any => return Self::Any,
            Self::Same(SameValue::Json(json)) => {
                let before = Raw::parse(json.clone()).ok().and_then(|before| self::texts(&before));
                before.and_then(|before| Self::of_places(&[before, texts].concat()))
            }
            Self::Folder(folder) => Self::of_places(&[vec![format!("{folder}/x")], texts].concat()),
            Self::Same(SameValue::Digest(_)) | Self::Host(_) => None,
        };
        match common {
            Some(common) => common,
            // Places that have nothing in common are not made free without the user.
            None if is_place => Self::same(value),
            None => Self::Any,
        }
    }

    /// Whether it is about a path or a URL.
    pub(super) fn is_place(&self) -> bool {
        match self {
            Self::Folder(_) | Self::Host(_) => true,
            Self::Same(SameValue::Json(json)) => {
                let texts = Raw::parse(json.clone()).ok().and_then(|value| texts(&value)).unwrap_or_default();
                texts.iter().any(|text| place::is_place(text))
            }
            Self::Same(SameValue::Digest(_)) | Self::Any => false,
        }
    }

    fn of_places(texts: &[String]) -> Option<Self> {
        let folder = || place::common_folder(texts).map(Self::Folder);
        place::common_host(texts).map(Self::Host).or_else(folder)
    }

    /// Writes what is covered, as a part of a sentence.
    pub(super) fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name that could be read as another part of the sentence is quoted.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let name = match !name.is_empty() && name.chars().all(is_plain) {
            true => name.to_owned(),
            false => Raw::of(name).to_string(),
        };
        match self {
            Self::Same(SameValue::Json(json)) => write!(f, "{name} = {json}"),
            Self::Same(SameValue::Digest(digest)) => {
                write!(f, "the same {name} (sha256 {}…)", digest.get(..12).unwrap_or_default())
            }
            Self::Folder(_) | Self::Host(_) => write!(f, "{name} {self}"),
            Self::Any => write!(f, "any {name}"),
        }
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        let text = match self {
            Self::Same(SameValue::Json(text) | SameValue::Digest(text)) | Self::Folder(text) | Self::Host(text) => text,
            Self::Any => return size_of::<Self>(),
        };
        size_of::<Self>() + text.len()
    }
}

/// `the same`, `in "/home/ada/"`, `at example.org`, `any`.
impl fmt::Display for ArgumentScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(_) => f.write_str("the same"),
            Self::Folder(folder) => write!(f, "in {}", Raw::of(&format!("{folder}/"))),
            Self::Host(host) => write!(f, "at {host}"),
            Self::Any => f.write_str("any"),
        }
    }
}

/// The string, or the strings of a list of strings.
fn texts(value: &Raw) -> Option<Vec<String>> {
    let elements = match value.kind() {
        JsonKind::String => vec![value.clone()],
        JsonKind::Array => value.elements_within(MAX_TEXTS),
        _ => return None,
    };
    let texts = elements.iter().map(|element| Some(element.as_str()?.into_owned()));
    texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty() && texts.len() <= MAX_TEXTS)
}

fn all_texts(value: &Raw, is_covered: impl Fn(&str) -> bool) -> bool {
    texts(value).is_some_and(|texts| texts.iter().all(|text| is_covered(text)))
}
