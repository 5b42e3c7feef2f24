//! Text that cannot print itself: keys, tokens, and everything they may be written into.

use std::fmt;

/// A value that may hold a secret. `Debug` gives nothing away, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

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

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(..)");
    }
}
