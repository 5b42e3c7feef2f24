//! Saved approvals: the port that remembers "always" and "never", and which of them decides about a call.
//!
//! A saved approval belongs to the server as it was: to the digest of its entry and of the tool's definition. It holds where
//! a person is present; for unattended use it has to be allowed (`toolway trust allow ID --unattended`).

use std::{collections::HashSet, time::SystemTime};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::ServerName;
use uuid::Uuid;

use super::{AskedCall, Scope, Subject};
use crate::{call::Caller, catalog::Fingerprint, record::RecordsError};

/// What a saved approval is about, besides its scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApprovalKey {
    /// `kind[:name]` of the caller; agents share one entry.
    pub caller: String,
    /// Server name.
    pub server: ServerName,
    /// Digest of the server's entry after expansion; empty for approvals of earlier releases, which allow nothing.
    pub entry: String,
    /// The server's own name of the item.
    pub tool: String,
    /// Digest of the definition of a tool. For anything else the method, `:`, and the digest if there is one: a tool, a
    /// prompt and a method of the same name have nothing in common.
    pub digest: String,
}

/// An answer of "always" or "never".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedApproval {
    /// Id for `toolway trust`.
    pub id: String,
    /// When it was saved.
    pub created_at: SystemTime,
    /// Caller, server and item.
    pub key: ApprovalKey,
    /// The calls that it covers. A refusal covers any arguments, whatever stands here.
    pub scope: Scope,
    /// Whether calls are allowed or denied.
    pub effect: SavedEffect,
    /// Where an approval holds.
    pub holds: Attendance,
}

/// A saved approval or refusal, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredApproval {
    /// The answer.
    pub approval: SavedApproval,
    /// The surface on which it was saved.
    pub created_by: String,
}

/// What a saved approval does. It never lifts a `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedEffect {
    /// Lifts `ask`.
    Allow,
    /// Refuses every call of the item.
    Deny,
}

impl SavedEffect {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// Whether a person is present where a call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// A person is present.
    #[default]
    Attended,
    /// No person is present: `run`, scripts. An approval that holds here also holds where one is.
    Unattended,
}

/// What the saved approvals say about one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedFinding<'a> {
    /// This one refuses it.
    Refused(&'a SavedApproval),
    /// This one allows it.
    Allowed(&'a SavedApproval),
    /// This one would allow it if a person were present.
    AttendedOnly(&'a SavedApproval),
    /// This one was saved for another program or another definition, and so covers nothing any more.
    Outdated(&'a SavedApproval),
    /// None is about the call.
    Nothing,
}

/// Why saved approvals cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SavedApprovalError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] RecordsError),
    /// No further one can be kept.
    #[error("more than {0} approvals")]
    TooMany(usize),
}

/// Remembers approvals beyond a call.
pub trait SavedApprovals: Send + Sync {
    /// What was saved for an item of a server of this name, whatever its entry, and for hosts of the server.
    fn of_item<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SavedApproval>, SavedApprovalError>>;

    /// Saves an answer. A refusal of the same key stays in effect.
    fn save<'a>(&'a self, approval: SavedApproval) -> BoxFuture<'a, Result<(), SavedApprovalError>>;

    /// Whether a refusal may be saved for an item, as far as that is known without waiting. Called for every call.
    fn may_refuse(&self, _server: &ServerName, _tool: &str) -> bool {
        true
    }
}

/// Remembers as long as the process lives.
#[derive(Debug, Default)]
pub struct MemorySavedApprovals {
    // No await under this lock.
    saved: Mutex<Vec<SavedApproval>>,
}

/// Entries kept in memory. A further one is not remembered and so asked about again.
const MAX_ENTRIES: usize = 10_000;
/// Item of a saved approval for hosts: it is about every tool of its server.
const EVERY_TOOL: &str = "";

impl SavedApprovals for MemorySavedApprovals {
    fn of_item<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SavedApproval>, SavedApprovalError>> {
        let saved = self.saved.lock();
        let is_of = |saved: &&SavedApproval| {
            saved.key.server == *server && (saved.key.tool == tool || saved.key.tool == EVERY_TOOL)
        };
        let found = saved.iter().filter(is_of).cloned().collect();
        Box::pin(async move { Ok(found) })
    }

    fn save<'a>(&'a self, approval: SavedApproval) -> BoxFuture<'a, Result<(), SavedApprovalError>> {
        let mut saved = self.saved.lock();
        let result = match saved.len() < MAX_ENTRIES {
            true => {
                saved.push(approval);
                Ok(())
            }
            false => Err(SavedApprovalError::TooMany(MAX_ENTRIES)),
        };
        Box::pin(async move { result })
    }

    fn may_refuse(&self, server: &ServerName, tool: &str) -> bool {
        let is_refusal = |saved: &SavedApproval| saved.effect == SavedEffect::Deny;
        self.saved.lock().iter().any(|saved| is_refusal(saved) && saved.key.server == *server && saved.key.tool == tool)
    }
}

/// Saved approvals that no longer apply, of which the user was told in this process.
#[derive(Debug, Default)]
pub(crate) struct OutdatedNotices {
    // No await under this lock.
    told: Mutex<HashSet<String>>,
}

