//! The budget of the disk: whatever one caller writes, the files stay small, calls succeed, and records of others stay.

use std::{fs, path::Path};

use futures_util::future::join_all;
use toolway_store::{
    Store, StoreOptions, Sync, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallRow, CallState},
    retention::RetentionLimits,
};

use crate::stage::{Stage, begun, ended};

const MB: u64 = 1024 * 1024;
const BUDGET: u64 = 8 * MB;
/// What may be written between two looks, and the WAL of one transaction.
const SLACK: u64 = BUDGET / 4;

fn options(stage: &Stage) -> StoreOptions {
    let limits = RetentionLimits { max_bytes: Some(BUDGET), ..RetentionLimits::default() };
    // Each call waits for its commit: with so small a budget, bodies that wait behind a journal are not kept.
    StoreOptions { limits, sync: Sync::Full, ..stage.options() }
}

fn open(stage: &Stage) -> Store {
    Store::open(&options(stage)).unwrap().0
}

/// A call of a caller that has ended.
fn call_of(caller: &str) -> CallRow {
    CallRow { caller: caller.to_owned(), ..ended(&begun("read"), CallState::Succeeded) }
}

fn body(bytes: usize) -> CallBody {
    CallBody { arguments: Some("{}".to_owned()), result: Some(format!("{:?}", "x".repeat(bytes))) }
}

/// Bytes of everything beside a database and its own.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(file) if file.is_dir() => bytes_of(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

fn folder_bytes(stage: &Stage) -> u64 {
    bytes_of(stage.path().parent().unwrap())
}

fn kept(stage: &Stage, id: Uuid) -> Option<String> {
    stage.reader().call(id).unwrap().unwrap().body.result
}

#[tokio::test]
async fn one_caller_at_full_speed_fills_neither_the_disk_nor_the_share_of_others() {
    let stage = Stage::new();
    let store = open(&stage);
    let mut of_others = Vec::new();
    for _ in 0..20 {
        let call = call_of("client:quiet");
        store.end_call(call.clone(), body(2_000)).await.unwrap();
        of_others.push(call.id);
    }
    let mut largest = 0;
    for _ in 0..400 {
        // 80 MB in all: ten times the budget.
        let writes = (0..4).map(|_| store.end_call(call_of("client:loud"), body(50_000)));
        join_all(writes).await.into_iter().for_each(|written| written.unwrap());
        largest = largest.max(folder_bytes(&stage));
    }
    assert!(largest <= BUDGET + SLACK, "{largest}");
    for id in of_others {
        assert!(kept(&stage, id).unwrap().contains("xxx"), "{id}");
    }
    let filter = |caller: &str| CallFilter { caller: Some(caller.to_owned()), limit: 9_999, ..CallFilter::default() };
    assert_eq!(
        stage.reader().calls(&filter("client:loud")).unwrap().len(),
        1_600,
        "calls are kept without their bodies"
    );
    assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { checkpoint: 0, .. }));
    assert!(0 < store.usage().removed_bodies && store.usage().bytes <= BUDGET + SLACK, "{:?}", store.usage());
    assert_eq!(store.failed_writes(), 0);
}

#[tokio::test]
async fn the_newest_bodies_are_kept_and_the_oldest_go() {
    let stage = Stage::new();
    let store = open(&stage);
    let mut ids = Vec::new();
    for number in 0..400 {
        let call = call_of(&format!("client:{}", number % 8));
        store.end_call(call.clone(), body(50_000)).await.unwrap();
        ids.push(call.id);
    }
    // No caller has a quarter; what is removed is the oldest of all.
    while stage.reader().size().unwrap().used() > BUDGET {
        tokio::task::yield_now().await;
    }
    assert_eq!(kept(&stage, ids[0]), None);
    assert!(kept(&stage, ids[399]).is_some());
    let first = ids.iter().position(|id| kept(&stage, *id).is_some()).unwrap();
    assert!(ids[first..].iter().all(|id| kept(&stage, *id).is_some()), "a gap after {first}");
}

