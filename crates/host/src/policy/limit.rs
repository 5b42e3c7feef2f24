//! Limits on concurrent calls: in total, per server and per client. Turns a grant into a permit.
//!
//! The calls of a client, running or queued, are limited, and one more is refused at once, so that a single client
//! cannot fill the shared queue. A client can use only a share of one server's slots; further calls wait for its own
//! ones. What the configuration limits (`limits` of servers and clients) is in `limit/`.
//!
//! | part | file |
//! |---|---|
//! | the limits, and what calls take of them | `limit/book.rs` |
//! | what a call holds and has taken | `limit/taken.rs` |
//! | calls per minute, calls per day | `limit/rate.rs`, `limit/days.rs` |
//! | a limit that has no room | `limit/reached.rs` |

pub(crate) mod book;
pub mod days;
mod rate;
pub mod reached;
pub(crate) mod taken;

use std::{
    collections::BTreeMap,
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
use toolway_wire::exchange::Request;

use super::{
    caller_counter::{CallerCounter, CountedCall},
    decision::{Grant, Refusal, RuleId, Subject},
};
use crate::call::Caller;
use taken::HeldPlaces;

/// A grant with a call slot. Dropping it frees the slot.
///
/// Every call is sent by `Connection::send_over`, which takes a permit by value. A permit is made of a [`Grant`], which
/// results from a policy decision only. Other crates send a call through the host, which decides first:
///
/// ```
/// # use toolway_host::{Host, call::CallRequest};
/// async fn send(host: &Host, request: CallRequest) {
///     let outcome = host.call(request).await;
/// }
/// ```
///
/// There is no way around the decision:
///
/// ```compile_fail
/// # use toolway_host::policy::{Grant, Permit};
/// fn without_a_slot(grant: Grant) -> Permit {
///     Permit { grant, held: Default::default() } // the fields are private
/// }
/// ```
///
/// ```compile_fail
/// # use toolway_host::policy::Permit;
/// fn twice(permit: Permit) -> (Permit, Permit) {
///     (permit.clone(), permit) // a permit is for one call
/// }
/// ```
///
/// ```compile_fail
/// use toolway_host::connection::Connection; // private
/// ```
///
/// ```compile_fail
/// use toolway_host::connection::dial; // private
/// ```
#[must_use]
#[derive(Debug)]
pub struct Permit {
    grant: Grant,
    held: Held,
    /// Held until the call ends, also while it is parked: its server is still busy with it.
    _places: Option<HeldPlaces>,
}

/// Resources that a permit holds until it is dropped.
#[derive(Debug)]
enum Held {
    Slots { _of_server: ServerSlot, _of_all: OwnedSemaphorePermit, _client_slot: ClientSlot },
    Parked { _place: CountedCall },
}

/// A slot at a server, and one of its client's share.
#[derive(Debug)]
struct ServerSlot {
    _slot: OwnedSemaphorePermit,
    _of_share: Option<OwnedSemaphorePermit>,
}

/// A slot among the calls of one client; `None` for callers without such a limit. Dropping it frees the slot.
#[must_use]
#[derive(Debug)]
pub(crate) struct ClientSlot(Option<CountedCall>);

/// Limits on concurrent calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls in flight in total.
    pub in_all: usize,
    /// Calls in flight to one server. One client can use at most three quarters of them.
    pub per_server: usize,
    /// Calls of one client, running or queued. One more is refused at once.
    pub per_client: usize,
    /// Calls queued for a slot. One more is refused at once.
    pub waiting: usize,
    /// Time after which a queued call is refused.
    pub patience: Duration,
    /// Calls of one caller that wait for the answer to a server request. They hold no slot.
    pub parked: usize,
}

/// All call slots of a host. Cloning is cheap; all clones share the slots.
#[derive(Clone, Debug)]
pub(crate) struct CallSlots {
    limits: CallLimits,
    in_all: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// Calls running or queued, by client.
    entered: CallerCounter,
    /// Calls that wait for the answer to a server request, by caller.
    parked: CallerCounter,
}