/// Notices that are remembered. A further one comes again.
const MAX_NOTICES: usize = 1_000;

impl OutdatedNotices {
    /// Whether the user was told of the approval with this id.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.told.lock().contains(id)
    }

    /// Remembers that the user was told.
    pub(crate) fn add(&self, id: String) {
        let mut told = self.told.lock();
        if told.len() < MAX_NOTICES {
            told.insert(id);
        }
    }
}

/// What these saved approvals say about a call. A refusal wins over approvals before and after it.
pub fn deciding<'a>(
    saved: &'a [SavedApproval],
    key: &ApprovalKey,
    call: AskedCall<'_>,
    attendance: Attendance,
) -> SavedFinding<'a> {
    if let Some(refusal) = refusal(saved, key) {
        return SavedFinding::Refused(refusal);
    }
    let of_key = || saved.iter().filter(|saved| saved.key.caller == key.caller && saved.is_about(key));
    let mut covering: Vec<_> = of_key().filter(|saved| saved.allows(key, call)).collect();
    let holds = |saved: &&SavedApproval| attendance == Attendance::Attended || saved.holds == Attendance::Unattended;
    if let Some(approval) = covering.iter().find(|saved| holds(saved)) {
        return SavedFinding::Allowed(approval);
    }
    let is_current = |saved: &SavedApproval| saved.key.entry == key.entry && saved.key.digest == key.digest;
    let outdated = || of_key().find(|saved| !of_key().any(is_current) && saved.is_outdated(key, call));
    let finding = covering.pop().map(SavedFinding::AttendedOnly);
    finding.or_else(|| outdated().map(SavedFinding::Outdated)).unwrap_or(SavedFinding::Nothing)
}

/// The one of these saved answers that refuses every call of an item.
pub(crate) fn refusal<'a>(saved: &'a [SavedApproval], key: &ApprovalKey) -> Option<&'a SavedApproval> {
    saved.iter().find(|saved| saved.key.caller == key.caller && saved.is_about(key) && saved.refuses(key))
}

// === impl SavedApproval ===

impl SavedApproval {
    /// An answer that is saved now.
    pub fn new(key: ApprovalKey, scope: Scope, effect: SavedEffect) -> Self {
        let key = if scope.is_about_hosts() { key.for_every_tool() } else { key };
        let id = Uuid::now_v7().to_string();
        Self { id, created_at: SystemTime::now(), key, scope, effect, holds: Attendance::Attended }
    }

    /// Method of the calls that it covers. A raw method may be named like a tool.
    pub fn method(&self) -> &str {
        self.key.digest.rsplit_once(':').map_or("tools/call", |(method, _)| method)
    }

    fn is_about(&self, key: &ApprovalKey) -> bool {
        self.key.server == key.server && (self.key.tool == key.tool || self.scope.is_about_hosts())
    }

    /// A refusal holds whatever the definition says now: a server must not get out of it by changing a word. One of an
    /// earlier release holds for every server of its name.
    fn refuses(&self, key: &ApprovalKey) -> bool {
        let is_entry = self.key.entry == key.entry || self.key.entry.is_empty();
        self.effect == SavedEffect::Deny && is_entry && self.is_kind_of(key)
    }

    fn allows(&self, key: &ApprovalKey, call: AskedCall<'_>) -> bool {
        let is_definition = self.key.digest == key.digest || self.scope.is_about_hosts();
        let is_entry = self.key.entry == key.entry && !key.entry.is_empty();
        self.effect == SavedEffect::Allow && is_entry && is_definition && self.scope.covers(call)
    }

    /// Whether it would cover the call, had the server or the tool not changed. Hosts are about every tool.
    fn is_outdated(&self, key: &ApprovalKey, call: AskedCall<'_>) -> bool {
        let is_kind = !self.scope.is_about_hosts() && self.is_kind_of(key);
        self.effect == SavedEffect::Allow && is_kind && self.scope.covers(call)
    }

    /// Whether both are about the same kind of item: a tool, a prompt and a method of one name are not.
    fn is_kind_of(&self, key: &ApprovalKey) -> bool {
        let method = key.digest.rsplit_once(':').map_or("tools/call", |(method, _)| method);
        self.method() == method
    }
}

// === impl ApprovalKey ===

impl ApprovalKey {
    /// The key of one request. `entry` is the digest of the server's entry; `method` is the one that is sent, `None` if only
    /// its kind is known.
    pub fn new(
        caller: &Caller,
        subject: &Subject,
        entry: String,
        method: Option<&str>,
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
        Self { caller, server: subject.server.clone(), entry, tool: subject.raw_name.clone(), digest }
    }

