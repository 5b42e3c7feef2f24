//! What every [`LeaseStore`] does, as stories that run against any of them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a story fails here")]

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use toolway_host::{
    cluster::{
        GatewayId, LeaseClaim, LeaseError, LeaseHolder, LeaseKey, LeaseReply, LeaseStore, Member, MemberState,
        PeerAddress, TakeOver, TakenOver,
    },
    record::Delivery,
};
use uuid::Uuid;

/// An empty store, and the writes that depend on a lease.
pub trait LeaseFixture: Send + Sync {
    /// The port.
    fn leases(&self) -> &dyn LeaseStore;

    /// Length of the leases to use.
    fn lease(&self) -> Duration;

    /// Lets time pass for the clock of the store.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// Writes the row of a client session that begins.
    fn begin_session(&self, session: Uuid) -> BoxFuture<'_, ()>;

    /// Removes the row of a client session, and what is kept for it.
    fn end_session(&self, session: Uuid) -> BoxFuture<'_, ()>;

    /// Writes the beginning of a call.
    fn begin(&self, by: Member, call: Uuid) -> LeaseReply<'_, CallWrite>;

    /// Writes the beginning of a call that its server has continued as a task.
    fn begin_task(&self, by: Member, call: Uuid) -> LeaseReply<'_, CallWrite>;

    /// Follows a task that no member follows. Returns whether this member follows it now.
    fn claim_task(&self, by: Member, task: Uuid) -> LeaseReply<'_, bool>;

    /// Writes that the request of a call is about to be sent.
    fn mark_sent(&self, by: Member, call: Uuid) -> LeaseReply<'_, CallWrite>;

    /// Writes the end of a call.
    fn end(&self, by: Member, call: Uuid, outcome: Delivery) -> LeaseReply<'_, CallWrite>;

    /// How a call ended; `None` while it is open.
    fn outcome(&self, call: Uuid) -> BoxFuture<'_, Option<Delivery>>;
}

/// What became of a write that its member was allowed to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallWrite {
    /// It changed the call.
    Written,
    /// The call has ended, has another owner, or is there already: nothing changed.
    Without,
}

/// Runs every story, each on a store of its own.
pub async fn check_every_story<F: LeaseFixture>(new: impl AsyncFn() -> F) {
    check_members(&new).await;
    check_takeovers(&new).await;
    check_leases(&new).await;
}

/// The stories of members.
pub async fn check_members<F: LeaseFixture>(new: impl AsyncFn() -> F) {
    generations_rise_and_members_are_listed(&new().await).await;
    lease_ends_without_renewal_and_stays_so(&new().await).await;
    live_member_is_not_taken_over_and_an_expired_one_takes_nothing(&new().await).await;
    gateway_takes_over_its_own_earlier_registration_at_once(&new().await).await;
    member_that_leaves_frees_everything(&new().await).await;
}

/// The stories of calls and tasks of a member that is taken over.
pub async fn check_takeovers<F: LeaseFixture>(new: impl AsyncFn() -> F) {
    calls_of_an_expired_member_are_settled_once(&new().await).await;
    only_one_of_many_takes_over(&new().await).await;
    late_writes_of_an_expired_member_change_nothing(&new().await).await;
    tasks_of_a_takeover_are_free_until_one_member_claims_them(&new().await).await;
    tasks_of_an_earlier_registration_stay_with_their_gateway(&new().await).await;
}

/// The stories of what only one member may hold.
pub async fn check_leases<F: LeaseFixture>(new: impl AsyncFn() -> F) {
    server_of_the_cluster_is_replaced_only_by_name_of_its_holder(&new().await).await;
    only_one_of_many_takes_a_server(&new().await).await;
    lease_of_a_session_is_free_after_a_takeover(&new().await).await;
    home_of_a_session_is_replaced_at_once_and_only_by_name(&new().await).await;
    server_that_became_free_is_taken_by_one(&new().await).await;
    lease_is_released_only_by_its_holder(&new().await).await;
    home_of_a_session_that_lives_is_not_released(&new().await).await;
    nothing_is_kept_for_a_session_that_has_ended(&new().await).await;
}

