//! Members of a cluster in a real database: the stories of leases, and what a store does whose process is a member.

use toolway_host::{
    cluster::{GatewayId, LeaseStore, Member, TakeOver},
    connection::SessionStore as _,
    record::RecordsError,
    task::{AnsweredBy, KeptBy},
};
use toolway_store::{
    StoreError, Uuid,
    audit::Verified,
    calls::{CallBody, CallRow, CallState, Delivery},
    tasks::TaskRow,
};
use toolway_testkit::lease_stories::{LeaseFixture, check_leases, check_members, check_takeovers};

use crate::{
    lease_fixture::{PostgresLeases, open_member},
    sessions::{owner, session},
    stage::{Stage, begun, ended, record},
};

async fn join(leases: &PostgresLeases) -> Member {
    let gateway = GatewayId(Uuid::now_v7());
    LeaseStore::register(leases, gateway, "127.0.0.1:7719".parse().unwrap(), leases.lease()).await.unwrap()
}

#[tokio::test]
async fn postgres_passes_the_stories_of_members() {
    check_members(async || PostgresLeases::new()).await;
}

#[tokio::test]
async fn postgres_passes_the_stories_of_takeovers() {
    check_takeovers(async || PostgresLeases::new()).await;
}

#[tokio::test]
async fn postgres_passes_the_stories_of_leases() {
    check_leases(async || PostgresLeases::new()).await;
}

#[tokio::test]
async fn store_of_a_member_writes_from_its_registration_until_its_lease_is_lost() {
    let stage = Stage::new();
    let store = open_member(&stage);
    let refused = store.write_call(begun("read"), CallBody::default()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Expired), "{refused}");
    let leases = store.leases().unwrap();
    let lease = std::time::Duration::from_secs(60);
    let gateway = GatewayId(Uuid::now_v7());
    let first = leases.register(gateway, "127.0.0.1:7719".parse().unwrap(), lease).await.unwrap();
    let sent = begun("read");
    store.write_call(sent.clone(), CallBody::default()).await.unwrap();
    stage.tamper("UPDATE runs SET expires_at = clock_timestamp() - interval '1 second'");
    let late = store.end_call(ended(&sent, CallState::Succeeded), CallBody::default()).await.unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");
    let refused = store.write_call(begun("read"), CallBody::default()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Expired), "it has not registered by itself: {refused}");
    let second = leases.register(gateway, "127.0.0.1:7719".parse().unwrap(), lease).await.unwrap();
    assert!(matches!(leases.take_over(second, first).await.unwrap(), TakeOver::Done(_)));
    record(&store, "read", CallState::Succeeded).await;
    // The late end was written again in the name of the second registration, which changes nothing.
    store.catch_up();
    assert_eq!(stage.reader().call(sent.id).unwrap().unwrap().row.outcome, Some(Delivery::NotSent));
    let again = store.end_call(ended(&sent, CallState::Succeeded), CallBody::default()).await.unwrap_err();
    assert!(matches!(again, StoreError::NotOwned(_)), "{again}");
    assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { .. }));
}

#[tokio::test]
async fn process_without_a_cluster_closes_the_calls_of_members_that_all_have_ended() {
    let leases = PostgresLeases::new();
    let member = join(&leases).await;
    let call = Uuid::now_v7();
    leases.begin(member, call).await.unwrap();
    leases.pass(leases.lease()).await;
    drop(leases.stage.open());
    assert_eq!(leases.outcome(call).await, Some(Delivery::NotSent));
    let by = join(&leases).await;
    assert_eq!(LeaseStore::take_over(&leases, by, member).await.unwrap(), TakeOver::Before);
}

#[tokio::test]
async fn member_closes_the_calls_of_a_process_without_a_cluster() {
    let leases = PostgresLeases::new();
    let command = leases.stage.open();
    let call = begun("read");
    command.write_call(call.clone(), CallBody::default()).await.unwrap();
    leases.pass(std::time::Duration::from_secs(15)).await;
    let member = join(&leases).await;
    let store = leases.store(member).unwrap();
    store.recover().unwrap();
    store.catch_up();
    assert_eq!(leases.outcome(call.id).await, Some(Delivery::NotSent));
}

