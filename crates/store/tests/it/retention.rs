//! Retention: planned, applied, and verifiable afterwards.

use std::time::Duration;

use toolway_store::{
    Store, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallState},
    retention::RetentionLimits,
    rollup::RollupFilter,
    time,
};

use crate::stage::{Stage, begun, ended, record};

#[tokio::test]
async fn old_rows_are_planned_removed_and_leave_a_checkpoint() {
    let stage = Stage::new();
    let store = stage.open();
    for _ in 0..10 {
        record(&store, "read", CallState::Succeeded).await;
    }
    let open = begun("running");
    store.write_call(open.clone(), CallBody::default()).await.unwrap();
    let limits = RetentionLimits { max_age: Some(Duration::from_secs(60)), max_bytes: None };
    assert!(store.prune(&limits).await.unwrap().is_empty(), "nothing is a minute old");

    let later = time::now() + 120_000_000;
    let plan = stage.reader().plan_retention(&limits, later).unwrap();
    assert_eq!((plan.calls, plan.audit, plan.audit_up_to), (10, 10, 10));

    let all = RetentionLimits { max_age: Some(Duration::ZERO), max_bytes: None };
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(store.prune(&all).await.unwrap().calls, 10);
    let left = stage.reader().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap();
    assert_eq!(left.iter().map(|call| call.id).collect::<Vec<_>>(), [open.id], "an open call is kept");

    record(&store, "read", CallState::Succeeded).await;
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 1, checkpoint: 10 });
    stage.tamper("UPDATE audit SET subject = 'x' WHERE seq = 11");
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Broken { seq: 11 });
}

#[tokio::test]
async fn a_file_that_is_too_large_loses_its_oldest_calls() {
    let stage = Stage::new();
    let store = stage.open();
    let mut last = None;
    for _ in 0..50 {
        let mut call = begun("read");
        (call.state, call.duration) = (CallState::Succeeded, Some(1));
        let body = CallBody { arguments: Some("x".repeat(200_000)), result: None };
        store.end_call(call.clone(), body).await.unwrap();
        last = Some(call.id);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let bytes = stage.reader().data_bytes().unwrap();
    let limits = RetentionLimits { max_age: None, max_bytes: Some(bytes / 2) };
    let plan = store.prune(&limits).await.unwrap();
    assert!((20..50).contains(&plan.calls), "{plan:?}");
    assert!(stage.reader().data_bytes().unwrap() <= bytes / 2);
    assert!(stage.reader().call(last.unwrap()).unwrap().is_some(), "the newest is kept");
}

/// `serve --no-store` runs for months.
#[tokio::test]
async fn a_store_in_memory_stays_small() {
    let store = Store::in_memory().unwrap();
    for _ in 0..1_200 {
        let call = ended(&begun("read"), CallState::Succeeded);
        let body = CallBody { arguments: Some("x".repeat(100_000)), result: None };
        store.end_call(call, body).await.unwrap();
    }
    let bytes = store.reader().unwrap().data_bytes().unwrap();
    assert!((30 * 1024 * 1024..70 * 1024 * 1024).contains(&bytes), "{bytes} of 120 MB");
    assert!(matches!(store.reader().unwrap().verify_audit().unwrap(), Verified::Intact { checkpoint: 1.., .. }));
}

/// Calls, audit entries and conversations of a busy day, removed in several steps.
#[tokio::test]
async fn much_is_removed_in_steps_between_which_calls_are_recorded() {
    let stage = Stage::new();
    let store = stage.open();
    let writes = (0..12_000).map(|_| store.end_call(ended(&begun("read"), CallState::Succeeded), CallBody::default()));
    for written in writes.collect::<Vec<_>>() {
        written.await.unwrap();
    }
    // A query waits only for a while, and a busy machine takes longer to commit so many.
    while stage.reader().stats(&RollupFilter::default()).unwrap()[0].total.calls < 12_000 {
        tokio::task::yield_now().await;
    }
    let limits = RetentionLimits { max_age: Some(Duration::ZERO), max_bytes: None };
    tokio::time::sleep(Duration::from_millis(5)).await;
    let (pruned, recorded) = tokio::join!(store.prune(&limits), record(&store, "meanwhile", CallState::Succeeded));
    assert_eq!(pruned.unwrap().calls, 12_000);
    let left = stage.reader().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap();
    assert_eq!(left.iter().map(|call| call.id).collect::<Vec<_>>(), [recorded.id]);
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 1, checkpoint: 12_000 });
}

#[tokio::test(start_paused = true)]
async fn retention_is_applied_at_once_and_again_as_time_passes() {
    let stage = Stage::new();
    let store = stage.open();
    let old = || {
        let mut call = ended(&begun("read"), CallState::Succeeded);
        call.id = Uuid::from_u128(call.id.as_u128() - (7_200_000 << 80));
        call.started_at -= 7_200_000_000;
        store.end_call(call, CallBody::default())
    };
    old().await.unwrap();
    let limits = RetentionLimits { max_age: Some(Duration::from_secs(3_600)), max_bytes: None };
    let calls = || stage.reader().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap().len();
    let pruning = tokio::runtime::Handle::current().spawn({
        let store = store.clone();
        async move { store.keep_pruned(&limits).await }
    });
    // The clock is paused: an hour passes when nothing else is left to do.
    for _ in 0..4 {
        while calls() > 0 {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        old().await.unwrap();
    }
    pruning.abort();
    // Without limits there is nothing to do.
    store.keep_pruned(&RetentionLimits::default()).await;
}