async fn join(store: &impl LeaseFixture) -> Member {
    rejoin(store, GatewayId(Uuid::now_v7())).await
}

async fn rejoin(store: &impl LeaseFixture, gateway: GatewayId) -> Member {
    store.leases().register(gateway, address(), store.lease()).await.unwrap()
}

/// A member that has expired, and one that is alive.
async fn expired_and_live(store: &impl LeaseFixture) -> ExpiredAndLive {
    let expired = join(store).await;
    store.pass(store.lease()).await;
    ExpiredAndLive { expired, live: join(store).await }
}

struct ExpiredAndLive {
    expired: Member,
    live: Member,
}

fn address() -> PeerAddress {
    "127.0.0.1:7719".parse().unwrap()
}

fn of_the_cluster() -> LeaseKey {
    LeaseKey::Cluster("browser".parse().unwrap())
}

async fn of_a_session(store: &impl LeaseFixture) -> LeaseKey {
    let session = Uuid::now_v7();
    store.begin_session(session).await;
    LeaseKey::Session { session }
}

fn is_fenced<T: std::fmt::Debug>(result: &Result<T, LeaseError>, member: Member) -> bool {
    matches!(result, Err(LeaseError::Fenced(fenced)) if *fenced == member)
}

async fn generations_rise_and_members_are_listed(store: &impl LeaseFixture) {
    let gateway = GatewayId(Uuid::now_v7());
    let first = rejoin(store, gateway).await;
    let second = rejoin(store, gateway).await;
    assert!(first.generation < second.generation && first.gateway == second.gateway);
    let listed = store.leases().members().await.unwrap();
    assert_eq!(listed.iter().map(|row| row.member).collect::<Vec<_>>(), [first, second]);
    for row in listed {
        assert_eq!(row.address, address());
        assert_eq!(row.lease, store.lease());
        assert!(matches!(row.state, MemberState::Live { expires_in } if expires_in <= store.lease()));
    }
}

async fn lease_ends_without_renewal_and_stays_so(store: &impl LeaseFixture) {
    let member = join(store).await;
    for _ in 0..3 {
        store.pass(store.lease() / 2).await;
        store.leases().renew(member).await.unwrap();
        store.leases().check(member).await.unwrap();
    }
    store.pass(store.lease()).await;
    assert!(is_fenced(&store.leases().check(member).await, member));
    assert!(is_fenced(&store.leases().renew(member).await, member));
    assert!(is_fenced(&store.leases().check(member).await, member), "renewing has revived it");
    let listed = store.leases().members().await.unwrap();
    assert!(matches!(listed.as_slice(), [row] if row.state == MemberState::Expired));
    let foreign = Member { gateway: GatewayId(Uuid::now_v7()), ..join(store).await };
    assert!(is_fenced(&store.leases().check(foreign).await, foreign));
}

async fn calls_of_an_expired_member_are_settled_once(store: &impl LeaseFixture) {
    let member = join(store).await;
    let pending = Uuid::now_v7();
    let sent = Uuid::now_v7();
    let ended = Uuid::now_v7();
    for call in [pending, sent, ended] {
        assert_eq!(store.begin(member, call).await.unwrap(), CallWrite::Written);
    }
    store.mark_sent(member, sent).await.unwrap();
    store.mark_sent(member, ended).await.unwrap();
    store.end(member, ended, Delivery::Answered).await.unwrap();
    store.pass(store.lease()).await;
    let by = join(store).await;
    let taken = store.leases().take_over(by, member).await.unwrap();
    assert_eq!(taken, TakeOver::Done(TakenOver { unknown: 1, not_sent: 1, tasks: Vec::new() }));
    assert_eq!(store.outcome(pending).await, Some(Delivery::NotSent));
    assert_eq!(store.outcome(sent).await, Some(Delivery::Unknown));
    assert_eq!(store.outcome(ended).await, Some(Delivery::Answered));
    assert_eq!(store.leases().take_over(by, member).await.unwrap(), TakeOver::Before);
    let listed = store.leases().members().await.unwrap();
    assert!(matches!(listed.as_slice(), [row] if row.member == by));
}

