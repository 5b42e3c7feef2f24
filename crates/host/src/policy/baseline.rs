//! Definitions as they were first seen or last accepted: the port that remembers them.
//!
//! The first sight of a server is the baseline of all its tools and prompts, without a question. Later one of them is compared
//! with it, and so are the instructions of its server, if it is trusted, and its entry: its texts, and the content of the files that it names. Resources are not
//! compared: their descriptions reach a model only as a line of a list, a changed content is what they are for, and each
//! read is decided by its URI.
//!
//! | part | file |
//! |---|---|
//! | what a baseline is about, and its stored key | `baseline/item.rs` |
//! | whether a definition is the same, changed or new | `baseline/seen.rs` |
//! | what is kept of a definition, without loss | `baseline/kept_value.rs` |
//! | how a definition differs, for a person | `baseline/difference.rs` |
//! | comparing in a call | `call/drift.rs` |
//! | hiding from lists | `host/hiding.rs`, `catalog/guard.rs` |

pub mod difference;
pub mod item;
mod kept_value;
pub(crate) mod seen;

use std::{collections::HashMap, time::SystemTime};

pub use difference::difference;
use futures_util::future::BoxFuture;
pub use item::SeenItem;
use kept_value::kept_value;
use parking_lot::Mutex;
pub use seen::SeenDigest;
pub(crate) use seen::{SeenServer, Sight};
use serde_json::{Map, Value, json};
use toolway_config::ServerName;
use toolway_wire::{json::Raw, limit::LISTING_ITEMS, seal};

use crate::{
    catalog::{
        Fingerprint, ItemKind,
        fingerprint::{OF_PROMPT, OF_TOOL},
    },
    record::RecordsError,
};

/// One definition, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Server name.
    pub server: ServerName,
    /// What it is the definition of.
    pub item: SeenItem,
    /// Digest of the definition.
    pub digest: String,
    /// The definition as a JSON object, for the difference, with digests for values that are too large to be kept; empty if
    /// it is larger than [`MAX_TEXT`] even so.
    pub text: String,
    /// When it was seen first, or accepted.
    pub seen_at: SystemTime,
}

/// Remembers definitions.
pub trait Baselines: Send + Sync {
    /// The digests of everything that is known about a server of this name.
    fn digests<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<Vec<SeenDigest>, RecordsError>>;

    /// One definition.
    fn find<'a>(
        &'a self,
        server: &'a ServerName,
        item: &'a SeenItem,
    ) -> BoxFuture<'a, Result<Option<Baseline>, RecordsError>>;

    /// Keeps these definitions instead of those of the same items. Of a server with [`MAX_ITEMS`], further ones are left out,
    /// other than its entry and its instructions.
    fn save(&self, baselines: Vec<Baseline>) -> BoxFuture<'_, Result<(), RecordsError>>;
}

/// Remembers as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryBaselines {
    // No await under this lock.
    known: Mutex<KnownBaselines>,
}

#[derive(Debug, Default)]
struct KnownBaselines {
    of: HashMap<ServerName, HashMap<SeenItem, Baseline>>,
    /// Bytes of their texts.
    bytes: usize,
}

/// Bytes of a definition that are kept for the difference. Of a larger one only the digests of its members are.
pub const MAX_TEXT: usize = 64 * 1024;
/// Bytes of one member of a definition that is too large as a whole.
const MAX_MEMBER: usize = 12 * 1024;
/// Definitions of one server that are kept: more than its lists may have, of tools and of prompts together, and as many
/// again that it had before or that it lists to single callers. A further one counts as changed. How many servers there are
/// is up to the user.
pub const MAX_ITEMS: usize = 3 * LISTING_ITEMS;
/// Bytes of the definitions that [`MemoryBaselines`] keeps. Of further ones only the digests are.
const MAX_MEMORY: usize = 32 * 1024 * 1024;

impl Baseline {
    /// A tool or prompt as it is now.
    pub fn of(server: &ServerName, item: SeenItem, raw: &Raw, fingerprint: Fingerprint) -> Self {
        let members = match &item {
            SeenItem::Shared { kind: ItemKind::Prompt, .. } | SeenItem::Own { kind: ItemKind::Prompt, .. } => {
                members(raw, OF_PROMPT)
            }
            _ => members(raw, OF_TOOL),
        };
        Self::new(server, item, fingerprint.to_string(), members)
    }

