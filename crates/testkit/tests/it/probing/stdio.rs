//! Era probing of processes.

use std::time::Duration;

use futures_util::future::join_all;
use toolway_wire::{
    error::WireError,
    revision::Revision,
    up::{ConnectOptions, EraChoice, Peer, transport::HttpMode},
};

use super::{Probed, WITH_SESSION, WITHOUT_SESSION};
use crate::dialling::{Record, SHORT, patient, process};

const DISCOVERED: &[&str] = &["start", "server/discover"];
const INITIALIZED: &[&str] = &["start", "initialize", "notifications/initialized"];
const BOTH: &[&str] = &["start", "server/discover", "initialize", "notifications/initialized"];
const REFUSED: &[&str] = &["start", "server/discover", "initialize"];
const TWICE: &[&str] = &["start", "server/discover", "start", "initialize"];
const AGAIN: &[&str] = &["start", "server/discover", "start", "initialize", "notifications/initialized"];

fn speaks(revision: Revision) -> Probed {
    Probed::SupportedEras(revision, HttpMode::Session)
}

/// Server, expected result, and the messages that it received.
type Row = (&'static str, Probed, &'static [&'static str]);

/// Connects to a server; returns the result and the messages that it received.
async fn meet(server: &str, connect: ConnectOptions) -> (Result<Peer, WireError>, Vec<String>) {
    let record = Record::new();
    let met = process(server, &record, connect, None).await;
    // The ping is answered after all earlier messages; a connection must work.
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
            let right = Probed::of(&met) == expected && found == heard;
            (!right).then(|| {
                format!(
                    "{server}: {:?} ({said:?}) instead of {expected:?}\n  heard {found:?}\n  expected {heard:?}",
                    Probed::of(&met)
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
        // Errors of stateful servers for unknown methods.
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
        ("refuses-without-id:-32600", WITH_SESSION, BOTH),
        // Invalid results.
        ("empty", WITH_SESSION, BOTH),
        ("no-list", WITH_SESSION, BOTH),
        ("odd-list", WITH_SESSION, BOTH),
        ("lists:2025-06-18,2024-11-05", WITH_SESSION, BOTH),
        ("lists:2099-01-01", Probed::Fails("no_common_revision"), DISCOVERED),
        ("lists:2026-07-28,2099-01-01", WITHOUT_SESSION, DISCOVERED),
        // Error codes of stateless servers only.
        ("refuses:-32020", Probed::Fails("handshake"), DISCOVERED),
        ("refuses:-32021", Probed::Fails("handshake"), DISCOVERED),
        ("turns-down-once:2026-07-28", WITHOUT_SESSION, &["start", "server/discover", "server/discover"]),
        ("turns-down:2026-07-28", Probed::Fails("handshake"), &["start", "server/discover", "server/discover"]),
        ("turns-down:2025-06-18", WITH_SESSION, BOTH),
        ("turns-down:2099-01-01,2098-01-01", Probed::Fails("no_common_revision"), DISCOVERED),
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
        ("string-ids", Probed::Fails("timed_out"), REFUSED),
    ];
    let short_timeout = || {
        let mut connect = patient();
        connect.timeouts.probe = SHORT;
        connect
    };
    let never = || {
        let mut connect = short_timeout();
        connect.timeouts.handshake = SHORT;
        connect
    };
    let (late, mute) = rows.split_at(5);
    tokio::join!(
        check(late.iter().copied(), short_timeout),
        check(mute.iter().copied().chain([("mute", Probed::Fails("timed_out"), REFUSED)]), never)
    );
}

#[tokio::test]
async fn servers_that_exit_are_started_once_more_and_not_probed_again() {
    let rows: [Row; 3] = [
        ("ends", WITH_SESSION, AGAIN),
        ("ends-always", Probed::Fails("ended"), TWICE),
        ("ends-at-once", Probed::Fails("ended"), &["start", "start"]),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn servers_with_unusual_handshakes() {
    let rows: [Row; 7] = [
        ("banner", WITH_SESSION, BOTH),
        // A ping is answered during the handshake, other requests are not.
        (
            "asks-first",
            WITH_SESSION,
            &["start", "server/discover", "initialize", "result", "error", "notifications/initialized"],
        ),
        ("agrees-on:2024-11-05", speaks(Revision::V2024_11_05), BOTH),
        ("agrees-on:2099-01-01", Probed::Fails("no_common_revision"), REFUSED),
        ("agrees-on:2026-07-28", Probed::Fails("no_common_revision"), REFUSED),
        ("agrees-on-nothing", Probed::Fails("protocol"), REFUSED),
        ("declines", Probed::Fails("handshake"), REFUSED),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn version_mismatch_error_names_both_lists() {
    for server in ["lists:2099-01-01,2098-01-01", "turns-down:2099-01-01,2098-01-01"] {
        let error = meet(server, patient()).await.0.unwrap_err().to_string();
        for named in ["2099-01-01", "2098-01-01", "2026-07-28", "2025-11-25", "2024-11-05"] {
            assert!(error.contains(named), "{server}: {error}");
        }
    }
}

#[tokio::test]
async fn pinned_era_is_the_only_one_used() {
    let pinned = |era| move || ConnectOptions { era, ..patient() };
    let with_session: [Row; 3] = [
        ("both", WITH_SESSION, INITIALIZED),
        ("legacy", WITH_SESSION, INITIALIZED),
        ("modern", Probed::Fails("handshake"), &["start", "initialize"]),
    ];
    let without: [Row; 5] = [
        ("both", WITHOUT_SESSION, DISCOVERED),
        ("modern", WITHOUT_SESSION, DISCOVERED),
        ("legacy", Probed::Fails("no_common_revision"), DISCOVERED),
        ("turns-down:2025-06-18", Probed::Fails("no_common_revision"), DISCOVERED),
        ("ends", Probed::Fails("ended"), DISCOVERED),
    ];
    tokio::join!(check(with_session, pinned(EraChoice::Legacy)), check(without, pinned(EraChoice::Modern)));
}

/// The offered revision is configurable.
#[tokio::test]
async fn configured_older_revision_is_offered() {
    let connect = || ConnectOptions { legacy: Revision::V2025_03_26, ..patient() };
    check([("legacy", speaks(Revision::V2025_03_26), BOTH)], connect).await;
}

/// The probe timeout is not awaited if the server has answered.
#[tokio::test]
async fn answer_without_an_id_counts() {
    let started = std::time::Instant::now();
    let (met, _) = meet("refuses-without-id:-32601", patient()).await;
    assert_eq!(Probed::of(&met), WITH_SESSION);
    assert!(started.elapsed() < Duration::from_secs(10));
}
