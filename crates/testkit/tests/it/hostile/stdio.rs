//! Hostile processes: the lines of their standard output.

use futures_util::future::join_all;
use toolway_wire::{
    revision::Revision,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, faults, outcome_code, pinned, short_timeout};
use crate::dialling::{Record, process};

/// State of the connection after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The next call is answered.
    Works,
    /// The connection is closed.
    Gone,
}
use Then::{Gone, Works};

/// Server, outcome of the call of `odd`, code of the reported fault, and state afterwards.
type Row = (&'static str, &'static str, Option<&'static str>, Then);

async fn check(row: Row, connect: ConnectOptions) -> Option<String> {
    let (server, expected, fault, then) = row;
    let record = Record::new();
    let (era, revision) = (connect.era, connect.legacy);
    let peer = process(server, &record, connect, None).await.unwrap_or_else(|error| panic!("{server}: {error}"));
    let mut notices = peer.notices();
    let outcome = call(&peer, "odd").await;
    let (found, noticed) = (outcome_code(&outcome), faults(&mut notices));
    // A fault may be reported after the answer that preceded it.
    let after = call(&peer, "hello").await;
    let noticed = if noticed.is_empty() { faults(&mut notices) } else { noticed };
    let alive = match then {
        Works => outcome_code(&after) == "answered" && !peer.is_closed(),
        Gone => {
            peer.closed().await;
            outcome_code(&call(&peer, "hello").await) == "ended"
        }
    };
    peer.close().await;
    let right = found == expected && noticed == Vec::from_iter(fault) && alive;
    (!right).then(|| {
        format!(
            "{server} ({era:?}, {revision}): {outcome:?}, noticed {noticed:?}, then {after:?}\n  instead of {row:?}"
        )
    })
}

async fn check_all(rows: &[Row], eras: &[EraChoice], connect: impl Fn(EraChoice) -> ConnectOptions) {
    let rows = rows.iter().flat_map(|row| eras.iter().map(|era| check(*row, connect(*era))));
    let wrong: Vec<String> = join_all(rows).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn oversized_message_fails_its_call_only() {
    let rows: [Row; 6] = [
        ("long-line:9000", "answered", None, Works),
        // Slightly over the limit, clearly over it, and far more than is ever buffered.
        ("long-line:9950", "too_large", None, Works),
        ("long-line:20000", "too_large", None, Works),
        ("long-line:400000", "too_large", None, Works),
        // A server request with the id of our call is not the answer to it.
        ("long-question:20000", "answered", Some("too_large"), Works),
        ("long-question:400000", "answered", Some("too_large"), Works),
    ];
    check_all(&rows, &ERAS, pinned).await;
}

#[tokio::test]
async fn endless_line_closes_the_connection() {
    join_all(ERAS.map(async |era| {
        let record = Record::new();
        let peer = process("endless-line", &record, pinned(era), None).await.unwrap();
        let outcome = call(&peer, "odd").await;
        assert_eq!(outcome_code(&outcome), "ended", "{era:?}: {outcome:?}");
        assert!(format!("{outcome:?}").contains("without a line break"), "{era:?}: {outcome:?}");
        assert_eq!(outcome_code(&call(&peer, "odd").await), "ended", "{era:?}, again");
    }))
    .await;
}

#[tokio::test]
async fn invalid_message_fails_the_call_that_it_answers() {
    let rows: [Row; 5] = [
        ("truncated", "protocol", None, Works),
        ("not-utf8", "protocol", None, Works),
        ("deep:2000", "protocol", None, Works),
        ("deep:100", "answered", None, Works),
        ("neither", "protocol", None, Works),
    ];
    check_all(&rows, &ERAS, pinned).await;
    check_all(&[("truncated-early", "timed_out", Some("protocol"), Works)], &ERAS, short_timeout).await;
}

#[tokio::test]
async fn answers_are_matched_to_their_requests() {
    let rows: [Row; 3] = [
        ("float-id", "answered", None, Works),
        ("double", "answered", Some("protocol"), Works),
        ("stray", "answered", Some("protocol"), Works),
    ];
    check_all(&rows, &ERAS, pinned).await;
    let rows: [Row; 3] = [
        ("wrong-id", "timed_out", Some("protocol"), Works),
        ("string-id", "timed_out", Some("protocol"), Works),
        ("no-id", "timed_out", Some("protocol"), Works),
    ];
    check_all(&rows, &ERAS, short_timeout).await;
}

#[tokio::test]
async fn batch_is_accepted_only_in_revisions_that_have_it() {
    let legacy = |revision| move |era| ConnectOptions { legacy: revision, ..pinned(era) };
    let read: [Row; 1] = [("batch", "answered", None, Works)];
    check_all(&read, &[EraChoice::Legacy], legacy(Revision::V2025_03_26)).await;
    let refused: [Row; 1] = [("batch", "protocol", None, Works)];
    for revision in [Revision::V2024_11_05, Revision::V2025_06_18, Revision::V2025_11_25] {
        check_all(&refused, &[EraChoice::Legacy], legacy(revision)).await;
    }
    check_all(&refused, &[EraChoice::Modern], pinned).await;
}

#[tokio::test]
async fn process_that_exits_or_closes_a_stream_is_gone() {
    let rows: [Row; 2] = [("cut", "ended", None, Gone), ("half-closed", "ended", None, Gone)];
    check_all(&rows, &ERAS, pinned).await;
}

/// The cancellation of the call shows that it does not read.
#[tokio::test]
async fn process_that_no_longer_reads_is_gone() {
    check_all(&[("deaf", "timed_out", None, Gone)], &ERAS, short_timeout).await;
}

/// Only the sender of a request may cancel it; a cancellation by the server concerns its own requests.
#[tokio::test]
async fn server_cannot_cancel_our_request() {
    check_all(&[("gives-up", "timed_out", None, Works)], &ERAS, short_timeout).await;
}
