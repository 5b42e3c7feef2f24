//! Text with references in it: `${NAME}`, `${file:path}` and what other hosts write instead.
//!
//! A text is kept as it was written, with the dialect it was written in, until a server is started or dialled. A
//! reference that leads nowhere is an error then: a guessed text sent as a credential is worse than none.

mod dialect;
mod expand;
mod scan;

use crate::secret::Secret;

pub use dialect::Dialect;
pub use expand::{INPUTS, Lookup, Unresolved};
pub use scan::{Piece, Reference};

pub(crate) use expand::read_bounded;
pub(crate) use scan::is_name;

/// A text as it was written: maybe a secret itself, maybe with references to some.
#[derive(Clone, Debug)]
pub struct Template {
    text: Secret,
    dialect: Dialect,
    line: usize,
}

/// Equal if they say the same, wherever they stand.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.dialect == other.dialect
    }
}

impl Eq for Template {}

impl Template {
    /// A text of this dialect.
    pub fn new(text: impl Into<String>, dialect: Dialect, line: usize) -> Self {
        Self { text: Secret::new(text), dialect, line }
    }

    /// A text in which nothing is special.
    pub fn literal(text: impl Into<String>) -> Self {
        Self::new(text, Dialect::Literal, 0)
    }

    /// The text as it was written. It may be a secret.
    pub fn written(&self) -> &Secret {
        &self.text
    }

    /// Which references it may have.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The line of its file; zero where there is none.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The text cut at its references.
    pub fn pieces(&self) -> Vec<Piece> {
        scan::pieces(self.text.expose(), self.dialect)
    }

    /// The references in it, those in defaults included.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        scan::collect(self.pieces(), &mut found);
        found
    }

    /// Whether nothing has to be looked up.
    pub fn is_literal(&self) -> bool {
        self.pieces().iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// The text with its references replaced.
    pub fn expand(&self, lookup: &Lookup<'_>) -> Result<Secret, Unresolved> {
        expand::expand(&self.pieces(), lookup).map(Secret::new)
    }
}

#[cfg(test)]
mod tests;
