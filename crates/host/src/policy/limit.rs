//! How many calls run side by side, in all, to one server and of one client; turns a grant into a permit.
//!
//! A client has only so many calls on the way at once, whether they run or wait: one more is refused at once, so that it
//! fills no line that others stand in. Of one server's slots it has a share; beyond that its calls wait for each other.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    decision::{Grant, Refusal, RuleId, Subject},
    tally::{Place, Tally},
};
use crate::call::Caller;

/// A grant with a free slot; dropping it frees the slot.
///
/// Nothing reaches a server without one, and there is no other way to get one than through a decision:
///
/// ```compile_fail
/// # use toolway_host::{connection::Connection, policy::Permit};
/// fn around_the_policy(connection: &Connection, request: toolway_wire::exchange::Request) {
///     connection.send(request); // no permit
/// }
/// ```
///
/// ```compile_fail
/// # use toolway_host::policy::{Grant, Permit};
/// fn twice(permit: Permit) -> (Permit, Permit) {
///     (permit.clone(), permit) // a yes is for one call
/// }
/// ```
///
/// With one, it does compile:
///
/// ```
/// # use toolway_host::{connection::Connection, policy::Permit};
/// async fn with_a_permit(connection: &Connection, permit: Permit, request: toolway_wire::exchange::Request) {
///     let sent = connection.send(permit, request).await;
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Permit {
    grant: Grant,
    held: Held,
}

/// What a permit holds; it comes back when this is gone.
#[derive(Debug)]
enum Held {
    Slots { _of_server: ServerSlot, _of_all: OwnedSemaphorePermit, _entry: Entry },
    Parked { _place: Place },
}

/// A slot at a server, and one of what its client has of them.
#[derive(Debug)]
struct ServerSlot {
    _slot: OwnedSemaphorePermit,
    _of_share: Option<OwnedSemaphorePermit>,
}

/// A call that was let onto the way, where its caller's are counted; dropping it leaves the way.
#[must_use]
#[derive(Debug)]
pub(crate) struct Entry(Option<Place>);

/// How many calls may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// In all.
    pub in_all: usize,
    /// To one server; one client has at most three quarters of them.
    pub per_server: usize,
    /// Of one client, under way or waiting; one more is refused at once.
    pub per_client: usize,
    /// Calls that may wait for a slot; one more is refused at once.
    pub waiting: usize,
    /// How long a call waits for a slot before it is refused.
    pub patience: Duration,
    /// Calls of one caller that may wait for an answer to what their server asked; they take none of the slots.
    pub parked: usize,
}

/// The slots there are. Cloning is cheap; every clone hands out the same slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    limits: CallLimits,
    in_all: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// Calls on the way, by client.
    entered: Tally,
    /// Calls that wait for an answer, by caller.
    parked: Tally,
}

/// The slots of one server.
#[derive(Debug)]
pub(crate) struct ServerSlots {
    all: Arc<Semaphore>,
    /// How many of them one client has at most.
    share: usize,
    /// What each client has of them. Nothing awaits under this lock.
    shares: Mutex<HashMap<Caller, Arc<Semaphore>>>,
}

