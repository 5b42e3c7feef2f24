//! Calls of a day: exact for all processes that use one file, and over restarts.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use toolway_host::{
    policy::{CallDays, DayCount, DayTaken, DayUse},
    record::Requirement,
};
use toolway_store::{Store, StoreRecorder, Uuid};

use crate::stage::{Stage, options_at};

/// Names the file, and the file for the number, to a process of this test.
const FILE: &str = "TOOLWAY_TEST_DAYS_FILE";
const NUMBER: &str = "TOOLWAY_TEST_DAYS_NUMBER";

fn recorder(store: &Store) -> StoreRecorder {
    StoreRecorder::new(store.clone(), Requirement::BestEffort, "terminal")
}

fn wanted(at: SystemTime, counts: &[(&str, u32)]) -> DayUse {
    let counts = counts.iter().map(|(key, most)| DayCount { key: (*key).to_owned(), most: *most });
    DayUse { call: Uuid::now_v7(), at, counts: counts.collect() }
}

/// 00:00 UTC of a day.
fn midnight() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(20_000 * 24 * 60 * 60)
}

/// One of the processes: 64 calls at once; writes down how many have room. Does nothing in an ordinary run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[expect(clippy::disallowed_methods, reason = "its parent gives it the file")]
async fn process_that_calls() {
    let Ok(location) = std::env::var(FILE) else { return };
    let (store, _) = Store::open(&options_at(&location)).unwrap();
    let recorder = recorder(&store);
    let take = |_| recorder.take(wanted(midnight(), &[("server:files", 50), ("client:ada", 1_000)]));
    let taken = join_all((0..64).map(take)).await;
    let granted = taken.into_iter().filter(|one| matches!(one, Ok(DayTaken::Granted))).count();
    std::fs::write(std::env::var(NUMBER).unwrap(), granted.to_string()).unwrap();
}

#[tokio::test]
async fn two_processes_with_128_calls_get_exactly_the_50_of_the_day() {
    let stage = Stage::new();
    drop(stage.open());
    let numbers = ["first", "second"].map(|name| stage.file(name));
    let start = |number: &PathBuf| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "call_days::process_that_calls"]).stdout(Stdio::null());
        command.env(FILE, stage.location()).env(NUMBER, number).spawn().unwrap()
    };
    for mut process in numbers.each_ref().map(start) {
        assert!(process.wait().unwrap().success());
    }
    let granted = numbers.map(|number| std::fs::read_to_string(number).unwrap().parse::<u64>().unwrap());
    assert_eq!(granted.iter().sum::<u64>(), 50, "{granted:?}");

    // After a restart, and without what the refused calls would have taken of the other count.
    let used = recorder(&stage.open()).used(midnight()).await.unwrap();
    assert_eq!((used["server:files"], used["client:ada"]), (50, 50));
}

#[tokio::test]
async fn a_call_takes_once_from_all_counts_or_from_none_and_gives_all_back() {
    let stage = Stage::new();
    let recorder = recorder(&stage.open());
    let now = midnight();
    let first = wanted(now, &[("a", 2), ("b", 1)]);
    for _ in 0..3 {
        assert_eq!(recorder.take(first.clone()).await.unwrap(), DayTaken::Granted, "the same call takes once");
    }
    let refused = recorder.take(wanted(now, &[("a", 2), ("b", 1)])).await.unwrap();
    assert_eq!(refused, DayTaken::Exceeded("b".to_owned()));
    assert_eq!(recorder.used(now).await.unwrap(), [("a".to_owned(), 1), ("b".to_owned(), 1)].into());
    recorder.give_back(first.call);
    recorder.give_back(first.call);
    assert!(recorder.used(now).await.unwrap().is_empty(), "given back once");
    assert_eq!(recorder.take(wanted(now, &[("b", 1)])).await.unwrap(), DayTaken::Granted);
}

#[tokio::test]
async fn a_day_begins_at_midnight_utc_and_a_late_return_does_not_touch_it() {
    let stage = Stage::new();
    let recorder = recorder(&stage.open());
    let after = midnight();
    let before = after - Duration::from_micros(1);
    let early = wanted(before, &[("a", 1)]);
    assert_eq!(recorder.take(early.clone()).await.unwrap(), DayTaken::Granted);
    assert_eq!(recorder.take(wanted(before, &[("a", 1)])).await.unwrap(), DayTaken::Exceeded("a".to_owned()));
    assert_eq!(recorder.take(wanted(after, &[("a", 1)])).await.unwrap(), DayTaken::Granted);
    recorder.give_back(early.call);
    assert_eq!(recorder.used(after).await.unwrap(), [("a".to_owned(), 1)].into());
    assert!(recorder.used(before).await.unwrap().is_empty());
}
