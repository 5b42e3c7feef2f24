//! The copy on disk of what each server listed: offered at once at the next start, and verified when the server
//! answers.
//!
//! One file per server and definition, so that a copy is never offered for a server that is started or dialled in
//! another way than the one that listed it. Items stand in it as they came. It may be deleted at any time; a copy
//! that is broken, too large or not ours is not used, and says why.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::json;
use toolway_config::ServerName;
use toolway_wire::{
    json::{Kind, Raw},
    limit::LISTING_ITEMS,
    message::{
        ServerCapabilities,
        item::{self, Item},
    },
};

use super::{
    entry::{Listed, Offered},
    listing::Listing,
};
use crate::state_file::{StateFile, StateLock, UnreadableState};

/// The copies in one folder. Its work is with files and may take a moment: it belongs on a thread that may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCopy {
    folder: PathBuf,
    most: usize,
}

/// Why a copy is not used.
#[derive(Debug, thiserror::Error)]
pub enum BrokenCopy {
    /// The file cannot be read, or is not to be trusted.
    #[error("{}: {problem}", path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        problem: UnreadableState,
    },
    /// What stands in it is not what we write.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Counts up when the form changes; a copy of another form is not read.
const VERSION: u64 = 1;
/// A larger copy is not kept: reading it would cost what it is to save.
const BYTES: usize = 32 * 1024 * 1024;
/// More copies than this are not kept; the oldest go.
const COPIES: usize = 256;
/// Hexadecimal digits of a definition in a file's name; the file itself holds all of it.
const KEY: usize = 16;

// === impl DiskCopy ===

impl DiskCopy {
    /// Copies in `folder`, which is made when there is one to keep.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), most: BYTES }
    }

    /// Keeps what a server listed. `definition` is a digest of how the server is reached, in hexadecimal digits.
    pub fn keep(&self, server: &ServerName, definition: &str, listing: &Listing) -> io::Result<()> {
        let file = self.file(server, definition);
        let text = written(definition, listing);
        if file.read().is_ok_and(|known| known.is_some_and(|known| known == text)) {
            return Ok(());
        }
        let lock = self.lock()?;
        self.make_room(file.path())?;
        // What cannot be kept must not leave an older one behind either.
        file.replace(&lock, &text).inspect_err(|_| drop(file.remove(&lock)))
    }

    /// What a server listed when it was last heard; `None` where nothing is known of it in this definition.
    pub fn recall(&self, server: &ServerName, definition: &str) -> Result<Option<Listing>, BrokenCopy> {
        let file = self.file(server, definition);
        let path = || file.path().to_owned();
        let Some(text) = file.read().map_err(|problem| BrokenCopy::File { path: path(), problem })? else {
            return Ok(None);
        };
        read(text, definition).map_err(|problem| BrokenCopy::Content { path: path(), problem })
    }

    /// Forgets a server's copy of this definition.
    pub fn forget(&self, server: &ServerName, definition: &str) -> io::Result<()> {
        let file = self.file(server, definition);
        if !file.path().exists() {
            return Ok(());
        }
        file.remove(&self.lock()?)
    }

    fn file(&self, server: &ServerName, definition: &str) -> StateFile {
        // A digest has no other characters; whatever it is given, this names a file in our folder.
        let key: String = definition.chars().filter(char::is_ascii_hexdigit).take(KEY).collect();
        StateFile::at(self.folder.join(format!("{server}.{key}.json")), self.most)
    }

    /// One lock for all copies, or each definition that ever was would leave one behind.
    fn lock(&self) -> io::Result<StateLock> {
        StateFile::at(self.folder.join("copies"), self.most).lock()
    }

    /// Removes the oldest copies where a new one would be too many.
    fn make_room(&self, new: &Path) -> io::Result<()> {
        let copies = || -> io::Result<Vec<(SystemTime, PathBuf)>> {
            let mut copies = Vec::new();
            for found in fs::read_dir(&self.folder)? {
                let found = found?;
                if found.path().extension().is_some_and(|ending| ending == "json") && found.path() != new {
                    copies.push((found.metadata()?.modified()?, found.path()));
                }
            }
            Ok(copies)
        };
        let mut copies = copies()?;
        copies.sort();
        let surplus = (copies.len() + 1).saturating_sub(COPIES);
        copies.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

/// The text of a copy: items as they came.
fn written(definition: &str, listing: &Listing) -> Vec<u8> {
    let head = json!({
        "version": VERSION,
        "definition": definition,
        "instructions": listing.instructions,
    });
    let mut text = head.to_string().into_bytes();
    text.pop();
    text.extend_from_slice(b",\"capabilities\":");
    text.extend_from_slice(listing.capabilities.0.as_bytes());
    write_items(&mut text, &listing.tools);
    write_items(&mut text, &listing.resources);
    write_items(&mut text, &listing.templates);
    write_items(&mut text, &listing.prompts);
    text.push(b'}');
    text
}

fn write_items<T: Offered>(text: &mut Vec<u8>, items: &[Listed<T>]) {
    text.extend_from_slice(format!(",\"{}\":[", T::KEY).as_bytes());
    for (index, listed) in items.iter().enumerate() {
        if 0 < index {
            text.push(b',');
        }
        text.extend_from_slice(listed.item.raw().as_bytes());
    }
    text.push(b']');
}

/// Reads a copy; `None` where it is of another form or definition, which is nobody's fault.
fn read(text: Vec<u8>, definition: &str) -> Result<Option<Listing>, String> {
    let copy = Raw::parse(text).map_err(|error| format!("not JSON: {error}"))?;
    let [version, known, instructions, capabilities] =
        copy.fields(["version", "definition", "instructions", "capabilities"]);
    if version.and_then(|version| version.as_u64()) != Some(VERSION) {
        return Ok(None);
    }
    if known.as_ref().and_then(Raw::as_str).as_deref() != Some(definition) {
        return Ok(None);
    }
    let capabilities = capabilities.filter(|value| value.kind() == Kind::Object);
    Ok(Some(Listing {
        tools: read_items(&copy)?,
        resources: read_items(&copy)?,
        templates: read_items(&copy)?,
        prompts: read_items(&copy)?,
        instructions: instructions.and_then(|text| text.as_str().map(String::from)),
        capabilities: ServerCapabilities(capabilities.ok_or("`capabilities` is missing")?),
        ..Listing::empty()
    }))
}

fn read_items<T: Offered + Item>(copy: &Raw) -> Result<Vec<Listed<T>>, String> {
    let (items, malformed) = item::read_items_within::<T>(copy, LISTING_ITEMS)?;
    if let Some(broken) = malformed.first() {
        return Err(broken.to_string());
    }
    if LISTING_ITEMS < items.len() {
        return Err(format!("more than {LISTING_ITEMS} {}s", T::KIND));
    }
    Ok(items.into_iter().map(Listed::new).collect())
}

#[cfg(test)]
mod tests;
