//! When each key was last used, in a file beside the key file. Written every few seconds, never on the path of a request.

use std::{collections::BTreeMap, io, path::Path};

use toolway_host::state_file::StateFile;

/// Times of last use by fingerprint of the key, in seconds since the Unix epoch.
pub type LastUses = BTreeMap<String, u64>;

/// The file with the times.
#[derive(Clone, Debug)]
pub(super) struct KeyUseFile {
    file: StateFile,
}

/// Name of the file.
const NAME: &str = "clients-used.json";
/// Maximum size of the file.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

impl KeyUseFile {
    /// The file beside this key file.
    pub(super) fn beside(keys: &Path) -> Self {
        Self { file: StateFile::at(keys.with_file_name(NAME), MAX_FILE_BYTES) }
    }

    /// All known times; empty if the file is absent or cannot be read, because nothing depends on them.
    pub(super) fn read(&self) -> LastUses {
        let text = self.file.read().ok().flatten();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Adds times that are later than the known ones.
    pub(super) fn add(&self, uses: &LastUses) -> io::Result<()> {
        let lock = self.file.lock()?;
        let mut known = self.read();
        for (key, used) in uses {
            let known = known.entry(key.clone()).or_default();
            *known = (*known).max(*used);
        }
        self.file.replace(&lock, &serde_json::to_vec(&known)?)
    }

    /// Keeps only the times of these keys.
    pub(super) fn retain(&self, keys: &[String]) -> io::Result<()> {
        let lock = self.file.lock()?;
        let mut known = self.read();
        let before = known.len();
        known.retain(|key, _| keys.contains(key));
        if known.len() == before { Ok(()) } else { self.file.replace(&lock, &serde_json::to_vec(&known)?) }
    }
}
