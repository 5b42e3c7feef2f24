//! The writer when something is wrong: one write among others, the lock of another process, a full queue.

use std::{fs::File, time::SystemTime};

use futures_util::future::join_all;
use rusqlite::Connection;
use toolway_host::policy::{ApprovalKey, SavedApproval, SavedEffect, Scope};
use toolway_store::{
    Store, StoreError, StoreOptions, Sync, Uuid,
    approvals::StoredApproval,
    audit::Verified,
    calls::{CallBody, CallState},
    rollup::RollupFilter,
};

use crate::stage::{Stage, begun, ended, record};

/// A store whose writes are acknowledged by their commit alone.
fn open(stage: &Stage) -> Store {
    Store::open(&StoreOptions { sync: Sync::Full, ..stage.options() }).unwrap().0
}

/// A connection that holds the write lock until it is dropped.
fn locked(stage: &Stage) -> Connection {
    let connection = Connection::open(stage.path()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

fn approval() -> StoredApproval {
    let key = ApprovalKey {
        caller: "agent".to_owned(),
        server: "files".parse().unwrap(),
        entry: "e".to_owned(),
        tool: "write".to_owned(),
        digest: String::new(),
    };
    let approval = SavedApproval::new(key, Scope::Any, SavedEffect::Allow);
    StoredApproval { approval, created_by: "terminal".to_owned() }
}

#[tokio::test]
async fn a_write_that_cannot_be_applied_takes_no_other_with_it() {
    let stage = Stage::new();
    let store = open(&stage);
    let saved = approval();
    store.save_approval(saved.clone()).await.unwrap();
    // All wait together while the lock is held, and form one batch.
    let lock = locked(&stage);
    let first = store.append_audit(Default::default());
    let twice = store.save_approval(saved);
    let call = ended(&begun("read"), CallState::Succeeded);
    let last = store.end_call(call.clone(), CallBody::default());
    drop(lock);
    first.await.unwrap();
    let error = twice.await.unwrap_err();
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    last.await.unwrap();
    assert_eq!(store.failed_writes(), 1);
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row, call);
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 2, checkpoint: 0 });
}

#[tokio::test]
async fn an_end_that_could_not_be_written_is_written_when_the_lock_is_free() {
    let stage = Stage::new();
    let store = open(&stage);
    let call = begun("read");
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    let lock = locked(&stage);
    let call = ended(&call, CallState::Succeeded);
    let error = store.end_call(call.clone(), CallBody::default()).await.unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row.state, CallState::Pending);
    drop(lock);
    while stage.reader().call(call.id).unwrap().unwrap().row != call {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 1, checkpoint: 0 });
    assert_eq!(stage.reader().stats(&RollupFilter::default()).unwrap()[0].total.calls, 1, "it is counted once");
}

#[tokio::test]
async fn an_end_that_waits_is_written_before_the_store_closes() {
    let stage = Stage::new();
    let store = open(&stage);
    let lock = locked(&stage);
    let call = ended(&begun("read"), CallState::Failed);
    store.end_call(call.clone(), CallBody::default()).await.unwrap_err();
    drop(lock);
    drop(store);
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row, call);
}

#[tokio::test]
async fn a_full_queue_refuses_beginnings_and_takes_ends() {
    let stage = Stage::new();
    let store = open(&stage);
    let lock = locked(&stage);
    let mut begins = Vec::new();
    let refused = loop {
        let mut write = Box::pin(store.write_call(begun("read"), CallBody::default()));
        match futures_util::poll!(&mut write) {
            std::task::Poll::Ready(result) => break result.unwrap_err(),
            std::task::Poll::Pending => begins.push(write),
        }
    };
    assert!(matches!(refused, StoreError::QueueFull(10_000..)), "{refused}");
    assert!(refused.to_string().contains("queue is full"), "{refused}");
    let end = store.end_call(ended(&begun("read"), CallState::Succeeded), CallBody::default());
    drop(lock);
    end.await.unwrap();
    // On a busy machine some of them have waited too long for the lock.
    drop(join_all(begins).await);
    record(&store, "read", CallState::Succeeded).await;
}

#[tokio::test]
async fn lock_files_of_processes_that_never_registered_are_removed_once_they_are_old() {
    let stage = Stage::new();
    drop(stage.open());
    let folder = stage.path().with_file_name("toolway.db.runs");
    let lock = |name: &str, modified: SystemTime| {
        let path = folder.join(name);
        File::create(&path).unwrap().set_modified(modified).unwrap();
        path
    };
    let old = lock(&format!("{}.lock", Uuid::now_v7()), SystemTime::UNIX_EPOCH);
    let recent = lock(&format!("{}.lock", Uuid::now_v7()), SystemTime::now());
    let foreign = lock("notes.txt", SystemTime::UNIX_EPOCH);
    let held = lock(&format!("{}.lock", Uuid::now_v7()), SystemTime::UNIX_EPOCH);
    let holder = File::open(&held).unwrap();
    holder.lock().unwrap();
    let store = stage.open();
    let exists = [&old, &recent, &foreign, &held].map(|path| path.exists());
    assert_eq!(exists, [false, true, true, true]);
    drop(store);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3, "its own lock is gone");
}

#[tokio::test]
async fn a_file_that_was_removed_has_no_reader() {
    let stage = Stage::new();
    let store = stage.open();
    std::fs::remove_file(stage.path()).unwrap();
    let error = store.reader().err().unwrap();
    assert!(matches!(error, StoreError::Closed), "{error}");
    assert_eq!(error.to_string(), "the store is closed");
}
