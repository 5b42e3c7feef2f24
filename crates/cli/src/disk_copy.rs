//! The tools of each named server as they were last listed, for completion. It may be deleted at any time.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use toolway_host::private_file;
use toolway_wire::{
    json::Raw,
    message::{
        item::{self, Tool},
        splice,
    },
};

/// A larger list is not kept.
const BYTES: usize = 4 * 1024 * 1024;

/// Keeps the tools of a server. Nothing depends on it, so nothing is said when it fails.
pub(crate) fn keep(cache: &Path, server: &str, tools: &[Tool]) {
    let text = listed("tools", tools.iter().map(|tool| &tool.raw));
    if text.as_bytes().len() <= BYTES {
        let _kept = write(cache, server, &text);
    }
}

/// The tools a server had when they were last listed.
pub(crate) fn recall(cache: &Path, server: &str) -> Vec<Tool> {
    let mut text = Vec::new();
    let read = File::open(file(cache, server)).and_then(|file| file.take(BYTES as u64 + 1).read_to_end(&mut text));
    let Ok(list) = read.map_err(drop).and_then(|_| Raw::parse(text).map_err(drop)) else { return Vec::new() };
    item::read_items(&list).map(|(tools, _)| tools).unwrap_or_default()
}

/// A list result made of items as they came.
pub(crate) fn listed<'a>(key: &str, items: impl Iterator<Item = &'a Raw>) -> Raw {
    let mut text = vec![b'['];
    for (index, item) in items.enumerate() {
        if 0 < index {
            text.push(b',');
        }
        text.extend_from_slice(item.as_bytes());
    }
    text.push(b']');
    splice::object([(key, &Raw::parse(text).unwrap_or_else(|_| Raw::empty_object()))])
}

/// Written to a neighbour and renamed, so that nobody reads half of it.
fn write(cache: &Path, server: &str, text: &Raw) -> io::Result<()> {
    let path = file(cache, server);
    if fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    private_file::make_folder(path.parent().unwrap_or(cache))?;
    let neighbour = path.with_extension(format!("{}.new", std::process::id()));
    let mut new = private_file::to_write().create(true).truncate(true).open(&neighbour)?;
    new.write_all(text.as_bytes())?;
    fs::rename(&neighbour, &path)
}

fn file(cache: &Path, server: &str) -> PathBuf {
    cache.join("tools").join(format!("{server}.json"))
}
