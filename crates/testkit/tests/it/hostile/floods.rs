//! Floods: neither memory nor connections grow with what a server sends.

use std::{fmt::Write, sync::Arc};

use serde_json::json;
use tokio::sync::Notify;
use toolway_testkit::odd::{
    compliant::{self, SupportedEras},
    http::{Act, RecordedRequest, Reply, event},
};
use toolway_wire::{
    exchange::{ExchangeEvent, Outcome},
    limit::Limits,
    notice::Notice,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, connected, odd_call, outcome_code, pinned};
use crate::dialling::{LONG, Record, SHORT, patient, process};

/// Number of messages; the full size is for the long run.
fn many() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 1_000_000 } else { 50_000 }
}

/// Resident memory in bytes; 0 if the system does not report it.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096
}

#[tokio::test]
async fn notification_flood_is_counted_and_not_stored() {
    for era in ERAS {
        let record = Record::new();
        let mut connect = ConnectOptions { limits: Limits::default(), ..pinned(era) };
        // Reading a million messages takes half a minute beside other work.
        connect.timeouts.call.total = Some(6 * LONG);
        let peer = process(&format!("flood:{}", many()), &record, connect, None).await.unwrap();
        let mut notices = peer.notices();
        let before = resident();
        assert_eq!(outcome_code(&call(&peer, "odd").await), "answered", "{era:?}");
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
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
        peer.close().await;
    }
}

#[tokio::test]
async fn unread_progress_is_dropped_and_counted() {
    let count = many() / 5;
    for era in ERAS {
        let record = Record::new();
        let connect = ConnectOptions { limits: Limits::default(), ..pinned(era) };
        let peer = process(&format!("progress-flood:{count}"), &record, connect, None).await.unwrap();
        let mut exchange = peer.call_tool("odd", None).unwrap();
        // Not read until another call shows that everything has arrived.
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
        let mut progress = 0;
        let outcome = loop {
            match exchange.next().await.unwrap() {
                ExchangeEvent::Progress(_) => progress += 1,
                ExchangeEvent::Ended(outcome) => break outcome,
                other => panic!("{era:?}: {other:?}"),
            }
        };
        assert!(matches!(outcome, Outcome::Answered(_)), "{era:?}: {outcome:?}");
        assert!(progress <= 256, "{era:?}: {progress} kept");
        assert_eq!(progress + exchange.missed(), count as u64, "{era:?}");
        peer.close().await;
    }
}

/// Each request is answered, unless the server does not read: then the queue is bounded.
#[tokio::test]
async fn answers_to_a_server_that_does_not_read_are_bounded() {
    let record = Record::new();
    let limits = Limits { unsent_bytes: 100_000, ..Limits::default() };
    let connect = ConnectOptions { era: EraChoice::Legacy, limits, ..patient() };
    let peer = process(&format!("ping-flood:{}", many() / 2), &record, connect, None).await.unwrap();
    let before = resident();
    assert_eq!(outcome_code(&call(&peer, "odd").await), "answered");
    assert!(resident().saturating_sub(before) < 32 << 20);
    // There is room again as soon as the server has read the queue.
    let works = async {
        loop {
            match outcome_code(&call(&peer, "hello").await) {
                "answered" => return,
                "too_large" => tokio::task::yield_now().await,
                other => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(LONG, works).await.unwrap();
    peer.close().await;
}

/// Over HTTP each answer is a POST of its own; their concurrency is limited.
#[tokio::test]
async fn server_requests_in_a_stream_do_not_open_unlimited_connections() {
    let odd = odd_call(|seen: &RecordedRequest| {
        let mut events = String::new();
        for number in 0..5_000 {
            let ask =
                compliant::request(&json!(number), if number % 2 == 0 { "ping" } else { "roots/list" }, &json!({}));
            // Writing to a string cannot fail.
            let _written = write!(events, "{}", event(&ask));
        }
        let answer = SupportedEras::Both.answer(seen.message()).unwrap();
        Reply::events(events + &event(&answer))
    });
    let odd = odd.await;
    let limits = Limits { concurrent_requests: 32, ..Limits::default() };
    let peer = connected(&odd, ConnectOptions { limits, ..pinned(EraChoice::Legacy) }).await;
    let asks = Some(Arc::new(super::CountingHandler::default()));
    let exchange = peer.call_tool("odd", None).unwrap();
    let outcome = exchange.outcome_with(asks.as_deref().map(|handler| handler as _), |_| {}).await;
    assert_eq!(outcome_code(&outcome), "answered", "{outcome:?}");
    let works = async {
        while outcome_code(&call(&peer, "hello").await) != "answered" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, works).await.unwrap();
    // Each connection is closed or reused after its response.
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
async fn requests_over_the_concurrency_limit_are_not_sent() {
    for era in ERAS {
        let go = Arc::new(Notify::new());
        let waiting = Arc::clone(&go);
        let odd = odd_call(move |seen| {
            let answer = SupportedEras::Both.answer(seen.message()).unwrap();
            Reply::events("").then(Act::Until(Arc::clone(&waiting))).say(event(&answer))
        });
        let odd = odd.await;
        let limits = Limits { concurrent_requests: 2, ..Limits::default() };
        let peer = connected(&odd, ConnectOptions { limits, ..pinned(era) }).await;
        let owed = [peer.call_tool("odd", None).unwrap(), peer.call_tool("odd", None).unwrap()];
        assert_eq!(outcome_code(&call(&peer, "hello").await), "overloaded", "{era:?}");
        odd.until(|seen| seen.iter().filter(|seen| seen.tool() == "odd").count() == 2).await;
        go.notify_one();
        go.notify_one();
        for exchange in owed {
            let outcome = async {
                loop {
                    // Also wakes a request that began to wait after the first notification.
                    go.notify_waiters();
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                () = outcome => {}
                outcome = exchange.outcome() => assert_eq!(outcome_code(&outcome), "answered", "{era:?}"),
            }
        }
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}

/// A list of very many invalid items is refused before they are parsed.
#[tokio::test]
async fn oversized_list_of_invalid_items_is_refused_before_parsing() {
    let odd = toolway_testkit::odd::http::OddHttp::start(|seen| match seen.method() {
        "tools/list" => {
            let crowd = format!("{{\"id\":{},\"result\":{{\"tools\":[{}0]}}}}", seen.id(), "0,".repeat(1 << 19));
            Reply::body(200, "application/json", crowd)
        }
        _ => toolway_testkit::odd::http::compliant_http(SupportedEras::Both, seen),
    });
    let odd = odd.await.unwrap();
    for era in ERAS {
        let peer = connected(&odd, ConnectOptions { limits: Limits::default(), ..pinned(era) }).await;
        let before = resident();
        assert_eq!(peer.list_tools().await.unwrap_err().code(), "too_large", "{era:?}");
        let grown = resident().saturating_sub(before);
        assert!(grown < 24 << 20, "{era:?}: {grown} bytes more");
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}