    pub(crate) fn new(server: &ServerName, item: SeenItem, digest: String, members: Map<String, Value>) -> Self {
        let mut text = Value::Object(members).to_string();
        if MAX_TEXT < text.len() {
            let members: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
            text = Value::Object(members.into_iter().map(|(key, value)| (key, shortened(value))).collect()).to_string();
        }
        let text = Some(text).filter(|text| text.len() <= MAX_TEXT).unwrap_or_default();
        Self { server: server.clone(), item, digest, text, seen_at: SystemTime::now() }
    }

    /// How another definition of the same item differs, one change on each line, with hidden characters made visible.
    pub fn difference(&self, now: &Self) -> Vec<String> {
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        let (Some(before), Some(after)) = (parse(&self.text), parse(&now.text)) else {
            let Self { digest, .. } = self;
            return vec![format!(
                "the definition is too large to be kept: its digest was {digest}, is now {}",
                now.digest
            )];
        };
        difference(&before, &after)
    }
}

/// The members of a definition that are compared.
fn members<const N: usize>(raw: &Raw, compared: [&'static str; N]) -> Map<String, Value> {
    let members = compared.iter().zip(raw.fields(compared));
    members.filter_map(|(key, member)| Some(((*key).to_owned(), kept_value(&member?)))).collect()
}

/// The value of a member, or its digest if it is too large.
fn shortened(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= MAX_MEMBER {
        return value;
    }
    json!(format!("{} bytes with the digest {}", text.len(), seal::fingerprint([text.as_bytes()])))
}

/// The entry of a server, as its baseline keeps it.
pub(crate) fn entry_members(parts: impl IntoIterator<Item = EntryPart>) -> Map<String, Value> {
    let mut members = Map::new();
    for part in parts {
        let number =
            members.keys().filter(|key| **key == part.key || key.starts_with(&format!("{} ", part.key))).count();
        let key = if number == 0 { part.key } else { format!("{} {}", part.key, number + 1) };
        members.insert(key, json!(part.shown));
    }
    members
}

/// One text of an entry, or a file that it names.
pub(crate) struct EntryPart {
    pub(crate) key: String,
    pub(crate) shown: String,
}

impl Baselines for MemoryBaselines {
    fn digests<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<Vec<SeenDigest>, RecordsError>> {
        let digest = |seen: &Baseline| SeenDigest { item: seen.item.clone(), digest: seen.digest.clone() };
        let known = self.known.lock().of.get(server).map(|known| known.values().map(digest).collect());
        Box::pin(async move { Ok(known.unwrap_or_default()) })
    }

    fn find<'a>(
        &'a self,
        server: &'a ServerName,
        item: &'a SeenItem,
    ) -> BoxFuture<'a, Result<Option<Baseline>, RecordsError>> {
        let found = self.known.lock().of.get(server).and_then(|known| known.get(item)).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn save(&self, baselines: Vec<Baseline>) -> BoxFuture<'_, Result<(), RecordsError>> {
        let mut known = self.known.lock();
        let KnownBaselines { of, bytes } = &mut *known;
        for mut baseline in baselines {
            let of_server = of.entry(baseline.server.clone()).or_default();
            let has_room = of_server.len() < MAX_ITEMS || baseline.item.is_of_server();
            if !has_room && !of_server.contains_key(&baseline.item) {
                continue;
            }
            if MAX_MEMORY < *bytes + baseline.text.len() {
                baseline.text = String::new();
            }
            *bytes += baseline.text.len();
            let replaced = of_server.insert(baseline.item.clone(), baseline);
            *bytes -= replaced.map_or(0, |replaced| replaced.text.len());
        }
        drop(known);
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_is_too_large_is_compared_by_member() {
        let server: ServerName = "s".parse().unwrap();
        let baseline = |size: usize, word: &str| {
            let members = [("inputSchema", json!("x".repeat(size))), ("description", json!(word))];
            let members = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            Baseline::new(&server, SeenItem::shared(ItemKind::Tool, "t"), size.to_string(), members)
        };
        let before = baseline(100_000, "a");
        assert!(before.text.len() < MAX_TEXT && !before.text.is_empty());
        assert_eq!(before.difference(&baseline(100_000, "b")), [r#"description: was "a", is now "b""#]);
        let lines = before.difference(&baseline(100_001, "a"));
        assert!(
            lines.len() == 1 && lines[0].starts_with("inputSchema: was \"100002 bytes with the digest "),
            "{lines:?}"
        );
    }
}
