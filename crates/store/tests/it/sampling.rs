//! Quotas of sampling: exact for all processes that use one file.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use toolway_host::{
    record::Requirement,
    sampling::{
        SampledTokens, SamplingEnd, SamplingLedger, SamplingQuotas, SamplingUse,
        quota::{HOUR, LevelQuota, QuotaExceeded, QuotaLevel, QuotaLimit, Reservation},
    },
};
use toolway_store::{Store, StoreRecorder, Uuid};

use crate::stage::{Stage, options_at};

/// Names the file, the quota and the file for the count to a process of this test.
const FILE: &str = "TOOLWAY_TEST_SAMPLING_FILE";
const COUNT: &str = "TOOLWAY_TEST_SAMPLING_COUNT";
const QUOTA: &str = "TOOLWAY_TEST_SAMPLING_QUOTA";

fn wanted(server: &str, caller: &str) -> SamplingUse {
    SamplingUse {
        id: Uuid::now_v7(),
        at: SystemTime::now(),
        call: None,
        server: server.parse().unwrap(),
        caller: caller.to_owned(),
        model: "small".to_owned(),
        reason: "the default model".to_owned(),
        tokens: 100,
    }
}

fn recorder(store: &Store) -> StoreRecorder {
    StoreRecorder::new(store.clone(), Requirement::BestEffort, "terminal")
}

fn requests(most: u32) -> LevelQuota {
    LevelQuota { requests_per_hour: Some(most), tokens_per_day: None }
}

fn tokens(most: u32) -> LevelQuota {
    LevelQuota { requests_per_hour: None, tokens_per_day: Some(most) }
}

fn quota_of(word: &str) -> LevelQuota {
    if word == "tokens" { tokens(5_000) } else { requests(50) }
}

/// One of the processes: 100 requests at once; writes down how many were granted. Does nothing in an ordinary run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[expect(clippy::disallowed_methods, reason = "its parent gives it the file")]
async fn process_that_reserves() {
    let Ok(location) = std::env::var(FILE) else { return };
    let (store, _) = Store::open(&options_at(&location)).unwrap();
    let recorder = recorder(&store);
    let quotas = SamplingQuotas { server: quota_of(&std::env::var(QUOTA).unwrap()), ..SamplingQuotas::default() };
    let reserve = |_| recorder.reserve(wanted("files", "terminal"), quotas);
    let reserved = join_all((0..100).map(reserve)).await;
    let granted = reserved.into_iter().filter(|one| matches!(one, Ok(Reservation::Granted(_)))).count();
    std::fs::write(std::env::var(COUNT).unwrap(), granted.to_string()).unwrap();
}

#[test]
fn two_processes_with_200_requests_get_exactly_the_50_of_the_quota() {
    for quota in ["requests", "tokens"] {
        let stage = Stage::new();
        drop(stage.open());
        let counts = ["first", "second"].map(|name| stage.file(name));
        let start = |count: &PathBuf| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "sampling::process_that_reserves"]).stdout(Stdio::null());
            command.env(FILE, stage.location()).env(QUOTA, quota).env(COUNT, count).spawn().unwrap()
        };
        for mut process in counts.each_ref().map(start) {
            assert!(process.wait().unwrap().success());
        }
        let granted = counts.map(|count| std::fs::read_to_string(count).unwrap().parse::<u32>().unwrap());
        assert_eq!(granted.iter().sum::<u32>(), 50, "{quota}: {granted:?}");
    }
}

