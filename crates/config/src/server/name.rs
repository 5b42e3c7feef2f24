//! Server names, and how they are derived from labels.

use std::{fmt, str::FromStr, sync::Arc};

/// A server name: 1 to 64 lower-case letters, digits, `_` and `-`, without `__`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// A string that is not a valid server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid server name `{0}`: use 1 to 64 of a-z, 0-9, `_` and `-`, without `__`")]
pub struct InvalidServerName(pub String);

/// Maximum length of a server name.
const LONGEST: usize = 64;

impl ServerName {
    /// Derives the name from a label: lower case, other characters replaced by `-`. A label that gives more than 64
    /// characters is an error.
    pub fn from_label(label: &str) -> Result<Self, InvalidServerName> {
        let mut name = String::new();
        for letter in label.chars().map(|letter| letter.to_ascii_lowercase()) {
            let letter = if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
            let doubled = matches!(letter, '-' | '_') && name.ends_with(letter);
            if !doubled {
                name.push(letter);
            }
        }
        name.trim_matches('-').parse().map_err(|_| InvalidServerName(label.to_owned()))
    }

    /// Name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = InvalidServerName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if !(1..=LONGEST).contains(&text.len()) || text.contains("__") || !text.bytes().all(plain) {
            return Err(InvalidServerName(text.to_owned()));
        }
        Ok(Self(Arc::from(text)))
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerName;

    #[test]
    fn name_is_derived_from_a_label() {
        let long = "x".repeat(64);
        for (label, name) in [
            ("files", "files"),
            ("My Files", "my-files"),
            ("@scope/server.git", "scope-server-git"),
            ("a__b", "a_b"),
            ("GitHub (work)", "github-work"),
            (long.as_str(), long.as_str()),
        ] {
            assert_eq!(ServerName::from_label(label).unwrap().as_str(), name, "{label}");
        }
        assert!(ServerName::from_label("").is_err());
        assert!(ServerName::from_label("日本").is_err());
        assert!(ServerName::from_label(&"x".repeat(65)).is_err(), "a long label is not cut");
    }
}
