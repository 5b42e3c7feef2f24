//! Contents of the `${file:…}` references of a project server, read once, when the user is asked about the server.
//!
//! The acceptance is bound to them, and the server gets what was accepted, even if a file has changed since.

use std::path::PathBuf;

use super::{
    expand::{Lookup, Unresolved, file_text},
    scan::Reference,
};
use crate::{paths, secret::Secret};

/// The file of one reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// Path as written.
    pub path: String,
    /// Canonical path; `None` if the file cannot be found.
    pub real: Option<PathBuf>,
    /// Whether the canonical path is outside of the project folder.
    pub is_outside: bool,
    /// Text of the file, or why it cannot be used.
    pub content: Result<Secret, Unresolved>,
}

/// Maximum number of files that a server of a project may use, because their contents are kept.
pub(crate) const MAX_FILES_OF_PROJECT: usize = 32;

impl HeldFile {
    /// Reads the files of these references. `count` is the number of files of the server so far.
    pub(super) fn read_all(references: &[Reference], lookup: &Lookup<'_>, count: &mut usize) -> Vec<Self> {
        let mut files: Vec<Self> = Vec::new();
        for reference in references {
            let Reference::File(path) = reference else { continue };
            if files.iter().any(|file| file.path == *path) {
                continue;
            }
            *count += 1;
            files.push(if MAX_FILES_OF_PROJECT < *count { Self::too_many(path) } else { Self::read(path, lookup) });
        }
        files
    }

    fn read(path: &str, lookup: &Lookup<'_>) -> Self {
        let failed = |content| Self { path: path.to_owned(), real: None, is_outside: false, content: Err(content) };
        let file = match lookup.path(path) {
            Ok(file) => file,
            Err(reason) => return failed(reason),
        };
        match paths::real(&file) {
            Ok(real) => Self {
                path: path.to_owned(),
                is_outside: lookup.folder.is_none_or(|folder| !real.starts_with(folder)),
                content: file_text(&real).map(Secret::new),
                real: Some(real),
            },
            Err(error) => failed(Unresolved::File { file, problem: error.to_string() }),
        }
    }

    fn too_many(path: &str) -> Self {
        let problem = format!("a server of a project may use at most {MAX_FILES_OF_PROJECT} files");
        let content = Err(Unresolved::File { file: PathBuf::from(path), problem });
        Self { path: path.to_owned(), real: None, is_outside: false, content }
    }
}
