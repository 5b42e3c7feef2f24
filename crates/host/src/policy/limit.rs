//! How many calls run side by side, in all and to one server; turns a grant into a permit.

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

use super::decision::{Grant, Refusal, RuleId, Subject};
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
    Slots { _of_server: OwnedSemaphorePermit, _of_all: OwnedSemaphorePermit },
    Parked { _place: ParkedPlace },
}

/// A place among the calls of one caller that wait for an answer.
#[derive(Debug)]
struct ParkedPlace {
    caller: Caller,
    parked: Arc<Mutex<HashMap<Caller, usize>>>,
}

/// How many calls may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// In all.
    pub in_all: usize,
    /// To one server.
    pub per_server: usize,
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
    /// Calls that wait for an answer, by caller. Nothing awaits under this lock.
    parked: Arc<Mutex<HashMap<Caller, usize>>>,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { in_all: 1_024, per_server: 128, waiting: 4_096, patience: Duration::from_secs(60), parked: 100 }
    }
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new(limits: CallLimits) -> Self {
        Self { limits, in_all: Arc::new(slots(limits.in_all)), waiting: Arc::default(), parked: Arc::default() }
    }

    /// How long a call waits for its turn.
    pub(crate) fn patience(&self) -> Duration {
        self.limits.patience
    }

    fn park(&self, caller: &Caller) -> Result<ParkedPlace, Refusal> {
        let mut parked = self.parked.lock();
        let of_caller = parked.entry(caller.clone()).or_default();
        if self.limits.parked <= *of_caller {
            let whose = "of this caller that wait for an answer";
            return Err(Refusal::Busy { limit: self.limits.parked, whose, waited: Duration::ZERO });
        }
        *of_caller += 1;
        Ok(ParkedPlace { caller: caller.clone(), parked: Arc::clone(&self.parked) })
    }

    /// Calls that have a slot at this moment.
    pub(crate) fn taken(&self) -> usize {
        self.limits.in_all.clamp(1, Semaphore::MAX_PERMITS).saturating_sub(self.in_all.available_permits())
    }

    /// The slots of one more server.
    pub(crate) fn of_server(&self) -> Arc<Semaphore> {
        Arc::new(slots(self.limits.per_server))
    }

    /// Waits for a slot at the server, then for one of all: whoever waits for a busy server keeps no other waiting.
    pub(crate) async fn admit(&self, grant: Grant, server: &Arc<Semaphore>) -> Result<Permit, Refusal> {
        let of_server = self.slot(server, self.limits.per_server, "to this server").await?;
        let of_all = self.slot(&self.in_all, self.limits.in_all, "in all").await?;
        Ok(Permit { grant, held: Held::Slots { _of_server: of_server, _of_all: of_all } })
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

impl Drop for ParkedPlace {
    fn drop(&mut self) {
        let mut parked = self.parked.lock();
        if let Some(left) = parked.get_mut(&self.caller) {
            *left -= 1;
            if *left == 0 {
                parked.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CallLimits, Caller, Grant, Refusal, RuleId, Slots, Subject};
    use crate::call::CallKind;

    fn grant() -> Grant {
        let subject = Subject { server: "files".parse().unwrap(), kind: CallKind::Tool, raw_name: "read".to_owned() };
        Grant::new(subject, RuleId::CONFIGURED)
    }

    fn limits(in_all: usize, per_server: usize) -> CallLimits {
        CallLimits { in_all, per_server, waiting: 1, patience: Duration::from_secs(5), parked: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_parked_takes_no_slot_and_there_are_only_so_many() {
        let slots = Slots::new(limits(1, 1));
        let files = slots.of_server();
        let (ada, ben) = (Caller::Client("ada".into()), Caller::Client("ben".into()));
        let mut first = slots.admit(grant(), &files).await.unwrap();
        first.park(&slots, &ada).unwrap();
        first.park(&slots, &ada).unwrap();
        let mut second = slots.admit(grant(), &files).await.unwrap();
        let refused = second.park(&slots, &ada).unwrap_err();
        let said = refused.to_string();
        assert_eq!(said, "no free slot within 0ns: 1 calls of this caller that wait for an answer are under way");
        second.park(&slots, &ben).unwrap();
        drop(first);
        let mut third = slots.admit(grant(), &files).await.unwrap();
        third.park(&slots, &ada).unwrap();
        drop((second, third));
        assert!(slots.parked.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_comes_back_with_its_permit() {
        let slots = Slots::new(limits(10, 1));
        let files = slots.of_server();
        let first = slots.admit(grant(), &files).await.unwrap();
        let refused = slots.admit(grant(), &files).await.unwrap_err();
        assert_eq!(refused, Refusal::Busy { limit: 1, whose: "to this server", waited: Duration::from_secs(5) });
        let (second, ()) = tokio::join!(slots.admit(grant(), &files), async { drop(first) });
        assert!(second.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_takes_no_slot_of_the_others() {
        let slots = Slots::new(limits(2, 1));
        let (busy, idle) = (slots.of_server(), slots.of_server());
        let _held = slots.admit(grant(), &busy).await.unwrap();
        let waiting = slots.admit(grant(), &busy);
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(slots.admit(grant(), &idle).await.is_ok());
        // The line is as long as it may be.
        let refused = slots.admit(grant(), &busy).await.unwrap_err();
        assert_eq!(refused.code(), "busy");
    }
}
