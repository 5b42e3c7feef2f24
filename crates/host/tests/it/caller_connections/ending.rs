//! Caller connections end after idle time, with their server, and by themselves; failed ones are retried with backoff.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolway_config::server::{Sharing, Standing};
use toolway_host::{
    call::{CallError, CallOutcome, CallRequest},
    connection::{Phase, WantedServer},
    record::CallState,
};
use toolway_testkit::{
    odd::{
        compliant::{self, SupportedEras},
        http::{Act, OddHttp, Reply, compliant_http, event},
    },
    test_host::{TestHost, name, within},
};

use super::{answer, call_of, files, forms, in_sessions, outcome_of, said, server_request};
use crate::fixtures;

/// A host with a program, and the process ids of the connections of two clients.
async fn with_two_connections(server: WantedServer) -> (TestHost, Vec<u32>) {
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    for client in ["ada", "ben"] {
        assert_eq!(host.call_of(call_of(client, "echo", &forms())).await.state(), CallState::Succeeded);
    }
    let status = host.status("files");
    let pids: Vec<u32> = status.caller_connections.iter().map(|connection| connection.process.unwrap()).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| Some(*pid) != status.process && fixtures::runs(*pid)), "{pids:?}");
    (host, pids)
}

/// A call in one of a client's sessions.
fn in_session(client: &str, number: usize, tool: &str) -> CallRequest {
    CallRequest { session: Some(Arc::from(number.to_string())), ..call_of(client, tool, &forms()) }
}

async fn all_gone(pids: &[u32]) {
    for pid in pids {
        within("the end of a process", fixtures::gone(*pid)).await;
    }
}

fn program() -> WantedServer {
    fixtures::process("files", &["--era", "legacy"])
}

#[tokio::test]
async fn caller_connections_end_with_the_shared_connection() {
    let files = name("files");
    let (host, pids) = with_two_connections(program()).await;
    host.host.disconnect(&files).await.unwrap();
    all_gone(&pids).await;
    assert!(host.status("files").caller_connections.is_empty());
    let outcome = host.call_of(call_of("ada", "echo", &forms())).await;
    assert_eq!(outcome.state(), CallState::Failed, "{outcome}");

    let (host, pids) = with_two_connections(program()).await;
    host.host.reconnect(&files).await.unwrap();
    all_gone(&pids).await;
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.state(), CallState::Succeeded);

    let (host, pids) = with_two_connections(program()).await;
    host.host.toggle(&files, Standing::Disabled).await.unwrap();
    all_gone(&pids).await;

    let (host, pids) = with_two_connections(program()).await;
    within("the shutdown", host.host.shutdown()).await;
    assert!(!pids.iter().any(|pid| fixtures::runs(*pid)), "the shutdown waits for them");
}

#[tokio::test]
async fn idle_caller_connections_end() {
    let (host, pids) =
        with_two_connections(WantedServer { idle_stop: Some(Duration::from_millis(300)), ..program() }).await;
    all_gone(&pids).await;
    assert!(host.status("files").caller_connections.is_empty());
    host.until("files", |phase| matches!(phase, Phase::Stopped(_))).await;
    // The next call starts the server and the connection again.
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.state(), CallState::Succeeded);
    within("the shutdown", host.host.shutdown()).await;
}

#[tokio::test]
async fn lost_caller_connection_is_replaced_by_the_next_call() {
    let (host, pids) = with_two_connections(program()).await;
    fixtures::kill(pids[0]);
    all_gone(&pids[..1]).await;
    let again = async { while host.call_of(call_of("ada", "echo", &forms())).await.state() != CallState::Succeeded {} };
    within("another process", again).await;
    let now: Vec<_> =
        host.status("files").caller_connections.iter().filter_map(|connection| connection.process).collect();
    assert!(!now.contains(&pids[0]) && now.contains(&pids[1]) && now.len() == 2, "{now:?}");
    assert_eq!(host.status("files").losses, 0, "the shared connection is not affected");
    within("the shutdown", host.host.shutdown()).await;
}

