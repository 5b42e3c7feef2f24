//! Calls: written at their beginning and end, found by what they have in common.

use futures_util::future::join_all;
use toolway_store::{
    audit::Verified,
    calls::{CallBody, CallFilter, CallRow, CallState, StoredCall},
    rollup::RollupFilter,
};

use crate::stage::{Engine, Stage, begun, ended, record};

#[tokio::test]
async fn a_call_is_one_row_from_beginning_to_end() {
    let stage = Stage::new();
    let store = stage.open();
    let call = begun("read");
    let body = CallBody { arguments: Some(r#"{"path":"a"}"#.to_owned()), result: None };
    store.write_call(call.clone(), body).await.unwrap();
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row, call);
    let end = ended(&call, CallState::Succeeded);
    let result = CallBody { arguments: None, result: Some(r#"{"content":[]}"#.to_owned()) };
    store.end_call(end.clone(), result).await.unwrap();
    let StoredCall { row: found, body } = stage.reader().call(call.id).unwrap().unwrap();
    assert_eq!(found, end);
    assert_eq!(body.arguments.as_deref(), Some(r#"{"path":"a"}"#));
    assert_eq!(body.result.as_deref(), Some(r#"{"content":[]}"#));
    assert_eq!(stage.reader().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_whose_beginning_was_not_written_is_complete_after_its_end() {
    let stage = Stage::new();
    let store = stage.open();
    let end = ended(&begun("read"), CallState::Failed);
    store.end_call(end.clone(), CallBody::default()).await.unwrap();
    assert_eq!(stage.reader().call(end.id).unwrap().unwrap().row, end);
}

#[tokio::test]
async fn beginning_and_end_in_one_batch_are_one_row() {
    let stage = Stage::new();
    let store = stage.open();
    let calls: Vec<_> = (0..200).map(|number| begun(&format!("tool{number}"))).collect();
    // All are queued before the first is awaited.
    let begins: Vec<_> = calls.iter().map(|call| store.write_call(call.clone(), CallBody::default())).collect();
    let end = |call| store.end_call(ended(call, CallState::Succeeded), CallBody::default());
    let ends: Vec<_> = calls.iter().map(end).collect();
    for result in join_all(begins).await.into_iter().chain(join_all(ends).await) {
        result.unwrap();
    }
    let found = stage.reader().calls(&CallFilter { limit: 1_000, ..CallFilter::default() }).unwrap();
    assert_eq!(found.len(), 200);
    assert!(found.iter().all(|call| call.state == CallState::Succeeded));
    assert!(found.is_sorted_by(|a, b| a.id > b.id), "newest first");
}

#[tokio::test]
async fn calls_are_found_by_state_server_caller_and_time() {
    let stage = Stage::new();
    let store = stage.open();
    let read = record(&store, "read", CallState::Succeeded).await;
    let write = record(&store, "write", CallState::Refused).await;
    let mut client = ended(&begun("list"), CallState::ToolError);
    (client.caller, client.server) = ("client:editor".to_owned(), Some("mail".to_owned()));
    store.end_call(client.clone(), CallBody::default()).await.unwrap();

    let reader = stage.reader();
    let find = |filter: CallFilter| -> Vec<toolway_store::Uuid> {
        let calls = reader.calls(&CallFilter { limit: 100, ..filter }).unwrap();
        calls.into_iter().map(|call| call.id).collect()
    };
    let any = CallFilter::default;
    assert_eq!(find(any()), [client.id, write.id, read.id]);
    assert_eq!(find(CallFilter { states: vec![CallState::Refused, CallState::Failed], ..any() }), [write.id]);
    assert_eq!(find(CallFilter { states: vec![CallState::Succeeded], ..any() }), [read.id]);
    assert_eq!(find(CallFilter { server: Some("mail".to_owned()), ..any() }), [client.id]);
    assert_eq!(find(CallFilter { caller: Some("client".to_owned()), ..any() }), [client.id]);
    assert_eq!(find(CallFilter { caller: Some("client:editor".to_owned()), ..any() }), [client.id]);
    assert_eq!(find(CallFilter { caller: Some("client:other".to_owned()), ..any() }), [] as [toolway_store::Uuid; 0]);
    assert_eq!(find(CallFilter { caller: Some("terminal".to_owned()), ..any() }), [write.id, read.id]);
    assert_eq!(find(CallFilter { before: Some(write.id), ..any() }), [read.id]);
    assert_eq!(
        find(CallFilter { since: Some(client.started_at + 60_000_000), ..any() }),
        [] as [toolway_store::Uuid; 0]
    );
    assert_eq!(find(CallFilter { since: Some(read.started_at), ..any() }).len(), 3);
}

#[tokio::test]
async fn calls_of_one_kind_of_caller_are_merged_newest_first_and_paged() {
    let stage = Stage::new();
    let store = stage.open();
    let mut recorded = Vec::new();
    for number in 0..30 {
        let mut call = ended(&begun("list"), CallState::Succeeded);
        call.caller = ["client:a", "client:b", "client", "client:c", "clients:d", "terminal"][number % 6].to_owned();
        store.end_call(call.clone(), CallBody::default()).await.unwrap();
        recorded.insert(0, call);
    }
    recorded.retain(|call| call.caller.split(':').next() == Some("client"));
    let reader = stage.reader();
    let page = |before, limit| {
        let filter = CallFilter { caller: Some("client".to_owned()), before, limit, ..CallFilter::default() };
        reader.calls(&filter).unwrap().into_iter().map(|call| call.id).collect::<Vec<_>>()
    };
    let all: Vec<_> = recorded.iter().map(|call| call.id).collect();
    assert_eq!(page(None, 100), all);
    assert_eq!(page(None, 7), all[..7]);
    assert_eq!(page(Some(all[6]), 7), all[7..14]);
    assert!(page(None, 0).is_empty());
}

#[tokio::test]
async fn a_call_is_found_by_the_end_or_the_beginning_of_its_id() {
    let stage = Stage::new();
    let store = stage.open();
    let call = record(&store, "read", CallState::Succeeded).await;
    let reader = stage.reader();
    let text = call.id.to_string();
    assert_eq!(reader.find_calls(&text).unwrap(), [call.id]);
    assert_eq!(reader.find_calls(&text[28..]).unwrap(), [call.id]);
    assert_eq!(reader.find_calls(&text[29..].to_uppercase()).unwrap(), [call.id], "an odd number of digits");
    assert_eq!(reader.find_calls(&text[..13]).unwrap(), [call.id]);
    for text in ["", "zz", "ffffffff"] {
        assert!(reader.find_calls(text).unwrap().is_empty(), "{text}");
    }
}

#[tokio::test]
async fn statistics_come_from_rollups() {
    let stage = Stage::new();
    let store = stage.open();
    for _ in 0..3 {
        record(&store, "read", CallState::Succeeded).await;
    }
    record(&store, "read", CallState::ToolError).await;
    record(&store, "write", CallState::Refused).await;
    let stats = stage.reader().stats(&RollupFilter::default()).unwrap();
    let seen: Vec<_> = stats.iter().map(|tool| (tool.tool.as_str(), tool.total.calls, tool.unsuccessful)).collect();
    assert_eq!(seen, [("files__read", 4, 1), ("files__write", 1, 1)]);
    assert_eq!(stats[0].total.quantile(0.5), Some(2_500));
    let mail = RollupFilter { server: Some("mail".to_owned()), ..RollupFilter::default() };
    assert!(stage.reader().stats(&mail).unwrap().is_empty());
}

#[tokio::test]
async fn statistics_begin_with_the_minute_of_their_start() {
    const HOUR: i64 = 3_600_000_000;
    let stage = Stage::new();
    let store = stage.open();
    let noon = 20_000 * 24 * HOUR + 12 * HOUR;
    for (minutes, state) in [(0, CallState::Succeeded), (0, CallState::Failed), (59, CallState::Succeeded)] {
        for hours in [0, 1, 5] {
            let mut call = ended(&begun("read"), state);
            call.started_at = noon + hours * HOUR + minutes * 60_000_000;
            store.end_call(call, CallBody::default()).await.unwrap();
        }
    }
    let reader = stage.reader();
    let filter = |since| RollupFilter { since, caller: Some("terminal".to_owned()), ..RollupFilter::default() };
    for (since, calls) in [(noon, 9), (noon + 1, 9), (noon + 60_000_000, 7), (noon + HOUR, 6), (noon + 9 * HOUR, 0)] {
        let stats = reader.stats(&filter(since)).unwrap();
        assert_eq!(stats.first().map_or(0, |tool| tool.total.calls), calls, "since {since}");
    }
}

#[tokio::test]
async fn a_call_is_found_by_the_end_of_its_id_among_many_newer_ones() {
    let stage = Stage::new();
    let store = stage.open();
    let first = record(&store, "read", CallState::Succeeded).await;
    let later = |_| store.end_call(ended(&begun("read"), CallState::Succeeded), CallBody::default());
    for written in join_all((0..10_001).map(later)).await {
        written.unwrap();
    }
    assert_eq!(stage.reader().find_calls(&first.id.to_string()[28..]).unwrap(), [first.id]);
}

#[tokio::test]
async fn a_call_ends_once() {
    let stage = Stage::new();
    let store = stage.open();
    let call = record(&store, "read", CallState::Succeeded).await;
    let again = || store.end_call(ended(&call, CallState::Failed), CallBody::default());
    again().await.unwrap();
    let late = store.write_call(begun_again(&call), CallBody::default());
    for written in join_all([again(), again()]).await {
        written.unwrap();
    }
    late.await.unwrap();
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row, call);
    assert_eq!(stage.reader().stats(&RollupFilter::default()).unwrap()[0].total.calls, 1);
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 1, checkpoint: 0 });
}

/// The row of a call as it was while it was sent.
fn begun_again(call: &CallRow) -> CallRow {
    CallRow { state: CallState::Running, duration: None, ..call.clone() }
}

/// Another process took its own for one that was killed.
#[tokio::test]
async fn a_call_that_was_taken_for_interrupted_gets_its_end() {
    let stage = Stage::new();
    let (store, call) = (stage.open(), begun("read"));
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    stage.tamper("UPDATE calls SET state = 'interrupted'");
    let again = store.write_call(begun_again(&call), CallBody::default()).await;
    // A database refuses to say that a closed call is sent.
    assert_eq!(again.is_ok(), matches!(crate::ENGINE, Engine::Sqlite), "{again:?}");
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row.state, CallState::Interrupted);
    let end = ended(&call, CallState::Succeeded);
    store.end_call(end.clone(), CallBody::default()).await.unwrap();
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row, end);
}
