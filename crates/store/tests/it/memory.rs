//! A store in memory: the last calls for queries of this process.

use toolway_store::{
    Store,
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
