//! Hostile processes: what comes over their standard output, line by line.

use futures_util::future::join_all;
use toolway_wire::{
    revision::Revision,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, faults, hasty, pinned, word};
use crate::dialling::{Record, process};

/// What is left of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The next call is answered.
    Works,
    /// The connection is gone, and says so.
    Gone,
}
use Then::{Gone, Works};

/// A server, how the call of `odd` ends, the code of the fault that is noticed, and what is left.
type Row = (&'static str, &'static str, Option<&'static str>, Then);

async fn check(row: Row, connect: ConnectOptions) -> Option<String> {
    let (server, expected, fault, then) = row;
    let record = Record::new();
    let (era, revision) = (connect.era, connect.legacy);
    let peer = process(server, &record, connect, None).await.unwrap_or_else(|error| panic!("{server}: {error}"));
    let mut notices = peer.notices();
    let outcome = call(&peer, "odd").await;
    let (found, noticed) = (word(&outcome), faults(&mut notices));
    // A fault may be noticed after the answer that came before it.
    let after = call(&peer, "hello").await;
    let noticed = if noticed.is_empty() { faults(&mut notices) } else { noticed };
    let alive = match then {
        Works => word(&after) == "answered" && !peer.is_closed(),
        Gone => {
            peer.closed().await;
            word(&call(&peer, "hello").await) == "ended"
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
async fn a_message_over_the_bound_fails_its_call_and_nothing_else() {
    let rows: [Row; 6] = [
        ("long-line:9000", "answered", None, Works),
        // Over the bound by a little, by much, and by far more than is ever kept.
        ("long-line:9950", "too_large", None, Works),
        ("long-line:20000", "too_large", None, Works),
        ("long-line:400000", "too_large", None, Works),
        // A question of the server's, under the number of our call, is not the answer to it.
        ("long-question:20000", "answered", Some("too_large"), Works),
        ("long-question:400000", "answered", Some("too_large"), Works),
    ];
    check_all(&rows, &ERAS, pinned).await;
}

#[tokio::test]
async fn a_line_that_never_ends_ends_its_connection() {
    join_all(ERAS.map(async |era| {
        let record = Record::new();
        let peer = process("endless-line", &record, pinned(era), None).await.unwrap();
        let outcome = call(&peer, "odd").await;
        assert_eq!(word(&outcome), "ended", "{era:?}: {outcome:?}");
        assert!(format!("{outcome:?}").contains("without ending a line"), "{era:?}: {outcome:?}");
        assert_eq!(word(&call(&peer, "odd").await), "ended", "{era:?}, again");
    }))
    .await;
}

#[tokio::test]
async fn text_that_is_no_message_fails_the_call_it_can_be_told_to_answer() {
    let rows: [Row; 5] = [
        ("truncated", "protocol", None, Works),
        ("not-utf8", "protocol", None, Works),
        ("deep:2000", "protocol", None, Works),
        ("deep:100", "answered", None, Works),
        ("neither", "protocol", None, Works),
    ];
    check_all(&rows, &ERAS, pinned).await;
    check_all(&[("truncated-early", "timed_out", Some("protocol"), Works)], &ERAS, hasty).await;
}

#[tokio::test]
async fn answers_are_understood_by_the_request_they_answer() {
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
    check_all(&rows, &ERAS, hasty).await;
}

#[tokio::test]
async fn a_batch_is_read_where_the_revision_has_them_and_nowhere_else() {
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
async fn a_process_that_leaves_or_closes_a_stream_is_gone() {
    let rows: [Row; 2] = [("cut", "ended", None, Gone), ("half-closed", "ended", None, Gone)];
    check_all(&rows, &ERAS, pinned).await;
}

/// What it is told last shows that it does not read: here, that the call was given up.
#[tokio::test]
async fn a_process_that_no_longer_reads_is_gone() {
    check_all(&[("deaf", "timed_out", None, Gone)], &ERAS, hasty).await;
}

/// Only who asked can take a request back; a server's cancellation names a request of its own.
#[tokio::test]
async fn a_server_cannot_take_back_what_it_was_asked() {
    check_all(&[("gives-up", "timed_out", None, Works)], &ERAS, hasty).await;
}
