//! Configuration errors: file, line, key and what was expected.

use std::{fmt, io, path::PathBuf};

use crate::interpolate::Unresolved;

/// A file and a line in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// File path.
    pub file: PathBuf,
    /// Counted from one; zero if the error is about the whole file.
    pub line: usize,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist or cannot be read.
    #[error("cannot read `{}`: {source}", file.display())]
    Unreadable {
        /// File path.
        file: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// The content does not match the format of the file extension.
    #[error("{place}: {problem}")]
    Syntax {
        /// Line of the syntax error.
        place: Place,
        /// Message of the parser.
        problem: String,
    },
    /// A value is missing or has the wrong type.
    #[error("{place}: `{key}` must be {expected}")]
    Expected {
        /// Line of the value.
        place: Place,
        /// Full path of the key.
        key: String,
        /// Expected value, worded to follow "must be".
        expected: String,
    },
    /// A key occurs twice in one object. Parsers disagree about which one counts.
    #[error("{place}: duplicate key `{key}`")]
    DuplicateKey {
        /// Line of the second occurrence.
        place: Place,
        /// Key without the keys above it.
        key: String,
    },
    /// Two labels give the same server name.
    #[error("{place}: `{label}` and `{other}` both give the server name `{name}`; rename one of them")]
    DuplicateName {
        /// Line of the second label.
        place: Place,
        /// Second label.
        label: String,
        /// First label.
        other: String,
        /// Server name of both.
        name: String,
    },
    /// A reference cannot be resolved.
    #[error("{place}: `{key}` {reason}")]
    Unresolved {
        /// Line of the value.
        place: Place,
        /// Full path of the key.
        key: String,
        /// Why the reference cannot be resolved.
        reason: Box<Unresolved>,
    },
    /// Any other refusal: an unknown key, a conflict, or something that is not allowed in this file.
    #[error("{place}: {problem}")]
    Refused {
        /// Line of the problem.
        place: Place,
        /// Message without the place.
        problem: String,
    },
}

impl ConfigError {
    /// File and line of the error.
    pub fn place(&self) -> Place {
        match self {
            Self::Unreadable { file, .. } => Place { file: file.clone(), line: 0 },
            Self::Syntax { place, .. }
            | Self::Expected { place, .. }
            | Self::DuplicateKey { place, .. }
            | Self::DuplicateName { place, .. }
            | Self::Unresolved { place, .. }
            | Self::Refused { place, .. } => place.clone(),
        }
    }

    /// The message without the place.
    pub fn problem(&self) -> String {
        let whole = self.to_string();
        whole.strip_prefix(&format!("{}: ", self.place())).map(str::to_owned).unwrap_or(whole)
    }
}

impl Place {
    /// The same file at `line`; zero keeps the current line.
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
