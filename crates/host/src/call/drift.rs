//! Whether a tool and its server are still what was seen first, and what becomes of the call if not.

use std::{collections::HashMap, path::PathBuf};

use parking_lot::Mutex;
use serde_json::json;
use toolway_config::{DriftEffect, Environment, ServerName};
use toolway_wire::{seal::fingerprint, time};

use super::{CallKind, Caller, find::Found};
use crate::{
    catalog::Fingerprint,
    connection::{WantedServer, Way},
    host::Inner,
    policy::baseline::{Baseline, EntryPart, MAX_ITEMS, entry_text},
    record::{AuditNote, kind},
};

/// Tools that were compared since the last change of the configuration.
#[derive(Debug, Default)]
pub(crate) struct ComparedTools {
    // No await under this lock.
    compared: Mutex<HashMap<ServerName, HashMap<String, Compared>>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Compared {
    fingerprint: Fingerprint,
    policy_revision: u64,
    /// Whether it is the baseline; else it is recorded that it is not, and only callers that are not asked pass.
    is_baseline: bool,
}

/// A tool or server that is not what was seen first.
pub(super) struct Drift {
    /// What becomes of the call.
    pub(super) effect: DriftEffect,
    /// The differences, one on each line.
    pub(super) lines: Vec<String>,
    /// The definitions as they are now.
    now: Vec<Baseline>,
    /// Compared definitions are the baseline if a person has approved them, or if models pass without one. A call of another
    /// caller, who is not shown the difference, decides nothing for models.
    compared: Compared,
}

/// Largest file of an entry whose content is compared. Of a larger one length and time are.
const MAX_FILE: u64 = 8 * 1024 * 1024;

impl ComparedTools {
    /// Whether the tool was compared as it is now, with a result that holds for this caller.
    fn contains(&self, server: &ServerName, tool: &str, wanted: &Compared, caller: &Caller) -> bool {
        let is_same = |known: &Compared| {
            let Compared { fingerprint, policy_revision, is_baseline } = known;
            let holds = *is_baseline || !matches!(caller, Caller::Agent(_));
            holds && *fingerprint == wanted.fingerprint && *policy_revision == wanted.policy_revision
        };
        self.compared.lock().get(server).and_then(|tools| tools.get(tool)).is_some_and(is_same)
    }

