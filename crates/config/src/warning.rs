//! What was odd about a file, although it can be used.

use std::fmt;

use crate::error::{ConfigError, Place};

/// Something odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// A fragment for people.
    pub message: String,
    /// Which kind of odd.
    pub kind: WarningKind,
}

/// Which kind of odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A key nobody knows; an error where one is strict.
    UnknownKey,
    /// A key that is known and changes nothing here.
    IgnoredKey,
    /// An entry or a file that is not used, and why.
    SetAside,
}

/// Warnings in the order they came up.
pub(crate) type Warnings = Vec<Warning>;

/// How near a word must be to be suggested.
const NEAR: f64 = 0.75;

impl Warning {
    pub(crate) fn set_aside(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), kind: WarningKind::SetAside }
    }

    pub(crate) fn beside_the_point(place: Place, name: &str) -> Self {
        let message = format!("`{name}` changes nothing: the server is not reached like that");
        Self { place, message, kind: WarningKind::IgnoredKey }
    }

    pub(crate) fn ignored(place: Place, name: &str, why: &str) -> Self {
        let message = format!("`{name}` is known from other hosts and changes nothing here: {why}");
        Self { place, message, kind: WarningKind::IgnoredKey }
    }

    pub(crate) fn unknown<'a>(place: Place, name: &str, key: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let message = match nearest(key, known) {
            Some(near) => format!("`{name}` is unknown and changes nothing; did you mean `{near}`?"),
            None => format!("`{name}` is unknown and changes nothing"),
        };
        Self { place, message, kind: WarningKind::UnknownKey }
    }

    /// The error it is where one is strict, if it is one.
    pub fn when_strict(&self) -> Option<ConfigError> {
        let is_error = self.kind == WarningKind::UnknownKey;
        is_error.then(|| ConfigError::Refused { place: self.place.clone(), problem: self.message.clone() })
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
