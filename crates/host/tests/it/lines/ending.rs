//! Lines end: for want of use, with their server, and by themselves; and one that cannot be had is not tried without end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolway_config::server::Standing;
use toolway_host::{
    call::{CallError, CallOutcome},
    connection::{Phase, WantedServer},
    record::Ending,
};
use toolway_testkit::{
    odd::{
        http::{OddHttp, Reply, polite_http},
        polite::{self, Speaks},
    },
    test_host::{TestHost, name, within},
};

use super::{answer, asked, call_of, ended, files, forms, in_sessions, said};
use crate::fixtures;

/// A host with a program, and the numbers of the processes that two clients have.
async fn with_two_lines(server: WantedServer) -> (TestHost, Vec<u32>) {
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    for client in ["ada", "ben"] {
        assert_eq!(host.call_of(call_of(client, "echo", &forms())).await.ending(), Ending::Answered);
    }
    let status = host.status("files");
    let pids: Vec<u32> = status.lines.iter().map(|line| line.process.unwrap()).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| Some(*pid) != status.process && fixtures::runs(*pid)), "{pids:?}");
    (host, pids)
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
async fn lines_end_with_the_connection_of_their_server() {
    let files = name("files");
    let (host, pids) = with_two_lines(program()).await;
    host.host.disconnect(&files).await.unwrap();
    all_gone(&pids).await;
    assert!(host.status("files").lines.is_empty());
    let outcome = host.call_of(call_of("ada", "echo", &forms())).await;
    assert_eq!(outcome.ending(), Ending::Failed, "{outcome}");

    let (host, pids) = with_two_lines(program()).await;
    host.host.reconnect(&files).await.unwrap();
    all_gone(&pids).await;
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.ending(), Ending::Answered);

    let (host, pids) = with_two_lines(program()).await;
    host.host.toggle(&files, Standing::Disabled).await.unwrap();
    all_gone(&pids).await;

    let (host, pids) = with_two_lines(program()).await;
    within("the shutdown", host.host.shutdown()).await;
    assert!(!pids.iter().any(|pid| fixtures::runs(*pid)), "the shutdown waits for them");
}

#[tokio::test]
async fn lines_end_when_nobody_has_used_them_for_a_while() {
    let (host, pids) = with_two_lines(WantedServer { idle_stop: Some(Duration::from_millis(300)), ..program() }).await;
    all_gone(&pids).await;
    assert!(host.status("files").lines.is_empty());
    host.until("files", |phase| matches!(phase, Phase::Stopped(_))).await;
    // The next call has the server and the line started again.
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.ending(), Ending::Answered);
    within("the shutdown", host.host.shutdown()).await;
}

#[tokio::test]
async fn a_line_whose_process_dies_is_begun_anew_by_the_next_call() {
    let (host, pids) = with_two_lines(program()).await;
    fixtures::kill(pids[0]);
    all_gone(&pids[..1]).await;
    let again = async { while host.call_of(call_of("ada", "echo", &forms())).await.ending() != Ending::Answered {} };
    within("another process", again).await;
    let now: Vec<_> = host.status("files").lines.iter().filter_map(|line| line.process).collect();
    assert!(!now.contains(&pids[0]) && now.contains(&pids[1]) && now.len() == 2, "{now:?}");
    assert_eq!(host.status("files").losses, 0, "the first connection has nothing to do with it");
    within("the shutdown", host.host.shutdown()).await;
}

/// Greets the first who comes; everybody else is told that there is no licence for a second.
async fn single() -> (OddHttp, Arc<AtomicUsize>) {
    let greeted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&greeted);
    let odd = OddHttp::start(move |seen| {
        if seen.method() == "initialize" && 0 < count.fetch_add(1, Ordering::Relaxed) {
            return Reply::json(200, &polite::error(seen.id(), -32001, "one licence, one client"));
        }
        polite_http(Speaks::Legacy, seen)
    });
    (odd.await.unwrap(), greeted)
}