/// Call slots of one server.
#[derive(Debug)]
pub(crate) struct ServerSlots {
    all: Arc<Semaphore>,
    /// Maximum number of slots that one client can use.
    share: usize,
    /// Slots available to each client. Nothing awaits under this lock.
    shares: Mutex<BTreeMap<Caller, Arc<Semaphore>>>,
}

/// Default limit on the calls of one client, running or queued: more than a client with many agents needs, and few
/// enough that only many clients together can fill the queue.
pub const CALLS_PER_CLIENT: usize = 256;
/// Number of clients above which the shares of idle clients are removed.
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

// === impl CallSlots ===

impl CallSlots {
    pub(crate) fn new(limits: CallLimits) -> Self {
        let limits = CallLimits { per_client: limits.per_client.max(1), ..limits };
        let (entered, parked) = (CallerCounter::new(limits.per_client), CallerCounter::new(limits.parked));
        Self { limits, in_all: Arc::new(slots(limits.in_all)), waiting: Arc::default(), entered, parked }
    }

    /// Takes a slot among the calls of a client; refuses at once if the client has reached its limit. Other callers
    /// (the terminal, the embedding program) are not limited.
    pub(crate) fn take_client_slot(&self, caller: &Caller) -> Result<ClientSlot, Refusal> {
        if !matches!(caller, Caller::Client(_)) {
            return Ok(ClientSlot(None));
        }
        let place = self.entered.take(caller).ok_or(Refusal::TooMany { limit: self.limits.per_client })?;
        Ok(ClientSlot(Some(place)))
    }

    /// Maximum number of calls of one client.
    pub(crate) fn per_client(&self) -> usize {
        self.limits.per_client
    }

    /// Maximum time that a call waits for a slot.
    pub(crate) fn patience(&self) -> Duration {
        self.limits.patience
    }

    fn park(&self, caller: &Caller) -> Result<CountedCall, Refusal> {
        let whose = "of this caller that wait for the answer to a server request";
        let full = Refusal::Busy { limit: self.limits.parked, whose, waited: Duration::ZERO };
        self.parked.take(caller).ok_or(full)
    }

    /// Number of calls that hold a slot at this moment.
    pub(crate) fn taken(&self) -> usize {
        self.limits.in_all.clamp(1, Semaphore::MAX_PERMITS).saturating_sub(self.in_all.available_permits())
    }

    /// Creates the slots of one server.
    pub(crate) fn of_server(&self) -> Arc<ServerSlots> {
        let per_server = self.limits.per_server.max(1);
        let share = per_server - per_server / 4;
        Arc::new(ServerSlots { all: Arc::new(slots(per_server)), share, shares: Mutex::default() })
    }

    /// Waits for a slot at the server, then for one in total, so that a call to a busy server holds no slot of the
    /// others.
    pub(crate) async fn admit(
        &self,
        grant: Grant,
        server: &ServerSlots,
        client_slot: ClientSlot,
    ) -> Result<Permit, Refusal> {
        let of_server = self.server_slot(server, &client_slot).await?;
        let of_all = self.slot(&self.in_all, self.limits.in_all, "in total").await?;
        let held = Held::Slots { _of_server: of_server, _of_all: of_all, _client_slot: client_slot };
        Ok(Permit { grant, held, _places: None })
    }