async fn only_one_of_many_takes_over(store: &impl LeaseFixture) {
    let member = join(store).await;
    store.begin(member, Uuid::now_v7()).await.unwrap();
    store.pass(store.lease()).await;
    let takers = join_all((0..8).map(|_| join(store))).await;
    let results = join_all(takers.iter().map(|by| store.leases().take_over(*by, member))).await;
    let done = results.iter().filter(|result| matches!(result, Ok(TakeOver::Done(taken)) if taken.not_sent == 1));
    assert_eq!(done.count(), 1, "{results:?}");
    let before = results.iter().filter(|result| matches!(result, Ok(TakeOver::Before)));
    assert_eq!(before.count(), 7, "{results:?}");
}

async fn live_member_is_not_taken_over_and_an_expired_one_takes_nothing(store: &impl LeaseFixture) {
    let ExpiredAndLive { expired, live } = expired_and_live(store).await;
    let other = join(store).await;
    assert_eq!(store.leases().take_over(other, live).await.unwrap(), TakeOver::StillLive);
    assert_eq!(store.leases().take_over(other, other).await.unwrap(), TakeOver::StillLive);
    assert!(is_fenced(&store.leases().take_over(expired, live).await, expired));
    assert!(is_fenced(&store.leases().claim(expired, of_the_cluster()).await, expired));
    assert!(is_fenced(&store.leases().take_server(expired, of_the_cluster(), live).await, expired));
    assert!(is_fenced(&store.leases().leave(expired).await, expired));
    store.leases().check(live).await.unwrap();
}

async fn gateway_takes_over_its_own_earlier_registration_at_once(store: &impl LeaseFixture) {
    let former = join(store).await;
    let call = Uuid::now_v7();
    store.begin(former, call).await.unwrap();
    let current = rejoin(store, former.gateway).await;
    assert!(matches!(store.leases().take_over(current, former).await.unwrap(), TakeOver::Done(_)));
    assert_eq!(store.outcome(call).await, Some(Delivery::NotSent));
    assert!(is_fenced(&store.leases().renew(former).await, former));
}

async fn late_writes_of_an_expired_member_change_nothing(store: &impl LeaseFixture) {
    let member = join(store).await;
    let call = Uuid::now_v7();
    store.begin(member, call).await.unwrap();
    store.mark_sent(member, call).await.unwrap();
    store.pass(store.lease()).await;
    // Before the takeover and after it.
    for _ in 0..2 {
        assert!(is_fenced(&store.end(member, call, Delivery::Answered).await, member));
        assert!(is_fenced(&store.mark_sent(member, call).await, member));
        assert!(is_fenced(&store.begin(member, Uuid::now_v7()).await, member));
        store.leases().take_over(join(store).await, member).await.unwrap();
    }
    assert_eq!(store.outcome(call).await, Some(Delivery::Unknown));
    let other = join(store).await;
    assert_eq!(store.end(other, call, Delivery::Answered).await.unwrap(), CallWrite::Without);
    assert_eq!(store.outcome(call).await, Some(Delivery::Unknown));
}

async fn tasks_of_a_takeover_are_free_until_one_member_claims_them(store: &impl LeaseFixture) {
    let member = join(store).await;
    let task = Uuid::now_v7();
    store.begin_task(member, task).await.unwrap();
    store.pass(store.lease()).await;
    let by = join(store).await;
    let other = join(store).await;
    let TakeOver::Done(taken) = store.leases().take_over(by, member).await.unwrap() else { panic!("not taken over") };
    assert_eq!(taken.tasks, [task]);
    assert_eq!(store.outcome(task).await, None, "the call of a task goes on");
    assert_eq!(store.end(by, task, Delivery::Answered).await.unwrap(), CallWrite::Without, "it has not claimed it");
    assert!(store.claim_task(other, task).await.unwrap());
    assert!(!store.claim_task(by, task).await.unwrap());
    assert_eq!(store.end(by, task, Delivery::Answered).await.unwrap(), CallWrite::Without);
    assert_eq!(store.end(other, task, Delivery::Answered).await.unwrap(), CallWrite::Written);
}