    /// This key for every tool of the server, as approvals for hosts have it.
    fn for_every_tool(self) -> Self {
        Self { tool: EVERY_TOOL.to_owned(), digest: "hosts:".to_owned(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::*;
    use crate::{call::CallKind, policy::Reached};

    fn key(kind: CallKind, method: &str, fingerprint: Option<Fingerprint>) -> ApprovalKey {
        let subject = Subject { server: "files".parse().unwrap(), kind, raw_name: "read".to_owned() };
        ApprovalKey::new(&Caller::Terminal, &subject, "e1".to_owned(), Some(method), fingerprint)
    }

    fn tool() -> ApprovalKey {
        key(CallKind::Tool, "tools/call", None)
    }

    fn saved(key: ApprovalKey, scope: Scope, effect: SavedEffect) -> SavedApproval {
        SavedApproval::new(key, scope, effect)
    }

    fn found(saved: &[SavedApproval], key: &ApprovalKey, attendance: Attendance) -> &'static str {
        let (arguments, reached) = (Raw::parse(r#"{"a":1}"#).unwrap(), Reached::default());
        match deciding(saved, key, AskedCall { arguments: Some(&arguments), reached: &reached }, attendance) {
            SavedFinding::Refused(_) => "refused",
            SavedFinding::Allowed(_) => "allowed",
            SavedFinding::AttendedOnly(_) => "attended only",
            SavedFinding::Outdated(_) => "outdated",
            SavedFinding::Nothing => "nothing",
        }
    }

    #[test]
    fn a_refusal_wins_over_approvals_before_and_after_it() {
        let refusal = saved(tool(), Scope::Any, SavedEffect::Deny);
        let approval = saved(tool(), Scope::Any, SavedEffect::Allow);
        for both in [[refusal.clone(), approval.clone()], [approval, refusal]] {
            assert_eq!(found(&both, &tool(), Attendance::Attended), "refused");
        }
    }

    #[test]
    fn an_approval_belongs_to_the_server_the_tool_and_the_caller_as_they_were() {
        let approval = [saved(tool(), Scope::Any, SavedEffect::Allow)];
        for (key, expected) in [
            (tool(), "allowed"),
            (ApprovalKey { entry: "e2".to_owned(), ..tool() }, "outdated"),
            (ApprovalKey { entry: String::new(), ..tool() }, "outdated"),
            (ApprovalKey { digest: "tools/call:other".to_owned(), ..tool() }, "outdated"),
            (ApprovalKey { tool: "write".to_owned(), ..tool() }, "nothing"),
            (ApprovalKey { server: "other".parse().unwrap(), ..tool() }, "nothing"),
            (ApprovalKey { caller: "agent".to_owned(), ..tool() }, "nothing"),
            (key(CallKind::Prompt, "prompts/get", None), "nothing"),
        ] {
            assert_eq!(found(&approval, &key, Attendance::Attended), expected, "{key:?}");
        }
        let unknown = ApprovalKey { entry: String::new(), ..tool() };
        let old = [saved(unknown.clone(), Scope::Any, SavedEffect::Allow)];
        assert_eq!(found(&old, &tool(), Attendance::Attended), "outdated", "one of an earlier release");
        assert_eq!(found(&old, &unknown, Attendance::Attended), "nothing", "an unknown entry is never the same");
        let old = [saved(unknown, Scope::Any, SavedEffect::Deny)];
        assert_eq!(found(&old, &tool(), Attendance::Attended), "refused");
        let refusal = [saved(tool(), Scope::Any, SavedEffect::Deny)];
        for (key, expected) in [
            (ApprovalKey { digest: "tools/call:other".to_owned(), ..tool() }, "refused"),
            (ApprovalKey { entry: "e2".to_owned(), ..tool() }, "nothing"),
            (key(CallKind::Prompt, "prompts/get", None), "nothing"),
        ] {
            assert_eq!(found(&refusal, &key, Attendance::Attended), expected, "{key:?}");
        }
    }

    /// Two projects may have servers of one name: the approvals of one are no news in the other.
    #[test]
    fn an_approval_is_outdated_only_if_it_would_cover_the_call_and_has_no_successor() {
        let other = ApprovalKey { entry: "e2".to_owned(), ..tool() };
        let of_other = saved(other, Scope::Any, SavedEffect::Allow);
        let arguments = Raw::parse(r#"{"a":2}"#).unwrap();
        let elsewhere = saved(tool(), Scope::same(Some(&arguments)), SavedEffect::Allow);
        assert_eq!(found(std::slice::from_ref(&of_other), &tool(), Attendance::Attended), "outdated");
        assert_eq!(found(&[of_other.clone(), elsewhere.clone()], &tool(), Attendance::Attended), "nothing");
        let narrow = SavedApproval { key: of_other.key.clone(), ..elsewhere };
        assert_eq!(found(&[narrow], &tool(), Attendance::Attended), "nothing");
    }

    #[test]
    fn an_approval_holds_for_unattended_use_only_if_that_was_allowed() {
        let mut approvals = [saved(tool(), Scope::Any, SavedEffect::Allow)];
        assert_eq!(found(&approvals, &tool(), Attendance::Unattended), "attended only");
        approvals[0].holds = Attendance::Unattended;
        assert_eq!(found(&approvals, &tool(), Attendance::Unattended), "allowed");
        assert_eq!(found(&approvals, &tool(), Attendance::Attended), "allowed");
        let refusal = [saved(tool(), Scope::Any, SavedEffect::Deny)];
        assert_eq!(found(&refusal, &tool(), Attendance::Unattended), "refused");
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