#[tokio::test]
async fn each_level_counts_its_own_requests_and_all_must_have_room() {
    let stage = Stage::new();
    let recorder = recorder(&stage.open());
    let quotas = SamplingQuotas { top: requests(4), server: requests(3), client: requests(2) };
    let reserve = async |server, caller| recorder.reserve(wanted(server, caller), quotas).await.unwrap();
    let level = |reservation| match reservation {
        Reservation::Granted(_) => None,
        Reservation::Exceeded(QuotaExceeded { level, .. }) => Some(level),
    };
    for (server, caller, expected) in [
        ("files", "client:a", None),
        ("files", "client:a", None),
        ("files", "client:a", Some(QuotaLevel::Client)),
        ("files", "client:b", None),
        ("files", "client:c", Some(QuotaLevel::Server)),
        ("notes", "client:b", None),
        ("notes", "client:c", Some(QuotaLevel::Top)),
    ] {
        assert_eq!(level(reserve(server, caller).await), expected, "{server} {caller}");
    }
}

#[tokio::test]
async fn tokens_are_reserved_until_they_are_settled() {
    let stage = Stage::new();
    let recorder = recorder(&stage.open());
    let quotas = SamplingQuotas { top: tokens(250), ..SamplingQuotas::default() };
    let reserve = async || {
        let wanted = wanted("files", "terminal");
        (wanted.id, recorder.reserve(wanted, quotas).await.unwrap())
    };
    let left = |reservation: &Reservation| match reservation {
        Reservation::Granted(left) => left[0].tokens,
        Reservation::Exceeded(_) => None,
    };
    let (first, reserved) = reserve().await;
    assert_eq!(left(&reserved), Some(150));
    let (second, reserved) = reserve().await;
    assert_eq!(left(&reserved), Some(50));
    let before = SystemTime::now() + 24 * HOUR;
    let (_, refused) = reserve().await;
    let Reservation::Exceeded(QuotaExceeded { limit, ends_at: Some(ends_at), .. }) = refused else { panic!() };
    assert_eq!(limit, QuotaLimit::TokensPerDay(250));
    assert!(ends_at <= before && before < ends_at + Duration::from_secs(60), "{ends_at:?}");
    // What was not sent counts no more; what was, with the tokens of the vendor.
    recorder.settle(first, SamplingEnd::NotSent);
    let tokens = Some(SampledTokens { input: 20, output: 10 });
    recorder.settle(second, SamplingEnd::Sent { tokens, outcome: "answered" });
    let (_, reserved) = reserve().await;
    assert_eq!(left(&reserved), Some(250 - 30 - 100));
    // Tokens that the vendor did not report count as reserved.
    let (cut, reserved) = reserve().await;
    assert_eq!(left(&reserved), Some(20));
    recorder.settle(cut, SamplingEnd::Sent { tokens: None, outcome: "failed" });
    assert_eq!(left(&reserve().await.1), None);
}

#[tokio::test]
async fn quota_has_room_again_after_an_hour() {
    let stage = Stage::new();
    let recorder = recorder(&stage.open());
    let quotas = SamplingQuotas { server: requests(1), ..SamplingQuotas::default() };
    let first = wanted("files", "terminal");
    let at = first.at;
    assert!(matches!(recorder.reserve(first, quotas).await.unwrap(), Reservation::Granted(_)));
    let again = |later| SamplingUse { at: at + later, ..wanted("files", "terminal") };
    let refused = recorder.reserve(again(HOUR / 2), quotas).await.unwrap();
    let Reservation::Exceeded(exceeded) = refused else { panic!("{refused:?}") };
    let ends_at = exceeded.ends_at.unwrap();
    assert!(ends_at.duration_since(at + HOUR).unwrap_or_default() < Duration::from_millis(1), "{ends_at:?}");
    let reason = exceeded.reason("files", "terminal");
    assert!(reason.starts_with("`mcpServers.files.sampling.requestsPerHour` is 1, and there is room"), "{reason}");
    assert!(matches!(recorder.reserve(again(HOUR), quotas).await.unwrap(), Reservation::Granted(_)));
    let too_large = SamplingQuotas { top: tokens(99), ..SamplingQuotas::default() };
    let never = recorder.reserve(wanted("files", "terminal"), too_large).await.unwrap();
    assert!(matches!(never, Reservation::Exceeded(QuotaExceeded { ends_at: None, .. })), "{never:?}");
}
