//! What must never happen, kept apart from the store and the members that are tested.

use std::collections::{BTreeMap, BTreeSet};

use toolway_host::{
    cluster::{LeaseClaim, LeaseError, Member, TakeOver, TakenOver},
    record::Delivery,
};
use toolway_testkit::simulated_store::SimulatedStore;
use uuid::Uuid;

use super::{
    keeper::Process,
    world::{LEASE, Seen},
};

#[derive(Default)]
pub(super) struct Invariants {
    /// When leases expire by the clock of the store.
    expires: BTreeMap<Member, i64>,
    ended: BTreeSet<Member>,
    /// Processes that run, by a number.
    pub(super) processes: BTreeMap<u64, Process>,
    started: u64,
    /// How often the server has acted on a call: what a witness has written.
    acted: BTreeMap<Uuid, u32>,
    told: BTreeMap<Uuid, Delivery>,
}

impl Invariants {
    /// Only a member whose lease is valid writes.
    pub(super) fn write_has_succeeded(&self, by: Member, clock: i64) {
        let expires = self.expires.get(&by);
        assert!(expires.is_some_and(|expires| clock < *expires), "a write of {by} succeeded after its lease");
        assert!(!self.ended.contains(&by), "a write of {by} succeeded after its takeover");
    }

    pub(super) fn registered(&mut self, result: &Result<Member, LeaseError>, clock: i64) {
        let Ok(member) = result else { return };
        assert!(self.expires.keys().all(|other| other.generation < member.generation), "{member} is not the newest");
        self.expires.insert(*member, clock + lease());
    }

    pub(super) fn renewed(&mut self, member: Member, result: &Result<(), LeaseError>, clock: i64) {
        if result.is_ok() {
            self.write_has_succeeded(member, clock);
            self.expires.insert(member, clock + lease());
        }
    }

    pub(super) fn asked(&self, by: Member, result: &Result<LeaseClaim, LeaseError>, clock: i64) {
        if result.is_ok() {
            self.write_has_succeeded(by, clock);
        }
    }

    /// A takeover happens once, and to a member that has expired or to an earlier registration of the same process.
    pub(super) fn took_over(&mut self, by: Member, from: Member, result: &Result<TakeOver, LeaseError>, clock: i64) {
        if let Ok(TakeOver::Done(_)) = result {
            self.write_has_succeeded(by, clock);
            let has_expired = self.expires.get(&from).is_some_and(|expires| *expires <= clock);
            assert!(has_expired || from.gateway == by.gateway, "{from} was taken over while its lease was valid");
            assert!(self.ended.insert(from), "{from} was taken over twice");
        }
    }

    pub(super) fn left(&mut self, member: Member, result: &Result<TakenOver, LeaseError>, clock: i64) {
        if result.is_ok() {
            self.write_has_succeeded(member, clock);
            assert!(self.ended.insert(member), "{member} has left twice");
        }
    }

    /// No server of the cluster has two processes at any moment.
    pub(super) fn process_has_started(&mut self, process: Process) -> u64 {
        let other = self.processes.values().find(|other| other.server == process.server);
        assert!(other.is_none(), "{process:?} starts beside {other:?}");
        self.started += 1;
        self.processes.insert(self.started, process);
        self.started
    }

    pub(super) fn processes_of(&self, server: &str) -> usize {
        self.processes.values().filter(|process| process.server == server).count()
    }

    pub(super) fn server_has_acted(&mut self, call: Uuid) {
        *self.acted.entry(call).or_default() += 1;
    }

    pub(super) fn client_was_told(&mut self, call: Uuid, outcome: Delivery) {
        assert_eq!(self.told.insert(call, outcome), None, "a client was told twice about a call");
    }

    /// Client, record and witness agree about each call.
    pub(super) fn check_calls(&self, store: &SimulatedStore) {
        for (call, outcome) in &self.told {
            let recorded = store.recorded_outcome(*call);
            let acted = self.acted.get(call).copied().unwrap_or_default();
            match outcome {
                Delivery::Answered => assert_eq!(recorded, Some(Delivery::Answered), "{call}: told and not recorded"),
                Delivery::NotSent => assert_eq!(acted, 0, "{call}: told as not sent"),
                Delivery::Unknown => assert_ne!(recorded, Some(Delivery::NotSent), "{call}: told as unknown"),
            }
        }
        for (call, acted) in &self.acted {
            assert_eq!(*acted, 1, "{call}: the server has acted more than once");
            assert_ne!(store.recorded_outcome(*call), Some(Delivery::NotSent), "{call}: recorded as not sent");
            assert_ne!(store.recorded_outcome(*call), None, "{call}: sent without a record");
        }
    }

    pub(super) fn count(&self, store: &SimulatedStore, seen: &mut Seen) {
        for outcome in self.told.values() {
            match outcome {
                Delivery::Answered => seen.answered += 1,
                Delivery::Unknown => seen.unknown += 1,
                Delivery::NotSent => seen.not_sent += 1,
            }
        }
        seen.takeovers += store.takeovers().len() as u64;
        seen.servers_started += self.started;
    }
}

fn lease() -> i64 {
    i64::try_from(LEASE.as_micros()).unwrap()
}