async fn tasks_of_an_earlier_registration_stay_with_their_gateway(store: &impl LeaseFixture) {
    let gateway = GatewayId(Uuid::now_v7());
    let former = rejoin(store, gateway).await;
    let task = Uuid::now_v7();
    store.begin_task(former, task).await.unwrap();
    store.pass(store.lease()).await;
    let current = rejoin(store, gateway).await;
    let other = join(store).await;
    store.leases().take_over(current, former).await.unwrap();
    assert!(!store.claim_task(other, task).await.unwrap());
    assert_eq!(store.end(current, task, Delivery::Answered).await.unwrap(), CallWrite::Written);
}

async fn server_of_the_cluster_is_replaced_only_by_name_of_its_holder(store: &impl LeaseFixture) {
    let member = join(store).await;
    let key = of_the_cluster();
    for _ in 0..2 {
        assert_eq!(store.leases().claim(member, key.clone()).await.unwrap(), LeaseClaim::Granted);
    }
    let by = join(store).await;
    let current = LeaseClaim::Held(LeaseHolder::Current { member, address: address() });
    assert_eq!(store.leases().claim(by, key.clone()).await.unwrap(), current);
    assert_eq!(store.leases().take_server(by, key.clone(), member).await.unwrap(), current, "it was not taken over");
    store.pass(store.lease()).await;
    let by = join(store).await;
    assert_eq!(store.leases().take_server(by, key.clone(), member).await.unwrap(), current, "it was not taken over");
    store.leases().take_over(by, member).await.unwrap();
    let ended = LeaseClaim::Held(LeaseHolder::Ended { member, lease: store.lease() });
    assert_eq!(store.leases().claim(by, key.clone()).await.unwrap(), ended);
    assert_eq!(store.leases().take_server(by, key.clone(), by).await.unwrap(), ended, "another holder was named");
    assert_eq!(store.leases().take_server(by, key.clone(), member).await.unwrap(), LeaseClaim::Granted);
    assert_eq!(store.leases().claim(by, key).await.unwrap(), LeaseClaim::Granted);
}

async fn only_one_of_many_takes_a_server(store: &impl LeaseFixture) {
    let member = join(store).await;
    store.leases().claim(member, of_the_cluster()).await.unwrap();
    store.pass(store.lease()).await;
    let takers = join_all((0..8).map(|_| join(store))).await;
    store.leases().take_over(takers[0], member).await.unwrap();
    let taking = takers.iter().map(|by| store.leases().take_server(*by, of_the_cluster(), member));
    let results: Vec<LeaseClaim> = join_all(taking).await.into_iter().map(Result::unwrap).collect();
    let granted = results.iter().filter(|claim| **claim == LeaseClaim::Granted);
    assert_eq!(granted.count(), 1, "{results:?}");
}

async fn server_that_became_free_is_taken_by_one(store: &impl LeaseFixture) {
    let member = join(store).await;
    let key = of_the_cluster();
    store.leases().claim(member, key.clone()).await.unwrap();
    store.leases().leave(member).await.unwrap();
    let by = join(store).await;
    let other = join(store).await;
    assert_eq!(store.leases().take_server(by, key.clone(), member).await.unwrap(), LeaseClaim::Granted);
    assert!(matches!(store.leases().claim(other, key.clone()).await.unwrap(), LeaseClaim::Held(_)));
    assert!(matches!(store.leases().take_server(other, key, member).await.unwrap(), LeaseClaim::Held(_)));
}

