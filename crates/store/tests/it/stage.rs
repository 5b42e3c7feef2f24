//! A store in a folder of its own, and calls to put into it.

use std::path::PathBuf;

use toolway_config::Secret;
use toolway_store::{
    Reader, Store, StoreOptions, StoreRecords, Uuid,
    calls::{CallBody, CallRow, CallState, Delivery},
    retention::RetentionLimits,
    time,
};
use toolway_testkit::postgres::TestDatabase;

/// What a store is kept in: `crate::ENGINE`. The test `postgres` has the same stories as `it` on the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "each of the two tests is for one of them")]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// A place for a store: a folder, and a database if it is kept in Postgres.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    pub(crate) database: Option<TestDatabase>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let database = match crate::ENGINE {
            Engine::Sqlite => None,
            Engine::Postgres => Some(TestDatabase::new()),
        };
        Self { folder: tempfile::tempdir().unwrap(), database }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("state/toolway.db")
    }

    pub(crate) fn options(&self) -> StoreOptions {
        match &self.database {
            Some(database) => StoreOptions { url: Some(database.url()), ..StoreOptions::default() },
            None => StoreOptions { path: Some(self.path()), ..StoreOptions::default() },
        }
    }

    pub(crate) fn open(&self) -> Store {
        let (store, notice) = Store::open(&self.options()).unwrap();
        assert_eq!(notice, None);
        store
    }

    pub(crate) fn reader(&self) -> Reader {
        match &self.database {
            Some(database) => Reader::connect(&database.url()).unwrap(),
            None => Reader::open(&self.path()).unwrap().unwrap(),
        }
    }

    /// Records for queries alone.
    pub(crate) fn records(&self, limits: RetentionLimits) -> StoreRecords {
        match &self.database {
            Some(database) => StoreRecords::connect(&database.url(), limits).unwrap(),
            None => StoreRecords::open(&self.path(), limits).unwrap().unwrap(),
        }
    }

    /// Names the store to another process of a story, which opens it with [`options_at`].
    pub(crate) fn location(&self) -> String {
        match &self.database {
            Some(database) => database.url().expose().to_owned(),
            None => self.path().display().to_string(),
        }
    }

    /// A file beside the store.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A connection around the store, for what a store would not do.
    pub(crate) fn tamper(&self, sql: &str) {
        match &self.database {
            Some(database) => database.execute(sql),
            None => rusqlite::Connection::open(self.path()).unwrap().execute_batch(sql).unwrap(),
        }
    }
}

/// How to open the store at a [`Stage::location`].
pub(crate) fn options_at(location: &str) -> StoreOptions {
    match crate::ENGINE {
        Engine::Sqlite => StoreOptions { path: Some(location.into()), ..StoreOptions::default() },
        Engine::Postgres => StoreOptions { url: Some(Secret::new(location)), ..StoreOptions::default() },
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
        from_cache: false,
        rule: None,
        approved_by: None,
        error: None,
        code: None,
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
