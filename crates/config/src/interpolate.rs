//! Strings with references: `${NAME}`, `${file:path}` and the syntax of other hosts.
//!
//! A string is kept as written, with its dialect, until the server is started or connected. A reference that cannot be
//! resolved is then an error: an unresolved placeholder must not be sent as a credential.

mod dialect;
mod expand;
mod held;
mod scan;

use crate::secret::Secret;

pub use dialect::Dialect;
pub use expand::{INPUTS, Lookup, Unresolved};
pub use held::HeldFile;
pub use scan::{Piece, Reference};

pub(crate) use expand::read_bounded;
pub(crate) use scan::is_name;

/// A string as written; it may be a secret or contain references to secrets.
#[derive(Clone, Debug)]
pub struct Template {
    text: Secret,
    dialect: Dialect,
    line: usize,
    /// Files of its references, if they were read already.
    files: Option<Vec<HeldFile>>,
}

/// Equal if text, dialect and files are equal; the line does not matter.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.dialect == other.dialect && self.files == other.files
    }
}

impl Eq for Template {}

impl Template {
    /// A string of this dialect, on this line of its file.
    pub fn new(text: impl Into<String>, dialect: Dialect, line: usize) -> Self {
        Self { text: Secret::new(text), dialect, line, files: None }
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

    /// Whether it has a reference to a file.
    pub(crate) fn has_file(&self) -> bool {
        self.references().iter().any(|reference| matches!(reference, Reference::File(_)))
    }

    /// Reads the files of its references now; [`Self::expand`] then uses what was read. `count` is the number of files of
    /// the server so far.
    pub(crate) fn hold_files(&mut self, lookup: &Lookup<'_>, count: &mut usize) {
        self.files = Some(HeldFile::read_all(&self.references(), lookup, count));
    }

    /// The file of a reference, if it was read already.
    pub(crate) fn held_file(&self, path: &str) -> Option<&HeldFile> {
        self.files.iter().flatten().find(|file| file.path == path)
    }

    /// Resolves the references.
    pub fn expand(&self, lookup: &Lookup<'_>) -> Result<Secret, Unresolved> {
        expand::expand(&self.pieces(), lookup, self).map(Secret::new)
    }

    /// The text with environment variables and folders resolved, to be compared and not to be used. Secrets, files and what
    /// cannot be resolved are named instead.
    pub(crate) fn expand_known(&self, lookup: &Lookup<'_>) -> String {
        expand::expand_known(&self.pieces(), lookup, self)
    }
}

#[cfg(test)]
mod tests;
