//! Accepted servers and instructions of projects, and the file that stores them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{ConsentSummary, Digest, EntryId, SummaryLine};
use crate::{edit, instructions::AcceptedInstructions, interpolate::read_bounded, ownership, server::ServerName};

/// Accepted servers by entry, and accepted instructions by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    servers: BTreeMap<EntryId, Acceptance>,
    instructions: BTreeMap<PathBuf, AcceptedInstructions>,
}

/// One acceptance by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Digest of the accepted version.
    pub digest: Digest,
    /// The summary that was shown, to show differences later. Contains no secrets.
    pub summary: ConsentSummary,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{}`: {problem}", file.display())]
pub struct LedgerError {
    /// Path of the file.
    pub file: PathBuf,
    /// Reason without the path.
    pub problem: String,
}

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of all accepted instructions together. When they have more, only the last accepted text is kept, and the digests
/// of the others.
const MAX_INSTRUCTIONS: usize = 1024 * 1024;

impl Accepted {
    /// The acceptance of an entry.
    pub fn get(&self, entry: &EntryId) -> Option<&Acceptance> {
        self.servers.get(entry)
    }

    /// Adds an acceptance.
    pub fn insert(&mut self, entry: EntryId, acceptance: Acceptance) {
        self.servers.insert(entry, acceptance);
    }

    /// Removes an acceptance.
    pub fn remove(&mut self, entry: &EntryId) -> Option<Acceptance> {
        self.servers.remove(entry)
    }

    /// The accepted instructions of a file.
    pub fn instructions(&self, file: &Path) -> Option<&AcceptedInstructions> {
        self.instructions.get(file)
    }

    /// Adds accepted instructions.
    pub fn insert_instructions(&mut self, file: PathBuf, accepted: AcceptedInstructions) {
        let length = |accepted: &AcceptedInstructions| accepted.text.as_ref().map_or(0, String::len);
        let others: usize = self.instructions.values().map(length).sum();
        if MAX_INSTRUCTIONS < others + length(&accepted) {
            self.instructions.values_mut().for_each(|accepted| accepted.text = None);
        }
        self.instructions.insert(file, accepted);
    }

    /// Removes accepted instructions.
    pub fn remove_instructions(&mut self, file: &Path) -> Option<AcceptedInstructions> {
        self.instructions.remove(file)
    }

    /// Reads the file; a missing file means that nothing was accepted.
    pub fn read(file: &Path) -> Result<Self, LedgerError> {
        let failed = |problem: String| LedgerError { file: file.to_owned(), problem };
        let text = match fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error.to_string())),
            // Another user could add acceptances to such a file.
            Ok(found) if ownership::is_writable_by_others(&found) => {
                return Err(failed("it is writable by other users".to_owned()));
            }
            Ok(_) => read_bounded(file, MAX_BYTES).map_err(|error| failed(error.to_string()))?,
        };
        let text = String::from_utf8_lossy(&text);
        let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let entries = value["accepted"].as_array().ok_or_else(|| failed("`accepted` must be a list".to_owned()))?;
        let instructions = value["instructions"].as_array().map(Vec::as_slice).unwrap_or_default();
        // An invalid entry counts as not accepted.
        Ok(Self {
            servers: entries.iter().filter_map(read_entry).collect(),
            instructions: instructions.iter().filter_map(read_instructions).collect(),
        })
    }

    /// Reads, changes and writes the file while holding the lock file next to it.
    pub fn update(file: &Path, change: impl FnOnce(&mut Self)) -> Result<Self, LedgerError> {
        let failed = |error: &io::Error| LedgerError { file: file.to_owned(), problem: error.to_string() };
        if let Some(folder) = file.parent() {
            ownership::create_private_folder(folder).map_err(|error| failed(&error))?;
        }
        let mut lock = ownership::private_write_options();
        let lock = lock.create(true).truncate(false).open(file.with_extension("lock"));
        let lock = lock.map_err(|error| failed(&error))?;
        lock.lock().map_err(|error| failed(&error))?;
        let mut accepted = Self::read(file)?;
        change(&mut accepted);
        edit::replace(file, &accepted.text()).map_err(|error| failed(&error))?;
        Ok(accepted)
    }

    fn text(&self) -> String {
        let entries: Vec<Value> =
            self.servers.iter().map(|(entry, acceptance)| write_entry(entry, acceptance)).collect();
        let instructions = self.instructions.iter().map(|(file, accepted)| {
            let digest = accepted.digest.to_string();
            json!({ "file": file.to_string_lossy(), "digest": digest, "text": accepted.text })
        });
        let mut text = json!({ "accepted": entries });
        if !self.instructions.is_empty() {
            text["instructions"] = instructions.collect();
        }
        format!("{text:#}\n")
    }
}

fn write_entry(entry: &EntryId, acceptance: &Acceptance) -> Value {
    let lines = acceptance.summary.lines.iter().map(|line| json!([line.what, line.text, line.fingerprint]));
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
        Some(SummaryLine { what: part(0)?, text: part(1)?, fingerprint: part(2)? })
    };
    let lines = value["shown"].as_array()?.iter().map(line).collect::<Option<Vec<_>>>()?;
    Some((entry, Acceptance { digest: Digest::parse(text("digest")?)?, summary: ConsentSummary { lines } }))
}

fn read_instructions(value: &Value) -> Option<(PathBuf, AcceptedInstructions)> {
    let digest = Digest::parse(value["digest"].as_str()?)?;
    let text = value["text"].as_str().map(str::to_owned);
    Some((PathBuf::from(value["file"].as_str()?), AcceptedInstructions { digest, text }))
}