/// Accepts the first handshake and refuses all others.
async fn single() -> (OddHttp, Arc<AtomicUsize>) {
    let greeted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&greeted);
    let odd = OddHttp::start(move |seen| {
        if seen.method() == "initialize" && 0 < count.fetch_add(1, Ordering::Relaxed) {
            return Reply::json(200, &compliant::error(seen.id(), -32001, "one licence, one client"));
        }
        compliant_http(SupportedEras::Legacy, seen)
    });
    (odd.await.unwrap(), greeted)
}

#[tokio::test]
async fn refused_caller_connection_fails_its_call_and_is_retried_with_backoff() {
    let (odd, greeted) = single().await;
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    host.ready("files").await;
    let mut said = Vec::new();
    for _ in 0..20 {
        let outcome = host.call_of(call_of("ada", "hello", &forms())).await;
        let CallOutcome::Failed(CallError::NotConnected { why, .. }) = &outcome else { panic!("{outcome}") };
        assert_eq!(why.error.as_ref().map(|error| error.code()), Some(-32001), "{outcome}");
        said.push(why.because.as_str().to_owned());
    }
    assert!(said[0].contains("one licence, one client"), "{}", said[0]);
    assert!(said[19].starts_with("failed 3 times in a row: "), "{}", said[19]);
    assert_eq!(greeted.load(Ordering::Relaxed), 4, "the shared connection and three attempts");
    // Calls on the shared connection are not affected.
    assert_eq!(host.call("files__hello").await.state(), CallState::Succeeded);
    assert!(host.status("files").caller_connections.is_empty());
}

/// Sixteen sessions of one caller have unanswered server requests; the seventeenth is served nevertheless.
#[tokio::test]
async fn unanswered_calls_do_not_block_all_connections_of_a_caller() {
    let host = TestHost::new().wanted(WantedServer { sharing: Sharing::Session, ..in_sessions(&files()) });
    let host = host.start().await;
    host.ready("files").await;
    let mut parked = Vec::new();
    for number in 0..16 {
        let mut call = host.host.open(in_session("ada", number, "greet"));
        let ask = server_request(&mut call).await;
        parked.push((call, ask));
    }
    let refused = host.call_of(in_session("ada", 16, "echo")).await;
    assert!(refused.to_string().contains("16 calls on connections of this caller"), "{refused}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert_eq!(host.call_of(in_session("ada", 16, "echo")).await.state(), CallState::Succeeded);
    assert_eq!(host.status("files").caller_connections.len(), 16);
    let (first, _) = parked.remove(0);
    let outcome = outcome_of(first).await.to_string();
    assert!(outcome.contains("another call needed its connection"), "{outcome}");
    let (second, ask) = parked.remove(0);
    answer(ask, "Ada");
    assert!(said(&outcome_of(second).await).contains("Ada"), "only one call was preempted");
}

/// At the limit of all callers, the caller with the most waiting calls loses a connection; two new callers are both
/// served.
#[tokio::test(start_paused = true)]
async fn caller_with_the_most_unanswered_calls_is_preempted() {
    let host = TestHost::new().wanted(WantedServer { sharing: Sharing::Session, ..in_sessions(&files()) });
    let host = host.start().await;
    host.ready("files").await;
    let mut parked = Vec::new();
    // The first caller's only call has waited longest.
    for (client, number) in [("zoe", 1), ("ada", 16), ("ben", 16), ("cleo", 16), ("dan", 15)] {
        for number in 0..number {
            let mut call = host.host.open(in_session(client, number, "greet"));
            let ask = server_request(&mut call).await;
            parked.push((client, call, ask));
        }
    }
    assert_eq!(host.status("files").caller_connections.len(), 64);
    let refused = host.call_of(in_session("eve", 0, "echo")).await;
    assert!(refused.to_string().contains("64 calls on connections of all callers"), "{refused}");
    tokio::time::advance(Duration::from_secs(31)).await;
    let (eve, finn) =
        tokio::join!(host.call_of(in_session("eve", 0, "echo")), host.call_of(in_session("finn", 0, "echo")));
    assert_eq!((eve.state(), finn.state()), (CallState::Succeeded, CallState::Succeeded), "{eve} {finn}");
    assert_eq!(host.status("files").caller_connections.len(), 64);
    let mut preempted = Vec::new();
    for (client, call, ask) in parked {
        answer(ask, client);
        match said(&outcome_of(call).await) {
            said if said.contains("another call needed its connection") => preempted.push(client),
            said => assert!(said.contains(client), "{said}"),
        }
    }
    assert!(preempted.len() == 2 && preempted[0] != preempted[1], "{preempted:?}");
    assert!(!preempted.contains(&"zoe") && !preempted.contains(&"dan"), "{preempted:?}");
}

/// Sends a server request in each of the first calls, and never answers the end of a session.
async fn asks_and_never_ends_sessions(asks: usize) -> OddHttp {
    let (calls, sessions) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let odd = OddHttp::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("DELETE", _) => Reply::bare().then(Act::Hang),
        (_, "initialize") => {
            let session = sessions.fetch_add(1, Ordering::Relaxed).to_string();
            let answer = SupportedEras::Legacy.answer(seen.message()).unwrap();
            Reply::json(200, &answer).header("Mcp-Session-Id", session)
        }
        (_, "tools/call") if calls.fetch_add(1, Ordering::Relaxed) < asks => {
            let asked = json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } });
            Reply::events(event(&compliant::request(&json!("q"), "elicitation/create", &asked))).then(Act::Hang)
        }
        _ => compliant_http(SupportedEras::Legacy, seen),
    });
    odd.await.unwrap()
}

