//! The question about the era, put to processes.

use std::time::Duration;

use futures_util::future::join_all;
use toolway_wire::{
    error::WireError,
    revision::Revision,
    up::{ConnectOptions, EraChoice, Peer, transport::Manner},
};

use super::{Met, WITH_SESSION, WITHOUT_SESSION};
use crate::dialling::{Record, SHORT, patient, process};

const DISCOVERED: &[&str] = &["start", "server/discover"];
const INITIALIZED: &[&str] = &["start", "initialize", "notifications/initialized"];
const BOTH: &[&str] = &["start", "server/discover", "initialize", "notifications/initialized"];
const REFUSED: &[&str] = &["start", "server/discover", "initialize"];
const TWICE: &[&str] = &["start", "server/discover", "start", "initialize"];
const AGAIN: &[&str] = &["start", "server/discover", "start", "initialize", "notifications/initialized"];

fn speaks(revision: Revision) -> Met {
    Met::Speaks(revision, Manner::Session)
}

/// A server, what comes of meeting it, and what it heard until then.
type Row = (&'static str, Met, &'static [&'static str]);

/// Meets a server; gives what came of it and what the server heard until then.
async fn meet(server: &str, connect: ConnectOptions) -> (Result<Peer, WireError>, Vec<String>) {
    let record = Record::new();
    let met = process(server, &record, connect, None).await;
    // Its answer comes after everything that was said before; where there is a connection, it works.
    let asked = match &met {
        Ok(peer) => {
            peer.ping().await.unwrap_or_else(|error| panic!("{server}: {error}"));
            1
        }
        Err(_) => 0,
    };
    let mut heard = record.lines();
    heard.truncate(heard.len() - asked);
    if let Ok(peer) = &met {
        peer.close().await;
    }
    (met, heard)
}

async fn check(rows: impl IntoIterator<Item = Row>, connect: impl Fn() -> ConnectOptions) {
    let rows = rows.into_iter().map(|(server, expected, heard)| {
        let connect = connect();
        async move {
            let (met, found) = meet(server, connect).await;
            let said = met.as_ref().err();
            let right = Met::of(&met) == expected && found == heard;
            (!right).then(|| {
                format!(
                    "{server}: {:?} ({said:?}) instead of {expected:?}\n  heard {found:?}\n  expected {heard:?}",
                    Met::of(&met)
                )
            })
        }
    });
    let wrong: Vec<String> = join_all(rows).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn servers_that_answer_at_once() {
    let rows: [Row; 27] = [
        ("modern", WITHOUT_SESSION, DISCOVERED),
        ("both", WITHOUT_SESSION, DISCOVERED),
        ("legacy", WITH_SESSION, BOTH),
        // Errors that stateful servers have for what they do not know.
        ("refuses:-32601", WITH_SESSION, BOTH),
        ("refuses:-32600", WITH_SESSION, BOTH),
        ("refuses:-32602", WITH_SESSION, BOTH),
        ("refuses:-32603", WITH_SESSION, BOTH),
        ("refuses:-32700", WITH_SESSION, BOTH),
        ("refuses:-32000", WITH_SESSION, BOTH),
        ("refuses:-32001", WITH_SESSION, BOTH),
        ("refuses:-32019", WITH_SESSION, BOTH),
        ("refuses:-1", WITH_SESSION, BOTH),
        ("refuses:0", WITH_SESSION, BOTH),
        ("refuses:404", WITH_SESSION, BOTH),
        ("refuses-nobody:-32600", WITH_SESSION, BOTH),
        // Results that are none.
        ("empty", WITH_SESSION, BOTH),
        ("no-list", WITH_SESSION, BOTH),
        ("odd-list", WITH_SESSION, BOTH),
        ("lists:2025-06-18,2024-11-05", WITH_SESSION, BOTH),
        ("lists:2099-01-01", Met::Fails("no_common_revision"), DISCOVERED),
        ("lists:2026-07-28,2099-01-01", WITHOUT_SESSION, DISCOVERED),
        // The codes only a stateless server has.
        ("refuses:-32020", Met::Fails("handshake"), DISCOVERED),
        ("refuses:-32021", Met::Fails("handshake"), DISCOVERED),
        ("turns-down-once:2026-07-28", WITHOUT_SESSION, &["start", "server/discover", "server/discover"]),
        ("turns-down:2026-07-28", Met::Fails("handshake"), &["start", "server/discover", "server/discover"]),
        ("turns-down:2025-06-18", WITH_SESSION, BOTH),
        ("turns-down:2099-01-01,2098-01-01", Met::Fails("no_common_revision"), DISCOVERED),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn servers_that_answer_late_or_never() {
    let rows: [Row; 6] = [
        ("silent", WITH_SESSION, BOTH),
        ("late-legacy", WITH_SESSION, BOTH),
        ("late-modern", WITHOUT_SESSION, REFUSED),
        ("overtaken", WITHOUT_SESSION, REFUSED),
        (
            "ends-late",
            WITH_SESSION,
            &["start", "server/discover", "initialize", "start", "initialize", "notifications/initialized"],
        ),
        ("string-ids", Met::Fails("timed_out"), REFUSED),
    ];
    let hasty = || {
        let mut connect = patient();
        connect.timeouts.probe = SHORT;
        connect
    };
    let never = || {
        let mut connect = hasty();
        connect.timeouts.handshake = SHORT;
        connect
    };
    let (late, mute) = rows.split_at(5);
    tokio::join!(
        check(late.iter().copied(), hasty),
        check(mute.iter().copied().chain([("mute", Met::Fails("timed_out"), REFUSED)]), never)
    );
}

#[tokio::test]
async fn servers_that_end_are_started_once_more_and_not_asked_again() {
    let rows: [Row; 3] = [
        ("ends", WITH_SESSION, AGAIN),
        ("ends-always", Met::Fails("ended"), TWICE),
        ("ends-at-once", Met::Fails("ended"), &["start", "start"]),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn servers_with_odd_manners_during_the_handshake() {
    let rows: [Row; 7] = [
        ("banner", WITH_SESSION, BOTH),
        // A ping is answered even then, a question is not.
        (
            "asks-first",
            WITH_SESSION,
            &["start", "server/discover", "initialize", "result", "error", "notifications/initialized"],
        ),
        ("agrees-on:2024-11-05", speaks(Revision::V2024_11_05), BOTH),
        ("agrees-on:2099-01-01", Met::Fails("no_common_revision"), REFUSED),
        ("agrees-on:2026-07-28", Met::Fails("no_common_revision"), REFUSED),
        ("agrees-on-nothing", Met::Fails("protocol"), REFUSED),
        ("declines", Met::Fails("handshake"), REFUSED),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn nothing_in_common_names_both_lists() {
    for server in ["lists:2099-01-01,2098-01-01", "turns-down:2099-01-01,2098-01-01"] {
        let error = meet(server, patient()).await.0.unwrap_err().to_string();
        for named in ["2099-01-01", "2098-01-01", "2026-07-28", "2025-11-25", "2024-11-05"] {
            assert!(error.contains(named), "{server}: {error}");
        }
    }
}

#[tokio::test]
async fn a_pinned_era_is_the_only_one_spoken() {
    let pinned = |era| move || ConnectOptions { era, ..patient() };
    let with_session: [Row; 3] = [
        ("both", WITH_SESSION, INITIALIZED),
        ("legacy", WITH_SESSION, INITIALIZED),
        ("modern", Met::Fails("handshake"), &["start", "initialize"]),
    ];
    let without: [Row; 5] = [
        ("both", WITHOUT_SESSION, DISCOVERED),
        ("modern", WITHOUT_SESSION, DISCOVERED),
        ("legacy", Met::Fails("no_common_revision"), DISCOVERED),
        ("turns-down:2025-06-18", Met::Fails("no_common_revision"), DISCOVERED),
        ("ends", Met::Fails("ended"), DISCOVERED),
    ];
    tokio::join!(check(with_session, pinned(EraChoice::Legacy)), check(without, pinned(EraChoice::Modern)));
}

/// What a stateful server is offered first is configuration.
#[tokio::test]
async fn an_older_revision_is_offered_where_it_is_wanted() {
    let connect = || ConnectOptions { legacy: Revision::V2025_03_26, ..patient() };
    check([("legacy", speaks(Revision::V2025_03_26), BOTH)], connect).await;
}

/// Nobody waits for the probe's clock when the server has said what it is.
#[tokio::test]
async fn an_answer_is_an_answer_even_without_an_id() {
    let started = std::time::Instant::now();
    let (met, _) = meet("refuses-nobody:-32601", patient()).await;
    assert_eq!(Met::of(&met), WITH_SESSION);
    assert!(started.elapsed() < Duration::from_secs(10));
}
