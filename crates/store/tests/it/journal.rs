//! Under load, calls are acknowledged before their commit and survive the end of their process.

use std::fs;

use toolway_store::{Reader, Store, StoreOptions, Sync, Uuid};

use crate::{
    load::{LOAD, acknowledged, acknowledged_under_lock, all, assert_complete, copy, load, locked},
    stage::Stage,
};

#[tokio::test]
async fn calls_acknowledged_before_a_kill_are_complete_for_the_next_process() {
    let stage = Stage::new();
    let store = stage.open();
    let (acknowledged, lock) = acknowledged_under_lock(&stage, &store).await;
    let (for_writer, for_reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for copied in [&for_writer, &for_reader] {
        copy(stage.path().parent().unwrap(), copied.path());
    }
    drop(lock);

    let path = for_writer.path().join("toolway.db");
    let (next, _) = Store::open(&StoreOptions { path: Some(path.clone()), ..StoreOptions::default() }).unwrap();
    assert_complete(&next.reader().unwrap(), &acknowledged);
    drop(next);
    let (again, _) = Store::open(&StoreOptions { path: Some(path), ..StoreOptions::default() }).unwrap();
    assert_complete(&again.reader().unwrap(), &acknowledged);
    drop(again);
    assert_eq!(fs::read_dir(for_writer.path().join("toolway.db.runs")).unwrap().count(), 0, "no file is left");
    // A command that only reads applies them as well.
    assert_complete(&Reader::open(&for_reader.path().join("toolway.db")).unwrap().unwrap(), &acknowledged);
}

#[tokio::test]
async fn calls_acknowledged_while_the_database_was_locked_are_committed_when_it_is_free() {
    let stage = Stage::new();
    let store = stage.open();
    let (acknowledged, lock) = acknowledged_under_lock(&stage, &store).await;
    drop(lock);
    assert_complete(&stage.reader(), &acknowledged);
    drop(store);
    assert_complete(&stage.reader(), &acknowledged);
    assert_eq!(fs::read_dir(stage.path().with_file_name("toolway.db.runs")).unwrap().count(), 0, "no file is left");
}

#[tokio::test]
async fn a_query_sees_every_call_that_was_acknowledged_before_it() {
    let stage = Stage::new();
    let store = stage.open();
    for round in 1..=20 {
        load(&store).await;
        let reader = if round % 2 == 0 { stage.reader() } else { store.reader().unwrap() };
        assert_eq!(reader.calls(&all()).unwrap().len(), round * LOAD);
    }
}

/// A commit that reaches the disk is what `store.sync: full` is for.
#[tokio::test]
async fn with_full_sync_every_call_waits_for_its_commit() {
    let stage = Stage::new();
    let (store, _) = Store::open(&StoreOptions { sync: Sync::Full, ..stage.options() }).unwrap();
    load(&store).await;
    let lock = locked(&stage);
    assert!(acknowledged(&store).is_empty());
    drop(lock);
}

#[tokio::test]
async fn a_query_waits_for_calls_whose_first_commit_failed() {
    let stage = Stage::new();
    let store = stage.open();
    let (acknowledged, lock) = acknowledged_under_lock(&stage, &store).await;
    // Fails after some seconds, in one batch with the calls or after it.
    store.remove_approval(Uuid::nil()).await.unwrap_err();
    let failed = store.failed_writes();
    store.remove_approval(Uuid::nil()).await.unwrap_err();
    store.remove_approval(Uuid::nil()).await.unwrap_err();
    assert_eq!(store.failed_writes(), failed + 2, "a call that is tried again is counted once");
    drop(lock);
    assert_complete(&store.reader().unwrap(), &acknowledged);
}

#[tokio::test]
async fn acknowledged_calls_are_kept_while_no_transaction_can_be_made() {
    let stage = Stage::new();
    let store = stage.open();
    let (acknowledged, lock) = acknowledged_under_lock(&stage, &store).await;
    lock.execute_batch("CREATE TABLE kept AS SELECT * FROM audit_ends; DELETE FROM audit_ends; COMMIT").unwrap();
    while store.failed_writes() == 0 {
        tokio::task::yield_now().await;
    }
    store.remove_approval(Uuid::nil()).await.unwrap_err();
    lock.execute_batch("INSERT INTO audit_ends SELECT * FROM kept; DROP TABLE kept").unwrap();
    assert_complete(&store.reader().unwrap(), &acknowledged);
}
