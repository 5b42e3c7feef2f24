//! Retention: planned, applied, and verifiable afterwards.

use std::time::Duration;

use toolway_store::{
    audit::Verified,
    calls::{CallBody, CallFilter, CallState},
    retention::RetentionLimits,
    time,
};

use crate::stage::{Stage, begun, record};

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
