//! Servers with ambiguous requests: one interactive call at a time per connection, without blocking on unanswered
//! requests.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolway_host::{call::Relay, policy::CallLimits, record::CallState};
use toolway_testkit::{
    fixture_server::Behaviour,
    test_host::{TestHost, within},
};
use toolway_wire::exchange::{Answer, ServerRequest};

use super::{Answers, answer, call_of, files, forms, in_sessions, outcome_of, said, server_request};

/// A host whose server has sent a request while two calls were in flight.
async fn host_with_serial_calls(limits: CallLimits) -> TestHost {
    host_with_serial_calls_and_answers(limits).await.0
}

/// The same, and the responses to later server requests.
async fn host_with_serial_calls_and_answers(limits: CallLimits) -> (TestHost, Arc<Answers>) {
    let files = files();
    let mut builder = TestHost::new().wanted(in_sessions(&files));
    builder.options.calls = limits;
    let answers = Arc::new(Answers::default());
    let tap = Arc::clone(&answers);
    builder.options.tap = Some(Arc::new(move |_, _| tap.clone()));
    let host = builder.start().await;
    host.ready("files").await;
    // It never ends by itself, so the next call is not alone.
    let mut waits = Box::pin(host.host.call(call_of("ada", "wait", &forms())));
    assert!(futures_util::poll!(&mut waits).is_pending());
    tokio::select! {
        () = within("the call", files.until_received("tools/call", 1)) => {}
        outcome = &mut waits => panic!("{outcome}"),
    }
    let refused = said(&host.call_of(call_of("ada", "greet", &forms())).await);
    assert!(refused.contains("cannot be attributed to one client request"), "{refused}");
    drop(waits);
    answers.0.lock().clear();
    (host, answers)
}

/// Calls of one caller with unanswered server requests.
async fn parked(host: &TestHost, number: usize) -> Vec<(Relay, ServerRequest)> {
    let mut parked = Vec::new();
    for _ in 0..number {
        let mut call = host.host.open(call_of("ada", "greet", &forms()));
        let ask = server_request(&mut call).await;
        parked.push((call, ask));
    }
    parked
}

#[tokio::test]
async fn ambiguous_request_is_hidden_and_calls_are_serialized_afterwards() {
    let host = host_with_serial_calls(CallLimits::default()).await;
    let mut first = host.host.open(call_of("ada", "wait", &forms()));
    assert!(futures_util::poll!(Box::pin(first.next())).is_pending());
    let mut second = host.host.open(call_of("ada", "greet", &forms()));
    // It waits for the end of the first call, which never ends by itself.
    assert!(tokio::time::timeout(Duration::from_millis(200), second.next()).await.is_err());
    assert_eq!(host.status("files").caller_connections.len(), 1);
    // Calls without capabilities and calls of others continue.
    assert_eq!(host.call_of(call_of("ada", "echo", &json!({}))).await.state(), CallState::Succeeded);
    assert_eq!(host.call_of(call_of("ben", "echo", &forms())).await.state(), CallState::Succeeded);
    drop(first);
    answer(server_request(&mut second).await, "Ada");
    assert!(said(&outcome_of(second).await).contains("Ada"));
}

#[tokio::test]
async fn up_to_four_unanswered_calls_do_not_block_others() {
    let host = host_with_serial_calls(CallLimits::default()).await;
    let mut parked = Vec::new();
    for number in 1..=4 {
        let mut call = host.host.open(call_of("ada", "greet", &forms()));
        let ask = server_request(&mut call).await;
        parked.push((call, ask));
        assert_eq!(host.status("files").caller_connections.len(), number);
    }
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_millis(200), fifth.next()).await.is_err());
    let status = host.status("files");
    assert_eq!(status.caller_connections.iter().map(|connection| connection.parked).collect::<Vec<_>>(), [1, 1, 1, 1]);
    // Each answer reaches its own call.
    for (number, (call, ask)) in parked.into_iter().enumerate().rev() {
        answer(ask, &format!("Ada {number}"));
        let end = said(&outcome_of(call).await);
        assert!(end.contains(&format!("Ada {number}")), "{end}");
    }
    answer(server_request(&mut fifth).await, "the fifth");
    assert!(said(&outcome_of(fifth).await).contains("the fifth"));
    assert_eq!(host.status("files").caller_connections.len(), 4);
}

/// A user may never answer. The call that needs the connection is served nevertheless, and a late answer is dropped:
/// the server would act on it although the caller was told to call again.
#[tokio::test(start_paused = true)]
async fn longest_unanswered_call_is_preempted_when_all_connections_wait() {
    let (host, answers) = host_with_serial_calls_and_answers(CallLimits::default()).await;
    let parked = parked(&host, 4).await;
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(29), fifth.next()).await.is_err(), "no call is preempted early");
    let began = tokio::time::Instant::now();
    let ask = server_request(&mut fifth).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let mut parked = parked.into_iter();
    let (first, late) = parked.next().unwrap();
    answer(late, "too late");
    assert_eq!(
        outcome_of(first).await.to_string(),
        "failed: a request of `files` was not answered for 30s, and another call needed its connection; call again"
    );
    let waits: Vec<usize> =
        host.status("files").caller_connections.iter().map(|connection| connection.parked).collect();
    assert_eq!(waits, [1, 1, 1, 1], "the fifth call has the connection of the first");
    for (number, (call, ask)) in parked.chain([(fifth, ask)]).enumerate() {
        answer(ask, &format!("Ada {number}"));
        let end = said(&outcome_of(call).await);
        assert!(end.contains(&format!("Ada {number}")), "{end}");
    }
    let calls: Vec<usize> = host.status("files").caller_connections.iter().map(|connection| connection.calls).collect();
    assert_eq!(calls, [0, 0, 0, 0]);
    let sent: Vec<String> = answers.0.lock().iter().map(|message| message["result"].to_string()).collect();
    assert_eq!(sent[0], r#"{"action":"cancel"}"#, "{sent:?}");
    assert_eq!(sent.len(), 5, "{sent:?}");
    assert!(!sent.iter().any(|sent| sent.contains("too late")), "{sent:?}");
}

