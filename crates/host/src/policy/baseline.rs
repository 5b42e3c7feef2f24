//! Definitions as they were first seen or last accepted: the port that remembers them, and how a definition differs.
//!
//! The first sight of a server is the baseline of all its tools, without a question. Later a tool is compared with it, and
//! so is the entry of its server: its texts, and the content of the files that it names.

use std::{collections::HashMap, time::SystemTime};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolway_config::{ServerName, visible};
use toolway_wire::message::item::Tool;

use crate::{catalog::Fingerprint, record::RecordsError};

/// One definition, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Server name.
    pub server: ServerName,
    /// The server's own name of the tool; empty for the entry of the server.
    pub item: String,
    /// Digest of the definition.
    pub digest: String,
    /// The definition as a JSON object, for the difference; empty if it is larger than [`MAX_TEXT`].
    pub text: String,
    /// When it was seen first, or accepted.
    pub seen_at: SystemTime,
}

/// Remembers definitions.
pub trait Baselines: Send + Sync {
    /// What is known about a server of this name.
    fn of_server<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<Vec<Baseline>, RecordsError>>;

    /// Keeps these definitions instead of those of the same items.
    fn save(&self, baselines: Vec<Baseline>) -> BoxFuture<'_, Result<(), RecordsError>>;
}

/// Remembers as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryBaselines {
    // No await under this lock.
    known: Mutex<HashMap<ServerName, HashMap<String, Baseline>>>,
}

/// Bytes of a definition that are kept for the difference. Of a larger one only the digest is.
pub const MAX_TEXT: usize = 64 * 1024;
/// Definitions of one server that are kept. Further ones count as known.
pub const MAX_ITEMS: usize = 20_000;
/// Definitions of all servers that are kept.
pub const MAX_TOTAL: usize = 100_000;
/// Lines of a difference.
const MAX_LINES: usize = 200;

/// The members of a tool that are compared, as in [`Fingerprint::of_tool`].
const COMPARED: [&str; 4] = ["description", "inputSchema", "outputSchema", "annotations"];

impl Baseline {
    /// A tool as it is now.
    pub fn of_tool(server: &ServerName, tool: &Tool, fingerprint: Fingerprint) -> Self {
        let members = COMPARED.iter().zip(tool.raw.fields(COMPARED));
        let value = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or_default();
        let members: Map<_, _> =
            members.filter_map(|(key, member)| Some(((*key).to_owned(), value(member?.as_bytes())))).collect();
        Self::new(server, &tool.name, fingerprint.to_string(), &Value::Object(members))
    }

    pub(crate) fn new(server: &ServerName, item: &str, digest: String, text: &Value) -> Self {
        let text = Some(text.to_string()).filter(|text| text.len() <= MAX_TEXT).unwrap_or_default();
        Self { server: server.clone(), item: item.to_owned(), digest, text, seen_at: SystemTime::now() }
    }

    /// How another definition of the same item differs, one change on each line, with hidden characters made visible.
    pub fn difference(&self, now: &Self) -> Vec<String> {
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        let (Some(before), Some(after)) = (parse(&self.text), parse(&now.text)) else {
            return vec!["the definition is too large to be compared".to_owned()];
        };
        difference(&before, &after)
    }
}

/// How two definitions differ, one change on each line, with hidden characters made visible. Never empty.
pub fn difference(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare(before, after, "", &mut lines);
    if MAX_LINES < lines.len() {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("and {more} more changes"));
    }
    if lines.is_empty() {
        lines.push("a value that is not shown has changed".to_owned());
    }
    lines
}

/// Adds a line for each value that differs.
fn compare(before: &Value, after: &Value, path: &str, lines: &mut Vec<String>) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        lines.push(format!("{}: was {}, is now {}", shown_path(path), shown(before), shown(after)));
        return;
    };
    for (key, value) in old {
        let below = format!("{path}/{key}");
        match new.get(key) {
            Some(now) => compare(value, now, &below, lines),
            None => lines.push(format!("{}: removed, was {}", shown_path(&below), shown(value))),
        }
    }
    for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        lines.push(format!("{}: added {}", shown_path(&format!("{path}/{key}")), shown(value)));
    }
}

fn shown_path(path: &str) -> String {
    visible::one_line(path.trim_start_matches('/'))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", visible::one_line(text)),
        other => visible::one_line(&other.to_string()),
    }
}

/// The entry of a server, as its baseline keeps it.
pub(crate) fn entry_text(parts: impl IntoIterator<Item = EntryPart>) -> Value {
    let mut members = Map::new();
    for part in parts {
        let number =
            members.keys().filter(|key| **key == part.key || key.starts_with(&format!("{} ", part.key))).count();
        let key = if number == 0 { part.key } else { format!("{} {}", part.key, number + 1) };
        members.insert(key, json!(part.shown));
    }
    Value::Object(members)
}

/// One text of an entry, or a file that it names.
pub(crate) struct EntryPart {
    pub(crate) key: String,
    pub(crate) shown: String,
}

impl Baselines for MemoryBaselines {
    fn of_server<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<Vec<Baseline>, RecordsError>> {
        let known = self.known.lock().get(server).map(|known| known.values().cloned().collect()).unwrap_or_default();
        Box::pin(async move { Ok(known) })
    }

    fn save(&self, baselines: Vec<Baseline>) -> BoxFuture<'_, Result<(), RecordsError>> {
        let mut known = self.known.lock();
        for baseline in baselines {
            let of_server = known.entry(baseline.server.clone()).or_default();
            if of_server.len() < MAX_ITEMS {
                of_server.insert(baseline.item.clone(), baseline);
            }
        }
        Box::pin(async { Ok(()) })
    }
}
