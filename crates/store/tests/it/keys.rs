//! Idempotency keys: ways to a second effect under one key, none of which may work.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_host::{
    call::{CallOutcome, CallRequest},
    connection::{ServerAddress, WantedServer, Way},
    policy::{CallLimits, Refusal},
    record::{
        CallRecorder as _, CallState, Delivery, Finding, IdempotencyKey, KEPT, KeyClaim, KeyHolder, Repeated,
        Requirement, Settlement,
    },
};
use toolway_store::{Store, StoreRecorder, Uuid, calls::CallFilter};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    odd::{
        compliant::SupportedEras,
        http::{Act, OddHttp, Reply, compliant_http},
    },
    test_host::{TestHost, name, within},
};

use crate::stage::{Stage, record};

fn server() -> FixtureServer {
    FixtureServer::new("files")
        .tool("pay", "Pay")
        .tool("refund", "Refund")
        .tool_that("hang", "Hang", Behaviour::Wait)
        .tool_that("refuse", "Refuse", Behaviour::Refuse)
        .annotated("sync", &json!({ "idempotentHint": true }), Behaviour::Wait)
}

async fn host(server: &FixtureServer, store: &Store) -> TestHost {
    host_with(server, store, CallLimits::default()).await
}

async fn host_with(server: &FixtureServer, store: &Store, calls: CallLimits) -> TestHost {
    let recorder = Arc::new(StoreRecorder::new(store.clone(), Requirement::Required, "call"));
    let mut builder = TestHost::with(server, "files");
    builder.ports.recorder = Some(recorder);
    builder.options.calls = calls;
    let host = builder.start().await;
    host.ready("files").await;
    host
}

fn keyed(host: &TestHost, tool: &str, arguments: Value, key: &str) -> CallRequest {
    let idempotency_key = Some(IdempotencyKey::new("client:ada key 1", key));
    CallRequest { idempotency_key, ..host.request(tool, Some(arguments)) }
}

fn address(server: &str, url: &str) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::http(url.parse().unwrap())))
}

/// Makes a call that is dropped when the server has received it, as its call number `count`.
async fn cut(host: &TestHost, server: &FixtureServer, request: CallRequest, count: usize) {
    tokio::select! {
        outcome = host.host.call(request) => panic!("{outcome}"),
        () = server.until_received("tools/call", count) => {}
    }
}

fn repeated(outcome: &CallOutcome) -> Repeated {
    let CallOutcome::Refused(Refusal::Repeated(repeated)) = outcome else { panic!("{outcome}") };
    repeated.clone()
}

