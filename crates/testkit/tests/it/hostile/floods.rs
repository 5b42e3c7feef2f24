//! Floods: a server can say more than anybody reads, and neither memory nor connections may grow with it.

use std::{fmt::Write, sync::Arc};

use serde_json::json;
use tokio::sync::Notify;
use toolway_testkit::odd::{
    http::{Act, Reply, Seen, event},
    polite::{self, Speaks},
};
use toolway_wire::{
    exchange::{Happening, Outcome},
    limit::Limits,
    notice::Notice,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, connected, odd_call, pinned, word};
use crate::dialling::{LONG, Record, SHORT, patient, process};

/// So many messages; the full size is for the long run.
fn many() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 1_000_000 } else { 50_000 }
}

/// Memory in use, in bytes; nothing where the system does not say.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096
}

#[tokio::test]
async fn notifications_without_end_are_counted_and_not_kept() {
    for era in ERAS {
        let record = Record::new();
        let connect = ConnectOptions { limits: Limits::default(), ..pinned(era) };
        let peer = process(&format!("flood:{}", many()), &record, connect, None).await.unwrap();
        let mut notices = peer.notices();
        let before = resident();
        assert_eq!(word(&call(&peer, "odd").await), "answered", "{era:?}");
        let grown = resident().saturating_sub(before);
        assert!(grown < 32 << 20, "{era:?}: {grown} bytes more");
        let mut kept = 0;
        let missed = match notices.try_recv() {
            Err(tokio::sync::broadcast::error::TryRecvError::Lagged(missed)) => missed,
            other => panic!("{era:?}: {other:?}"),
        };
        while let Ok(Notice::Other { .. }) = notices.try_recv() {
            kept += 1;
        }
        assert_eq!(missed + kept, many() as u64, "{era:?}");
        assert!(kept <= 256, "{era:?}: {kept} kept");
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{era:?}");
        peer.close().await;
    }
}

#[tokio::test]
async fn progress_that_nobody_takes_gives_way_and_is_counted() {
    let count = many() / 5;
    for era in ERAS {
        let record = Record::new();
        let connect = ConnectOptions { limits: Limits::default(), ..pinned(era) };
        let peer = process(&format!("progress-flood:{count}"), &record, connect, None).await.unwrap();
        let mut exchange = peer.call_tool("odd", None).unwrap();
        // Not read until another call shows that everything is in.
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{era:?}");
        let mut progress = 0;
        let outcome = loop {
            match exchange.next().await.unwrap() {
                Happening::Progress(_) => progress += 1,
                Happening::Ended(outcome) => break outcome,
                other => panic!("{era:?}: {other:?}"),
            }
        };
        assert!(matches!(outcome, Outcome::Answered(_)), "{era:?}: {outcome:?}");
        assert!(progress <= 256, "{era:?}: {progress} kept");
        assert_eq!(progress + exchange.missed(), count as u64, "{era:?}");
        peer.close().await;
    }
}

/// Each is answered, unless the server does not read: then no more is kept for it than the bound.
#[tokio::test]
async fn requests_of_a_server_that_reads_no_answers_are_not_kept() {
    let record = Record::new();
    let limits = Limits { unsent_bytes: 100_000, ..Limits::default() };
    let connect = ConnectOptions { era: EraChoice::Legacy, limits, ..patient() };
    let peer = process(&format!("ping-flood:{}", many() / 2), &record, connect, None).await.unwrap();
    let before = resident();
    assert_eq!(word(&call(&peer, "odd").await), "answered");
    assert!(resident().saturating_sub(before) < 32 << 20);
    // As soon as it has read what was kept for it, there is room again.
    let works = async {
        loop {
            match word(&call(&peer, "hello").await) {
                "answered" => return,
                "too_large" => tokio::task::yield_now().await,
                other => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(LONG, works).await.unwrap();
    peer.close().await;
}

/// Over HTTP each answer is a POST of its own: only so many are under way.
#[tokio::test]
async fn requests_in_a_stream_do_not_open_connections_without_end() {
    let odd = odd_call(|seen: &Seen| {
        let mut events = String::new();
        for number in 0..5_000 {
            let ask = polite::request(&json!(number), if number % 2 == 0 { "ping" } else { "roots/list" }, &json!({}));
            // Writing to a string cannot fail.
            let _written = write!(events, "{}", event(&ask));
        }
        let answer = Speaks::Both.answer(seen.message()).unwrap();
        Reply::events(events + &event(&answer))
    });
    let odd = odd.await;
    let limits = Limits { concurrent_requests: 32, ..Limits::default() };
    let peer = connected(&odd, ConnectOptions { limits, ..pinned(EraChoice::Legacy) }).await;
    let asks = Some(Arc::new(super::Ada::default()));
    let exchange = peer.call_tool("odd", None).unwrap();
    let outcome = exchange.outcome_with(asks.as_deref().map(|ada| ada as _), |_| {}).await;
    assert_eq!(word(&outcome), "answered", "{outcome:?}");
    let works = async {
        while word(&call(&peer, "hello").await) != "answered" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, works).await.unwrap();
    // Each is opened by itself and closed or kept when its answer is in.
    let all = async {
        loop {
            let seen = odd.seen().len();
            tokio::time::sleep(SHORT).await;
            if odd.seen().len() == seen {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, all).await.unwrap();
    assert!(odd.most_connections() <= 70, "{} connections", odd.most_connections());
}

#[tokio::test]
async fn one_request_more_than_a_server_may_owe_us_is_not_sent() {
    for era in ERAS {
        let go = Arc::new(Notify::new());
        let waiting = Arc::clone(&go);
        let odd = odd_call(move |seen| {
            let answer = Speaks::Both.answer(seen.message()).unwrap();
            Reply::events("").then(Act::Until(Arc::clone(&waiting))).say(event(&answer))
        });
        let odd = odd.await;
        let limits = Limits { concurrent_requests: 2, ..Limits::default() };
        let peer = connected(&odd, ConnectOptions { limits, ..pinned(era) }).await;
        let owed = [peer.call_tool("odd", None).unwrap(), peer.call_tool("odd", None).unwrap()];
        assert_eq!(word(&call(&peer, "hello").await), "overloaded", "{era:?}");
        odd.until(|seen| seen.iter().filter(|seen| seen.tool() == "odd").count() == 2).await;
        go.notify_one();
        go.notify_one();
        for exchange in owed {
            let outcome = async {
                loop {
                    // One that began to wait after the first was told.
                    go.notify_waiters();
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                () = outcome => {}
                outcome = exchange.outcome() => assert_eq!(word(&outcome), "answered", "{era:?}"),
            }
        }
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}

/// A list of very many things that are none is refused before they are looked at.
#[tokio::test]
async fn a_crowd_of_nothing_is_refused_before_it_is_read() {
    let odd = toolway_testkit::odd::http::OddHttp::start(|seen| match seen.method() {
        "tools/list" => {
            let crowd = format!("{{\"id\":{},\"result\":{{\"tools\":[{}0]}}}}", seen.id(), "0,".repeat(1 << 19));
            Reply::body(200, "application/json", crowd)
        }
        _ => toolway_testkit::odd::http::polite_http(Speaks::Both, seen),
    });
    let odd = odd.await.unwrap();
    for era in ERAS {
        let peer = connected(&odd, ConnectOptions { limits: Limits::default(), ..pinned(era) }).await;
        let before = resident();
        assert_eq!(peer.list_tools().await.unwrap_err().code(), "too_large", "{era:?}");
        let grown = resident().saturating_sub(before);
        assert!(grown < 24 << 20, "{era:?}: {grown} bytes more");
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}
