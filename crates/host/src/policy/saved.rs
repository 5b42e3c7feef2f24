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
    /// Digest of the definition of a tool. For anything else the method, `:`, and the digest if there is one: a tool, a
    /// prompt and a method of the same name have nothing in common.
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
    /// Finds what was saved for exactly this, or for the same with any arguments. A refusal wins ([`decisive`]).
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
        let found = [saved.get(&key.with_any_arguments()), saved.get(key)];
        let found = decisive(found.into_iter().flatten(), |decision| decision.effect).cloned();
        Box::pin(async move { found })
    }

    fn save<'a>(&'a self, key: &'a ApprovalKey, effect: SavedEffect) -> BoxFuture<'a, Result<SavedDecision, String>> {
        let mut saved = self.saved.lock();
        let decision = SavedDecision { id: format!("memory-{}", saved.len() + 1), effect };
        let kept = saved.get(key).filter(|kept| kept.effect == SavedEffect::Deny).cloned();
        let result = if let Some(kept) = kept {
            Ok(kept)
        } else if saved.len() < MAX_ENTRIES {
            saved.insert(key.clone(), decision.clone());
            Ok(decision)
        } else {
            Err(format!("more than {MAX_ENTRIES} approvals"))
        };
        Box::pin(async move { result })
    }
}

/// The one of several saved decisions about a call that counts: a refusal holds, whatever was approved before or after it;
/// else the first.
pub fn decisive<T>(saved: impl IntoIterator<Item = T>, effect: impl Fn(&T) -> SavedEffect) -> Option<T> {
    let mut first = None;
    for decision in saved {
        if effect(&decision) == SavedEffect::Deny {
            return Some(decision);
        }
        first = first.or(Some(decision));
    }
    first
}

impl ApprovalKey {
    /// The key of one request. `method` is the one that is sent; `None` if only its kind is known.
    pub fn new(
        caller: &Caller,
        subject: &Subject,
        method: Option<&str>,
        arguments: ArgumentPattern,
        fingerprint: Option<Fingerprint>,
    ) -> Self {
        let caller = match caller {
            Caller::Agent(_) => "agent".to_owned(),
            other => other.label(),
        };
        let definition = fingerprint.map(|fingerprint| fingerprint.to_string());
        let digest = match (method, definition) {
            (Some("tools/call"), Some(definition)) => definition,
            (method, definition) => {
                let method = method.unwrap_or(subject.kind.as_str());
                format!("{method}:{}", definition.unwrap_or_default())
            }
        };
        let (server, tool) = (subject.server.clone(), subject.raw_name.clone());
        Self { caller, server, tool, arguments: Some(arguments), digest }
    }

    /// This key for any arguments.
    #[must_use]
    pub fn with_any_arguments(&self) -> Self {
        Self { arguments: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::*;
    use crate::call::CallKind;

    fn key(kind: CallKind, method: &str, fingerprint: Option<Fingerprint>) -> ApprovalKey {
        let subject = Subject { server: "files".parse().unwrap(), kind, raw_name: "read".to_owned() };
        ApprovalKey::new(&Caller::Terminal, &subject, Some(method), ArgumentPattern::default(), fingerprint)
    }

    #[tokio::test]
    async fn a_saved_refusal_wins_over_approvals_before_and_after_it() {
        let key = key(CallKind::Tool, "tools/call", None);
        let any = key.with_any_arguments();
        for (refused, approved) in [(&key, &any), (&any, &key), (&key, &key)] {
            for refused_first in [true, false] {
                let saved = MemorySavedApprovals::default();
                let decisions = [(refused, SavedEffect::Deny), (approved, SavedEffect::Allow)];
                for (key, effect) in if refused_first { decisions } else { [decisions[1], decisions[0]] } {
                    saved.save(key, effect).await.unwrap();
                }
                assert_eq!(saved.find(&key).await.unwrap().effect, SavedEffect::Deny, "{refused:?} {approved:?}");
            }
        }
    }

    #[test]
    fn items_of_the_same_name_share_no_approval() {
        let definition = Some(Fingerprint::of_whole(&Raw::empty_object()));
        let keys = [
            key(CallKind::Tool, "tools/call", None),
            key(CallKind::Prompt, "prompts/get", None),
            key(CallKind::Prompt, "completion/complete", None),
            key(CallKind::Resource, "resources/read", None),
            key(CallKind::Method, "read", None),
            key(CallKind::Tool, "tools/call", definition),
            key(CallKind::Prompt, "prompts/get", definition),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
    }
}