#[tokio::test]
async fn arguments_of_a_call_that_has_not_ended_stay() {
    let stage = Stage::new();
    let store = open(&stage);
    let open = CallRow { caller: "client:quiet".to_owned(), ..begun("wait") };
    let arguments = CallBody { arguments: Some(format!("{:?}", "a".repeat(10_000))), result: None };
    store.write_call(open.clone(), arguments).await.unwrap();
    for _ in 0..300 {
        store.end_call(call_of("client:other"), body(50_000)).await.unwrap();
    }
    while stage.reader().size().unwrap().used() > BUDGET {
        tokio::task::yield_now().await;
    }
    assert!(0 < store.usage().removed_bodies);
    assert!(stage.reader().call(open.id).unwrap().unwrap().body.arguments.unwrap().contains("aaa"));
}

#[tokio::test]
async fn a_body_larger_than_a_share_is_not_kept_and_the_record_says_so() {
    let stage = Stage::new();
    let store = open(&stage);
    let call = call_of("client:loud");
    store.end_call(call.clone(), body(BUDGET as usize / 8)).await.unwrap();
    let text = kept(&stage, call.id).unwrap();
    assert!(text.contains("notKept") && text.contains("store.maxBytes") && text.contains("1048578"), "{text}");
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().body.arguments.as_deref(), Some("{}"));
}

#[tokio::test]
async fn corrupt_files_count_and_are_removed_first() {
    let stage = Stage::new();
    let store = open(&stage);
    let first = call_of("client:quiet");
    store.end_call(first.clone(), body(50_000)).await.unwrap();
    let beside = |name: &str| stage.path().with_file_name(name);
    let corrupt = ["toolway.db.corrupt-1-0", "toolway.db.corrupt-1-0-wal", "toolway.db.corrupt-2-0"];
    corrupt.iter().for_each(|name| fs::write(beside(name), vec![0; 3 * MB as usize]).unwrap());
    fs::write(beside("toolway.db.corrupt-by-hand"), "mine").unwrap();
    assert_eq!(stage.reader().size().unwrap().set_aside, 9 * MB);
    let limits = *store.limits();
    let removed = store.prune(&limits).await.unwrap();
    assert!((1..=2).contains(&removed.files) && removed.bodies == 0, "{removed:?}");
    assert!(
        !beside(corrupt[0]).exists() && !beside(corrupt[1]).exists() && beside("toolway.db.corrupt-by-hand").exists()
    );
    assert!(kept(&stage, first.id).is_some());
}

#[tokio::test]
async fn calls_without_bodies_are_removed_too_those_of_the_loud_caller_first() {
    let stage = Stage::new();
    let store = open(&stage);
    let quiet = call_of("client:quiet");
    store.end_call(quiet.clone(), CallBody::default()).await.unwrap();
    // Audit entries stay, so that the budget cannot hold all of this.
    for _ in 0..24 {
        let writes = (0..1_000).map(|_| store.end_call(call_of("client:loud"), CallBody::default()));
        join_all(writes.collect::<Vec<_>>()).await.into_iter().for_each(|written| written.unwrap());
    }
    while store.usage().removed_calls == 0 {
        tokio::task::yield_now().await;
    }
    assert!(stage.reader().call(quiet.id).unwrap().is_some());
    assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { checkpoint: 0, .. }));
}

#[tokio::test]
async fn a_smaller_budget_shrinks_the_files() {
    let stage = Stage::new();
    let store = stage.open();
    for _ in 0..40 {
        let writes = (0..16).map(|_| store.end_call(call_of("terminal"), body(50_000)));
        join_all(writes).await.into_iter().for_each(|written| written.unwrap());
    }
    drop(store);
    assert!(3 * BUDGET < folder_bytes(&stage));
    let store = open(&stage);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while BUDGET + SLACK < folder_bytes(&stage) {
        assert!(std::time::Instant::now() < deadline, "{} bytes, {:?}", folder_bytes(&stage), stage.reader().size());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(store);
}