    fn insert(&self, server: &ServerName, tool: &str, compared: Compared) {
        let mut servers = self.compared.lock();
        let tools = servers.entry(server.clone()).or_default();
        if MAX_ITEMS <= tools.len() {
            tools.clear();
        }
        tools.insert(tool.to_owned(), compared);
    }
}

/// Compares the tool of a call with its baseline. The first sight of a server keeps all its tools as they are. A definition
/// that only this caller sees is not compared.
pub(super) async fn find(host: &Inner, found: &Found, caller: &Caller) -> Option<Drift> {
    let server = &found.subject.server;
    let (Some(tool), Some(print)) = (&found.tool, found.fingerprint) else { return None };
    if found.subject.kind != CallKind::Tool || !found.is_shared {
        return None;
    }
    let compared = Compared { fingerprint: print, policy_revision: host.policy_revision(), is_baseline: true };
    if host.compared_tools.contains(server, &found.subject.raw_name, &compared, caller) {
        return None;
    }
    let wanted = found.connection.wanted();
    let environment = host.context.dialer.environment.clone();
    let entry = match &wanted.way {
        Way::Configured(_) => tokio::task::spawn_blocking(move || entry_baseline(&wanted, &environment)).await.ok()?,
        // It names no files.
        _ => entry_baseline(&wanted, &environment),
    };
    let now = Baseline::of_tool(server, &tool.item, print);
    let baselines = &host.context.ports.baselines;
    let known = match baselines.of_server(server).await {
        Ok(known) => known,
        Err(error) => {
            tracing::error!(%error, %server, "definitions that were seen cannot be read");
            let effect = host.policy().drift_effect(caller, DriftKind::Changed);
            let lines = vec!["what was seen before cannot be read".to_owned()];
            return Some(Drift { effect, lines, now: Vec::new(), compared });
        }
    };
    if known.is_empty() {
        let catalog = host.catalog_publisher.catalog();
        let others = catalog.tools_of(server).iter().take(MAX_ITEMS);
        let others = others.map(|tool| Baseline::of_tool(server, &tool.item, tool.fingerprint));
        save(host, others.chain([now, entry]).collect()).await;
        host.compared_tools.insert(server, &found.subject.raw_name, compared);
        return None;
    }
    let known_as = |item: &str| known.iter().find(|known| known.item == item);
    let mut lines = Vec::new();
    if let Some(before) = known_as("").filter(|before| before.digest != entry.digest) {
        lines.extend(before.difference(&entry).into_iter().map(|line| format!("server: {line}")));
    }
    let before = known_as(&now.item);
    if let Some(before) = before.filter(|before| before.digest != now.digest) {
        lines.extend(before.difference(&now));
    }
    let kind = match before {
        None if lines.is_empty() && known.len() < MAX_ITEMS => DriftKind::New,
        _ => DriftKind::Changed,
    };
    if kind == DriftKind::New {
        lines.push("the server did not have this tool when it was first seen".to_owned());
    }
    if lines.is_empty() {
        host.compared_tools.insert(server, &found.subject.raw_name, compared);
        return None;
    }
    let policy = host.policy();
    let effect = policy.drift_effect(caller, kind);
    let is_baseline = effect == DriftEffect::Ask || policy.drift_effect(&Caller::Agent("".into()), kind) == effect;
    Some(Drift { effect, lines, now: vec![entry, now], compared: Compared { is_baseline, ..compared } })
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriftKind {
    Changed,
    New,
}

impl Drift {
    /// The differences in one text.
    pub(super) fn reason(&self) -> String {
        self.lines.join("; ")
    }

    /// Records that the call passes. The definitions as they are now become the baseline if a person has seen the difference,
    /// or if policy lets models pass without.
    pub(super) async fn accept(self, host: &Inner, found: &Found, caller: &Caller) {
        let server = &found.subject.server;
        let details = json!({ "change": "definition", "effect": self.effect.as_str(), "differences": self.lines });
        host.context.note(AuditNote {
            kind: kind::DECISION,
            caller: Some(caller.label()),
            server: Some(server.clone()),
            subject: Some(found.subject.raw_name.clone()),
            call: None,
            details,
        });
        if !self.now.is_empty() {
            if self.compared.is_baseline {
                save(host, self.now).await;
            }
            host.compared_tools.insert(server, &found.subject.raw_name, self.compared);
        }
    }
}

async fn save(host: &Inner, baselines: Vec<Baseline>) {
    if let Err(error) = host.context.ports.baselines.save(baselines).await {
        tracing::error!(%error, "definitions that were seen cannot be kept");
    }
}

/// The entry of a server and the files that it names. Reads files.
pub(crate) fn entry_baseline(wanted: &WantedServer, environment: &Environment) -> Baseline {
    let mut parts = wanted.shown_entry();
    let mut digests = vec![wanted.entry_digest(environment)];
    for path in wanted.named_files(environment) {
        let digest = file_digest(&path);
        parts.push(EntryPart { key: format!("content of {}", path.display()), shown: digest.clone() });
        digests.push(digest);
    }
    let digest = fingerprint(digests.iter().map(String::as_bytes));
    Baseline::new(&wanted.name, "", digest, &entry_text(parts))
}

fn file_digest(path: &PathBuf) -> String {
    let Ok(metadata) = std::fs::metadata(path) else { return "not readable".to_owned() };
    if MAX_FILE < metadata.len() {
        let modified = metadata.modified().map(time::rfc3339_of).unwrap_or_default();
        return format!("{} bytes of {modified}", metadata.len());
    }
    std::fs::read(path).map_or_else(|_| "not readable".to_owned(), |content| fingerprint([content.as_slice()]))
}

#[cfg(test)]
mod tests {
    use toolway_config::{Config, document::Document};

    use super::*;

    /// The baseline of a server with this entry.
    fn baseline(entry: &str) -> Baseline {
        let text = format!(r#"{{"mcpServers": {{"files": {entry}}}}}"#);
        let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap();
        let wanted = WantedServer::configured(&config, config.find("files").unwrap());
        entry_baseline(&wanted, &Environment::default())
    }

    fn difference(before: &str, after: &str) -> Vec<String> {
        let before = baseline(before);
        let after = baseline(after);
        assert_ne!(before.digest, after.digest);
        before.difference(&after)
    }

    #[test]
    fn another_command_argument_or_host_is_another_server() {
        let same = r#"{"command": "files", "args": ["--root", "/srv"]}"#;
        assert_eq!(baseline(same).digest, baseline(same).digest);
        assert_eq!(
            difference(same, r#"{"command": "evil", "args": ["--root", "/srv"]}"#),
            [r#"command: was "files", is now "evil""#]
        );
        assert_eq!(
            difference(same, r#"{"command": "files", "args": ["--root", "/"]}"#),
            [r#"args 2: was "/srv", is now "/""#]
        );
        assert_eq!(
            difference(r#"{"url": "https://a.example/mcp"}"#, r#"{"url": "https://a.example.evil.example/mcp"}"#),
            [r#"url: was "https://a.example/mcp", is now "https://a.example.evil.example/mcp""#]
        );
    }

    #[test]
    fn no_secret_is_part_of_a_baseline_or_of_a_difference() {
        let entry = |token: &str| {
            format!(r#"{{"command": "f", "args": ["--token", "{token}"], "env": {{"API_KEY": "{token}"}}}}"#)
        };
        let before = baseline(&entry("hunter2hunter2"));
        assert!(!before.text.contains("hunter2"), "{}", before.text);
        let lines = before.difference(&baseline(&entry("other")));
        assert_eq!(lines, ["a value that is not shown has changed"]);
    }

    #[test]
    fn the_content_of_a_file_that_the_entry_names_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server.py");
        let entry = format!(r#"{{"command": "python3", "args": ["{}"]}}"#, script.display());
        std::fs::write(&script, "print(1)").unwrap();
        let before = baseline(&entry);
        assert_eq!(before.digest, baseline(&entry).digest, "an unchanged restart");
        std::fs::write(&script, "print(2)").unwrap();
        let lines = before.difference(&baseline(&entry));
        assert!(lines.len() == 1 && lines[0].starts_with("content of "), "{lines:?}");
    }
}