/// A session may end slowly; the call that replaces it does not wait.
#[tokio::test]
async fn replacing_call_does_not_wait_for_the_end_of_the_evicted_connection() {
    let odd = asks_and_never_ends_sessions(16).await;
    let server = WantedServer { sharing: Sharing::Session, ..fixtures::address("files", &odd.url()) };
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    let mut parked = Vec::new();
    for number in 0..16 {
        let mut call = host.host.open(in_session("ada", number, "hello"));
        let ask = server_request(&mut call).await;
        parked.push((call, ask));
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    // Dropped as soon as it has a connection: the evicted one is ended nevertheless.
    let mut dropped = Box::pin(host.host.call(in_session("ada", 16, "hello")));
    assert!(futures_util::poll!(&mut dropped).is_pending());
    drop(dropped);
    let outcome = outcome_of(parked.remove(0).0).await.to_string();
    assert!(outcome.contains("another call needed its connection"), "{outcome}");
    let call = host.host.call(in_session("ada", 17, "hello"));
    let outcome = tokio::time::timeout(Duration::from_secs(3), call).await.expect("at once");
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
    within("the end of the session", odd.until(|seen| seen.iter().any(|seen| seen.verb == "DELETE"))).await;
}

#[tokio::test]
async fn one_caller_cannot_use_all_connections() {
    let host = TestHost::new().wanted(WantedServer { sharing: Sharing::Session, ..in_sessions(&files()) });
    let host = host.start().await;
    host.ready("files").await;
    let session = |number: usize| Some(Arc::from(number.to_string()));
    let mut calls = Vec::new();
    for number in 0..16 {
        let request = CallRequest { session: session(number), ..call_of("ada", "wait", &json!({})) };
        calls.push(Box::pin(host.host.call(request)));
    }
    let mut all = futures_util::future::join_all(calls);
    let busy = async {
        while host.status("files").caller_connections.len() < 16 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let request = CallRequest { session: session(99), ..call_of("ada", "echo", &json!({})) };
        let refused = host.call_of(request).await;
        assert!(refused.to_string().contains("16 calls on connections of this caller"), "{refused}");
        assert_eq!(host.call_of(call_of("ben", "echo", &json!({}))).await.state(), CallState::Succeeded);
    };
    tokio::select! {
        outcomes = &mut all => panic!("{outcomes:?}"),
        () = busy => {}
    }
    drop(all);
    // Idle connections are evicted.
    let request = CallRequest { session: session(99), ..call_of("ada", "echo", &json!({})) };
    assert_eq!(host.call_of(request).await.state(), CallState::Succeeded);
    let of_ada = host
        .status("files")
        .caller_connections
        .iter()
        .filter(|connection| connection.caller.to_string() == "client ada")
        .count();
    assert_eq!(of_ada, 16);
}