/// Calls of one client that are under way or wait, unless the operator says otherwise: more than a client with many agents
/// has at once, and few enough that it takes many clients to fill every line.
pub const CALLS_PER_CLIENT: usize = 256;
/// Clients whose shares of a server are kept while they have nothing under way there.
const IDLE_SHARES: usize = 64;

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            in_all: 1_024,
            per_server: 128,
            per_client: CALLS_PER_CLIENT,
            waiting: 4_096,
            patience: Duration::from_secs(60),
            parked: 100,
        }
    }
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new(limits: CallLimits) -> Self {
        let limits = CallLimits { per_client: limits.per_client.max(1), ..limits };
        let (entered, parked) = (Tally::new(limits.per_client), Tally::new(limits.parked));
        Self { limits, in_all: Arc::new(slots(limits.in_all)), waiting: Arc::default(), entered, parked }
    }

    /// Lets a call onto the way; refused at once where its client has as many there as it may. Whoever is no client of
    /// ours is not counted: that is the user, or the program that we are part of.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<Entry, Refusal> {
        if !matches!(caller, Caller::Client(_)) {
            return Ok(Entry(None));
        }
        let place = self.entered.take(caller).ok_or(Refusal::TooMany { limit: self.limits.per_client })?;
        Ok(Entry(Some(place)))
    }

    /// How many calls of one client are let onto the way.
    pub(crate) fn per_client(&self) -> usize {
        self.limits.per_client
    }

    /// How long a call waits for its turn.
    pub(crate) fn patience(&self) -> Duration {
        self.limits.patience
    }

    fn park(&self, caller: &Caller) -> Result<Place, Refusal> {
        let whose = "of this caller that wait for an answer";
        let full = Refusal::Busy { limit: self.limits.parked, whose, waited: Duration::ZERO };
        self.parked.take(caller).ok_or(full)
    }

    /// Calls that have a slot at this moment.
    pub(crate) fn taken(&self) -> usize {
        self.limits.in_all.clamp(1, Semaphore::MAX_PERMITS).saturating_sub(self.in_all.available_permits())
    }

    /// The slots of one more server.
    pub(crate) fn of_server(&self) -> Arc<ServerSlots> {
        let per_server = self.limits.per_server.max(1);
        let share = per_server - per_server / 4;
        Arc::new(ServerSlots { all: Arc::new(slots(per_server)), share, shares: Mutex::default() })
    }

    /// Waits for a slot at the server, then for one of all: whoever waits for a busy server keeps no other waiting.
    pub(crate) async fn admit(&self, grant: Grant, server: &ServerSlots, entry: Entry) -> Result<Permit, Refusal> {
        let of_server = self.server_slot(server, &entry).await?;
        let of_all = self.slot(&self.in_all, self.limits.in_all, "in all").await?;
        Ok(Permit { grant, held: Held::Slots { _of_server: of_server, _of_all: of_all, _entry: entry } })
    }

    /// First one of its client's share: whoever has a whole share under way waits in no line with others.
    async fn server_slot(&self, server: &ServerSlots, entry: &Entry) -> Result<ServerSlot, Refusal> {
        let of_share = match &entry.0 {
            Some(place) => {
                let share = server.share_of(place.caller());
                Some(self.slot(&share, server.share, "of this client to this server").await?)
            }
            None => None,
        };
        let slot = self.slot(&server.all, self.limits.per_server, "to this server").await?;
        Ok(ServerSlot { _slot: slot, _of_share: of_share })
    }

    async fn slot(
        &self,
        slots: &Arc<Semaphore>,
        limit: usize,
        whose: &'static str,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            return Ok(slot);
        }
        let began = Instant::now();
        let _line = InLine::join(&self.waiting, self.limits.waiting).ok_or(Refusal::Busy {
            limit,
            whose,
            waited: Duration::ZERO,
        })?;
        match tokio::time::timeout(self.limits.patience, Arc::clone(slots).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            // Nobody closes these; if somebody did, there would be no slot.
            Ok(Err(_)) | Err(_) => Err(Refusal::Busy { limit, whose, waited: began.elapsed() }),
        }
    }
}

fn slots(number: usize) -> Semaphore {
    Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS))
}

/// A place in the line; dropping it leaves the line.
struct InLine<'a>(&'a AtomicUsize);

impl<'a> InLine<'a> {
    fn join(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl ServerSlots ===

impl ServerSlots {
    /// What a client has of them.
    fn share_of(&self, caller: &Caller) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(caller) {
            return Arc::clone(share);
        }
        if IDLE_SHARES <= shares.len() {
            // One that is only held here has nothing under way, and nobody waits for it.
            shares.retain(|_, share| 1 < Arc::strong_count(share));
        }
        let share = Arc::new(slots(self.share));
        shares.insert(caller.clone(), Arc::clone(&share));
        share
    }
}

// === impl Permit ===

impl Permit {
    /// What is permitted.
    pub fn subject(&self) -> &Subject {
        self.grant.subject()
    }

    /// By which rule.
    pub fn rule(&self) -> RuleId {
        self.grant.rule()
    }

    /// Its server has asked something: its slots are free from here to its end, within a bound of their own.
    pub(crate) fn park(&mut self, slots: &Slots, caller: &Caller) -> Result<(), Refusal> {
        if matches!(self.held, Held::Slots { .. }) {
            self.held = Held::Parked { _place: slots.park(caller)? };
        }
        Ok(())
    }

    /// Frees the slot and keeps the yes, for another try of the same call.
    pub(crate) fn into_grant(self) -> Grant {
        self.grant
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CallLimits, Caller, Entry, Grant, IDLE_SHARES, Refusal, RuleId, Slots, Subject};
    use crate::call::CallKind;

    fn grant() -> Grant {
        let subject = Subject { server: "files".parse().unwrap(), kind: CallKind::Tool, raw_name: "read".to_owned() };
        Grant::new(subject, RuleId::CONFIGURED)
    }

    fn limits(in_all: usize, per_server: usize) -> CallLimits {
        CallLimits { in_all, per_server, per_client: 8, waiting: 1, patience: Duration::from_secs(5), parked: 1 }
    }

