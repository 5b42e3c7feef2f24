//! A gateway as a member of the cluster.

use std::{fmt, time::Duration};

use toolway_config::PeerAddress;
use uuid::Uuid;

/// One process of `toolway serve`. A process that starts has a new id, wherever it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GatewayId(pub Uuid);

/// Number of a registration. The store gives each number once, in rising order, to any gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberGeneration(pub u64);

/// One registration of a gateway: what its writes name. A gateway that has lost its lease registers again, as another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The process.
    pub gateway: GatewayId,
    /// Its registration.
    pub generation: MemberGeneration,
}

/// A member that was not taken over yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// The registration.
    pub member: Member,
    /// Where other gateways reach it.
    pub address: PeerAddress,
    /// Length of its lease.
    pub lease: Duration,
    /// Whether it is alive, by the clock of the store.
    pub state: MemberState,
}

/// State of a member by the clock of the store, at the time of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Its lease is valid for this long.
    Live {
        /// Time until it expires.
        expires_in: Duration,
    },
    /// Its lease has expired: it can be taken over.
    Expired,
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for MemberGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (generation {})", self.gateway, self.generation)
    }
}
