//! The wanted servers of a host and their connections; applies plans to them.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;
use toolway_config::ServerName;

use crate::connection::{Connection, Plan, WantedServer, WantedSet};

/// Wanted servers and their connections.
#[derive(Default)]
pub(super) struct ConnectionSet {
    wanted: WantedSet,
    members: BTreeMap<ServerName, Member>,
}

/// One server with its task.
pub(super) struct Member {
    connection: Connection,
    /// Cancelled when the server is no longer wanted.
    removed: CancellationToken,
}

// === impl ConnectionSet ===

impl ConnectionSet {
    /// The changes that lead to `wanted`.
    pub(super) fn plan(&self, wanted: WantedSet) -> Plan {
        Plan::new(&self.wanted, wanted)
    }

    /// Makes `wanted` the servers of this set and returns the changes. `start` starts the task of an added server.
    pub(super) fn apply(&mut self, wanted: WantedSet, start: impl Fn(Arc<WantedServer>) -> Member) -> Plan {
        // The set may have changed since the plan was made.
        let plan = self.plan(wanted);
        for name in &plan.removed {
            if let Some(member) = self.members.remove(name) {
                member.removed.cancel();
            }
        }
        for server in plan.added.iter().filter_map(|name| plan.wanted.get(name)) {
            self.members.insert(server.name.clone(), start(Arc::clone(server)));
        }
        for changed in &plan.changed {
            if let (Some(member), Some(server)) = (self.members.get(&changed.server), plan.wanted.get(&changed.server))
            {
                member.connection.set_wanted(Arc::clone(server));
            }
        }
        self.wanted = plan.wanted.clone();
        plan
    }

    pub(super) fn connection(&self, server: &ServerName) -> Option<&Connection> {
        self.members.get(server).map(|member| &member.connection)
    }

    /// All connections, ordered by server name.
    pub(super) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.members.values().map(|member| &member.connection)
    }

    /// All server names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &ServerName> {
        self.members.keys()
    }
}

impl Member {
    pub(super) fn new(connection: Connection, removed: CancellationToken) -> Self {
        Self { connection, removed }
    }
}
