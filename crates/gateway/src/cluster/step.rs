//! What happens to a member, and what it does about it.

use std::time::Duration;

use toolway_config::ServerName;
use toolway_host::cluster::{
    ClusterMember, GatewayId, LeaseClaim, LeaseError, Member, MemberGeneration, PeerAddress, TakeOver,
};
use uuid::Uuid;

/// Time of a clock that only rises, at the pace of the store's, and goes on while the machine sleeps (on Linux
/// `CLOCK_BOOTTIME`, not `CLOCK_MONOTONIC`). Its zero has no meaning.
pub type ClockTime = Duration;

/// Something that happened. Each action that asks the store has exactly one such answer, at the latest after a time limit
/// of a third of the lease, which is an error of the store.
#[derive(Clone, Debug)]
pub enum ClusterEvent {
    /// The time of [`Membership::wakes_at`](super::Membership::wakes_at) has come.
    Woken,
    /// Calls need a server that exists once in the cluster.
    Wanted(ServerName),
    /// The gateway shuts down; its calls have ended.
    Leaving,
    /// Answer to [`ClusterAction::Register`].
    Registered(Result<Member, LeaseError>),
    /// Answer to [`ClusterAction::Renew`].
    Renewed {
        /// Of the action.
        member: Member,
        /// Of the action.
        sent_at: ClockTime,
        /// What the store says.
        result: Result<(), LeaseError>,
    },
    /// Answer to [`ClusterAction::List`].
    Listed {
        /// Of the action.
        by: Member,
        /// What the store says.
        result: Result<Vec<ClusterMember>, LeaseError>,
    },
    /// Answer to [`ClusterAction::TakeOver`].
    TookOver {
        /// Of the action.
        by: Member,
        /// Of the action.
        from: MemberGeneration,
        /// What the store says.
        result: Result<TakeOver, LeaseError>,
    },
    /// Answer to [`ClusterAction::Claim`] and [`ClusterAction::TakeServer`].
    Claimed {
        /// Of the action.
        by: Member,
        /// Of the action.
        server: ServerName,
        /// What the store says.
        result: Result<LeaseClaim, LeaseError>,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterAction {
    /// Ask the store for a registration.
    Register {
        /// This process.
        gateway: GatewayId,
        /// Where others reach it.
        address: PeerAddress,
        /// Length of its lease.
        lease: Duration,
    },
    /// Ask the store to extend the lease.
    Renew {
        /// Whose lease.
        member: Member,
        /// When this was decided: the lease counts from here.
        sent_at: ClockTime,
    },
    /// Ask the store for all members.
    List {
        /// Who asks.
        by: Member,
    },
    /// Ask the store to take over a member.
    TakeOver {
        /// Who asks.
        by: Member,
        /// The member.
        from: Member,
    },
    /// Follow these tasks.
    AdoptTasks(Vec<Uuid>),
    /// End all calls of this member in this process, `unknown` if a byte was written: its lease is lost. Their records are
    /// settled by the takeover.
    EndCalls(Member),
    /// Ask the store for the lease of a server of the cluster.
    Claim {
        /// Who asks.
        by: Member,
        /// The server.
        server: ServerName,
    },
    /// Ask the store to replace the holder of such a lease.
    TakeServer {
        /// Who asks.
        by: Member,
        /// The server.
        server: ServerName,
        /// The holder, which was taken over.
        from: Member,
    },
    /// Tell the keeper that the process of this server may run until this time, and start it if it does not run. The keeper
    /// ends the process then, whatever becomes of this process, and ignores a time that has passed.
    AllowServer {
        /// The server.
        server: ServerName,
        /// When the keeper ends it.
        until: ClockTime,
    },
    /// Tell the keeper to end the processes of all servers of the cluster.
    EndServers,
    /// Tell the store that this member leaves, once its servers have ended.
    Leave(Member),
}