/// Its registration was taken over while it slept, and no other process has claimed the task.
#[tokio::test]
async fn gateway_that_goes_on_to_follow_a_task_ends_its_call() {
    let leases = PostgresLeases::new();
    let gateway = GatewayId(Uuid::now_v7());
    let register = async |store: &dyn LeaseStore| {
        store.register(gateway, "127.0.0.1:7719".parse().unwrap(), leases.lease()).await.unwrap()
    };
    let former = register(&leases).await;
    let store = leases.store(former).unwrap();
    let call = CallRow { state: CallState::Running, ..begun("paint") };
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    let task = TaskRow { remote_id: "t-1".to_owned(), ..TaskRow::begun(call.id, KeptBy::Server, AnsweredBy::Host) };
    store.write_task(task.clone()).await.unwrap();
    leases.pass(leases.lease()).await;
    let by = join(&leases).await;
    LeaseStore::take_over(&leases, by, former).await.unwrap();
    register(&*store.leases().unwrap()).await;
    store.write_task(task).await.unwrap();
    store.end_call(ended(&call, CallState::Succeeded), CallBody::default()).await.unwrap();
    assert_eq!(leases.outcome(call.id).await, Some(Delivery::Answered));
}

/// It slept, was taken over, and goes on.
#[tokio::test]
async fn session_that_another_process_has_claimed_is_not_taken_back() {
    let leases = PostgresLeases::new();
    let gateway = GatewayId(Uuid::now_v7());
    let address = "127.0.0.1:7719".parse().unwrap();
    let former = LeaseStore::register(&leases, gateway, address, leases.lease()).await.unwrap();
    let slept = leases.store(former).unwrap();
    let slots = [Uuid::now_v7(), Uuid::now_v7()];
    slept.put(slots[0], owner("ada", "e"), session("s1")).await.unwrap();
    slept.put(slots[1], owner("ben", "e"), session("s2")).await.unwrap();
    leases.pass(leases.lease()).await;
    let by = join(&leases).await;
    LeaseStore::take_over(&leases, by, former).await.unwrap();
    let other = leases.store(by).unwrap();
    let claimed = other.claim(owner("ada", "e")).await.unwrap().unwrap();
    assert_eq!(claimed.slot, slots[0]);

    let own = slept.leases().unwrap();
    own.register(gateway, "127.0.0.1:7719".parse().unwrap(), leases.lease()).await.unwrap();
    let refused = slept.put(slots[0], owner("ada", "e"), session("s3")).await.unwrap_err();
    assert!(matches!(refused, RecordsError::NotOwned(_)), "{refused}");
    slept.release(slots[0]).await.unwrap();
    slept.remove(slots[0]).await.unwrap();
    assert_eq!(slept.claim(owner("ada", "e")).await.unwrap(), None, "it is used");
    other.release(slots[0]).await.unwrap();
    let claimed = slept.claim(owner("ada", "e")).await.unwrap().unwrap();
    assert_eq!(claimed.session, session("s1"));
    // What no other process has claimed is its own.
    slept.put(slots[1], owner("ben", "e"), session("s4")).await.unwrap();
    assert_eq!(other.claim(owner("ben", "e")).await.unwrap(), None);
}

#[tokio::test]
async fn sessions_of_an_earlier_registration_stay_with_their_gateway() {
    let leases = PostgresLeases::new();
    let gateway = GatewayId(Uuid::now_v7());
    let former =
        LeaseStore::register(&leases, gateway, "127.0.0.1:7719".parse().unwrap(), leases.lease()).await.unwrap();
    let store = leases.store(former).unwrap();
    let slot = Uuid::now_v7();
    store.put(slot, owner("ada", "e"), session("s1")).await.unwrap();
    leases.pass(leases.lease()).await;
    let own = store.leases().unwrap();
    let current = own.register(gateway, "127.0.0.1:7719".parse().unwrap(), leases.lease()).await.unwrap();
    own.take_over(current, former).await.unwrap();
    let by = join(&leases).await;
    assert_eq!(leases.store(by).unwrap().claim(owner("ada", "e")).await.unwrap(), None);
    store.release(slot).await.unwrap();
    assert!(leases.store(by).unwrap().claim(owner("ada", "e")).await.unwrap().is_some());
}
