//! A store in a folder of its own, and calls to put into it.

use std::path::PathBuf;

use toolway_store::{
    Reader, Store, StoreOptions, Uuid,
    calls::{CallBody, CallRow, CallState, Delivery},
    time,
};

/// A folder with a database.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("state/toolway.db")
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions { path: Some(self.path()), ..StoreOptions::default() }
    }

    pub(crate) fn open(&self) -> Store {
        let (store, notice) = Store::open(&self.options()).unwrap();
        assert_eq!(notice, None);
        store
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&self.path()).unwrap().unwrap()
    }

    /// A connection around the store, for what a store would not do.
    pub(crate) fn tamper(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

/// A call that has begun.
pub(crate) fn begun(tool: &str) -> CallRow {
    CallRow {
        id: Uuid::now_v7(),
        started_at: time::now(),
        duration: None,
        waited: 0,
        prepared: None,
        caller: "terminal".to_owned(),
        surface: "call".to_owned(),
        kind: "tool".to_owned(),
        name: format!("files__{tool}"),
        server: None,
        tool: None,
        state: CallState::Pending,
        outcome: None,
        idempotent: false,
        rule: None,
        approved_by: None,
        error: None,
        conversation: None,
        argument_bytes: 2,
        result_bytes: 0,
        server_requests: 0,
        task: None,
    }
}

/// The same call after its end.
pub(crate) fn ended(call: &CallRow, state: CallState) -> CallRow {
    CallRow {
        state,
        outcome: Some(Delivery::Answered),
        duration: Some(1_500),
        server: Some("files".to_owned()),
        tool: Some(call.name.clone()),
        rule: Some("default".to_owned()),
        ..call.clone()
    }
}

/// A whole call, committed.
pub(crate) async fn record(store: &Store, tool: &str, state: CallState) -> CallRow {
    let call = begun(tool);
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    let call = ended(&call, state);
    store.end_call(call.clone(), CallBody::default()).await.unwrap();
    call
}