    /// Waits for a slot of the client's share first, so that a client that has used up its share does not queue at the
    /// server.
    async fn server_slot(&self, server: &ServerSlots, client_slot: &ClientSlot) -> Result<ServerSlot, Refusal> {
        let of_share = match &client_slot.0 {
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
        match Arc::clone(slots).try_acquire_owned() {
            Ok(slot) => Ok(slot),
            // Boxed: few calls wait, and every call would carry the future otherwise.
            Err(_) => Box::pin(self.wait_for_slot(slots, limit, whose)).await,
        }
    }

    async fn wait_for_slot(
        &self,
        slots: &Arc<Semaphore>,
        limit: usize,
        whose: &'static str,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        let began = Instant::now();
        let _place = QueuePlace::join(&self.waiting, self.limits.waiting).ok_or(Refusal::Busy {
            limit,
            whose,
            waited: Duration::ZERO,
        })?;
        match tokio::time::timeout(self.limits.patience, Arc::clone(slots).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            // These semaphores are never closed; a closed one would have no slots.
            Ok(Err(_)) | Err(_) => Err(Refusal::Busy { limit, whose, waited: began.elapsed() }),
        }
    }
}

fn slots(number: usize) -> Semaphore {
    Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS))
}

/// A place in the queue. Dropping it leaves the queue.
struct QueuePlace<'a>(&'a AtomicUsize);

impl<'a> QueuePlace<'a> {
    fn join(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl ServerSlots ===

impl ServerSlots {
    /// Returns the share of a client.
    fn share_of(&self, caller: &Caller) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(caller) {
            return Arc::clone(share);
        }
        if IDLE_SHARES <= shares.len() {
            // A share that is referenced only here has no call in flight and none queued.
            shares.retain(|_, share| 1 < Arc::strong_count(share));
        }
        let share = Arc::new(slots(self.share));
        shares.insert(caller.clone(), Arc::clone(&share));
        share
    }
}

// === impl Permit ===

impl Permit {
    /// The permitted item.
    pub fn subject(&self) -> &Subject {
        self.grant.subject()
    }

    /// Rule that granted it.
    pub fn rule(&self) -> &RuleId {
        self.grant.rule()
    }

    /// Who approved it, where policy asked.
    pub fn approved_by(&self) -> Option<&Arc<str>> {
        self.grant.approved_by()
    }

    /// This permit with the places of its call among those that limits allow at the same time.
    pub(crate) fn holding(self, places: Option<HeldPlaces>) -> Self {
        Self { _places: places, ..self }
    }

    /// Takes the request that was decided on.
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.grant.take_request()
    }

    /// Frees the slots of a call that waits for the answer to a server request. Such calls have a limit of their own; the
    /// places that limits of the configuration allow stay taken.
    pub(crate) fn park(&mut self, slots: &CallSlots, caller: &Caller) -> Result<(), Refusal> {
        if matches!(self.held, Held::Slots { .. }) {
            self.held = Held::Parked { _place: slots.park(caller)? };
        }
        Ok(())
    }

