//! Rows of client sessions: whose they are, and what is kept of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use toolway_gateway::{
    access::{Access, KeyFile},
    cluster::ClusterSessions,
};
use toolway_host::cluster::{
    ClientSessionChanges, ClientSessionLimits, ClientSessionReply, ClientSessionRow, ClientSessionStore,
};
use toolway_wire::{
    down::{SessionChanges, SessionRow, SessionRows, SubscriptionChange},
    exchange::LogLevel,
    revision::Revision,
};
use uuid::Uuid;

const IDLE: Duration = Duration::from_secs(60);
/// An id as `wire` makes it.
const ID: &str = "0123456789abcdef0123456789abcdef";

/// Rows in memory.
#[derive(Debug, Default)]
struct Rows {
    rows: Mutex<BTreeMap<Uuid, ClientSessionRow>>,
    changes: Mutex<Vec<ClientSessionChanges>>,
}

impl ClientSessionStore for Rows {
    fn begin(&self, id: Uuid, row: ClientSessionRow, _: ClientSessionLimits) -> ClientSessionReply<'_, ()> {
        self.rows.lock().insert(id, row);
        Box::pin(ready(Ok(())))
    }

    fn find(&self, id: Uuid, _: Duration) -> ClientSessionReply<'_, Option<ClientSessionRow>> {
        Box::pin(ready(Ok(self.rows.lock().get(&id).cloned())))
    }

    fn change(&self, _: Uuid, changes: ClientSessionChanges) -> ClientSessionReply<'_, bool> {
        self.changes.lock().push(changes);
        Box::pin(ready(Ok(true)))
    }

    fn end(&self, id: Uuid) -> ClientSessionReply<'_, ()> {
        self.rows.lock().remove(&id);
        Box::pin(ready(Ok(())))
    }
}

/// A gateway over rows, and the keys of its clients.
struct Stage {
    _folder: tempfile::TempDir,
    keys: KeyFile,
    rows: Arc<Rows>,
    sessions: ClusterSessions,
}

fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyFile::at(folder.path().join("clients.json"));
    keys.add("editor", None, None).unwrap();
    let rows = Arc::new(Rows::default());
    let access = Arc::new(Access::with_key_file(Some(keys.clone())).unwrap());
    let limits = ClientSessionLimits { idle: IDLE, per_principal: 8 };
    let sessions = ClusterSessions::new(Arc::clone(&rows) as _, access, limits);
    Stage { _folder: folder, keys, rows, sessions }
}

fn row() -> SessionRow {
    SessionRow {
        principal: "editor".into(),
        revision: Revision::V2025_11_25,
        capabilities: "{}".to_owned(),
        log_level: Some(LogLevel::Error),
        subscriptions: BTreeSet::from(["memo://one".to_owned()]),
    }
}

#[tokio::test]
async fn session_is_rebuilt_as_it_was_and_its_changes_are_written() {
    let Stage { rows, sessions, _folder, .. } = stage();
    sessions.begin(ID, row()).await.unwrap();
    assert_eq!(sessions.find(ID, IDLE).await.unwrap(), Some(row()));
    let changes = SessionChanges {
        log_level: Some(LogLevel::Debug),
        subscriptions: BTreeMap::from([
            ("memo://two".to_owned(), SubscriptionChange::Added),
            ("memo://one".to_owned(), SubscriptionChange::Removed),
        ]),
    };
    assert!(sessions.change(ID, changes).await.unwrap());
    let written = ClientSessionChanges {
        log_level: Some("debug".to_owned()),
        subscribed: vec!["memo://two".to_owned()],
        unsubscribed: vec!["memo://one".to_owned()],
    };
    assert_eq!(*rows.changes.lock(), [written]);
    sessions.end(ID).await.unwrap();
    assert_eq!(sessions.find(ID, IDLE).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn later_client_of_the_same_name_does_not_get_a_session() {
    let Stage { keys, sessions, _folder, .. } = stage();
    sessions.begin(ID, row()).await.unwrap();
    keys.rotate("editor", Duration::from_secs(60)).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(sessions.find(ID, IDLE).await.unwrap().is_some(), "a rotated key is of the same client");
    keys.revoke("editor").unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(sessions.find(ID, IDLE).await.unwrap(), None);
    keys.add("editor", None, None).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(sessions.find(ID, IDLE).await.unwrap(), None);
}

#[tokio::test]
async fn row_of_a_revision_that_this_release_does_not_know_is_not_found() {
    let Stage { rows, sessions, _folder, .. } = stage();
    sessions.begin(ID, row()).await.unwrap();
    rows.rows.lock().values_mut().for_each(|row| row.revision = "2031-01-01".to_owned());
    assert_eq!(sessions.find(ID, IDLE).await.unwrap(), None);
}