#[tokio::test]
async fn a_line_that_cannot_be_had_fails_its_call_clearly_and_is_not_tried_without_end() {
    let (odd, greeted) = single().await;
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    host.ready("files").await;
    let mut said = Vec::new();
    for _ in 0..20 {
        let outcome = host.call_of(call_of("ada", "hello", &forms())).await;
        let CallOutcome::Failed(CallError::NotConnected { why, .. }) = &outcome else { panic!("{outcome}") };
        assert_eq!(why.error.as_ref().map(|error| error.code()), Some(-32001), "{outcome}");
        said.push(why.because.clone());
    }
    assert!(said[0].contains("one licence, one client"), "{}", said[0]);
    assert!(said[19].starts_with("it fails again and again (3 times in a row): "), "{}", said[19]);
    assert_eq!(greeted.load(Ordering::Relaxed), 4, "one that stands, and three that were tried");
    // Whoever needs no line is not touched.
    assert_eq!(host.call("files__hello").await.ending(), Ending::Answered);
    assert!(host.status("files").lines.is_empty());
}

/// Sixteen sessions of one caller, each asked something that nobody answers: the seventeenth is served all the same.
#[tokio::test]
async fn abandoned_calls_do_not_keep_all_lines_of_a_caller() {
    let sharing = toolway_config::server::Sharing::Session;
    let host = TestHost::new().wanted(WantedServer { sharing, ..in_sessions(&files()) }).start().await;
    host.ready("files").await;
    let in_session = |number: usize, tool: &str| toolway_host::call::CallRequest {
        session: Some(Arc::from(number.to_string())),
        ..call_of("ada", tool, &forms())
    };
    let mut parked = Vec::new();
    for number in 0..16 {
        let mut call = host.host.open(in_session(number, "greet"));
        let ask = asked(&mut call).await;
        parked.push((call, ask));
    }
    let refused = host.call_of(in_session(16, "echo")).await;
    assert!(refused.to_string().contains("16 calls on connections of this caller"), "{refused}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert_eq!(host.call_of(in_session(16, "echo")).await.ending(), Ending::Answered);
    assert_eq!(host.status("files").lines.len(), 16);
    let (first, _) = parked.remove(0);
    let outcome = ended(first).await.to_string();
    assert!(outcome.contains("another call needed its connection"), "{outcome}");
    let (second, ask) = parked.remove(0);
    answer(ask, "Ada");
    assert!(said(&ended(second).await).contains("Ada"), "only one gave way");
}

#[tokio::test]
async fn one_caller_cannot_take_all_lines() {
    let host = TestHost::new()
        .wanted(WantedServer { sharing: toolway_config::server::Sharing::Session, ..in_sessions(&files()) });
    let host = host.start().await;
    host.ready("files").await;
    let session = |number: usize| Some(Arc::from(number.to_string()));
    let mut calls = Vec::new();
    for number in 0..16 {
        let request =
            toolway_host::call::CallRequest { session: session(number), ..call_of("ada", "wait", &json!({})) };
        calls.push(Box::pin(host.host.call(request)));
    }
    let mut all = futures_util::future::join_all(calls);
    let busy = async {
        while host.status("files").lines.len() < 16 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let request = toolway_host::call::CallRequest { session: session(99), ..call_of("ada", "echo", &json!({})) };
        let refused = host.call_of(request).await;
        assert!(refused.to_string().contains("16 calls on connections of this caller"), "{refused}");
        assert_eq!(host.call_of(call_of("ben", "echo", &json!({}))).await.ending(), Ending::Answered);
    };
    tokio::select! {
        outcomes = &mut all => panic!("{outcomes:?}"),
        () = busy => {}
    }
    drop(all);
    // Those that nobody uses any more give way.
    let request = toolway_host::call::CallRequest { session: session(99), ..call_of("ada", "echo", &json!({})) };
    assert_eq!(host.call_of(request).await.ending(), Ending::Answered);
    let of_ada = host.status("files").lines.iter().filter(|line| line.caller.to_string() == "client ada").count();
    assert_eq!(of_ada, 16);
}
