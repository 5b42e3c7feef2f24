//! What was accepted, and the file it is kept in.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Digest, EntryId, Line, Shown};
use crate::{edit, interpolate::read_bounded, ownership, server::ServerName};

/// What was accepted, by entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted(BTreeMap<EntryId, Acceptance>);

/// One yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// To exactly this.
    pub digest: Digest,
    /// As it was shown, so that a difference can be shown later. No secret is in it.
    pub shown: Shown,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: {problem}", file.display())]
pub struct LedgerError {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub problem: String,
}

/// Nobody accepts more than this.
const MOST: u64 = 4 * 1024 * 1024;

impl Accepted {
    /// What was accepted for an entry.
    pub fn get(&self, entry: &EntryId) -> Option<&Acceptance> {
        self.0.get(entry)
    }

    /// Remembers a yes.
    pub fn insert(&mut self, entry: EntryId, acceptance: Acceptance) {
        self.0.insert(entry, acceptance);
    }

    /// Takes a yes back.
    pub fn remove(&mut self, entry: &EntryId) -> Option<Acceptance> {
        self.0.remove(entry)
    }

    /// Reads what was kept; where there is no file, nothing was accepted.
    pub fn read(file: &Path) -> Result<Self, LedgerError> {
        let failed = |problem: String| LedgerError { file: file.to_owned(), problem };
        let text = match fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error.to_string())),
            // A yes that somebody else can write is none.
            Ok(found) if ownership::others_may_write(&found) => return Err(failed("others can write it".to_owned())),
            Ok(_) => read_bounded(file, MOST).map_err(|error| failed(error.to_string()))?,
        };
        let text = String::from_utf8_lossy(&text);
        let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let entries = value["accepted"].as_array().ok_or_else(|| failed("no list of what was accepted".to_owned()))?;
        // An entry that cannot be read is as good as not accepted.
        Ok(Self(entries.iter().filter_map(read_entry).collect()))
    }

    /// Changes what is kept, while nobody else does: reads, changes and writes under a lock beside the file.
    pub fn update(file: &Path, change: impl FnOnce(&mut Self)) -> Result<Self, LedgerError> {
        let failed = |error: &io::Error| LedgerError { file: file.to_owned(), problem: error.to_string() };
        if let Some(folder) = file.parent() {
            ownership::make_private_folder(folder).map_err(|error| failed(&error))?;
        }
        let mut lock = ownership::to_write_privately();
        let lock = lock.create(true).truncate(false).open(file.with_extension("lock"));
        let lock = lock.map_err(|error| failed(&error))?;
        lock.lock().map_err(|error| failed(&error))?;
        let mut accepted = Self::read(file)?;
        change(&mut accepted);
        edit::replace(file, &accepted.text()).map_err(|error| failed(&error))?;
        Ok(accepted)
    }

    fn text(&self) -> String {
        let entries: Vec<Value> = self.0.iter().map(|(entry, acceptance)| write_entry(entry, acceptance)).collect();
        format!("{:#}\n", json!({ "accepted": entries }))
    }
}

fn write_entry(entry: &EntryId, acceptance: &Acceptance) -> Value {
    let lines = acceptance.shown.lines.iter().map(|line| json!([line.what, line.text, line.fingerprint]));
    json!({
        "file": entry.file.to_string_lossy(),
        "server": entry.name.as_str(),
        "digest": acceptance.digest.to_string(),
        "shown": lines.collect::<Vec<_>>(),
    })
}

fn read_entry(value: &Value) -> Option<(EntryId, Acceptance)> {
    let text = |key: &str| value[key].as_str();
    let name: ServerName = text("server")?.parse().ok()?;
    let entry = EntryId { file: PathBuf::from(text("file")?), name };
    let line = |line: &Value| {
        let part = |index: usize| line[index].as_str().map(str::to_owned);
        Some(Line { what: part(0)?, text: part(1)?, fingerprint: part(2)? })
    };
    let lines = value["shown"].as_array()?.iter().map(line).collect::<Option<Vec<_>>>()?;
    Some((entry, Acceptance { digest: Digest::parse(text("digest")?)?, shown: Shown { lines } }))
}
