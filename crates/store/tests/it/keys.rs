//! Idempotency keys: ways to a second effect under one key, none of which may work.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_host::{
    call::{CallOutcome, CallRequest},
    policy::Refusal,
    record::{CallState, Delivery, Finding, IdempotencyKey, Repeated, Requirement, Settlement},
};
use toolway_store::{Store, StoreRecorder};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};

use crate::stage::Stage;

fn server() -> FixtureServer {
    FixtureServer::new("files")
        .tool("pay", "Pay")
        .tool("refund", "Refund")
        .tool_that("hang", "Hang", Behaviour::Wait)
        .tool_that("refuse", "Refuse", Behaviour::Refuse)
        .annotated("sync", &json!({ "idempotentHint": true }), Behaviour::Wait)
}

async fn host(server: &FixtureServer, store: &Store) -> TestHost {
    let recorder = Arc::new(StoreRecorder::new(store.clone(), Requirement::Required, "call"));
    let mut builder = TestHost::with(server, "files");
    builder.ports.recorder = Some(recorder);
    let host = builder.start().await;
    host.ready("files").await;
    host
}

fn keyed(host: &TestHost, tool: &str, arguments: Value, key: &str) -> CallRequest {
    let idempotency_key = Some(IdempotencyKey::new("client:ada key 1", key).unwrap());
    CallRequest { idempotency_key, ..host.request(tool, Some(arguments)) }
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
    let other = Some(IdempotencyKey::new("client:ada key 2", "k").unwrap());
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
    let verdict = |verdict| Settlement { call, at: 1, verdict, note: None };
    store.settle(verdict(Finding::Happened)).await.unwrap();
    assert_eq!(repeated(&host.call_of(hang()).await), Repeated::Unknown { call });
    store.settle(verdict(Finding::DidNotHappen)).await.unwrap();
    cut(&host, &server, hang(), 2).await;
    for count in 3..5 {
        cut(&host, &server, keyed(&host, "files__sync", json!({}), "s"), count).await;
    }
}

#[tokio::test]
async fn a_call_that_was_not_sent_frees_its_key_and_an_error_of_the_server_does_not() {
    let (stage, server) = (Stage::new(), server());
    let store = stage.open();
    let host = host(&server, &store).await;
    let pay = || keyed(&host, "files__pay", json!({}), "k");
    drop(host.host.open(pay()));
    let mut dropped = host.host.open(pay());
    assert!(futures_util::poll!(std::pin::pin!(dropped.next())).is_pending());
    drop(dropped);
    assert!(host.call_of(pay()).await.result().is_some());
    assert_eq!(server.seen("tools/call").len(), 1);
    let refuse = || keyed(&host, "files__refuse", json!({}), "r");
    assert_eq!(host.call_of(refuse()).await.state(), CallState::Failed);
    assert!(matches!(repeated(&host.call_of(refuse()).await), Repeated::Failed { .. }));
    assert_eq!(server.seen("tools/call").len(), 2);
}

#[test]
fn a_key_has_a_bounded_length_and_visible_characters() {
    for bad in ["", "a b", "a\nb", "ä", &"k".repeat(256)] {
        assert!(IdempotencyKey::new("ada", bad).is_err(), "{bad}");
    }
    assert!(IdempotencyKey::new("ada", &"k".repeat(255)).is_ok());
}
