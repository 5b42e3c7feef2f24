//! Retention by age: planned, applied, and verifiable afterwards. By size: `budget.rs`.

use std::time::Duration;

use toolway_store::{
    OpenNotice, Store, StoreOptions, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallRow, CallState},
    conversations::StoredConversation,
    retention::{AuditLimit, RetentionLimits},
    rollup::RollupFilter,
    time,
};

use crate::stage::{Stage, begun, ended, record};

const HOUR: i64 = 3_600_000_000;

/// Removes everything that has ended.
fn all() -> RetentionLimits {
    let age = Duration::from_micros(1);
    RetentionLimits { max_age: Some(age), audit: AuditLimit::MaxAge(age), ..RetentionLimits::default() }
}

/// A call that ended two hours ago.
fn old() -> CallRow {
    let mut call = ended(&begun("read"), CallState::Succeeded);
    call.id = Uuid::from_u128(call.id.as_u128() - (7_200_000 << 80));
    call.started_at -= 2 * HOUR;
    call
}

fn calls(stage: &Stage) -> Vec<Uuid> {
    let filter = CallFilter { limit: 100, ..CallFilter::default() };
    stage.reader().calls(&filter).unwrap().iter().map(|call| call.id).collect()
}

#[tokio::test]
async fn old_rows_are_planned_removed_and_leave_a_checkpoint_that_the_chain_confirms() {
    let stage = Stage::new();
    let store = stage.open();
    for _ in 0..10 {
        record(&store, "read", CallState::Succeeded).await;
    }
    let open = begun("running");
    store.write_call(open.clone(), CallBody::default()).await.unwrap();
    let minute = Duration::from_secs(60);
    let limits = RetentionLimits { max_age: Some(minute), audit: AuditLimit::MaxAge(minute), ..all() };
    assert!(store.prune(&limits).await.unwrap().is_empty(), "nothing is a minute old");

    let plan = stage.reader().plan_retention(&limits, time::now() + 120_000_000).unwrap();
    assert_eq!((plan.calls, plan.audit), (10, 10));

    tokio::time::sleep(Duration::from_millis(5)).await;
    let removed = store.prune(&all()).await.unwrap();
    assert_eq!(removed.calls, 10);
    assert_eq!(calls(&stage), [open.id], "an open call is kept");
    let Verified::Intact { checkpoint, .. } = stage.reader().verify_audit().unwrap() else { panic!("a broken chain") };
    assert!(10 <= checkpoint, "{checkpoint}");
    assert!(stage.reader().log_origin().unwrap().removed_at.is_some());

    // A checkpoint that no entry confirms was set by hand.
    record(&store, "read", CallState::Succeeded).await;
    let end = format!("DELETE FROM audit WHERE seq <= {0}; UPDATE audit_ends SET seq = {0}", checkpoint + 1);
    let hash = format!("(SELECT hash FROM audit WHERE seq = {})", checkpoint + 1);
    stage.tamper(&format!(
        "UPDATE audit_ends SET hash = {hash} WHERE which = 'checkpoint'; {end} WHERE which = 'checkpoint'"
    ));
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Broken { seq: checkpoint + 1 });
}

#[tokio::test]
async fn audit_entries_and_conversations_are_kept_without_an_age_of_their_own() {
    let stage = Stage::new();
    let store = stage.open();
    store.end_call(old(), CallBody::default()).await.unwrap();
    let then = time::now() - 2 * HOUR;
    let text = || "x".to_owned();
    let (id, title, model, surface) = (Uuid::now_v7(), text(), text(), text());
    let conversation = StoredConversation { id, started_at: then, updated_at: then, title, model, surface };
    store.write_conversation(conversation).await.unwrap();
    let hour = Some(Duration::from_secs(3_600));
    let removed = store.prune(&RetentionLimits { max_age: hour, ..RetentionLimits::default() }).await.unwrap();
    assert_eq!((removed.calls, removed.audit, removed.conversations), (1, 0, 0));
    assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 1.., checkpoint: 0 }));
    let removed = store.prune(&RetentionLimits { conversations: hour, ..RetentionLimits::default() }).await.unwrap();
    assert_eq!((removed.conversations, stage.reader().conversations(9).unwrap().len()), (1, 0));
}

/// Calls, audit entries and conversations of a busy day, removed in several steps.
#[tokio::test]
async fn much_is_removed_in_steps_between_which_calls_are_recorded() {
    let stage = Stage::new();
    let store = stage.open();
    let writes = (0..12_000).map(|_| store.end_call(old(), CallBody::default()));
    for written in writes.collect::<Vec<_>>() {
        written.await.unwrap();
    }
    // A query waits only for a while, and a busy machine takes longer to commit so many.
    while stage.reader().stats(&RollupFilter::default()).unwrap()[0].total.calls < 12_000 {
        tokio::task::yield_now().await;
    }
    // The calls are two hours old, the one that is recorded meanwhile is not.
    let limits = RetentionLimits { max_age: Some(Duration::from_secs(3_600)), ..RetentionLimits::default() };
    let (pruned, recorded) = tokio::join!(store.prune(&limits), record(&store, "meanwhile", CallState::Succeeded));
    assert_eq!(pruned.unwrap().calls, 12_000);
    assert_eq!(calls(&stage), [recorded.id]);
}

#[tokio::test]
async fn a_store_with_limits_removes_old_records_by_itself_and_says_so_once() {
    let stage = Stage::new();
    drop(stage.open().end_call(old(), CallBody::default()));
    let limits = RetentionLimits { max_age: Some(Duration::from_secs(3_600)), ..RetentionLimits::default() };
    let options = StoreOptions { limits, ..stage.options() };
    let (store, notice) = Store::open(&options).unwrap();
    assert_eq!(notice, None);
    while !calls(&stage).is_empty() {
        tokio::task::yield_now().await;
    }
    drop(store);
    let (_store, notice) = Store::open(&options).unwrap();
    assert!(matches!(notice, Some(OpenNotice::Removing { .. })), "{notice:?}");
    assert!(notice.unwrap().to_string().contains("store.maxBytes"));
    assert_eq!(Store::open(&options).unwrap().1, None, "it is said once");
}
