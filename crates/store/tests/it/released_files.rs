//! Databases of released versions, kept as they were written: every later version opens them and keeps what they have.
//!
//! `tests/released-store` of the repository makes the file of the present version: a call, a failed call, a conversation, a
//! client key. A release adds its own file; that of a released version is never written again.

use std::path::{Path, PathBuf};

use toolway_store::{
    Store,
    audit::Verified,
    backup,
    calls::{CallFilter, CallState},
};

use crate::stage::{Stage, record};

fn released() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "db")).collect()
}

#[tokio::test]
async fn database_of_every_release_is_restored_read_verified_and_written() {
    assert!(!released().is_empty());
    for file in released() {
        let stage = Stage::new();
        assert_eq!(backup::restore(&file, &stage.path()).unwrap(), None);
        let (store, notice) = Store::open(&stage.options()).unwrap();
        assert_eq!(notice, None, "{}", file.display());
        let calls = || stage.reader().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap();
        let states: Vec<CallState> = calls().iter().map(|call| call.state).collect();
        assert_eq!(states, [CallState::ToolError, CallState::Succeeded], "{}", file.display());
        record(&store, "read", CallState::Succeeded).await;
        drop(store);
        assert_eq!(calls().len(), 3);
        assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { .. }));
    }
}

#[test]
fn released_file_opens_in_place_of_a_database() {
    for file in released() {
        let stage = Stage::new();
        std::fs::create_dir_all(stage.path().parent().unwrap()).unwrap();
        std::fs::copy(&file, stage.path()).unwrap();
        drop(stage.open());
        assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { .. }), "{}", file.display());
    }
}
