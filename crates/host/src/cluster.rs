//! Several gateways over one store: which of them are alive, and what only one of them may hold.
//!
//! A gateway is a **member** of the cluster from its registration until its lease expires or it leaves. Each registration
//! has a **generation**, greater than all before. What a member begins or ends names its generation, and a write of a
//! generation that is not current fails ([`LeaseError::Fenced`]). Another member takes over one that has expired: once,
//! in one transaction.
//!
//! | file | what it owns |
//! |---|---|
//! | `member` | gateway, generation and state of a member |
//! | `lease_store` | the port of the store, and its errors |
//! | `server_lease` | which member holds the connection to a server, or is the home of a session |
//! | `client_sessions` | the port for the rows of client sessions |
//! | `takeover` | what became of the calls and tasks of an expired member |
//!
//! When a member renews, takes over or gives up is decided in `gateway/src/cluster`. See
//! [decision 0028](../../docs/decisions/0028-cluster.md).

mod client_sessions;
mod lease_store;
mod member;
mod server_lease;
mod takeover;

pub use client_sessions::{
    ClientSessionChanges, ClientSessionLimits, ClientSessionReply, ClientSessionRow, ClientSessionStore,
};
pub use lease_store::{LeaseError, LeaseReply, LeaseStore};
pub use member::{ClusterMember, GatewayId, Member, MemberGeneration, MemberState};
pub use server_lease::{LeaseClaim, LeaseHolder, LeaseKey};
pub use takeover::{TakeOver, TakenOver};
/// The address at which other gateways reach one.
pub use toolway_config::PeerAddress;
