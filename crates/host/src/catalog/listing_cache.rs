//! Stores the listings of servers on disk. They are offered at once at the next start, and verified when the server was
//! listed.
//!
//! There is one file per server and definition, so that a copy is never used for a server with another command or URL.
//! Items are stored unchanged. Files can be deleted at any time. A copy that is damaged, too large or owned by another
//! user is not used, and the reason is logged.

mod views;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::json;
use toolway_config::ServerName;
use toolway_wire::{
    json::{JsonKind, Raw},
    limit::LISTING_ITEMS,
    message::{
        ServerCapabilities,
        item::{self, Item},
    },
};

pub use self::views::CallerView;

use super::{
    entry::{CatalogItem, ListedItem},
    listing::Listing,
};
use crate::state_file::{StateFile, StateLock, UnreadableState};

/// Stored listings in one folder. All operations block on file access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingCache {
    folder: PathBuf,
    most: usize,
}

/// Why a stored listing is not used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCacheFile {
    /// The file cannot be read or is not trusted.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        problem: UnreadableState,
    },
    /// The file has invalid content.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        problem: String,
    },
}

/// Version of the file format. Files of another version are ignored.
const VERSION: u64 = 1;
/// Maximum size of a file in bytes. Reading a larger one would cost more than it saves.
const BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of files. The oldest are deleted.
const MAX_FILES: usize = 256;
/// Number of hexadecimal digits of the definition in a file name. The file contains the whole definition.
const KEY: usize = 16;

// === impl ListingCache ===

impl ListingCache {
    /// Stores listings in `folder`, which is created with the first file.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), most: BYTES }
    }

    /// Stores the listing of a server. `definition` is a digest of its connection settings, in hexadecimal digits.
    pub fn store(&self, server: &ServerName, definition: &str, listing: &Listing) -> io::Result<()> {
        let file = self.file(server, definition);
        let text = written(definition, listing);
        if file.read().is_ok_and(|known| known.is_some_and(|known| known == text)) {
            return Ok(());
        }
        let lock = self.lock()?;
        self.make_room(file.path())?;
        // If the new listing cannot be stored, the outdated one must not stay either.
        file.replace(&lock, &text).inspect_err(|_| drop(file.remove(&lock)))
    }

    /// Reads the stored listing of a server; `None` if this definition has no copy.
    pub fn load(&self, server: &ServerName, definition: &str) -> Result<Option<Listing>, InvalidCacheFile> {
        let file = self.file(server, definition);
        let path = || file.path().to_owned();
        let Some(text) = file.read().map_err(|problem| InvalidCacheFile::File { path: path(), problem })? else {
            return Ok(None);
        };
        read(text, definition).map_err(|problem| InvalidCacheFile::Content { path: path(), problem })
    }

    /// Deletes the stored listing of a server and definition.
    pub fn remove(&self, server: &ServerName, definition: &str) -> io::Result<()> {
        let file = self.file(server, definition);
        if !file.path().exists() {
            return Ok(());
        }
        file.remove(&self.lock()?)
    }

    fn file(&self, server: &ServerName, definition: &str) -> StateFile {
        StateFile::at(self.folder.join(self.file_name(server, definition)), self.most)
    }

    fn file_name(&self, server: &ServerName, definition: &str) -> String {
        // Only digits are used, so the result is always a file in our folder.
        let key: String = definition.chars().filter(char::is_ascii_hexdigit).take(KEY).collect();
        format!("{server}.{key}.json")
    }

    /// One lock file for all copies; otherwise each definition would leave its own lock file behind.
    fn lock(&self) -> io::Result<StateLock> {
        StateFile::at(self.folder.join("copies"), self.most).lock()
    }

    /// Deletes the oldest files to make room for a new one.
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
        let surplus = (copies.len() + 1).saturating_sub(MAX_FILES);
        copies.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

/// Serialises a listing, with its items unchanged.
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

fn write_items<T: CatalogItem>(text: &mut Vec<u8>, items: &[ListedItem<T>]) {
    text.extend_from_slice(format!(",\"{}\":[", T::KEY).as_bytes());
    for (index, listed) in items.iter().enumerate() {
        if 0 < index {
            text.push(b',');
        }
        text.extend_from_slice(listed.item.raw().as_bytes());
    }
    text.push(b']');
}

/// Parses a stored listing; `None` if it has another version or definition, which is no error.
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
    let capabilities = capabilities.filter(|value| value.kind() == JsonKind::Object);
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

fn read_items<T: CatalogItem + Item>(copy: &Raw) -> Result<Vec<ListedItem<T>>, String> {
    let (items, malformed) = item::read_items_within::<T>(copy, LISTING_ITEMS)?;
    if let Some(broken) = malformed.first() {
        return Err(broken.to_string());
    }
    if LISTING_ITEMS < items.len() {
        return Err(format!("more than {LISTING_ITEMS} {}s", T::KIND));
    }
    Ok(items.into_iter().map(ListedItem::new).collect())
}

#[cfg(test)]
mod tests;