async fn lease_of_a_session_is_free_after_a_takeover(store: &impl LeaseFixture) {
    let member = join(store).await;
    let key = of_a_session(store).await;
    store.leases().claim(member, key.clone()).await.unwrap();
    store.pass(store.lease()).await;
    let by = join(store).await;
    let held = store.leases().claim(by, key.clone()).await.unwrap();
    assert!(matches!(held, LeaseClaim::Held(LeaseHolder::Current { .. })), "{held:?}");
    store.leases().take_over(by, member).await.unwrap();
    assert_eq!(store.leases().claim(by, key).await.unwrap(), LeaseClaim::Granted);
}

async fn home_of_a_session_is_replaced_at_once_and_only_by_name(store: &impl LeaseFixture) {
    let former = join(store).await;
    let home = join(store).await;
    let key = of_a_session(store).await;
    store.leases().claim(former, key.clone()).await.unwrap();
    assert_eq!(store.leases().take_server(home, key.clone(), former).await.unwrap(), LeaseClaim::Granted);
    let other = join(store).await;
    let held = LeaseClaim::Held(LeaseHolder::Current { member: home, address: address() });
    assert_eq!(store.leases().take_server(other, key.clone(), former).await.unwrap(), held, "another holder was named");
    assert_eq!(store.leases().claim(former, key).await.unwrap(), held);
}

async fn lease_is_released_only_by_its_holder(store: &impl LeaseFixture) {
    let member = join(store).await;
    let other = join(store).await;
    let key = of_the_cluster();
    store.leases().claim(member, key.clone()).await.unwrap();
    store.leases().release(other, key.clone()).await.unwrap();
    assert!(matches!(store.leases().claim(other, key.clone()).await.unwrap(), LeaseClaim::Held(_)));
    store.leases().release(member, key.clone()).await.unwrap();
    assert_eq!(store.leases().claim(other, key).await.unwrap(), LeaseClaim::Granted);
}

async fn home_of_a_session_that_lives_is_not_released(store: &impl LeaseFixture) {
    let member = join(store).await;
    let other = join(store).await;
    let key = of_a_session(store).await;
    store.leases().claim(member, key.clone()).await.unwrap();
    store.leases().release(member, key.clone()).await.unwrap();
    let held = store.leases().claim(other, key).await.unwrap();
    assert_eq!(held, LeaseClaim::Held(LeaseHolder::Current { member, address: address() }));
}

async fn nothing_is_kept_for_a_session_that_has_ended(store: &impl LeaseFixture) {
    let member = join(store).await;
    let other = join(store).await;
    let session = Uuid::now_v7();
    let key = LeaseKey::Session { session };
    store.begin_session(session).await;
    store.leases().claim(member, key.clone()).await.unwrap();
    store.end_session(session).await;
    for by in [other, member] {
        assert_eq!(store.leases().claim(by, key.clone()).await.unwrap(), LeaseClaim::Granted);
        assert_eq!(store.leases().take_server(by, key.clone(), other).await.unwrap(), LeaseClaim::Granted);
        store.leases().release(by, key.clone()).await.unwrap();
    }
    store.begin_session(session).await;
    assert_eq!(store.leases().claim(other, key).await.unwrap(), LeaseClaim::Granted, "a lease was kept");
}

async fn member_that_leaves_frees_everything(store: &impl LeaseFixture) {
    let member = join(store).await;
    let other = join(store).await;
    let call = Uuid::now_v7();
    store.begin(member, call).await.unwrap();
    let keys = [of_the_cluster(), of_a_session(store).await];
    for key in keys.clone() {
        store.leases().claim(member, key).await.unwrap();
    }
    let left = store.leases().leave(member).await.unwrap();
    assert_eq!(left, TakenOver { unknown: 0, not_sent: 1, tasks: Vec::new() });
    assert_eq!(store.outcome(call).await, Some(Delivery::NotSent));
    assert!(is_fenced(&store.leases().check(member).await, member));
    assert_eq!(store.leases().take_over(other, member).await.unwrap(), TakeOver::Before);
    for key in keys {
        assert_eq!(store.leases().claim(other, key).await.unwrap(), LeaseClaim::Granted);
    }
}
