//! Registration, renewal, loss of the lease, and takeover of other members.
//!
//! A member is valid until one lease after it *sent* the last renewal that the store confirmed. The store counts from the
//! moment when it received it, which is later; so a member stops before others can take it over, unless the clock of the
//! store jumps forward. Then its writes fail, which is the second line.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use toolway_config::ServerName;
use toolway_host::cluster::{
    ClusterMember, GatewayId, LeaseClaim, LeaseError, Member, MemberGeneration, MemberState, PeerAddress, TakeOver,
};

use super::{
    cluster_server::{ClusterServer, ServerPlace},
    step::{ClockTime, ClusterAction, ClusterEvent},
};

/// One gateway of a cluster.
#[derive(Debug)]
pub struct Membership {
    gateway: GatewayId,
    address: PeerAddress,
    lease: Duration,
    phase: Phase,
    /// Servers that exist once in the cluster and are needed here.
    servers: BTreeMap<ServerName, ClusterServer>,
}

#[derive(Debug)]
enum Phase {
    /// Not a member. Registers at this time.
    Outside(ClockTime),
    /// The store was asked at this time.
    Registering(ClockTime),
    Current(CurrentMember),
    /// Shut down.
    Left,
}

#[derive(Debug)]
struct CurrentMember {
    member: Member,
    valid_until: ClockTime,
    renew_at: ClockTime,
    /// `None` while the store is asked.
    list_at: Option<ClockTime>,
    /// Members that the store is asked to take over.
    taking: BTreeSet<MemberGeneration>,
}

/// Renewals in the course of a lease.
const RENEWALS: u32 = 3;
/// Attempts in the course of a lease while the store does not answer.
const ATTEMPTS: u32 = 10;
/// After the time at which a lease should have expired by the clock of the store.
const AFTER_EXPIRY: Duration = Duration::from_millis(100);

impl Membership {
    /// A gateway that is not registered yet.
    pub fn new(gateway: GatewayId, address: PeerAddress, lease: Duration, now: ClockTime) -> Self {
        Self { gateway, address, lease, phase: Phase::Outside(now), servers: BTreeMap::new() }
    }

    /// The member in whose name a call may begin or be sent now. `None`: new calls are refused.
    pub fn valid_member(&self, now: ClockTime) -> Option<Member> {
        self.current(now).map(|current| current.member)
    }

    /// Where requests to a server that exists once go now.
    pub fn place(&self, server: &ServerName, now: ClockTime) -> ServerPlace {
        let server = self.servers.get(server).filter(|_| self.current(now).is_some());
        server.map_or(ServerPlace::Unknown, ClusterServer::place)
    }

    /// When [`ClusterEvent::Woken`] is due.
    pub fn wakes_at(&self) -> ClockTime {
        match &self.phase {
            Phase::Outside(at) => *at,
            // The answer comes as an event.
            Phase::Registering(_) | Phase::Left => ClockTime::MAX,
            Phase::Current(current) => {
                let servers = self.servers.values().filter_map(ClusterServer::wakes_at);
                let due = servers.chain(current.list_at).chain([current.valid_until, current.renew_at]);
                due.min().unwrap_or(ClockTime::MAX)
            }
        }
    }

    /// Takes in an event. A lease that has expired in the meantime is lost first, whatever the event says.
    pub fn step(&mut self, now: ClockTime, event: ClusterEvent) -> Vec<ClusterAction> {
        let mut actions = Vec::new();
        let has_expired = matches!(&self.phase, Phase::Current(current) if current.valid_until <= now);
        if has_expired {
            self.lose(now, &mut actions);
        }
        match event {
            ClusterEvent::Woken => {}
            ClusterEvent::Wanted(server) => {
                self.servers.entry(server.clone()).or_insert_with(|| ClusterServer::new(server, now));
            }
            ClusterEvent::Leaving => return self.leave(actions),
            ClusterEvent::Registered(result) => self.registered(now, &result),
            ClusterEvent::Renewed { member, sent_at, result } if self.is_current(member) => {
                self.renewed(now, sent_at, &result, &mut actions);
            }
            ClusterEvent::Listed { by, result } if self.is_current(by) => self.listed(now, result, &mut actions),
            ClusterEvent::TookOver { by, from, result } if self.is_current(by) => {
                self.took_over(now, from, result, &mut actions);
            }
            ClusterEvent::Claimed { by, server, result } if self.is_current(by) => {
                self.claimed(now, &server, result, &mut actions);
            }
            // Answers to a member that has lost its lease since.
            ClusterEvent::Renewed { .. }
            | ClusterEvent::Listed { .. }
            | ClusterEvent::TookOver { .. }
            | ClusterEvent::Claimed { .. } => {}
        }
        self.wake(now, &mut actions);
        actions
    }

    fn current(&self, now: ClockTime) -> Option<&CurrentMember> {
        match &self.phase {
            Phase::Current(current) if now < current.valid_until => Some(current),
            _ => None,
        }
    }

    fn is_current(&self, member: Member) -> bool {
        matches!(&self.phase, Phase::Current(current) if current.member == member)
    }

