//! A file of variables: `NAME=value` on each line, read within bounds.
//!
//! That of a project's server is read once, when a person is asked about it: what was shown is what is handed over.

use std::path::{Path, PathBuf};

use super::ServerConfig;
use crate::{
    interpolate::{Lookup, Template, is_name, read_bounded},
    keychain::NoKeychain,
    paths::{self, Environment},
    secret::Secret,
    server::Transport,
};

/// A file of variables, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablesFile {
    /// Where it is.
    pub path: Template,
    /// What it held when it was read to be asked about; nothing means that it is read when the server is started.
    pub held: Option<Held>,
}

/// What a project's file of variables held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where it leads, if that is not in the project's folder.
    pub outside: Option<PathBuf>,
    /// Its variables, or why it cannot be used.
    pub variables: Result<Vec<(String, Secret)>, String>,
}

/// More variables than this nobody writes down.
const MAX_FILE: u64 = 1024 * 1024;

/// All of a project's are shown to a person.
const MAX_FILE_OF_PROJECT: u64 = 64 * 1024;
const MOST_OF_PROJECT: usize = 256;

impl ServerConfig {
    /// The same with its file of variables read, so that it can be shown and nothing else is used.
    pub(crate) fn with_variables_held(mut self, environment: &Environment) -> Self {
        let lookup = Lookup {
            environment,
            // Nobody has accepted anything yet.
            keychain: &NoKeychain,
            folder: self.source.folder.as_deref(),
            base: &self.source.base,
            server: self.name.as_str(),
        };
        if let Transport::Process(process) = &mut self.transport
            && let Some(file) = &mut process.variables_file
        {
            file.held = Some(Held::of(&file.path, &lookup));
        }
        self
    }
}

impl VariablesFile {
    /// One that is read when the server is started.
    pub fn at(path: Template) -> Self {
        Self { path, held: None }
    }

    /// Its variables: those it held when it was asked about, else those it has now.
    pub(crate) fn variables(&self, file: &Path) -> Result<Vec<(String, Secret)>, String> {
        match &self.held {
            Some(held) => held.variables.clone(),
            None => read(file, MAX_FILE),
        }
    }
}

impl Held {
    fn of(path: &Template, lookup: &Lookup<'_>) -> Self {
        let failed = |problem: String| Self { outside: None, variables: Err(problem) };
        let file = match path.expand(lookup).and_then(|path| lookup.path(path.expose())) {
            Ok(file) => file,
            Err(reason) => return failed(reason.to_string()),
        };
        // Without the path, which may have been filled in with a secret.
        let real = match paths::real(&file) {
            Ok(real) => real,
            Err(error) => return failed(error.to_string()),
        };
        let variables = read(&real, MAX_FILE_OF_PROJECT).and_then(|variables| match variables.len() {
            0..=MOST_OF_PROJECT => Ok(variables),
            _ => Err(format!("it has more than {MOST_OF_PROJECT} variables")),
        });
        let is_inside = lookup.folder.is_some_and(|folder| real.starts_with(folder));
        Self { outside: Some(real).filter(|_| !is_inside), variables }
    }
}

/// `#` begins a comment line, `export` and quotes are taken away.
fn read(file: &Path, bound: u64) -> Result<Vec<(String, Secret)>, String> {
    let bytes = read_bounded(file, bound).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
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
