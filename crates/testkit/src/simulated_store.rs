//! The store of a simulated cluster: leases, calls and tasks in memory, under a clock that the test moves as it likes.
//!
//! Every method is one transaction under one lock. It passes the same stories as a real store
//! ([`lease_stories`](crate::lease_stories)); the simulation in `gateway` drives it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_host::{
    cluster::{
        ClusterMember, GatewayId, LeaseClaim, LeaseError, LeaseHolder, LeaseKey, LeaseReply, LeaseStore, Member,
        MemberGeneration, MemberState, PeerAddress, TakeOver, TakenOver,
    },
    record::Delivery,
    time::{Micros, duration},
};
use uuid::Uuid;

use crate::lease_stories::{CallWrite, LeaseFixture};

/// A store in memory.
#[derive(Debug, Default)]
pub struct SimulatedStore {
    // Nothing awaits under this lock: it is the transaction.
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    now: Micros,
    registrations: u64,
    members: BTreeMap<MemberGeneration, MemberRow>,
    leases: BTreeMap<LeaseKey, Member>,
    /// Client sessions that have ended. Others live.
    ended_sessions: BTreeSet<Uuid>,
    calls: BTreeMap<Uuid, Call>,
    takeovers: Vec<Member>,
}

#[derive(Debug)]
struct MemberRow {
    member: Member,
    address: PeerAddress,
    lease: Duration,
    expires: Micros,
    /// It has left, or was taken over.
    has_ended: bool,
}

#[derive(Debug)]
struct Call {
    /// Whose writes it takes. `None` for a task that its member left behind.
    by: Option<Member>,
    is_sent: bool,
    is_task: bool,
    outcome: Option<Delivery>,
}

impl SimulatedStore {
    /// Its clock, in microseconds.
    pub fn now(&self) -> Micros {
        self.tables.lock().now
    }

    /// Sets its clock, also to an earlier time.
    pub fn set_clock(&self, now: Micros) {
        self.tables.lock().now = now;
    }

    /// Members that were taken over or have left, in this order.
    pub fn takeovers(&self) -> Vec<Member> {
        self.tables.lock().takeovers.clone()
    }

    /// Calls without an end.
    pub fn open_calls(&self) -> Vec<Uuid> {
        self.tables.lock().calls.iter().filter(|(_, call)| call.outcome.is_none()).map(|(id, _)| *id).collect()
    }

    /// How a call ended; `None` if it is open or unknown.
    pub fn recorded_outcome(&self, call: Uuid) -> Option<Delivery> {
        self.tables.lock().calls.get(&call)?.outcome
    }

    /// [`LeaseFixture::begin`] at once.
    pub fn begin_call(&self, by: Member, call: Uuid) -> Result<CallWrite, LeaseError> {
        self.tables.lock().begin(by, call, false)
    }

    /// [`LeaseFixture::mark_sent`] at once.
    pub fn mark_call_sent(&self, by: Member, call: Uuid) -> Result<CallWrite, LeaseError> {
        self.tables.lock().mark_sent(by, call)
    }

    /// [`LeaseFixture::end`] at once.
    pub fn end_call(&self, by: Member, call: Uuid, outcome: Delivery) -> Result<CallWrite, LeaseError> {
        self.tables.lock().end(by, call, outcome)
    }

    fn reply<'a, T: Send + 'a>(
        &self,
        transaction: impl FnOnce(&mut Tables) -> Result<T, LeaseError>,
    ) -> LeaseReply<'a, T> {
        let result = transaction(&mut self.tables.lock());
        Box::pin(std::future::ready(result))
    }
}

