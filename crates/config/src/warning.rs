//! What was odd about a file, although it can be used.

use std::fmt;

use crate::{
    error::{ConfigError, Place},
    server::ServerName,
};

/// Something odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// A fragment for people.
    pub message: String,
    /// Which kind of odd.
    pub kind: WarningKind,
    /// What is not used because of it, and why.
    pub aside: Option<Aside>,
}

/// Something that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The label of the entry; none where it is a whole file.
    pub label: Option<String>,
    /// A fragment for people, without the place.
    pub reason: String,
}

/// Which kind of odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A key nobody knows; an error where one is strict.
    UnknownKey,
    /// A key that is known and changes nothing here.
    IgnoredKey,
    /// An entry or a file of somebody else that is not used.
    SetAside,
    /// An entry or a file of ours that is not used until it is put right; `config check` fails on it.
    Broken,
    /// An entry that is not used, since there is another of its name that is.
    Shadowed,
}

/// Whether odd things are taken for wrong ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Keys that nobody knows are odd.
    Usual,
    /// Keys that nobody knows are wrong.
    Strict,
}

/// Warnings in the order they came up.
pub(crate) type Warnings = Vec<Warning>;

/// How near a word must be to be suggested.
const NEAR: f64 = 0.75;

impl Warning {
    /// An entry that is not used.
    pub(crate) fn of_entry(kind: WarningKind, place: Place, label: &str, reason: impl Into<String>) -> Self {
        let aside = Aside { label: Some(label.to_owned()), reason: reason.into() };
        let message = format!("`{label}` is not used: {}", aside.reason);
        Self { place, message, kind, aside: Some(aside) }
    }

    /// A file that is not used; `whose` says what file it is.
    pub(crate) fn of_file(kind: WarningKind, place: Place, whose: &str, reason: impl Into<String>) -> Self {
        let aside = Aside { label: None, reason: reason.into() };
        let message = format!("{whose} is not used: {}", aside.reason);
        Self { place, message, kind, aside: Some(aside) }
    }

    pub(crate) fn beside_the_point(place: Place, name: &str) -> Self {
        let message = format!("`{name}` changes nothing: the server is not reached like that");
        Self { place, message, kind: WarningKind::IgnoredKey, aside: None }
    }

    pub(crate) fn ignored(place: Place, name: &str, why: &str) -> Self {
        let message = format!("`{name}` is known from other hosts and changes nothing here: {why}");
        Self { place, message, kind: WarningKind::IgnoredKey, aside: None }
    }

    pub(crate) fn unknown<'a>(place: Place, name: &str, key: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let message = match nearest(key, known) {
            Some(near) => format!("`{name}` is unknown and changes nothing; did you mean `{near}`?"),
            None => format!("`{name}` is unknown and changes nothing"),
        };
        Self { place, message, kind: WarningKind::UnknownKey, aside: None }
    }

    /// The error it is for whoever looks into what is wrong, if it is one.
    pub fn as_error(&self, strictness: Strictness) -> Option<ConfigError> {
        let is_error = match self.kind {
            WarningKind::Broken => true,
            WarningKind::UnknownKey => strictness == Strictness::Strict,
            WarningKind::IgnoredKey | WarningKind::SetAside | WarningKind::Shadowed => false,
        };
        is_error.then(|| ConfigError::Refused { place: self.place.clone(), problem: self.message.clone() })
    }

    /// Whether something is missing because of it: not used, and no other of its name is.
    pub fn is_a_gap(&self) -> bool {
        matches!(self.kind, WarningKind::Broken | WarningKind::SetAside)
    }

    /// Whether it is about an entry that gives this name.
    pub fn is_about(&self, name: &ServerName) -> bool {
        let label = self.aside.as_ref().and_then(|aside| aside.label.as_deref());
        label.is_some_and(|label| ServerName::from_label(label).as_ref() == Ok(name))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The known word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let score = |known: &str| strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase());
    let scored = known.map(|known| (score(known), known)).filter(|(score, _)| NEAR < *score);
    scored.max_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        let known = ["command", "args", "env", "envFile"];
        assert_eq!(nearest("comand", known.into_iter()), Some("command"));
        assert_eq!(nearest("env_file", known.into_iter()), Some("envFile"));
        assert_eq!(nearest("zebra", known.into_iter()), None);
    }
}
