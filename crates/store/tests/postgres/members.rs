//! Members of a cluster in a real database: the stories of leases, and what a store does whose process is a member.

use toolway_host::{
    cluster::{GatewayId, LeaseStore, Member, TakeOver},
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