#[tokio::test]
async fn concurrent_calls_of_two_processes_under_one_key_act_once_and_get_the_same_answer() {
    let (stage, server) = (Stage::new(), server());
    let stores = [stage.open(), stage.open()];
    let hosts = [host(&server, &stores[0]).await, host(&server, &stores[1]).await];
    let calls = (0..16).map(|number| {
        let host = &hosts[number % 2];
        host.call_of(keyed(host, "files__pay", json!({ "to": "ada" }), "k"))
    });
    let outcomes = within("the calls", join_all(calls)).await;
    let results: Vec<String> = outcomes.iter().map(|outcome| outcome.result().unwrap().to_string()).collect();
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    assert_eq!(server.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn other_arguments_or_another_tool_under_the_key_are_an_error_and_other_owners_have_keys_of_their_own() {
    let (stage, server) = (Stage::new(), server());
    let store = stage.open();
    let host = host(&server, &store).await;
    drop(host.call_of(keyed(&host, "files__pay", json!({ "to": "ada" }), "k")).await);
    for request in [
        keyed(&host, "files__pay", json!({ "to": "bob" }), "k"),
        keyed(&host, "files__refund", json!({ "to": "ada" }), "k"),
        keyed(&host, "files__pay", json!({}), "k"),
    ] {
        assert_eq!(repeated(&host.call_of(request).await), Repeated::OtherArguments);
    }
    assert_eq!(server.seen("tools/call").len(), 1);
    let other = Some(IdempotencyKey::new("client:ada key 2", "k"));
    let request = keyed(&host, "files__pay", json!({ "to": "ada" }), "k");
    assert!(host.call_of(CallRequest { idempotency_key: other, ..request }).await.result().is_some());
    assert_eq!(server.seen("tools/call").len(), 2);
}

#[tokio::test]
async fn an_unknown_outcome_is_not_sent_again_unless_the_tool_is_idempotent_or_a_person_settled_it() {
    let (stage, server) = (Stage::new(), server());
    let store = stage.open();
    let host = host(&server, &store).await;
    let hang = || keyed(&host, "files__hang", json!({}), "h");
    cut(&host, &server, hang(), 1).await;
    let Repeated::Unknown { call } = repeated(&host.call_of(hang()).await) else { panic!("unknown") };
    assert_eq!(stage.reader().call(call).unwrap().unwrap().row.outcome, Some(Delivery::Unknown));
    assert_eq!(server.seen("tools/call").len(), 1);
    let settled = |finding| Settlement { call, at: 1, finding, note: None };
    store.settle(settled(Finding::Happened)).await.unwrap();
    assert_eq!(repeated(&host.call_of(hang()).await), Repeated::Unknown { call });
    store.settle(settled(Finding::DidNotHappen)).await.unwrap();
    cut(&host, &server, hang(), 2).await;
    for count in 3..5 {
        cut(&host, &server, keyed(&host, "files__sync", json!({}), "s"), count).await;
    }
}

#[tokio::test]
async fn a_call_that_was_not_sent_frees_its_key_and_an_error_of_the_server_does_not() {
    let (stage, server) = (Stage::new(), server());
    let store = stage.open();
    let host = host_with(&server, &store, CallLimits { per_server: 1, waiting: 0, ..CallLimits::default() }).await;
    let pay = || keyed(&host, "files__pay", json!({}), "k");
    drop(host.host.open(pay()));
    // It holds the only slot: the next call claims its key, and is refused.
    let mut hanging = Box::pin(host.host.call(host.request("files__hang", None)));
    tokio::select! {
        outcome = &mut hanging => panic!("{outcome}"),
        () = server.until_received("tools/call", 1) => {}
    }
    let refused = host.call_of(pay()).await;
    assert!(matches!(refused, CallOutcome::Refused(Refusal::Busy { .. })), "{refused}");
    drop(hanging);
    assert!(host.call_of(pay()).await.result().is_some());
    assert_eq!(server.seen("tools/call").len(), 2);
    let refuse = || keyed(&host, "files__refuse", json!({}), "r");
    assert_eq!(host.call_of(refuse()).await.state(), CallState::Failed);
    assert!(matches!(repeated(&host.call_of(refuse()).await), Repeated::Failed { .. }));
    assert_eq!(server.seen("tools/call").len(), 3);
}

/// Replies to a call over HTTP: what the record says, and whether a repetition under the key is sent.
#[tokio::test]
async fn a_refused_credential_is_an_answer_that_does_not_use_up_the_key_and_other_answers_do() {
    for (status, outcome, sent) in [(401, "answered", 2), (400, "answered", 1), (502, "unknown", 1)] {
        let odd = OddHttp::start(move |seen| match seen.method() {
            "tools/call" => Reply::empty(status),
            _ => compliant_http(SupportedEras::Modern, seen),
        });
        let odd = odd.await.unwrap();
        let stage = Stage::new();
        let store = stage.open();
        let mut builder = TestHost::new().wanted(address("odd", &odd.url()));
        builder.ports.recorder = Some(Arc::new(StoreRecorder::new(store, Requirement::Required, "call")));
        let host = builder.start().await;
        host.ready("odd").await;
        for _ in 0..2 {
            let ended = within("the call", host.call_of(keyed(&host, "odd__hello", json!({}), "k"))).await;
            assert!(ended.result().is_none(), "{status}: {ended}");
        }
        let calls = stage.reader().calls(&CallFilter { limit: 9, ..CallFilter::default() }).unwrap();
        let first = calls.last().unwrap();
        assert_eq!(first.outcome.map(Delivery::as_str), Some(outcome), "{status}: {first:?}");
        assert_eq!(odd.seen().iter().filter(|seen| seen.method() == "tools/call").count(), sent, "{status}");
    }
}

/// A stream that ends before its answer, in both eras, and a connection that ends before the first byte of the request.
#[tokio::test]
async fn a_cut_stream_holds_its_key_and_a_call_that_was_not_written_frees_it() {
    for eras in [SupportedEras::Modern, SupportedEras::Legacy] {
        let odd = OddHttp::start(move |seen| match seen.method() {
            "tools/call" => Reply::events(String::new()).then(Act::HalfClose),
            _ => compliant_http(eras, seen),
        });
        let odd = odd.await.unwrap();
        let stage = Stage::new();
        let store = stage.open();
        let mut builder = TestHost::new().wanted(address("odd", &odd.url()));
        builder.ports.recorder = Some(Arc::new(StoreRecorder::new(store, Requirement::Required, "call")));
        let host = builder.start().await;
        host.ready("odd").await;
        let call = async |key: &str| within("the call", host.call_of(keyed(&host, "odd__hello", json!({}), key))).await;
        drop(call("cut").await);
        assert!(matches!(repeated(&call("cut").await), Repeated::Unknown { .. }), "{eras:?}");
        drop(odd);
        for _ in 0..2 {
            let ended = call("never").await;
            assert!(!matches!(ended, CallOutcome::Refused(Refusal::Repeated(_))), "{eras:?}: {ended}");
        }
        let calls = stage.reader().calls(&CallFilter { limit: 9, ..CallFilter::default() }).unwrap();
        let outcomes: Vec<_> = calls.iter().rev().map(|call| call.outcome.map_or("-", Delivery::as_str)).collect();
        assert_eq!(outcomes, ["unknown", "not-sent", "not-sent", "not-sent"], "{eras:?} {calls:?}");
    }
}

pub(super) fn claim(call: Uuid, at: SystemTime) -> KeyClaim {
    KeyClaim {
        key: IdempotencyKey::new("client:ada key 1", "k").unwrap(),
        item: "files pay".to_owned(),
        digest: vec![1],
        call,
        at,
        idempotent: false,
    }
}

#[tokio::test]
async fn a_key_is_free_a_day_after_it_was_claimed_and_not_before() {
    let stage = Stage::new();
    let store = stage.open();
    let recorder = StoreRecorder::new(store.clone(), Requirement::Required, "call");
    let first = record(&store, "pay", CallState::Succeeded).await;
    let minute = Duration::from_secs(60);
    for (call, ages, is_free) in [
        (first.id, Duration::ZERO, true),
        (Uuid::now_v7(), KEPT - minute, false),
        (Uuid::now_v7(), 2 * minute, true),
        (Uuid::now_v7(), KEPT - minute, false),
    ] {
        stage.tamper(&format!("UPDATE idempotency_keys SET at = at - {}", ages.as_micros()));
        let holder = recorder.claim_key(claim(call, SystemTime::now())).await.unwrap();
        assert_eq!(matches!(holder, KeyHolder::Claimed), is_free, "{ages:?}: {holder:?}");
    }
}

#[test]
fn a_key_has_a_bounded_length_and_visible_characters() {
    for bad in ["", "a b", "a\nb", "ä", &"k".repeat(256)] {
        assert!(IdempotencyKey::new("ada", bad).is_err(), "{bad}");
    }
    assert!(IdempotencyKey::new("ada", &"k".repeat(255)).is_ok());
}
