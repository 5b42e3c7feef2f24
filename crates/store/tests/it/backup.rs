//! A backup goes into a file of its own.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
};

use toolway_host::connection::SessionStore;
use toolway_store::{
    Store, Uuid,
    backup::{self, Existing},
    calls::CallState,
};

use crate::{
    sessions::{owner, session},
    stage::{Stage, record},
};

#[tokio::test]
async fn file_that_another_user_prepared_gets_nothing_of_the_backup() {
    let stage = Stage::new();
    let (store, _) = Store::open(&stage.options()).unwrap();
    record(&store, "read", CallState::Succeeded).await;
    drop(store);
    let folder = tempfile::tempdir().unwrap();
    let prepared = folder.path().join("all.db.partial");
    fs::write(&prepared, "").unwrap();
    fs::set_permissions(&prepared, fs::Permissions::from_mode(0o666)).unwrap();
    let mut theirs = File::open(&prepared).unwrap();
    let file = folder.path().join("all.db");
    assert_eq!(backup::write(&stage.path(), &file, None, Existing::Keep).unwrap().calls, 1);
    let mut seen = Vec::new();
    theirs.read_to_end(&mut seen).unwrap();
    assert!(seen.is_empty());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn backup_has_no_session() {
    let stage = Stage::new();
    let store = stage.open();
    store.put(Uuid::now_v7(), owner("ada", "e"), session("a-secret-session-id")).await.unwrap();
    drop(store);
    let file = stage.path().with_file_name("made.db");
    backup::write(&stage.path(), &file, None, Existing::Keep).unwrap();
    let has_id = |path| std::fs::read(path).unwrap().windows(19).any(|bytes| bytes == b"a-secret-session-id");
    assert!(has_id(stage.path()) && !has_id(file));
}