    /// Does what is due.
    fn wake(&mut self, now: ClockTime, actions: &mut Vec<ClusterAction>) {
        if matches!(self.phase, Phase::Outside(at) if at <= now) {
            self.phase = Phase::Registering(now);
            let address = self.address.clone();
            actions.push(ClusterAction::Register { gateway: self.gateway, address, lease: self.lease });
        }
        let Phase::Current(current) = &mut self.phase else { return };
        let by = current.member;
        if current.renew_at <= now {
            // If the answer does not come, the next attempt does not wait for it.
            current.renew_at = now + self.lease / RENEWALS;
            actions.push(ClusterAction::Renew { member: by, sent_at: now });
        }
        if current.list_at.is_some_and(|at| at <= now) {
            current.list_at = None;
            actions.push(ClusterAction::List { by });
        }
        actions.extend(self.servers.values_mut().filter_map(|server| server.wake(now, by)));
    }

    /// The lease is lost: whatever began under it ends, and this gateway becomes another member.
    fn lose(&mut self, now: ClockTime, actions: &mut Vec<ClusterAction>) {
        let Phase::Current(current) = &self.phase else { return };
        actions.push(ClusterAction::EndCalls(current.member));
        actions.push(ClusterAction::EndServers);
        self.phase = Phase::Outside(now);
        self.servers.values_mut().for_each(|server| server.forget(now));
    }

    fn leave(&mut self, mut actions: Vec<ClusterAction>) -> Vec<ClusterAction> {
        if let Phase::Current(current) = &self.phase {
            let member = current.member;
            actions.extend([ClusterAction::EndCalls(member), ClusterAction::EndServers, ClusterAction::Leave(member)]);
        }
        self.phase = Phase::Left;
        actions
    }

    fn registered(&mut self, now: ClockTime, result: &Result<Member, LeaseError>) {
        let Phase::Registering(sent_at) = self.phase else { return };
        let valid_until = sent_at + self.lease;
        self.phase = match result {
            Ok(member) if now < valid_until => Phase::Current(CurrentMember {
                member: *member,
                valid_until,
                renew_at: sent_at + self.lease / RENEWALS,
                list_at: Some(now),
                taking: BTreeSet::new(),
            }),
            // It came too late to be used: it expires, or is taken over by the next registration.
            Ok(_) => Phase::Outside(now),
            Err(_) => Phase::Outside(now + self.lease / ATTEMPTS),
        };
    }

    fn renewed(
        &mut self,
        now: ClockTime,
        sent_at: ClockTime,
        result: &Result<(), LeaseError>,
        actions: &mut Vec<ClusterAction>,
    ) {
        let Phase::Current(current) = &mut self.phase else { return };
        match result {
            Ok(()) => {
                // Answers may overtake one another.
                current.valid_until = current.valid_until.max(sent_at + self.lease);
                let until = current.valid_until;
                actions.extend(self.servers.values().filter_map(|server| server.allow(until)));
            }
            Err(LeaseError::Fenced(_)) => self.lose(now, actions),
            Err(LeaseError::Store(_)) => current.renew_at = current.renew_at.min(now + self.lease / ATTEMPTS),
        }
    }

    fn listed(
        &mut self,
        now: ClockTime,
        result: Result<Vec<ClusterMember>, LeaseError>,
        actions: &mut Vec<ClusterAction>,
    ) {
        let Phase::Current(current) = &mut self.phase else { return };
        let by = current.member;
        let Ok(listed) = result else {
            current.list_at = Some(now + self.lease / ATTEMPTS);
            return;
        };
        let mut next = self.lease / RENEWALS;
        for row in listed.iter().filter(|row| row.member != by) {
            // An earlier registration of this process has ended, whatever the clock of the store says.
            let is_own = row.member.gateway == by.gateway;
            match row.state {
                MemberState::Live { expires_in } if !is_own => next = next.min(expires_in + AFTER_EXPIRY),
                MemberState::Live { .. } | MemberState::Expired => {
                    if current.taking.insert(row.member.generation) {
                        actions.push(ClusterAction::TakeOver { by, from: row.member });
                    }
                }
            }
        }
        current.list_at = Some(now + next);
    }

    fn took_over(
        &mut self,
        now: ClockTime,
        from: MemberGeneration,
        result: Result<TakeOver, LeaseError>,
        actions: &mut Vec<ClusterAction>,
    ) {
        let Phase::Current(current) = &mut self.phase else { return };
        current.taking.remove(&from);
        match result {
            Ok(TakeOver::Done(taken)) if !taken.tasks.is_empty() => {
                actions.push(ClusterAction::AdoptTasks(taken.tasks))
            }
            // A takeover that failed is tried again with the next list.
            Ok(_) | Err(LeaseError::Store(_)) => {}
            Err(LeaseError::Fenced(_)) => self.lose(now, actions),
        }
    }

    fn claimed(
        &mut self,
        now: ClockTime,
        name: &ServerName,
        result: Result<LeaseClaim, LeaseError>,
        actions: &mut Vec<ClusterAction>,
    ) {
        let Phase::Current(current) = &self.phase else { return };
        let until = current.valid_until;
        let Some(server) = self.servers.get_mut(name) else { return };
        match result {
            Ok(claim) => {
                server.answered(now, claim, self.lease / RENEWALS);
                actions.extend(server.allow(until));
            }
            Err(LeaseError::Store(_)) => server.unanswered(now, self.lease / ATTEMPTS),
            Err(LeaseError::Fenced(_)) => self.lose(now, actions),
        }
    }
}