impl LeaseStore for SimulatedStore {
    fn register(&self, gateway: GatewayId, address: PeerAddress, lease: Duration) -> LeaseReply<'_, Member> {
        self.reply(|tables| Ok(tables.register(gateway, address, lease)))
    }

    fn renew(&self, member: Member) -> LeaseReply<'_, ()> {
        self.reply(|tables| {
            let now = tables.now;
            let row = tables.live(member)?;
            row.expires = now + duration(row.lease);
            Ok(())
        })
    }

    fn check(&self, member: Member) -> LeaseReply<'_, ()> {
        self.reply(|tables| tables.live(member).map(drop))
    }

    fn leave(&self, member: Member) -> LeaseReply<'_, TakenOver> {
        self.reply(|tables| {
            tables.live(member)?;
            tables.leases.retain(|_, holder| *holder != member);
            Ok(tables.settle(member, None))
        })
    }

    fn members(&self) -> LeaseReply<'_, Vec<ClusterMember>> {
        self.reply(|tables| Ok(tables.members()))
    }

    fn take_over(&self, by: Member, from: Member) -> LeaseReply<'_, TakeOver> {
        self.reply(|tables| tables.take_over(by, from))
    }

    fn claim(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, LeaseClaim> {
        self.reply(|tables| {
            tables.live(by)?;
            if !tables.has_ended(&key) {
                tables.leases.entry(key.clone()).or_insert(by);
            }
            Ok(tables.holder(by, &key))
        })
    }

    fn take_server(&self, by: Member, key: LeaseKey, from: Member) -> LeaseReply<'_, LeaseClaim> {
        self.reply(|tables| {
            tables.live(by)?;
            let has_ended = tables.members.get(&from.generation).is_none_or(|row| row.has_ended);
            let may_replace = has_ended || matches!(key, LeaseKey::Session { .. });
            let holder = tables.leases.get(&key);
            let is_free = holder.is_none() && !tables.has_ended(&key);
            // It is free if the member that took it from this holder has left since.
            if is_free || (may_replace && holder == Some(&from)) {
                tables.leases.insert(key.clone(), by);
            }
            Ok(tables.holder(by, &key))
        })
    }

    fn release(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, ()> {
        self.reply(|tables| {
            tables.live(by)?;
            let may_release = matches!(key, LeaseKey::Cluster(_)) || tables.has_ended(&key);
            if may_release && tables.leases.get(&key) == Some(&by) {
                tables.leases.remove(&key);
            }
            Ok(())
        })
    }
}

// === impl Tables ===

impl Tables {
    /// The row of a member whose lease is valid.
    fn live(&mut self, member: Member) -> Result<&mut MemberRow, LeaseError> {
        let now = self.now;
        let row = self.members.get_mut(&member.generation).filter(|row| row.member == member);
        row.filter(|row| !row.has_ended && now < row.expires).ok_or(LeaseError::Fenced(member))
    }

    fn register(&mut self, gateway: GatewayId, address: PeerAddress, lease: Duration) -> Member {
        self.registrations += 1;
        let member = Member { gateway, generation: MemberGeneration(self.registrations) };
        let expires = self.now + duration(lease);
        self.members.insert(member.generation, MemberRow { member, address, lease, expires, has_ended: false });
        member
    }

    fn members(&self) -> Vec<ClusterMember> {
        let rows = self.members.values().filter(|row| !row.has_ended);
        let state = |row: &MemberRow| match u64::try_from(row.expires - self.now).ok().filter(|left| 0 < *left) {
            Some(left) => MemberState::Live { expires_in: Duration::from_micros(left) },
            None => MemberState::Expired,
        };
        rows.map(|row| ClusterMember {
            member: row.member,
            address: row.address.clone(),
            lease: row.lease,
            state: state(row),
        })
        .collect()
    }

    fn take_over(&mut self, by: Member, from: Member) -> Result<TakeOver, LeaseError> {
        self.live(by)?;
        let is_own = from.gateway == by.gateway && from != by;
        let now = self.now;
        match self.members.get(&from.generation).filter(|row| row.member == from) {
            None => Ok(TakeOver::Before),
            Some(row) if row.has_ended => Ok(TakeOver::Before),
            Some(row) if now < row.expires && !is_own => Ok(TakeOver::StillLive),
            Some(_) => {
                self.leases.retain(|key, holder| *holder != from || matches!(key, LeaseKey::Cluster(_)));
                Ok(TakeOver::Done(self.settle(from, is_own.then_some(by))))
            }
        }
    }

    /// Ends a member and its calls, and frees its tasks or gives them to its next registration.
    fn settle(&mut self, from: Member, by: Option<Member>) -> TakenOver {
        if let Some(row) = self.members.get_mut(&from.generation) {
            row.has_ended = true;
        }
        self.takeovers.push(from);
        let mut taken = TakenOver::default();
        for (id, call) in self.calls.iter_mut().filter(|(_, call)| call.by == Some(from) && call.outcome.is_none()) {
            match *call {
                Call { is_task: true, .. } => {
                    call.by = by;
                    taken.tasks.push(*id);
                }
                Call { is_sent: true, .. } => {
                    call.outcome = Some(Delivery::Unknown);
                    taken.unknown += 1;
                }
                Call { .. } => {
                    call.outcome = Some(Delivery::NotSent);
                    taken.not_sent += 1;
                }
            }
        }
        taken
    }

