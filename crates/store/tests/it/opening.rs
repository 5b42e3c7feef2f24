//! Opening a file: private, migrated, never overwritten.

use toolway_store::{
    Freshness, OpenNotice, Reader, Store, StoreError,
    audit::{AuditFilter, Verified},
    calls::{CallFilter, CallRow, CallState, Delivery},
};

use crate::stage::{Stage, begun, record};

#[cfg(unix)]
#[tokio::test]
async fn files_are_private_to_their_user() {
    use std::os::unix::fs::PermissionsExt;

    let stage = Stage::new();
    let store = stage.open();
    record(&store, "read", CallState::Succeeded).await;
    for name in ["toolway.db", "toolway.db-wal", "toolway.db-shm"] {
        let mode = std::fs::metadata(stage.path().with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_missing_file_is_no_reader_and_is_not_created() {
    let stage = Stage::new();
    assert!(Reader::open(&stage.path()).unwrap().is_none());
    assert!(!stage.path().exists());
}

#[test]
fn a_file_of_a_later_version_is_refused_and_stays_as_it_is() {
    let stage = Stage::new();
    drop(stage.open());
    stage.tamper("PRAGMA user_version = 999");
    let before = std::fs::read(stage.path()).unwrap();
    let error = Store::open(&stage.options()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error}");
    assert!(error.to_string().contains("schema version 999"), "{error}");
    assert_eq!(std::fs::read(stage.path()).unwrap(), before);
}

#[tokio::test]
async fn a_corrupt_file_is_set_aside_and_reported() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.path().parent().unwrap()).unwrap();
    std::fs::write(stage.path(), "this is not a database, and longer than a header of one hundred bytes ".repeat(4))
        .unwrap();
    let (store, notice) = Store::open(&stage.options()).unwrap();
    let Some(OpenNotice::SetAside { moved_to, .. }) = notice else { panic!("a notice") };
    assert!(std::fs::read_to_string(&moved_to).unwrap().starts_with("this is not a database"));
    record(&store, "read", CallState::Succeeded).await;
    let log = stage.reader().audit(&AuditFilter { after: Some(0), limit: 9, ..AuditFilter::default() }).unwrap();
    assert_eq!((log[0].kind.as_str(), log[0].subject.as_deref()), ("store", moved_to.to_str()));
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 2, checkpoint: 0 });
    assert_eq!(stage.reader().log_origin().unwrap().replaces.as_deref(), moved_to.to_str());
}

/// The process that replaced the file was killed before it wrote anything.
#[tokio::test]
async fn the_first_process_that_opens_a_new_file_beside_a_corrupt_one_names_it() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.path().parent().unwrap()).unwrap();
    let corrupt = |name: &str| std::fs::write(stage.path().with_file_name(name), "corrupt").unwrap();
    ["toolway.db.corrupt-9-0", "toolway.db.corrupt-10-0", "toolway.db.corrupt-10-0-wal", "toolway.db.corrupt-x"]
        .into_iter()
        .for_each(corrupt);
    drop(stage.open());
    drop(stage.open());
    let log = stage.reader().audit(&AuditFilter { limit: 9, ..AuditFilter::default() }).unwrap();
    let named: Vec<_> = log.iter().filter_map(|entry| entry.subject.clone()).collect();
    assert_eq!(named, [stage.path().with_file_name("toolway.db.corrupt-10-0").to_str().unwrap()]);
}

#[tokio::test]
async fn calls_of_a_process_that_ended_are_interrupted_and_those_of_a_living_one_are_not() {
    let stage = Stage::new();
    let (living, dead) = (begun("living"), begun("dead"));
    let first = stage.open();
    first.write_call(living.clone(), Default::default()).await.unwrap();
    first.write_call(dead.clone(), Default::default()).await.unwrap();
    // As a process leaves it that was killed: its row stays, and no lock is held.
    stage.tamper(&format!(
        "INSERT INTO runs VALUES (x'00000000000000000000000000000001', 1, 0);
         UPDATE calls SET run = x'00000000000000000000000000000001' WHERE id = x'{}'",
        dead.id.simple()
    ));
    let second = stage.open();
    second.append_audit(Default::default()).await.unwrap();
    let state = |id| stage.reader().call(id).unwrap().unwrap().row.state;
    assert_eq!(state(living.id), CallState::Pending);
    assert_eq!(state(dead.id), CallState::Interrupted);
    let events = stage.reader().audit(&toolway_store::audit::AuditFilter { limit: 10, ..Default::default() }).unwrap();
    assert!(events.iter().any(|event| event.kind == "recovery" && event.call == Some(dead.id)), "{events:?}");
}

#[tokio::test]
async fn calls_that_are_open_when_their_store_closes_are_interrupted() {
    let stage = Stage::new();
    let (store, call) = (stage.open(), begun("read"));
    store.write_call(call.clone(), Default::default()).await.unwrap();
    let sent = CallRow { state: CallState::Running, ..begun("write") };
    store.write_call(sent.clone(), Default::default()).await.unwrap();
    drop(store);
    let found = |id| stage.reader().call(id).unwrap().unwrap().row;
    assert_eq!((found(call.id).state, found(call.id).outcome), (CallState::Interrupted, Some(Delivery::NotSent)));
    assert_eq!((found(sent.id).state, found(sent.id).outcome), (CallState::Interrupted, Some(Delivery::Unknown)));
}

#[tokio::test]
async fn a_store_in_memory_answers_queries_and_leaves_no_file() {
    let store = Store::in_memory().unwrap();
    record(&store, "read", CallState::Succeeded).await;
    let calls = store.reader().unwrap().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(store.path(), None);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_at_once_keep_few_files_open() {
    let stage = Stage::new();
    let store = stage.open();
    let query = || {
        store.query(Freshness::Committed, |reader| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            reader.approvals()
        })
    };
    for found in futures_util::future::join_all((0..64).map(|_| query())).await {
        assert!(found.unwrap().is_empty());
    }

    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let databases = open.filter(|file| file.ends_with("toolway.db")).count();
    assert!(databases <= 5, "{databases}: the writer and four readers are expected");
}

#[tokio::test]
async fn a_read_only_folder_is_an_error_that_names_the_file() {
    let stage = Stage::new();
    std::fs::write(stage.path().parent().unwrap(), "a file where a folder should be").unwrap();
    let error = Store::open(&stage.options()).unwrap_err();
    assert!(error.to_string().contains("state"), "{error}");
}

/// Closing a file releases every lock that its process has on it. SQLite's must stay: without them, another process may
/// remove the WAL.
#[cfg(target_os = "linux")]
#[test]
fn a_second_store_of_the_same_process_leaves_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;

    let stage = Stage::new();
    let first = stage.open();
    assert!(0 < first.reader().unwrap().size().unwrap().data);
    let locks = || {
        let inode = format!(":{} ", std::fs::metadata(stage.path()).unwrap().ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains(&inode)).count()
    };
    let before = locks();
    assert!(0 < before);
    drop(stage.open());
    assert_eq!(locks(), before);
}
