//! Wanted against running: the difference as a plan that can be shown, then applied. The same for a start, an edit, a
//! reload and an embedding program; a start is the plan against nothing.

use std::{collections::BTreeMap, fmt, sync::Arc};

use toolway_config::{
    ServerName,
    server::{Standing, Start},
};

use super::wanted::WantedServer;

/// The servers that are wanted, by name.
pub type WantedSet = BTreeMap<ServerName, Arc<WantedServer>>;

/// What a change of the wanted servers comes to. Nothing has happened yet.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Wanted and not there.
    pub added: Vec<ServerName>,
    /// There and no longer wanted.
    pub removed: Vec<ServerName>,
    /// There, and wanted otherwise.
    pub changed: Vec<Changed>,
    /// There, and wanted as it is.
    pub kept: Vec<ServerName>,
    pub(crate) wanted: WantedSet,
}

/// A server that is wanted otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub server: ServerName,
    /// What about it, by the keys of its entry.
    pub why: Vec<&'static str>,
    /// What that means for its connection.
    pub effect: Effect,
}

/// What a change means for a connection that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It is ended and dialled anew; calls under way are let finish for a moment.
    Restart,
    /// It stays; the new words hold from the next call on.
    Adjust,
}

/// What was done, server by server.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The plan as it was carried out.
    pub plan: Plan,
    /// What happened to each.
    pub results: BTreeMap<ServerName, Happened>,
}

/// What happened to a server when a plan was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It is being connected.
    Started,
    /// It will be connected when it is first needed.
    WillStartWhenNeeded,
    /// It is known, and switched off.
    StaysDisabled,
    /// It is being closed.
    Closed,
    /// It is being closed and connected anew, because of these keys.
    Restarted(Vec<&'static str>),
    /// It goes on, with these keys as they are now.
    Adjusted(Vec<&'static str>),
    /// Nothing.
    Kept,
}

// === impl Plan ===

impl Plan {
    /// What has to be done to get from `running` to `wanted`.
    pub fn new(running: &WantedSet, wanted: WantedSet) -> Self {
        let mut plan = Self::default();
        for (name, server) in &wanted {
            match running.get(name).map(|old| old.difference(server)) {
                None => plan.added.push(name.clone()),
                Some(None) => plan.kept.push(name.clone()),
                Some(Some(difference)) => {
                    let effect = if difference.restart { Effect::Restart } else { Effect::Adjust };
                    plan.changed.push(Changed { server: name.clone(), why: difference.keys, effect });
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

    /// What happens to each server when this is applied.
    pub(crate) fn results(&self) -> BTreeMap<ServerName, Happened> {
        let added = self.added.iter().map(|name| (name.clone(), self.started(name)));
        let removed = self.removed.iter().map(|name| (name.clone(), Happened::Closed));
        let kept = self.kept.iter().map(|name| (name.clone(), Happened::Kept));
        let changed = self.changed.iter().map(|Changed { server, why, effect }| {
            let happened = match effect {
                Effect::Restart => Happened::Restarted(why.clone()),
                Effect::Adjust => Happened::Adjusted(why.clone()),
            };
            (server.clone(), happened)
        });
        added.chain(removed).chain(kept).chain(changed).collect()
    }

    fn started(&self, name: &ServerName) -> Happened {
        match self.wanted.get(name) {
            Some(server) if server.standing == Standing::Disabled => Happened::StaysDisabled,
            Some(server) if server.start == Start::WhenNeeded => Happened::WillStartWhenNeeded,
            _ => Happened::Started,
        }
    }
}

/// One line for each server that something happens to.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "nothing changes");
        }
        self.added.iter().try_for_each(|name| writeln!(f, "+ {name}"))?;
        self.removed.iter().try_for_each(|name| writeln!(f, "- {name}"))?;
        self.changed.iter().try_for_each(|changed| {
            let effect = match changed.effect {
                Effect::Restart => "connected anew",
                Effect::Adjust => "goes on",
            };
            writeln!(f, "~ {} ({}): {effect}", changed.server, changed.why.join(", "))
        })
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::WillStartWhenNeeded => f.write_str("will be started when first needed"),
            Self::StaysDisabled => f.write_str("stays disabled"),
            Self::Closed => f.write_str("closed"),
            Self::Restarted(keys) => write!(f, "connected anew because of {}", keys.join(", ")),
            Self::Adjusted(keys) => write!(f, "goes on with another {}", keys.join(", ")),
            Self::Kept => f.write_str("kept"),
        }
    }
}
