//! Calls that end without a result: cancelled, dropped or timed out. Each is cancelled at the server and recorded once.

use std::time::Duration;

use serde_json::json;
use toolway_host::{
    call::{CallEvent, CallOutcome, CallRequest},
    connection::{WantedServer, Way},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    odd::{
        compliant::{self, SupportedEras},
        http::{Act, OddHttp, Reply, compliant_http, event},
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{error::TimeoutKind, exchange::ExchangeTimeouts};

fn files() -> FixtureServer {
    FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait).tool("read", "Read")
}

async fn endings(host: &TestHost) -> Vec<CallState> {
    host.records().iter().map(|record| record.state).collect()
}

#[tokio::test]
async fn dropped_call_is_recorded_and_cancelled_at_the_server() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let call = host.host.call(host.request("files__wait", None));
    tokio::select! {
        outcome = call => panic!("{outcome}"),
        () = files.until_received("tools/call", 1) => {}
    }
    within("the cancellation", files.left(1)).await;
    assert_eq!(endings(&host).await, [CallState::Cancelled]);
    assert_eq!(host.records()[0].server, Some(name("files")));
}

#[tokio::test]
async fn cancelled_call_ends_as_cancelled() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let mut call = host.host.open(host.request("files__wait", None));
    tokio::select! {
        _ = call.next() => panic!("it waits"),
        () = files.until_received("tools/call", 1) => {}
    }
    call.cancel("enough");
    let end = within("the end", call.next()).await;
    assert!(matches!(end, Some(CallEvent::Ended(CallOutcome::Cancelled))), "{end:?}");
    assert!(call.next().await.is_none());
    drop(call);
    within("the cancellation", files.left(1)).await;
    assert_eq!(endings(&host).await, [CallState::Cancelled]);
}

#[tokio::test]
async fn call_that_was_never_polled_is_recorded() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    drop(host.host.open(host.request("files__read", None)));
    let mut cancelled = host.host.open(host.request("files__read", None));
    cancelled.cancel("before it began");
    assert!(matches!(cancelled.next().await, Some(CallEvent::Ended(CallOutcome::Cancelled))));
    drop(cancelled);
    assert_eq!(endings(&host).await, [CallState::Cancelled, CallState::Cancelled]);
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn outcome_names_the_timeout_that_expired() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let limit = Duration::from_millis(50);
    for (terms, clock) in [
        (ExchangeTimeouts { idle: Some(limit), total: None }, TimeoutKind::Idle),
        (ExchangeTimeouts { idle: None, total: Some(limit) }, TimeoutKind::Total),
    ] {
        let request = CallRequest { terms: Some(terms), ..host.request("files__wait", None) };
        let outcome = host.call_of(request).await;
        assert!(matches!(&outcome, CallOutcome::TimedOut { kind: ran_out, .. } if *ran_out == clock), "{outcome}");
    }
    within("the cancellations", files.left(2)).await;
    assert_eq!(endings(&host).await, [CallState::TimedOut, CallState::TimedOut]);
    assert_eq!(host.records()[0].message.as_deref(), Some("no answer within 50ms (idle timeout)"));
}

#[tokio::test]
async fn timeouts_of_the_server_apply_by_default() {
    let files = files();
    let mut server = WantedServer::new(name("files"), Way::InProcess(files.service()));
    server.clocks.call = ExchangeTimeouts { idle: Some(Duration::from_millis(50)), total: None };
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__wait").await.state(), CallState::TimedOut);
}

/// Concurrent calls, so that some use an open connection and some a new one. Each is answered with a stream.
#[tokio::test]
async fn streams_of_dropped_calls_are_closed() {
    let odd = OddHttp::start(|seen| match seen.method() {
        "tools/call" => {
            let token = &seen.message()["params"]["_meta"]["progressToken"];
            let progress = json!({ "progressToken": token, "progress": 1 });
            Reply::events(event(&compliant::notification("notifications/progress", &progress))).then(Act::Hang)
        }
        _ => compliant_http(SupportedEras::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(crate::fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let mut calls: Vec<_> = (0..4).map(|_| host.host.open(host.request("odd__hello", None))).collect();
    let begun = calls.iter_mut().map(|call| call.next());
    let begun = within("the beginning", futures_util::future::join_all(begun)).await;
    assert!(begun.iter().all(|begun| matches!(begun, Some(CallEvent::Progress(_)))), "{begun:?}");
    drop(calls);
    // In this era a call is cancelled by closing its stream; at most one connection is kept for the next request.
    within("the end of the streams", odd.until_open(1)).await;
}
