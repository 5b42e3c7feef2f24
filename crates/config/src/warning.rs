//! Configuration warnings: problems of a file that do not prevent its use.

use std::{collections::BTreeSet, fmt};

use crate::{
    error::{ConfigError, Place},
    server::ServerName,
};

/// One configuration warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// File and line.
    pub place: Place,
    /// Message without the place.
    pub message: String,
    /// Kind of warning.
    pub kind: WarningKind,
    /// The entry or file that is not used, if any.
    pub unused: Option<Unused>,
}

/// An entry or a file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Label of the entry; `None` for a whole file.
    pub label: Option<String>,
    /// Reason, without the place.
    pub reason: String,
}

/// Kind of warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// Unknown key; an error with [`Strictness::Strict`].
    UnknownKey,
    /// Known key without effect here.
    IgnoredKey,
    /// An entry or a file of another host or a project is not used.
    SetAside,
    /// An invalid entry or file of the user is not used; `config check` fails on it.
    Broken,
    /// An entry is not used because another entry of the same name takes precedence.
    Shadowed,
}

/// Whether unknown keys are warnings or errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown keys are warnings.
    Usual,
    /// Unknown keys are errors.
    Strict,
}

/// Warnings in the order in which they were found.
pub(crate) type Warnings = Vec<Warning>;

/// Minimum Jaro-Winkler similarity for a suggestion.
const NEAR: f64 = 0.75;
/// Similarity of a misspelling, for keys that may belong to another program.
const MISSPELLED: f64 = 0.9;

impl Warning {
    /// An entry that is not used.
    pub(crate) fn of_entry(kind: WarningKind, place: Place, label: &str, reason: impl Into<String>) -> Self {
        let unused = Unused { label: Some(label.to_owned()), reason: reason.into() };
        let message = format!("`{label}` is not used: {}", unused.reason);
        Self { place, message, kind, unused: Some(unused) }
    }

    /// A file that is not used; `file` describes it, such as "the project file".
    pub(crate) fn of_file(kind: WarningKind, place: Place, file: &str, reason: impl Into<String>) -> Self {
        let unused = Unused { label: None, reason: reason.into() };
        let message = format!("{file} is not used: {}", unused.reason);
        Self { place, message, kind, unused: Some(unused) }
    }

    /// A key that has no effect with the transport or authentication of the server.
    pub(crate) fn without_effect(place: Place, name: &str) -> Self {
        let message = format!("`{name}` has no effect with the transport or `auth` of this server");
        Self { place, message, kind: WarningKind::IgnoredKey, unused: None }
    }

    /// A key of other hosts; `why` says what to do instead.
    pub(crate) fn ignored(place: Place, name: &str, why: &str) -> Self {
        let message = format!("`{name}` is a key of other MCP hosts and has no effect here: {why}");
        Self { place, message, kind: WarningKind::IgnoredKey, unused: None }
    }

    /// Settings of a client that no key has the name of.
    pub(crate) fn unknown_client(place: Place, name: &str, known: &BTreeSet<String>) -> Self {
        let mut message = format!("`gateway.clients.{name}` has no effect: no client has this name");
        match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => message.push_str(&format!("; did you mean `{near}`?")),
            None => message.push_str("; `toolway clients list` shows the names"),
        }
        Self { place, message, kind: WarningKind::IgnoredKey, unused: None }
    }

    pub(crate) fn unknown<'a>(place: Place, name: &str, key: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let message = match nearest(key, known) {
            Some(near) => format!("unknown key `{name}` is ignored; did you mean `{near}`?"),
            None => format!("unknown key `{name}` is ignored"),
        };
        Self { place, message, kind: WarningKind::UnknownKey, unused: None }
    }

    /// The warning as an error for `config check`; `None` if it stays a warning.
    pub fn as_error(&self, strictness: Strictness) -> Option<ConfigError> {
        let is_error = match self.kind {
            WarningKind::Broken => true,
            WarningKind::UnknownKey => strictness == Strictness::Strict,
            WarningKind::IgnoredKey | WarningKind::SetAside | WarningKind::Shadowed => false,
        };
        is_error.then(|| ConfigError::Refused { place: self.place.clone(), problem: self.message.clone() })
    }

    /// Whether an entry or file is not used, and no other entry replaces it.
    pub fn is_exclusion(&self) -> bool {
        matches!(self.kind, WarningKind::Broken | WarningKind::SetAside)
    }

    /// Whether the unused entry has this server name.
    pub fn is_about(&self, name: &ServerName) -> bool {
        let label = self.unused.as_ref().and_then(|unused| unused.label.as_deref());
        label.is_some_and(|label| ServerName::from_label(label).as_ref() == Ok(name))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The most similar known key, if one is similar enough to suggest.
pub(crate) fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    nearest_above(NEAR, key, known)
}

/// The known key of which this one is a misspelling, rather than a key of another program.
pub(crate) fn misspelled<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    nearest_above(MISSPELLED, key, known)
}

fn nearest_above<'a>(least: f64, key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let score = |known: &str| strsim::jaro_winkler(&key.to_lowercase(), &known.to_lowercase());
    let scored = known.map(|known| (score(known), known)).filter(|(score, _)| least < *score);
    scored.max_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::{misspelled, nearest};

    #[test]
    fn similar_key_is_suggested_and_a_different_one_is_not() {
        let known = ["command", "args", "env", "envFile"];
        assert_eq!(nearest("comand", known.into_iter()), Some("command"));
        assert_eq!(nearest("env_file", known.into_iter()), Some("envFile"));
        assert_eq!(nearest("zebra", known.into_iter()), None);
        assert_eq!(misspelled("comand", known.into_iter()), Some("command"));
        assert_eq!(misspelled("environment", known.into_iter()), None);
    }
}
