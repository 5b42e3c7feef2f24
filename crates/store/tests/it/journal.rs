//! Under load, calls are acknowledged before their commit and survive the end of their process.

use std::{fs, path::Path};

use futures_util::{FutureExt, future::join_all};
use rusqlite::Connection;
use toolway_store::{
    Reader, Store, StoreOptions, Sync, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallState},
};

use crate::stage::{Stage, begun, ended};

/// Calls at once, enough to be load.
const LOAD: usize = 64;

fn all() -> CallFilter {
    CallFilter { limit: 100_000, ..CallFilter::default() }
}

/// Holds the write lock until it is dropped.
fn locked(stage: &Stage) -> Connection {
    let connection = Connection::open(stage.path()).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// Ends many calls at once.
async fn load(store: &Store) {
    let end = |_| store.end_call(ended(&begun("read"), CallState::Succeeded), CallBody::default());
    for result in join_all((0..LOAD).map(end)).await {
        result.unwrap();
    }
}

/// Ends calls while nothing can be committed. Returns those that were acknowledged nevertheless.
fn acknowledged(store: &Store) -> Vec<Uuid> {
    let ends = (0..20).filter_map(|_| {
        let call = ended(&begun("read"), CallState::Succeeded);
        let body = CallBody { arguments: Some("{}".to_owned()), result: Some("[]".to_owned()) };
        store.end_call(call.clone(), body).now_or_never().map(|result| result.map(|()| call.id).unwrap())
    });
    ends.collect()
}

/// Puts load on the store until calls are acknowledged while the database is locked; returns them and the lock.
async fn acknowledged_under_lock(stage: &Stage, store: &Store) -> (Vec<Uuid>, Connection) {
    loop {
        load(store).await;
        let lock = locked(stage);
        let acknowledged = acknowledged(store);
        if !acknowledged.is_empty() {
            return (acknowledged, lock);
        }
    }
}

/// Copies a database with its journals, as a process leaves them that is killed at this moment.
fn copy(from: &Path, to: &Path) {
    for name in ["toolway.db", "toolway.db-wal"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    fs::create_dir(to.join("toolway.db.runs")).unwrap();
    for file in fs::read_dir(from.join("toolway.db.runs")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join("toolway.db.runs").join(file.file_name())).unwrap();
    }
}

fn assert_complete(reader: &Reader, acknowledged: &[Uuid]) {
    let calls = reader.calls(&all()).unwrap();
    for id in acknowledged {
        let found: Vec<_> = calls.iter().filter(|call| call.id == *id).collect();
        assert_eq!(found.len(), 1, "{id}");
        assert_eq!(found[0].state, CallState::Succeeded);
        assert_eq!(reader.call(*id).unwrap().unwrap().1.result.as_deref(), Some("[]"));
    }
    let Verified::Intact { entries, .. } = reader.verify_audit().unwrap() else { panic!("a broken chain") };
    assert_eq!(entries, calls.len() as u64, "one event for each call");
    let counted: i64 = reader.stats(&Default::default()).unwrap().iter().map(|tool| tool.total.calls).sum();
    assert_eq!(counted, calls.len() as i64);
}

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
    let (next, _) = Store::open(&StoreOptions { path: Some(path.clone()), sync: Sync::Normal }).unwrap();
    assert_complete(&next.reader().unwrap(), &acknowledged);
    drop(next);
    let (again, _) = Store::open(&StoreOptions { path: Some(path), sync: Sync::Normal }).unwrap();
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
