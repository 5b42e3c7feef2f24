//! This gateway as a member of a cluster: pure steps, in which an event and the time give actions; what drives them; where
//! sessions are; and what goes between gateways.
//!
//! The steps wait for nothing, read no clock and know no store. `driver` carries out the actions and reports each result; a
//! simulation drives them with a clock and a network of its own (`tests/it/cluster_simulation.rs`).
//!
//! | file | what it owns |
//! |---|---|
//! | `membership` | registration, renewal, loss of the lease, takeover of others |
//! | `cluster_server` | where the connection to a server with `replicas: one` is |
//! | `step` | events and actions |
//! | `driver` | carries out the actions on the store, and says which member this gateway is |
//! | `clock` | the clock that a lease is counted with |
//! | `homes` | which member a session of a client is at |
//! | `session_rows` | the rows of sessions in the store, for clients with their keys |
//! | `forwarded_request` | a client's request as it goes between gateways |
//! | `forwarding` | sends a request to the home of its session, and relays the response |
//! | `peer_listener` | requests that other gateways forward to this one |
//!
//! The port of the store is in [`toolway_host::cluster`]; why it is so is in
//! [decision 0028](../../docs/decisions/0028-cluster.md), why a session has a home in
//! [decision 0029](../../docs/decisions/0029-session-home.md).

mod clock;
mod cluster_server;
mod driver;
pub(crate) mod forwarded_request;
pub(crate) mod forwarding;
pub(crate) mod homes;
mod membership;
mod peer_listener;
pub(crate) mod relaying;
mod session_rows;
mod step;

use std::{fmt, sync::Arc};

use toolway_host::cluster::ClientSessionStore;
use toolway_wire::{cluster_key::ClusterKeys, peer::PeerTls};

pub use clock::{BootClock, MemberClock};
pub use cluster_server::ServerPlace;
pub use driver::{ClusterMembership, MemberEffects, MemberOptions};
pub use forwarded_request::ForwardedRequest;
pub use membership::Membership;
pub use peer_listener::{PeerListener, PeerService};
pub use session_rows::ClusterSessions;
pub use step::{ClockTime, ClusterAction, ClusterEvent};

/// What makes a gateway one of several.
#[derive(Clone)]
pub struct ClusterOptions {
    /// This gateway as a member. It has registered, or is about to.
    pub membership: ClusterMembership,
    /// The rows of sessions.
    pub sessions: Arc<dyn ClientSessionStore>,
    /// The secret that all gateways share.
    pub keys: ClusterKeys,
    /// Connections under these keys.
    pub tls: PeerTls,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions").field("membership", &self.membership).finish_non_exhaustive()
    }
}