    /// Whether a key is of a client session that has ended: no lease is kept for it.
    fn has_ended(&self, key: &LeaseKey) -> bool {
        matches!(key, LeaseKey::Session { session } if self.ended_sessions.contains(session))
    }

    fn holder(&self, by: Member, key: &LeaseKey) -> LeaseClaim {
        let Some(member) = self.leases.get(key).copied().filter(|holder| *holder != by) else {
            return LeaseClaim::Granted;
        };
        let Some(row) = self.members.get(&member.generation) else {
            return LeaseClaim::Held(LeaseHolder::Ended { member, lease: Duration::ZERO });
        };
        LeaseClaim::Held(match row.has_ended {
            true => LeaseHolder::Ended { member, lease: row.lease },
            false => LeaseHolder::Current { member, address: row.address.clone() },
        })
    }

    fn begin(&mut self, by: Member, call: Uuid, is_task: bool) -> Result<CallWrite, LeaseError> {
        self.live(by)?;
        if self.calls.contains_key(&call) {
            return Ok(CallWrite::Without);
        }
        self.calls.insert(call, Call { by: Some(by), is_sent: is_task, is_task, outcome: None });
        Ok(CallWrite::Written)
    }

    fn mark_sent(&mut self, by: Member, call: Uuid) -> Result<CallWrite, LeaseError> {
        self.live(by)?;
        let open = self.calls.get_mut(&call).filter(|call| call.outcome.is_none() && call.by == Some(by));
        let Some(call) = open else { return Ok(CallWrite::Without) };
        call.is_sent = true;
        Ok(CallWrite::Written)
    }

    fn claim_task(&mut self, by: Member, task: Uuid) -> Result<bool, LeaseError> {
        self.live(by)?;
        let Some(row) = self.calls.get_mut(&task).filter(|row| row.is_task && row.outcome.is_none()) else {
            return Ok(false);
        };
        Ok(*row.by.get_or_insert(by) == by)
    }

    fn end(&mut self, by: Member, call: Uuid, outcome: Delivery) -> Result<CallWrite, LeaseError> {
        self.live(by)?;
        // A beginning that was delayed comes after the end then, and changes nothing.
        let row =
            self.calls.entry(call).or_insert(Call { by: Some(by), is_sent: false, is_task: false, outcome: None });
        if row.outcome.is_some() || row.by != Some(by) {
            return Ok(CallWrite::Without);
        }
        row.outcome = Some(outcome);
        Ok(CallWrite::Written)
    }
}

/// As one of the stores of the stories.
impl LeaseFixture for SimulatedStore {
    fn leases(&self) -> &dyn LeaseStore {
        self
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(15)
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.tables.lock().now += duration(time);
        Box::pin(async {})
    }

    fn begin_session(&self, session: Uuid) -> BoxFuture<'_, ()> {
        self.tables.lock().ended_sessions.remove(&session);
        Box::pin(async {})
    }

    fn end_session(&self, session: Uuid) -> BoxFuture<'_, ()> {
        let mut tables = self.tables.lock();
        tables.ended_sessions.insert(session);
        tables.leases.remove(&LeaseKey::Session { session });
        Box::pin(async {})
    }

    fn begin(&self, by: Member, call: Uuid) -> LeaseReply<'_, CallWrite> {
        self.reply(|tables| tables.begin(by, call, false))
    }

    fn begin_task(&self, by: Member, call: Uuid) -> LeaseReply<'_, CallWrite> {
        self.reply(|tables| tables.begin(by, call, true))
    }

    fn claim_task(&self, by: Member, task: Uuid) -> LeaseReply<'_, bool> {
        self.reply(|tables| tables.claim_task(by, task))
    }

    fn mark_sent(&self, by: Member, call: Uuid) -> LeaseReply<'_, CallWrite> {
        self.reply(|tables| tables.mark_sent(by, call))
    }

    fn end(&self, by: Member, call: Uuid, outcome: Delivery) -> LeaseReply<'_, CallWrite> {
        self.reply(|tables| tables.end(by, call, outcome))
    }

    fn outcome(&self, call: Uuid) -> BoxFuture<'_, Option<Delivery>> {
        Box::pin(std::future::ready(self.recorded_outcome(call)))
    }
}
