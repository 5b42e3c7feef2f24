//! This gateway as a member of a cluster: pure steps, in which an event and the time give actions, and the listener for
//! other gateways.
//!
//! The steps wait for nothing, read no clock and know no store. The program that drives the steps carries out the actions and
//! reports each result; a simulation drives them with a clock and a network of its own (`tests/it/cluster_simulation.rs`).
//!
//! | file | what it owns |
//! |---|---|
//! | `membership` | registration, renewal, loss of the lease, takeover of others |
//! | `cluster_server` | where the connection to a server with `replicas: one` is |
//! | `step` | events and actions |
//! | `session_rows` | rows of client sessions in the store, with the fingerprint of the key |
//! | `peer_listener` | requests that other gateways forward to this one |
//!
//! The port of the store is in [`toolway_host::cluster`]; why it is so is in
//! [decision 0028](../../docs/decisions/0028-cluster.md).

mod cluster_server;
mod membership;
mod peer_listener;
mod session_rows;
mod step;

pub use cluster_server::ServerPlace;
pub use membership::Membership;
pub use peer_listener::{ForwardedRequest, PeerListener, PeerService};
pub use session_rows::ClusterSessions;
pub use step::{ClockTime, ClusterAction, ClusterEvent};
