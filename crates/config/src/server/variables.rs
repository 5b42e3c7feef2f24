//! `envFile`: a file with one `NAME=value` per line, of bounded size.
//!
//! The file of a project server is read once, when the user is asked about it, so that the server gets what was shown.

use std::path::{Path, PathBuf};

use crate::{
    interpolate::{Lookup, Template, is_name, read_bounded},
    paths,
    secret::Secret,
};

/// An `envFile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablesFile {
    /// Path as written.
    pub path: Template,
    /// Content when the user was asked about it; `None` means that the file is read when the server starts.
    pub snapshot: Option<VariablesSnapshot>,
}

/// Content of the `envFile` of a project server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablesSnapshot {
    /// Canonical path, if it is outside of the project folder.
    pub outside: Option<PathBuf>,
    /// Variables of the file, or why it cannot be used.
    pub variables: Result<Vec<(String, Secret)>, String>,
}

/// Maximum size of an `envFile` of the user, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Limits for an `envFile` of a project, which is shown to the user.
const MAX_FILE_OF_PROJECT: u64 = 64 * 1024;
const MAX_VARIABLES_OF_PROJECT: usize = 256;

impl VariablesFile {
    /// An `envFile` that is read when the server starts.
    pub fn at(path: Template) -> Self {
        Self { path, snapshot: None }
    }

    /// Variables of the snapshot, else those of the file now.
    pub(crate) fn variables(&self, file: &Path) -> Result<Vec<(String, Secret)>, String> {
        match &self.snapshot {
            Some(snapshot) => snapshot.variables.clone(),
            None => read(file, MAX_FILE),
        }
    }
}

impl VariablesSnapshot {
    pub(super) fn of(path: &Template, lookup: &Lookup<'_>) -> Self {
        let failed = |problem: String| Self { outside: None, variables: Err(problem) };
        let file = match path.expand(lookup).and_then(|path| lookup.path(path.expose())) {
            Ok(file) => file,
            Err(reason) => return failed(reason.to_string()),
        };
        // Without the path, which may contain a resolved secret.
        let real = match paths::real(&file) {
            Ok(real) => real,
            Err(error) => return failed(error.to_string()),
        };
        let variables = read(&real, MAX_FILE_OF_PROJECT).and_then(|variables| match variables.len() {
            0..=MAX_VARIABLES_OF_PROJECT => Ok(variables),
            _ => Err(format!("it has more than {MAX_VARIABLES_OF_PROJECT} variables")),
        });
        let is_inside = lookup.folder.is_some_and(|folder| real.starts_with(folder));
        Self { outside: Some(real).filter(|_| !is_inside), variables }
    }
}

/// `#` starts a comment line; `export` and quotes are stripped.
fn read(file: &Path, bound: u64) -> Result<Vec<(String, Secret)>, String> {
    let bytes = read_bounded(file, bound).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())?;
    let mut variables: Vec<(String, Secret)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("line {} is not `NAME=value`", index + 1);
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=').ok_or_else(wrong)?;
        let name = Some(name.trim()).filter(|name| is_name(name)).ok_or_else(wrong)?;
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), Secret::new(unquoted(value.trim()))));
    }
    Ok(variables)
}

fn unquoted(value: &str) -> &str {
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value)
}
