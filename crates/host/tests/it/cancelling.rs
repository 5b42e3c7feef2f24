//! Calls that end before their answer: called off, left, out of time. Each is told to the server and recorded once.

use std::time::Duration;

use serde_json::json;
use toolway_host::{
    call::{CallHappening, CallOutcome, CallRequest},
    connection::{WantedServer, Way},
    record::Ending,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    odd::{
        http::{Act, OddHttp, Reply, event, polite_http},
        polite::{self, Speaks},
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{error::Clock, exchange::Terms};

fn files() -> FixtureServer {
    FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait).tool("read", "Read")
}

async fn endings(host: &TestHost) -> Vec<Ending> {
    host.records().iter().map(|record| record.ending).collect()
}

#[tokio::test]
async fn a_caller_who_leaves_is_recorded_and_the_server_hears_of_it() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let call = host.host.call(host.request("files__wait", None));
    tokio::select! {
        outcome = call => panic!("{outcome}"),
        () = files.reached("tools/call", 1) => {}
    }
    within("the cancellation", files.left(1)).await;
    assert_eq!(endings(&host).await, [Ending::Cancelled]);
    assert_eq!(host.records()[0].server, Some(name("files")));
}

#[tokio::test]
async fn a_call_that_is_called_off_ends_as_cancelled() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let mut call = host.host.open(host.request("files__wait", None));
    tokio::select! {
        _ = call.next() => panic!("it waits"),
        () = files.reached("tools/call", 1) => {}
    }
    call.cancel("enough");
    let end = within("the end", call.next()).await;
    assert!(matches!(end, Some(CallHappening::Ended(CallOutcome::Cancelled))), "{end:?}");
    assert!(call.next().await.is_none());
    drop(call);
    within("the cancellation", files.left(1)).await;
    assert_eq!(endings(&host).await, [Ending::Cancelled]);
}

#[tokio::test]
async fn a_call_that_was_never_looked_at_is_recorded_too() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    drop(host.host.open(host.request("files__read", None)));
    let mut called_off = host.host.open(host.request("files__read", None));
    called_off.cancel("before it began");
    assert!(matches!(called_off.next().await, Some(CallHappening::Ended(CallOutcome::Cancelled))));
    drop(called_off);
    assert_eq!(endings(&host).await, [Ending::Cancelled, Ending::Cancelled]);
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn a_clock_that_runs_out_is_named() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let limit = Duration::from_millis(50);
    for (terms, clock) in [
        (Terms { idle: Some(limit), total: None }, Clock::Idle),
        (Terms { idle: None, total: Some(limit) }, Clock::Total),
    ] {
        let request = CallRequest { terms: Some(terms), ..host.request("files__wait", None) };
        let outcome = host.call_of(request).await;
        assert!(matches!(&outcome, CallOutcome::TimedOut { clock: ran_out, .. } if *ran_out == clock), "{outcome}");
    }
    within("the cancellations", files.left(2)).await;
    assert_eq!(endings(&host).await, [Ending::TimedOut, Ending::TimedOut]);
    assert_eq!(host.records()[0].message.as_deref(), Some("no answer within 50ms (idle timeout)"));
}

#[tokio::test]
async fn the_servers_own_clocks_hold_where_the_caller_says_nothing() {
    let files = files();
    let mut server = WantedServer::new(name("files"), Way::InProcess(files.service()));
    server.clocks.call = Terms { idle: Some(Duration::from_millis(50)), total: None };
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__wait").await.ending(), Ending::TimedOut);
}

/// Side by side, so that some go over a connection that is there and some over a new one; each is answered by a stream.
#[tokio::test]
async fn a_stream_that_nobody_waits_for_any_more_is_let_go() {
    let odd = OddHttp::start(|seen| match seen.method() {
        "tools/call" => {
            let token = &seen.message()["params"]["_meta"]["progressToken"];
            let progress = json!({ "progressToken": token, "progress": 1 });
            Reply::events(event(&polite::notification("notifications/progress", &progress))).then(Act::Hang)
        }
        _ => polite_http(Speaks::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(crate::fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let mut calls: Vec<_> = (0..4).map(|_| host.host.open(host.request("odd__hello", None))).collect();
    let begun = calls.iter_mut().map(|call| call.next());
    let begun = within("the beginning", futures_util::future::join_all(begun)).await;
    assert!(begun.iter().all(|begun| matches!(begun, Some(CallHappening::Progress(_)))), "{begun:?}");
    drop(calls);
    // Closing it is how this era says that the answer is not wanted; at most one is kept for the next request.
    within("the end of the streams", odd.until_open(1)).await;
}
