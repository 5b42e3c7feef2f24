//! The read port, as surfaces use it.

use std::sync::Arc;

use toolway_host::{
    policy::Attendance,
    record::{CallBody, CallFilter, CallState, RecordChanges, Records, RecordsError, StatsFilter},
};
use toolway_store::{StoreRecords, retention::RetentionLimits};

use crate::stage::{Stage, begun, ended};

fn all() -> CallFilter {
    CallFilter { limit: 10, ..CallFilter::default() }
}

#[tokio::test]
async fn records_without_and_with_a_writer_are_the_same() {
    let stage = Stage::new();
    let store = stage.open();
    let call = begun("read");
    let end = ended(&call, CallState::ToolError);
    store.end_call(end.clone(), CallBody { arguments: Some("{}".to_owned()), result: None }).await.unwrap();
    let limits = RetentionLimits { max_bytes: Some(1 << 30), ..RetentionLimits::default() };
    let without_writer = stage.records(limits);
    let of_store = StoreRecords::of(store).with_limits(limits);
    for records in [Arc::new(without_writer) as Arc<dyn Records>, Arc::new(of_store)] {
        assert_eq!(records.calls(all()).await.unwrap(), std::slice::from_ref(&end));
        let found = records.call(call.id).await.unwrap().unwrap();
        assert_eq!((found.row, found.body.arguments.as_deref()), (end.clone(), Some("{}")));
        let stats = records.stats(StatsFilter::default()).await.unwrap();
        assert_eq!((stats[0].calls, stats[0].unsuccessful, stats[0].mean), (1, 1, end.duration));
        let usage = records.usage().await.unwrap();
        assert_eq!((usage.max_bytes, usage.corrupt_bytes), (Some(1 << 30), 0));
        assert!(0 < usage.bytes);
        assert_eq!(records.plan_retention().await.unwrap().calls, 0);
    }
}

#[tokio::test]
async fn a_call_is_found_by_the_beginning_or_the_end_of_its_id() {
    let stage = Stage::new();
    let store = stage.open();
    let call = begun("read");
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    let records = StoreRecords::of(store);
    let text = call.id.to_string();
    for digits in [&text, &text[..13], &text[28..], &text[20..]] {
        assert_eq!(records.find_calls(digits).await.unwrap(), [call.id], "{digits}");
    }
    assert!(records.find_calls("no digits").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_change_that_is_not_possible_is_an_error_to_match() {
    let stage = Stage::new();
    let store = stage.open();
    let without_writer = stage.records(RetentionLimits::default());
    let refused = without_writer.delete_conversation(begun("read").id).await;
    assert!(matches!(refused, Err(RecordsError::Invalid(_))), "{refused:?}");
    let unnamed = StoreRecords::of(store).set_approval_holds("no id", Attendance::Unattended).await;
    assert!(matches!(unnamed, Err(RecordsError::Invalid(_))), "{unnamed:?}");
}
