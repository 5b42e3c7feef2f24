//! Text that cannot print itself: keys, tokens, and everything they may be written into; and the names of stored secrets.

use std::{fmt, str::FromStr};

/// A value that may hold a secret. `Debug` gives nothing away, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

/// Name of a stored secret, in `${secret:NAME}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName(String);

/// A text that is not the name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not the name of a secret: it must have 1 to {MAX_NAME} letters, digits, `_`, `-` and `.`, and begin with a \
     letter, a digit or `_`",
    .0.escape_debug()
)]
pub struct InvalidSecretName(String);

/// Maximum length of a name.
const MAX_NAME: usize = 128;

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The only access to the text: search for `expose` to see every use.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

// === impl SecretName ===

impl SecretName {
    /// A name made of `words`, joined with `-`; characters that a name cannot have become `_`.
    pub(crate) fn derived(words: &[&str]) -> Self {
        let plain = |letter: char| if is_plain(letter) { letter } else { '_' };
        let name: String = words.join("-").chars().map(plain).take(MAX_NAME / 2).collect();
        Self(if name.starts_with(['-', '.']) || name.is_empty() { format!("_{name}") } else { name })
    }

    /// This name, then the same with a number: 2, 3 …
    pub fn candidates(&self) -> impl Iterator<Item = Self> {
        let numbered = (2_usize..).map(|number| Self(format!("{}-{number}", self.0)));
        std::iter::once(self.clone()).chain(numbered)
    }

    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The reference to the secret in a configuration file.
    pub fn reference(&self) -> String {
        format!("${{secret:{}}}", self.0)
    }
}

impl FromStr for SecretName {
    type Err = InvalidSecretName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_valid = (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_plain);
        if is_valid && !text.starts_with(['-', '.']) {
            return Ok(Self(text.to_owned()));
        }
        // A value typed in place of the name must not be repeated in full.
        Err(InvalidSecretName(text.chars().take(SHOWN).collect()))
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Characters of an invalid name that are shown.
const SHOWN: usize = 16;

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::{Secret, SecretName};

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(..)");
    }

    #[test]
    fn names_have_letters_digits_and_three_signs() {
        for name in ["a", "github-GITHUB_TOKEN", "7", "_x.y-z"] {
            assert_eq!(name.parse::<SecretName>().unwrap().as_str(), name);
        }
        for name in ["", "a b", "a/b", "${x}", "-a", ".a", "ä", "a\n", &"x".repeat(129)] {
            assert!(name.parse::<SecretName>().is_err(), "{name}");
        }
        let message = "not a name but sk-0123456789abcdef".parse::<SecretName>().unwrap_err().to_string();
        assert!(!message.contains("sk-0123456789abcdef"), "{message}");
    }

    #[test]
    fn derived_names_are_valid() {
        for words in [&["a", "b c"][..], &["", ""], &["-x"], &["ü", "${}"], &["x", &"y".repeat(500)]] {
            for name in SecretName::derived(words).candidates().take(3) {
                assert_eq!(name.as_str().parse().as_ref(), Ok(&name), "{words:?}");
            }
        }
        assert_eq!(SecretName::derived(&["github", "TOKEN"]).reference(), "${secret:github-TOKEN}");
    }
}
