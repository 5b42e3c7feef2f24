//! What a record says about whether its call was sent: `answered`, `not-sent`, `unknown`.

use std::time::Duration;

use toolway_host::{
    call::{CallOutcome, CallRequest},
    record::{CallState, Delivery},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    odd::{
        compliant::SupportedEras,
        http::{Act, OddHttp, Reply, compliant_http},
    },
    test_host::{TestHost, within},
};
use toolway_wire::exchange::ExchangeTimeouts;

use crate::fixtures::address;

fn last(host: &TestHost) -> (CallState, Option<Delivery>) {
    let records = host.records();
    let record = records.iter().rfind(|record| record.name.contains("__")).unwrap();
    (record.state, record.outcome)
}

#[tokio::test]
async fn a_result_and_an_error_of_the_server_are_answers() {
    let files = FixtureServer::new("files").tool("read", "Read").tool_that("fail", "Fail", Behaviour::Fail).tool_that(
        "refuse",
        "Refuse",
        Behaviour::Refuse,
    );
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    for tool in ["files__read", "files__fail", "files__refuse"] {
        let mut relay = host.host.open(host.request(tool, None));
        assert_eq!(relay.delivery(), None);
        drop(within("the call", relay.end_with(|_| {})).await);
        assert_eq!(relay.delivery(), Some(Delivery::Answered), "{tool}");
        assert_eq!(last(&host).1, Some(Delivery::Answered), "{tool}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_or_dropped_before_sending_is_not_sent() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    assert!(matches!(host.call("files__missing").await, CallOutcome::Refused(_)));
    assert_eq!(last(&host), (CallState::Refused, Some(Delivery::NotSent)));
    drop(host.host.open(host.request("files__read", None)));
    assert_eq!(last(&host), (CallState::Cancelled, Some(Delivery::NotSent)));
    let mut relay = host.host.open(host.request("files__read", None));
    relay.cancel("before it began");
    assert_eq!(relay.delivery(), Some(Delivery::NotSent));
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn a_call_that_was_cut_after_sending_is_unknown() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let terms = ExchangeTimeouts { idle: Some(Duration::from_millis(50)), total: None };
    let outcome = host.call_of(CallRequest { terms: Some(terms), ..host.request("files__wait", None) }).await;
    assert!(matches!(outcome, CallOutcome::TimedOut { .. }), "{outcome}");
    assert_eq!(last(&host), (CallState::TimedOut, Some(Delivery::Unknown)));
    let call = host.host.call(host.request("files__wait", None));
    tokio::select! {
        outcome = call => panic!("{outcome}"),
        () = files.until_received("tools/call", 2) => {}
    }
    assert_eq!(last(&host), (CallState::Cancelled, Some(Delivery::Unknown)));
}

/// Replies of an HTTP server to a call, and what the record says.
#[tokio::test]
async fn an_http_server_that_refuses_has_answered_and_one_that_fails_may_have_acted() {
    for (status, expected) in [(400, Delivery::Answered), (403, Delivery::Answered), (502, Delivery::Unknown)] {
        let odd = OddHttp::start(move |seen| match seen.method() {
            "tools/call" => Reply::empty(status),
            _ => compliant_http(SupportedEras::Modern, seen),
        });
        let odd = odd.await.unwrap();
        let host = TestHost::new().wanted(address("odd", &odd.url())).start().await;
        host.ready("odd").await;
        drop(host.call("odd__hello").await);
        assert_eq!(last(&host).1, Some(expected), "{status}");
    }
}

#[tokio::test]
async fn an_http_call_that_is_cut_is_unknown() {
    let odd = OddHttp::start(|seen| match seen.method() {
        "tools/call" => Reply::events(String::new()).then(Act::HalfClose),
        _ => compliant_http(SupportedEras::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    drop(host.call("odd__hello").await);
    assert_eq!(last(&host), (CallState::Failed, Some(Delivery::Unknown)));
    drop(odd);
    drop(host.call("odd__hello").await);
    assert_eq!(last(&host).1, Some(Delivery::NotSent), "{:?}", host.records().last());
}
