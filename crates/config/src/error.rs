//! What is wrong with what the operator wrote: where, and what was expected.

use std::{fmt, io, path::PathBuf};

use crate::interpolate::Unresolved;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Counted from one; zero where there is no line to name.
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
    /// Not what the extension promises.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where it stops being that.
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
    /// A reference that leads nowhere.
    #[error("{place}: `{key}` {reason}")]
    Unresolved {
        /// Where.
        place: Place,
        /// Which key.
        key: String,
        /// What it needs.
        reason: Box<Unresolved>,
    },
    /// Something that may not be, or not there.
    #[error("{place}: {problem}")]
    Refused {
        /// Where.
        place: Place,
        /// What may not be.
        problem: String,
    },
}

impl ConfigError {
    /// Where it stands.
    pub fn place(&self) -> Place {
        match self {
            Self::Unreadable { file, .. } => Place { file: file.clone(), line: 0 },
            Self::Syntax { place, .. }
            | Self::Expected { place, .. }
            | Self::Twice { place, .. }
            | Self::SameName { place, .. }
            | Self::Unresolved { place, .. }
            | Self::Refused { place, .. } => place.clone(),
        }
    }

    /// What is wrong, for whoever says the place in another way.
    pub fn problem(&self) -> String {
        let whole = self.to_string();
        whole.strip_prefix(&format!("{}: ", self.place())).map(str::to_owned).unwrap_or(whole)
    }
}

impl Place {
    /// Another line of the same file; zero means this one.
    pub(crate) fn at(&self, line: usize) -> Self {
        Self { file: self.file.clone(), line: if line == 0 { self.line } else { line } }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{}:{line}", self.file.display()),
        }
    }
}
