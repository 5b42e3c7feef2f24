//! The port of leases: what the store of a cluster keeps about its members.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolway_config::PeerAddress;

use super::{ClusterMember, GatewayId, LeaseClaim, LeaseKey, Member, TakeOver, TakenOver};
use crate::record::RecordsError;

/// An answer of the store that is waited for.
pub type LeaseReply<'a, T> = BoxFuture<'a, Result<T, LeaseError>>;

/// Keeps leases. Each method is one transaction, and its time is that of the store's own clock, read when it holds its locks.
///
/// A method that fails with [`LeaseError::Store`] may have had its effect. All can be repeated: a repeated registration
/// leaves one that expires unused, and everything else finds what it did before.
pub trait LeaseStore: Send + Sync {
    /// Registers a gateway as a new member, with a lease of this length from now on.
    fn register(&self, gateway: GatewayId, address: PeerAddress, lease: Duration) -> LeaseReply<'_, Member>;

    /// Extends the lease of a member to its full length from now on. One that has expired stays so.
    fn renew(&self, member: Member) -> LeaseReply<'_, ()>;

    /// Succeeds if the lease of a member is valid. A write does not ask this before: it checks it in its own transaction,
    /// so that a takeover waits for the write or the write fails.
    fn check(&self, member: Member) -> LeaseReply<'_, ()>;

    /// Ends a member that has ended its calls and its processes. What is left open is settled as in a takeover, and all its
    /// leases are free at once. Its tasks are left to any member.
    fn leave(&self, member: Member) -> LeaseReply<'_, TakenOver>;

    /// All members that have not left and were not taken over, oldest first.
    fn members(&self) -> LeaseReply<'_, Vec<ClusterMember>>;

    /// Ends an expired member, or an earlier registration of the same gateway: settles its open calls, frees its tasks
    /// and its leases of client sessions. Tasks of an earlier registration go to `by`: their process follows them. Happens
    /// once for each member.
    fn take_over(&self, by: Member, from: Member) -> LeaseReply<'_, TakeOver>;

    /// Takes a lease if it is free.
    fn claim(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, LeaseClaim>;

    /// Takes a lease from `from`, if that is still the holder, or if it is free. `from` was taken over if the lease is of a server;
    /// then the caller has waited until the process of that holder has ended: the store does not measure this time, because its
    /// clock may jump. The home of a session may change before: the caller has found that the process of `from` has ended, or
    /// that it is another registration now.
    fn take_server(&self, by: Member, key: LeaseKey, from: Member) -> LeaseReply<'_, LeaseClaim>;

    /// Frees a lease whose process has ended. Without effect if `by` does not hold it.
    fn release(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, ()>;
}

/// Why an operation of a member failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeaseError {
    /// The member has lost its lease: it expired, was taken over or has left. Nothing of it is valid any more, and nothing was written.
    #[error("gateway {0} has lost its lease; it must end its calls and register again")]
    Fenced(Member),
    /// The store failed. Whether the operation had its effect is unknown.
    #[error(transparent)]
    Store(#[from] RecordsError),
}
