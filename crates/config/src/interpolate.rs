//! Strings with references: `${NAME}`, `${file:path}` and the syntax of other hosts.
//!
//! A string is kept as written, with its dialect, until the server is started or connected. A reference that cannot be
//! resolved is then an error: an unresolved placeholder must not be sent as a credential.

mod dialect;
mod expand;
mod scan;

use crate::secret::Secret;

pub use dialect::Dialect;
pub use expand::{INPUTS, Lookup, Unresolved};
pub use scan::{Piece, Reference};

pub(crate) use expand::read_bounded;
pub(crate) use scan::is_name;

/// A string as written; it may be a secret or contain references to secrets.
#[derive(Clone, Debug)]
pub struct Template {
    text: Secret,
    dialect: Dialect,
    line: usize,
}

/// Equal if text and dialect are equal; the line does not matter.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.dialect == other.dialect
    }
}

impl Eq for Template {}

impl Template {
    /// A string of this dialect, on this line of its file.
    pub fn new(text: impl Into<String>, dialect: Dialect, line: usize) -> Self {
        Self { text: Secret::new(text), dialect, line }
    }

    /// A string without references.
    pub fn literal(text: impl Into<String>) -> Self {
        Self::new(text, Dialect::Literal, 0)
    }

    /// The string as written. It may be a secret.
    pub fn written(&self) -> &Secret {
        &self.text
    }

    /// Syntax of its references.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Line in its file; zero if it does not come from a file.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The string split at its references.
    pub fn pieces(&self) -> Vec<Piece> {
        scan::pieces(self.text.expose(), self.dialect)
    }

    /// All references, including those in defaults.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        scan::collect(self.pieces(), &mut found);
        found
    }

    /// Whether it has no references.
    pub fn is_literal(&self) -> bool {
        self.pieces().iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Resolves the references.
    pub fn expand(&self, lookup: &Lookup<'_>) -> Result<Secret, Unresolved> {
        expand::expand(&self.pieces(), lookup).map(Secret::new)
    }
}

#[cfg(test)]
mod tests;
