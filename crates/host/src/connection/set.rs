//! The plan from the running to the wanted servers: computed and shown first, then applied. The same for a start, an edit, a
//! reload and an embedding program; at a start no server is running.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::json;
use toolway_config::{
    ServerName,
    server::{Standing, Start},
};

use super::wanted::WantedServer;
use crate::record::{AuditNote, kind};

/// The wanted servers, by name.
pub type WantedSet = BTreeMap<ServerName, Arc<WantedServer>>;

/// The steps from the running to the wanted servers. A plan has no effect until it is applied.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Wanted and not running.
    pub added: Vec<ServerName>,
    /// Running and no longer wanted.
    pub removed: Vec<ServerName>,
    /// Running, with a changed entry.
    pub changed: Vec<ServerChange>,
    /// Running, with an unchanged entry.
    pub kept: Vec<ServerName>,
    pub(crate) wanted: WantedSet,
}

/// A server with a changed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerChange {
    /// Name of the server.
    pub server: ServerName,
    /// The changed keys of its entry.
    pub why: Vec<&'static str>,
    /// Effect on its connection.
    pub effect: Effect,
}

/// Effect of a change on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The server is reconnected; calls in flight may finish for a short time.
    Restart,
    /// The connection stays; the new settings apply from the next call on.
    Adjust,
}

/// An applied plan and its results.
#[derive(Clone, Debug)]
pub struct AppliedPlan {
    /// The plan that was applied.
    pub plan: Plan,
    /// Result for each server.
    pub results: BTreeMap<ServerName, ServerPlanResult>,
}

/// Result of a plan for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPlanResult {
    /// A connect is in progress.
    Started,
    /// Connects on first use.
    WillStartWhenNeeded,
    /// Disabled by its entry.
    StaysDisabled,
    /// A close is in progress.
    Closed,
    /// Reconnecting, because these keys changed.
    Restarted(Vec<&'static str>),
    /// Connection kept, with these keys changed.
    Adjusted(Vec<&'static str>),
    /// Entry and connection unchanged.
    Kept,
}

// === impl AppliedPlan ===

impl AppliedPlan {
    /// The audit note of a changed configuration: what happened to the servers that did not stay as they were.
    pub(crate) fn note(&self) -> AuditNote {
        let changed = self.results.iter().filter(|(_, result)| **result != ServerPlanResult::Kept);
        let servers: BTreeMap<&str, String> =
            changed.map(|(name, result)| (name.as_str(), result.to_string())).collect();
        let details = json!({ "change": "reloaded", "servers": servers });
        AuditNote { kind: kind::CONFIGURATION, caller: None, server: None, subject: None, call: None, details }
    }
}

// === impl Plan ===

impl Plan {
    /// Computes the steps from `running` to `wanted`.
    pub fn new(running: &WantedSet, wanted: WantedSet) -> Self {
        let mut plan = Self::default();
        for (name, server) in &wanted {
            match running.get(name).map(|old| old.difference(server)) {
                None => plan.added.push(name.clone()),
                Some(None) => plan.kept.push(name.clone()),
                Some(Some(difference)) => {
                    let effect = if difference.restart { Effect::Restart } else { Effect::Adjust };
                    plan.changed.push(ServerChange { server: name.clone(), why: difference.keys, effect });
                }
            }
        }
        plan.removed = running.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        plan.wanted = wanted;
        plan
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// The result for each server once the plan is applied.
    pub(crate) fn results(&self) -> BTreeMap<ServerName, ServerPlanResult> {
        let added = self.added.iter().map(|name| (name.clone(), self.start_result(name)));
        let removed = self.removed.iter().map(|name| (name.clone(), ServerPlanResult::Closed));
        let kept = self.kept.iter().map(|name| (name.clone(), ServerPlanResult::Kept));
        let changed = self.changed.iter().map(|ServerChange { server, why, effect }| {
            let result = match effect {
                Effect::Restart => ServerPlanResult::Restarted(why.clone()),
                Effect::Adjust => ServerPlanResult::Adjusted(why.clone()),
            };
            (server.clone(), result)
        });
        added.chain(removed).chain(kept).chain(changed).collect()
    }

    fn start_result(&self, name: &ServerName) -> ServerPlanResult {
        match self.wanted.get(name) {
            Some(server) if server.standing == Standing::Disabled => ServerPlanResult::StaysDisabled,
            Some(server) if server.start == Start::WhenNeeded => ServerPlanResult::WillStartWhenNeeded,
            _ => ServerPlanResult::Started,
        }
    }
}

/// One line for each server that changes.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "nothing changes");
        }
        self.added.iter().try_for_each(|name| writeln!(f, "+ {name}"))?;
        self.removed.iter().try_for_each(|name| writeln!(f, "- {name}"))?;
        self.changed.iter().try_for_each(|changed| {
            let effect = match changed.effect {
                Effect::Restart => "reconnects",
                Effect::Adjust => "keeps its connection",
            };
            writeln!(f, "~ {} ({}): {effect}", changed.server, changed.why.join(", "))
        })
    }
}

impl fmt::Display for ServerPlanResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::WillStartWhenNeeded => f.write_str("starts on first use"),
            Self::StaysDisabled => f.write_str("stays disabled"),
            Self::Closed => f.write_str("closed"),
            Self::Restarted(keys) => write!(f, "reconnected: {} changed", keys.join(", ")),
            Self::Adjusted(keys) => write!(f, "updated without reconnecting: {} changed", keys.join(", ")),
            Self::Kept => f.write_str("kept"),
        }
    }
}
