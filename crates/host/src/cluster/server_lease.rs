//! Which member holds the connection to a server with `replicas: one`, and which one is the home of a client session.
//!
//! Such a lease has no time of its own: it is valid as long as its member is. When the member is taken over, its client
//! sessions have no home. A server is not free: its process may still run for a while, so the next holder waits and then
//! replaces the holder that it has seen ([`LeaseStore::take_server`](super::LeaseStore::take_server)).

use std::time::Duration;

use toolway_config::{PeerAddress, ServerName};
use uuid::Uuid;

use super::Member;

/// What only one member may hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseKey {
    /// The connection to a server with `replicas: one`.
    Cluster(ServerName),
    /// The requests of a client session: the member that holds it is its home.
    Session {
        /// Id of the row of the session.
        session: Uuid,
    },
}

/// Answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseClaim {
    /// The member that asked holds it, now or since before.
    Granted,
    /// Another member does.
    Held(LeaseHolder),
}

/// The member that holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseHolder {
    /// A member that was not taken over; requests are forwarded to it.
    Current {
        /// The registration.
        member: Member,
        /// Where it is reached.
        address: PeerAddress,
    },
    /// A member that was taken over. Its process ends within its lease at the latest.
    Ended {
        /// The registration.
        member: Member,
        /// Length of its lease.
        lease: Duration,
    },
}