    /// Frees the slot and keeps the grant, for a retry of the same call.
    pub(crate) fn into_grant(self) -> Grant {
        self.grant
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolway_config::RuleEffect;

    use super::{CallLimits, CallSlots, Caller, ClientSlot, Grant, IDLE_SHARES, Refusal, RuleId, Subject};
    use crate::call::CallKind;

    fn grant() -> Grant {
        let subject = Subject { server: "files".parse().unwrap(), kind: CallKind::Tool, raw_name: "read".to_owned() };
        Grant::new(subject, RuleId::Stance(RuleEffect::Allow), None)
    }

    fn limits(in_all: usize, per_server: usize) -> CallLimits {
        CallLimits { in_all, per_server, per_client: 8, waiting: 1, patience: Duration::from_secs(5), parked: 1 }
    }

    fn program(slots: &CallSlots) -> ClientSlot {
        slots.take_client_slot(&Caller::Program).unwrap()
    }

    fn client(name: &str) -> Caller {
        Caller::Client(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn parked_call_holds_no_slot_and_parked_calls_are_limited() {
        let slots = CallSlots::new(limits(1, 1));
        let files = slots.of_server();
        let (ada, ben) = (Caller::Client("ada".into()), Caller::Client("ben".into()));
        let mut first = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        first.park(&slots, &ada).unwrap();
        first.park(&slots, &ada).unwrap();
        let mut second = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        let refused = second.park(&slots, &ada).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains("1 calls of this caller that wait for the answer to a server request"), "{said}");
        second.park(&slots, &ben).unwrap();
        drop(first);
        let mut third = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        third.park(&slots, &ada).unwrap();
        drop((second, third));
        assert!(slots.parked.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn slot_is_freed_with_its_permit() {
        let slots = CallSlots::new(limits(10, 1));
        let files = slots.of_server();
        let first = slots.admit(grant(), &files, program(&slots)).await.unwrap();
        let refused = slots.admit(grant(), &files, program(&slots)).await.unwrap_err();
        assert_eq!(refused, Refusal::Busy { limit: 1, whose: "to this server", waited: Duration::from_secs(5) });
        let (second, ()) = tokio::join!(slots.admit(grant(), &files, program(&slots)), async { drop(first) });
        assert!(second.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn busy_server_uses_no_slots_of_the_others() {
        let slots = CallSlots::new(limits(2, 1));
        let (busy, idle) = (slots.of_server(), slots.of_server());
        let _held = slots.admit(grant(), &busy, program(&slots)).await.unwrap();
        let waiting = slots.admit(grant(), &busy, program(&slots));
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(slots.admit(grant(), &idle, program(&slots)).await.is_ok());
        // The queue is full.
        let refused = slots.admit(grant(), &busy, program(&slots)).await.unwrap_err();
        assert_eq!(refused.code(), "busy");
    }

    #[tokio::test(start_paused = true)]
    async fn call_beyond_the_limit_of_a_client_is_refused_at_once() {
        let slots = CallSlots::new(limits(100, 100));
        let (ada, files) = (client("ada"), slots.of_server());
        let mut held = Vec::new();
        for _ in 0..8 {
            let client_slot = slots.take_client_slot(&ada).unwrap();
            held.push(slots.admit(grant(), &files, client_slot).await.unwrap());
        }
        let refused = slots.take_client_slot(&ada).unwrap_err();
        assert_eq!(refused, Refusal::TooMany { limit: 8 });
        assert_eq!(refused.code(), "too_many_calls");
        assert!(slots.take_client_slot(&client("ben")).is_ok() && slots.take_client_slot(&Caller::Program).is_ok());
        // A parked call counts towards another limit.
        held[0].park(&slots, &ada).unwrap();
        assert!(slots.take_client_slot(&ada).is_ok());
        held.clear();
        assert!(slots.entered.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_used_up_its_share_does_not_delay_others() {
        let slots = CallSlots::new(CallLimits { waiting: 4, ..limits(100, 4) });
        let (ada, ben, files) = (client("ada"), client("ben"), slots.of_server());
        let admitted = |caller: &Caller| {
            let client_slot = slots.take_client_slot(caller).unwrap();
            slots.admit(grant(), &files, client_slot)
        };
        let first = admitted(&ada).await.unwrap();
        let _held = [admitted(&ada).await.unwrap(), admitted(&ada).await.unwrap()];
        // The fourth waits although the server has a free slot: that one is reserved for others.
        let fourth = admitted(&ada);
        tokio::pin!(fourth);
        assert!(futures_util::poll!(&mut fourth).is_pending());
        let bens = admitted(&ben).await.unwrap();
        // Ben waits for the server, ahead of Ada, who waits for her own share.
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
    async fn shares_of_idle_clients_are_removed() {
        let slots = CallSlots::new(limits(100, 4));
        let files = slots.of_server();
        let client_slot = slots.take_client_slot(&client("ada")).unwrap();
        let held = slots.admit(grant(), &files, client_slot).await.unwrap();
        for number in 0..IDLE_SHARES * 3 {
            let client_slot = slots.take_client_slot(&client(&number.to_string())).unwrap();
            drop(slots.admit(grant(), &files, client_slot).await.unwrap());
        }
        let shares = files.shares.lock();
        assert!(shares.len() <= IDLE_SHARES && shares.contains_key(&client("ada")), "{}", shares.len());
        drop((shares, held));
    }
}
