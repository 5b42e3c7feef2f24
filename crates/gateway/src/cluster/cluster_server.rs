//! Where the connection to one server with `replicas: one` is: here, at another member, or nowhere until a process that a
//! lost member had started has certainly ended.

use std::time::Duration;

use toolway_config::ServerName;
use toolway_host::cluster::{LeaseClaim, LeaseHolder, Member, PeerAddress};

use super::step::{ClockTime, ClusterAction};

/// Where requests to a server go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPlace {
    /// To the connection of this member.
    Here,
    /// To another member, once.
    At {
        /// The registration that holds it.
        member: Member,
        /// Where it is reached.
        address: PeerAddress,
    },
    /// To no connection yet: the request waits or is refused.
    Unknown,
}

/// One server, as one member knows it.
#[derive(Debug)]
pub(super) struct ClusterServer {
    name: ServerName,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The store is asked at this time.
    Unasked(ClockTime),
    /// The store was asked.
    Asked,
    Here,
    Elsewhere {
        member: Member,
        address: PeerAddress,
        /// When the store is asked again.
        ask_at: ClockTime,
    },
    /// The holder was taken over, and its process may still run.
    Ending {
        holder: Member,
        take_at: ClockTime,
    },
}

/// Longer than the keeper takes to end a process (two seconds), and than two clocks differ in the course of a lease.
pub(super) const PROCESS_END: Duration = Duration::from_secs(3);

impl ClusterServer {
    pub(super) fn new(name: ServerName, now: ClockTime) -> Self {
        Self { name, state: State::Unasked(now) }
    }

    pub(super) fn place(&self) -> ServerPlace {
        match &self.state {
            State::Here => ServerPlace::Here,
            State::Elsewhere { member, address, .. } => ServerPlace::At { member: *member, address: address.clone() },
            State::Unasked(_) | State::Asked | State::Ending { .. } => ServerPlace::Unknown,
        }
    }

    /// When something is due; `None` while an answer is awaited or the server is here.
    pub(super) fn wakes_at(&self) -> Option<ClockTime> {
        match self.state {
            State::Unasked(at) => Some(at),
            State::Elsewhere { ask_at, .. } => Some(ask_at),
            State::Ending { take_at, .. } => Some(take_at),
            State::Asked | State::Here => None,
        }
    }

    /// Does what is due.
    pub(super) fn wake(&mut self, now: ClockTime, by: Member) -> Option<ClusterAction> {
        let server = self.name.clone();
        let action = match self.state {
            State::Unasked(at) if at <= now => ClusterAction::Claim { by, server },
            State::Elsewhere { ask_at, .. } if ask_at <= now => ClusterAction::Claim { by, server },
            State::Ending { holder, take_at } if take_at <= now => {
                ClusterAction::TakeServer { by, server, from: holder }
            }
            _ => return None,
        };
        // Requests that still go to the holder fail there or succeed, so its place is kept while the store is asked.
        match &mut self.state {
            State::Elsewhere { ask_at, .. } => *ask_at = ClockTime::MAX,
            state => *state = State::Asked,
        }
        Some(action)
    }

    /// What the store said. The server is asked about again after `again`.
    pub(super) fn answered(&mut self, now: ClockTime, claim: LeaseClaim, again: Duration) {
        self.state = match claim {
            LeaseClaim::Granted => State::Here,
            LeaseClaim::Held(LeaseHolder::Current { member, address }) => {
                State::Elsewhere { member, address, ask_at: now + again }
            }
            // Counted from now on: the clock of the store, which decided that the holder had expired, may have jumped.
            LeaseClaim::Held(LeaseHolder::Ended { member, lease }) => {
                State::Ending { holder: member, take_at: now + lease + PROCESS_END }
            }
        };
    }

    /// The store could not say.
    pub(super) fn unanswered(&mut self, now: ClockTime, again: Duration) {
        self.state = State::Unasked(now + again);
    }

    /// The member has lost its lease.
    pub(super) fn forget(&mut self, now: ClockTime) {
        self.state = State::Unasked(now);
    }

    /// The action that lets the process run, if it is here.
    pub(super) fn allow(&self, until: ClockTime) -> Option<ClusterAction> {
        matches!(self.state, State::Here).then(|| ClusterAction::AllowServer { server: self.name.clone(), until })
    }
}
