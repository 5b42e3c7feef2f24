//! Load on a store, so that calls are acknowledged before their commit, and what a killed process leaves.

use std::{fs, path::Path};

use futures_util::{FutureExt, future::join_all};
use rusqlite::Connection;
use toolway_store::{
    Reader, Store, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallState},
};

use crate::stage::{Stage, begun, ended};

/// Calls at once, enough to be load.
pub(crate) const LOAD: usize = 64;

pub(crate) fn all() -> CallFilter {
    CallFilter { limit: 100_000, ..CallFilter::default() }
}

/// Holds the write lock until it is dropped.
pub(crate) fn locked(stage: &Stage) -> Connection {
    let connection = Connection::open(stage.path()).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// Ends many calls at once.
pub(crate) async fn load(store: &Store) {
    let end = |_| store.end_call(ended(&begun("read"), CallState::Succeeded), CallBody::default());
    for result in join_all((0..LOAD).map(end)).await {
        result.unwrap();
    }
}

/// Ends calls while nothing can be committed. Returns those that were acknowledged nevertheless.
pub(crate) fn acknowledged(store: &Store) -> Vec<Uuid> {
    let ends = (0..20).filter_map(|_| {
        let call = ended(&begun("read"), CallState::Succeeded);
        let body = CallBody { arguments: Some("{}".to_owned()), result: Some("[]".to_owned()) };
        store.end_call(call.clone(), body).now_or_never().map(|result| result.map(|()| call.id).unwrap())
    });
    ends.collect()
}

/// Puts load on the store until calls are acknowledged while the database is locked; returns them and the lock.
pub(crate) async fn acknowledged_under_lock(stage: &Stage, store: &Store) -> (Vec<Uuid>, Connection) {
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
pub(crate) fn copy(from: &Path, to: &Path) {
    for name in ["toolway.db", "toolway.db-wal"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    fs::create_dir(to.join("toolway.db.runs")).unwrap();
    for file in fs::read_dir(from.join("toolway.db.runs")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join("toolway.db.runs").join(file.file_name())).unwrap();
    }
}

pub(crate) fn assert_complete(reader: &Reader, acknowledged: &[Uuid]) {
    let calls = reader.calls(&all()).unwrap();
    for id in acknowledged {
        let found: Vec<_> = calls.iter().filter(|call| call.id == *id).collect();
        assert_eq!(found.len(), 1, "{id}");
        assert_eq!(found[0].state, CallState::Succeeded);
        assert_eq!(reader.call(*id).unwrap().unwrap().body.result.as_deref(), Some("[]"));
    }
    let Verified::Intact { entries, .. } = reader.verify_audit().unwrap() else { panic!("a broken chain") };
    assert_eq!(entries, calls.len() as u64, "one event for each call");
    let counted: i64 = reader.stats(&Default::default()).unwrap().iter().map(|tool| tool.total.calls).sum();
    assert_eq!(counted, calls.len() as i64);
}
