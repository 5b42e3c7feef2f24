//! Saved approvals: the port that remembers "always" and "never", and approvals for one conversation in memory.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::ServerName;

use super::{ArgumentPattern, Subject};
use crate::{call::Caller, catalog::Fingerprint};

/// What a saved approval is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApprovalKey {
    /// `kind[:name]` of the caller; agents share one entry.
    pub caller: String,
    /// Server name.
    pub server: ServerName,
    /// The server's own name of the item.
    pub tool: String,
    /// Arguments that it covers; `None`: any.
    pub arguments: Option<ArgumentPattern>,
    /// Digest of the definition; empty for an item without one.
    pub digest: String,
}

/// What was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedDecision {
    /// Id of the saved approval, for `toolway trust`.
    pub id: String,
    /// Whether calls are allowed or denied.
    pub effect: SavedEffect,
}

/// What a saved approval does. It never lifts a `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedEffect {
    /// Lifts `ask`.
    Allow,
    /// Turns `ask` into a refusal.
    Deny,
}

/// Remembers approvals beyond a call.
pub trait SavedApprovals: Send + Sync {
    /// Finds what was saved for exactly this, or for the same with any arguments.
    fn find<'a>(&'a self, key: &'a ApprovalKey) -> BoxFuture<'a, Option<SavedDecision>>;

    /// Saves a decision and returns it, or the reason why it cannot be saved.
    fn save<'a>(&'a self, key: &'a ApprovalKey, effect: SavedEffect) -> BoxFuture<'a, Result<SavedDecision, String>>;
}

/// Remembers as long as the process lives.
#[derive(Debug, Default)]
pub struct MemorySavedApprovals {
    // No await under this lock.
    saved: Mutex<HashMap<ApprovalKey, SavedDecision>>,
}

/// Entries kept in memory. A further one is not remembered and so asked about again.
const MAX_ENTRIES: usize = 10_000;

impl SavedApprovals for MemorySavedApprovals {
    fn find<'a>(&'a self, key: &'a ApprovalKey) -> BoxFuture<'a, Option<SavedDecision>> {
        let saved = self.saved.lock();
        let found = saved.get(&key.with_any_arguments()).or_else(|| saved.get(key)).cloned();
        Box::pin(async move { found })
    }

    fn save<'a>(&'a self, key: &'a ApprovalKey, effect: SavedEffect) -> BoxFuture<'a, Result<SavedDecision, String>> {
        let mut saved = self.saved.lock();
        let decision = SavedDecision { id: format!("memory-{}", saved.len() + 1), effect };
        let result = if saved.len() < MAX_ENTRIES {
            saved.insert(key.clone(), decision.clone());
            Ok(decision)
        } else {
            Err(format!("more than {MAX_ENTRIES} approvals"))
        };
        Box::pin(async move { result })
    }
}

impl ApprovalKey {
    /// The key of one request.
    pub(crate) fn new(
        caller: &Caller,
        subject: &Subject,
        arguments: ArgumentPattern,
        fingerprint: Option<Fingerprint>,
    ) -> Self {
        let caller = match caller {
            Caller::Agent(_) => "agent".to_owned(),
            other => other.label(),
        };
        let digest = fingerprint.map(|fingerprint| fingerprint.to_string()).unwrap_or_default();
        let (server, tool) = (subject.server.clone(), subject.raw_name.clone());
        Self { caller, server, tool, arguments: Some(arguments), digest }
    }

    /// This key for any arguments.
    #[must_use]
    pub fn with_any_arguments(&self) -> Self {
        Self { arguments: None, ..self.clone() }
    }
}
