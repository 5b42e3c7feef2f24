//! A file that a server appends its effects to, for stories about what happened when everything else was killed.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

/// The file, one effect per line. Clones write to the same file.
#[derive(Clone, Debug)]
pub struct EffectsFile {
    file: Arc<Mutex<File>>,
}

impl EffectsFile {
    /// Opens a file to append to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Arc::new(Mutex::new(file)) })
    }

    /// Writes one effect, and returns when it is on the disk.
    pub fn write(&self, effect: &str) -> io::Result<()> {
        let mut file = self.file.lock();
        file.write_all(format!("{effect}\n").as_bytes())?;
        file.sync_all()
    }

    /// The effects in a file, in order.
    pub fn read(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
