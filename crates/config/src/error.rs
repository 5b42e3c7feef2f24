//! What is wrong with what the operator wrote: where, and what was expected.

use std::{fmt, io, path::PathBuf};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Counted from one.
    pub line: usize,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not there, or not ours to read.
    #[error("cannot read {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not JSON, with or without comments.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where it stops being JSON.
        place: Place,
        /// What the reader says.
        problem: String,
    },
    /// A value of the wrong kind, or none.
    #[error("{place}: `{key}` must be {expected}")]
    Expected {
        /// Where.
        place: Place,
        /// Which key, with the keys above it.
        key: String,
        /// What belongs there.
        expected: String,
    },
    /// A key twice in one object; readers disagree about which counts.
    #[error("{place}: `{key}` stands here twice")]
    Twice {
        /// The second time.
        place: Place,
        /// Which key.
        key: String,
    },
    /// Two labels that give the same name.
    #[error("{place}: `{label}` and `{other}` would both be called `{name}`; rename one")]
    SameName {
        /// The second of them.
        place: Place,
        /// Its label.
        label: String,
        /// The label of the first.
        other: String,
        /// The name of both.
        name: String,
    },
    /// A variable without a value.
    #[error("{place}: `{key}` needs the variable {variable}, which is not set")]
    Unset {
        /// Where.
        place: Place,
        /// Which key.
        key: String,
        /// Which variable.
        variable: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