    fn program(slots: &Slots) -> Entry {
        slots.enter(&Caller::Program).unwrap()
    }

    fn client(name: &str) -> Caller {
        Caller::Client(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_parked_takes_no_slot_and_there_are_only_so_many() {
        let slots = Slots::new(limits(1, 1));
        let files = slots.of_server();
        let (ada, ben) = (Caller::Client("ada".into()), Caller::Client("ben".into()));
        let mut first = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        first.park(&slots, &ada).unwrap();
        first.park(&slots, &ada).unwrap();
        let mut second = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        let refused = second.park(&slots, &ada).unwrap_err();
        let said = refused.to_string();
        assert_eq!(said, "no free slot within 0ns: 1 calls of this caller that wait for an answer are under way");
        second.park(&slots, &ben).unwrap();
        drop(first);
        let mut third = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        third.park(&slots, &ada).unwrap();
        drop((second, third));
        assert!(slots.parked.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_comes_back_with_its_permit() {
        let slots = Slots::new(limits(10, 1));
        let files = slots.of_server();
        let first = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        let refused = slots.admit(grant(), &files, program(&slots)).await.unwrap_err();
        assert_eq!(refused, Refusal::Busy { limit: 1, whose: "to this server", waited: Duration::from_secs(5) });
        let (second, ()) = tokio::join!(slots.admit(grant(), &files, program(&slots)), async { drop(first) });
        assert!(second.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_takes_no_slot_of_the_others() {
        let slots = Slots::new(limits(2, 1));
        let (busy, idle) = (slots.of_server(), slots.of_server());
        let _held = slots.admit(grant(), &busy, program(&slots)).await.unwrap();
        let waiting = slots.admit(grant(), &busy, program(&slots));
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(slots.admit(grant(), &idle, program(&slots)).await.is_ok());
        // The line is as long as it may be.
        let refused = slots.admit(grant(), &busy, program(&slots)).await.unwrap_err();
        assert_eq!(refused.code(), "busy");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_so_many_calls_on_the_way_and_the_next_is_refused_at_once() {
        let slots = Slots::new(limits(100, 100));
        let (ada, files) = (client("ada"), slots.of_server());
        let mut held = Vec::new();
        for _ in 0..8 {
            let entry = slots.enter(&ada).unwrap();
            held.push(slots.admit(grant(), &files, entry).await.unwrap());
        }
        let refused = slots.enter(&ada).unwrap_err();
        assert_eq!(refused, Refusal::TooMany { limit: 8 });
        assert_eq!(refused.code(), "too_many_calls");
        assert!(slots.enter(&client("ben")).is_ok() && slots.enter(&Caller::Program).is_ok());
        // One that waits for an answer is counted elsewhere.
        held[0].park(&slots, &ada).unwrap();
        assert!(slots.enter(&ada).is_ok());
        held.clear();
        assert!(slots.entered.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_its_whole_share_of_a_server_stands_in_nobodys_way() {
        let slots = Slots::new(CallLimits { waiting: 4, ..limits(100, 4) });
        let (ada, ben, files) = (client("ada"), client("ben"), slots.of_server());
        let admitted = |caller: &Caller| {
            let entry = slots.enter(caller).unwrap();
            slots.admit(grant(), &files, entry)
        };
        let first = admitted(&ada).await.unwrap();
        let _held = [admitted(&ada).await.unwrap(), admitted(&ada).await.unwrap()];
        // The fourth waits, though the server has a slot left: that is for others.
        let fourth = admitted(&ada);
        tokio::pin!(fourth);
        assert!(futures_util::poll!(&mut fourth).is_pending());
        let bens = admitted(&ben).await.unwrap();
        // Ben waits for the server, ahead of Ada: she waits for herself.
        let waiting = admitted(&ben);
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut fourth).is_pending());
        assert!(waiting.await.is_ok());
        drop(bens);
        assert!(fourth.await.is_ok());
    }

    #[tokio::test]
    async fn shares_of_clients_that_are_gone_are_forgotten() {
        let slots = Slots::new(limits(100, 4));
        let files = slots.of_server();
        let entry = slots.enter(&client("ada")).unwrap();
        let held = slots.admit(grant(), &files, entry).await.unwrap();
        for number in 0..IDLE_SHARES * 3 {
            let entry = slots.enter(&client(&number.to_string())).unwrap();
            drop(slots.admit(grant(), &files, entry).await.unwrap());
        }
        let shares = files.shares.lock();
        assert!(shares.len() <= IDLE_SHARES && shares.contains_key(&client("ada")), "{}", shares.len());
        drop((shares, held));
    }
}