/// No call is preempted for a connection that is about to be free.
#[tokio::test(start_paused = true)]
async fn no_call_is_preempted_while_another_runs() {
    let limits = CallLimits { patience: Duration::from_secs(90), ..CallLimits::default() };
    let (host, answers) = host_with_serial_calls_and_answers(limits).await;
    let parked = parked(&host, 3).await;
    let mut running = host.host.open(call_of("ada", "wait", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(31), running.next()).await.is_err());
    assert_eq!(host.status("files").caller_connections.len(), 4);
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(60), fifth.next()).await.is_err());
    drop(running);
    let ask = server_request(&mut fifth).await;
    for (number, (call, ask)) in parked.into_iter().chain([(fifth, ask)]).enumerate() {
        answer(ask, &format!("Ada {number}"));
        let end = said(&outcome_of(call).await);
        assert!(end.contains(&format!("Ada {number}")), "{end}");
    }
    let sent: Vec<String> = answers.0.lock().iter().map(|message| message["result"].to_string()).collect();
    assert!(sent.len() == 4 && sent.iter().all(|sent| sent.contains("accept")), "{sent:?}");
}

/// The caller of a preempted call may never read its end; the record says what happened.
#[tokio::test(start_paused = true)]
async fn preempted_call_is_recorded_even_if_its_end_is_never_read() {
    let host = host_with_serial_calls(CallLimits::default()).await;
    let before = host.records().len();
    let mut parked = parked(&host, 4).await;
    tokio::time::advance(Duration::from_secs(30)).await;
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    let ask = server_request(&mut fifth).await;
    drop(parked.remove(0));
    drop(parked.remove(0));
    answer(ask, "Ada");
    assert!(said(&outcome_of(fifth).await).contains("Ada"));
    let records = host.records();
    let ends: Vec<_> = records[before..].iter().map(|record| (record.state, record.message.as_deref())).collect();
    let because = "a request of `files` was not answered for 30s, and another call needed its connection; call again";
    let expected = [(CallState::Failed, Some(because)), (CallState::Cancelled, None), (CallState::Succeeded, None)];
    assert_eq!(ends, expected);
}

/// A server that works on an answer is not interrupted.
#[tokio::test(start_paused = true)]
async fn answered_call_is_not_preempted() {
    let limits = CallLimits { patience: Duration::from_secs(90), ..CallLimits::default() };
    let mut builder = TestHost::new().wanted(in_sessions(&files().tool_that("ponder", "Ponder", Behaviour::Ponder)));
    builder.options.calls = limits;
    let host = builder.start().await;
    host.ready("files").await;
    let mut ponders = Vec::new();
    for _ in 1..=4 {
        let mut call = host.host.open(call_of("ada", "ponder", &forms()));
        answer(server_request(&mut call).await, "Ada");
        ponders.push(call);
    }
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(60), fifth.next()).await.is_err());
}

#[tokio::test]
async fn waiting_too_long_for_a_turn_is_refused() {
    let limits = CallLimits { patience: Duration::from_millis(300), ..CallLimits::default() };
    let host = host_with_serial_calls(limits).await;
    let mut first = host.host.open(call_of("ada", "wait", &forms()));
    assert!(futures_util::poll!(Box::pin(first.next())).is_pending());
    let outcome = host.call_of(call_of("ada", "greet", &forms())).await;
    assert_eq!(
        outcome.to_string(),
        "refused: no free call slot within 300ms: 1 calls to a server that accepts one interactive call at a time are in flight; try again later"
    );
}

#[tokio::test]
async fn unanswered_calls_use_no_slot_and_are_limited() {
    let mut builder = TestHost::new().wanted(in_sessions(&files()));
    builder.options.calls = CallLimits { in_all: 1, per_server: 1, waiting: 0, parked: 1, ..CallLimits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let mut first = host.host.open(call_of("ada", "greet", &forms()));
    let ask = server_request(&mut first).await;
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.state(), CallState::Succeeded);
    let mut second = host.host.open(call_of("ada", "greet", &forms()));
    let outcome = within("the end", async { second.next().await }).await;
    let message = format!("{outcome:?}");
    assert!(
        message.contains("1 calls of this caller that wait for the answer to a server request are in flight"),
        "{message}"
    );
    let mut other = host.host.open(call_of("ben", "greet", &forms()));
    server_request(&mut other).await.answer(Answer::Unavailable);
    assert_eq!(outcome_of(other).await.state(), CallState::ToolError);
    answer(ask, "Ada");
    assert!(said(&outcome_of(first).await).contains("Ada"));
    let asks: Vec<u32> = host.records().iter().map(|record| record.server_requests).collect();
    assert_eq!(asks, [0, 0, 1, 1]);
}
