//! A store in memory: the last calls for queries of this process.

use std::time::UNIX_EPOCH;

use futures_util::future::join_all;
use toolway_host::{
    policy::{CallDays, DayCount, DayTaken, DayUse},
    record::Requirement,
};
use toolway_store::{
    Store, StoreRecorder, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallState, StoredCall},
    rollup::RollupFilter,
};

use crate::stage::{begun, ended};

#[tokio::test]
async fn the_last_calls_are_kept_and_all_are_counted() {
    const CALLS: usize = 3_000;
    let store = Store::in_memory().unwrap();
    let waiting = begun("approve");
    let body = CallBody { arguments: Some("{}".to_owned()), result: None };
    store.write_call(waiting.clone(), body).await.unwrap();
    let mut last = None;
    for _ in 0..CALLS {
        let call = begun("read");
        store.write_call(call.clone(), CallBody::default()).await.unwrap();
        let call = ended(&call, CallState::Succeeded);
        store.end_call(call.clone(), CallBody::default()).await.unwrap();
        last = Some(call);
    }
    let reader = store.reader().unwrap();
    let calls = reader.calls(&CallFilter { limit: 2 * CALLS, ..CallFilter::default() }).unwrap();
    assert_eq!(calls.first(), last.as_ref());
    assert_eq!(calls.last(), Some(&waiting), "an open call is kept");
    assert!((900..CALLS).contains(&calls.len()), "{}", calls.len());
    let stats = reader.stats(&RollupFilter::default()).unwrap();
    assert_eq!(stats[0].total.calls, CALLS as i64);
    assert!(matches!(reader.verify_audit().unwrap(), Verified::Intact { .. }));

    let end = ended(&waiting, CallState::Refused);
    store.end_call(end.clone(), CallBody::default()).await.unwrap();
    store.catch_up();
    let StoredCall { row: found, body } = reader.call(waiting.id).unwrap().unwrap();
    assert_eq!((found, body.arguments.as_deref()), (end, Some("{}")));
}

#[tokio::test]
async fn a_store_in_memory_counts_too() {
    let store = Store::in_memory().unwrap();
    let recorder = StoreRecorder::new(store, Requirement::BestEffort, "terminal");
    let taken = join_all((0..64).map(|_| recorder.take(one_of_fifty()))).await;
    assert_eq!(taken.iter().filter(|one| matches!(one, Ok(DayTaken::Granted))).count(), 50);
}

fn one_of_fifty() -> DayUse {
    let counts = vec![DayCount { key: "a".to_owned(), most: 50 }];
    DayUse { call: Uuid::now_v7(), at: UNIX_EPOCH, counts }
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
    let bytes = store.reader().unwrap().size().unwrap().data;
    assert!((30 * 1024 * 1024..80 * 1024 * 1024).contains(&bytes), "{bytes} of 120 MB");
}
