//! A gateway as a member of a cluster, driven by a clock, against the simulated store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use toolway_config::ServerName;
use toolway_gateway::cluster::{ClockTime, ClusterMembership, MemberClock, MemberEffects, MemberOptions};
use toolway_host::{
    cluster::{
        ClusterMember, GatewayId, LeaseClaim, LeaseError, LeaseKey, LeaseReply, LeaseStore, Member, PeerAddress,
        TakeOver, TakenOver,
    },
    record::RecordsError,
    time::duration,
};
use toolway_testkit::simulated_store::SimulatedStore;
use uuid::Uuid;

pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// The simulated store on the clock of the test, which can be away.
#[derive(Debug)]
pub(crate) struct TimedStore {
    pub(crate) store: SimulatedStore,
    start: Instant,
    is_away: AtomicBool,
}

/// The clock of the test.
#[derive(Debug)]
pub(crate) struct TestClock(Instant);

impl MemberClock for TestClock {
    fn now(&self) -> ClockTime {
        self.0.elapsed()
    }
}

impl TimedStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { store: SimulatedStore::default(), start: Instant::now(), is_away: AtomicBool::new(false) })
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Another gateway.
    pub(crate) fn join(self: &Arc<Self>, address: PeerAddress) -> ClusterMembership {
        let options = MemberOptions {
            gateway: GatewayId(Uuid::now_v7()),
            address,
            lease: LEASE,
            clock: Arc::new(TestClock(self.start)),
        };
        ClusterMembership::start(Arc::clone(self) as Arc<dyn LeaseStore>, options)
    }

    fn now(&self) -> Option<&SimulatedStore> {
        self.store.set_clock(duration(self.start.elapsed()));
        (!self.is_away.load(Ordering::Relaxed)).then_some(&self.store)
    }

    fn reply<'a, T: Send + 'a>(
        &'a self,
        ask: impl FnOnce(&'a SimulatedStore) -> LeaseReply<'a, T>,
    ) -> LeaseReply<'a, T> {
        match self.now() {
            Some(store) => ask(store),
            None => Box::pin(async { Err(LeaseError::Store(RecordsError::unavailable("away"))) }),
        }
    }
}

impl LeaseStore for TimedStore {
    fn register(&self, gateway: GatewayId, address: PeerAddress, lease: Duration) -> LeaseReply<'_, Member> {
        self.reply(|store| store.register(gateway, address, lease))
    }

    fn renew(&self, member: Member) -> LeaseReply<'_, ()> {
        self.reply(|store| store.renew(member))
    }

    fn check(&self, member: Member) -> LeaseReply<'_, ()> {
        self.reply(|store| store.check(member))
    }

    fn leave(&self, member: Member) -> LeaseReply<'_, TakenOver> {
        self.reply(|store| store.leave(member))
    }

    fn members(&self) -> LeaseReply<'_, Vec<ClusterMember>> {
        self.reply(|store| store.members())
    }

    fn take_over(&self, by: Member, from: Member) -> LeaseReply<'_, TakeOver> {
        self.reply(|store| store.take_over(by, from))
    }

    fn claim(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, LeaseClaim> {
        self.reply(|store| store.claim(by, key))
    }

    fn take_server(&self, by: Member, key: LeaseKey, from: Member) -> LeaseReply<'_, LeaseClaim> {
        self.reply(|store| store.take_server(by, key, from))
    }

    fn release(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, ()> {
        self.reply(|store| store.release(by, key))
    }
}

/// The members whose calls were to be ended.
#[derive(Debug, Default)]
struct Ended(Mutex<Vec<Member>>);

impl MemberEffects for Ended {
    fn end_calls(&self, member: Member) {
        self.0.lock().push(member);
    }

    fn adopt_tasks(&self, _: Vec<Uuid>) {}

    fn allow_server(&self, _: &ServerName, _: Duration) {}

    fn end_servers(&self) {}
}

fn address() -> PeerAddress {
    "127.0.0.1:7719".parse().unwrap()
}

/// The member once there is one.
pub(crate) async fn joined(membership: &ClusterMembership) -> Member {
    let mut watch = membership.watch();
    let member = watch.wait_for(Option::is_some).await.unwrap();
    member.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_member_renews_its_lease_and_leaves() {
    let store = TimedStore::new();
    let membership = store.join(address());
    let member = joined(&membership).await;
    tokio::time::sleep(LEASE * 10).await;
    assert_eq!(membership.current(), Some(member), "one registration for all this time");
    assert_eq!(membership.members().iter().map(|row| row.member).collect::<Vec<_>>(), [member]);
    membership.leave().await;
    assert_eq!(membership.current(), None);
    assert!(store.members().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_without_its_store_ends_its_calls_at_the_end_of_its_lease() {
    let store = TimedStore::new();
    let membership = store.join(address());
    let ended = Arc::new(Ended::default());
    let effects = Arc::downgrade(&ended);
    membership.attach(effects);
    let first = joined(&membership).await;
    store.set_away(true);
    tokio::time::sleep(LEASE / 2).await;
    assert_eq!(membership.current(), Some(first), "its lease is valid");
    tokio::time::sleep(LEASE / 2 + Duration::from_secs(1)).await;
    assert_eq!(membership.current(), None);
    assert_eq!(*ended.0.lock(), [first]);
    store.set_away(false);
    let second = joined(&membership).await;
    assert!(first.generation < second.generation && first.gateway == second.gateway);
    tokio::time::sleep(LEASE).await;
    assert_eq!(store.store.takeovers(), [first], "it settles what it has left itself");
    assert_eq!(*ended.0.lock(), [first], "once");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_gone_is_taken_over_within_its_lease_and_a_second() {
    let store = TimedStore::new();
    let [one, other] = [store.join(address()), store.join(address())];
    let gone = joined(&one).await;
    let other_member = joined(&other).await;
    tokio::time::sleep(LEASE).await;
    drop(one);
    let at = Instant::now();
    while store.store.takeovers().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(at.elapsed() <= LEASE + Duration::from_secs(1), "{:?}", at.elapsed());
    }
    assert_eq!((store.store.takeovers(), other.current()), (vec![gone], Some(other_member)));
}
