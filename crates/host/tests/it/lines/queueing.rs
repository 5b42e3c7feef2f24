//! A server that asks: one call at a time on each line, and whoever waits for an answer keeps nobody waiting.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolway_host::{call::Relay, policy::CallLimits, record::Ending};
use toolway_testkit::{
    fixture_server::Behaviour,
    test_host::{TestHost, within},
};
use toolway_wire::exchange::{Answer, Ask};

use super::{Answers, answer, asked, call_of, ended, files, forms, in_sessions, said};

/// A host whose server has asked something while two calls were under way.
async fn known_to_ask(limits: CallLimits) -> TestHost {
    known_to_ask_and_told(limits).await.0
}

/// The same, and what its server is told from then on.
async fn known_to_ask_and_told(limits: CallLimits) -> (TestHost, Arc<Answers>) {
    let files = files();
    let mut builder = TestHost::new().wanted(in_sessions(&files));
    builder.options.calls = limits;
    let answers = Arc::new(Answers::default());
    let tap = Arc::clone(&answers);
    builder.options.tap = Some(Arc::new(move |_| tap.clone()));
    let host = builder.start().await;
    host.ready("files").await;
    // It waits for nothing but its end, so that the next one is not alone.
    let mut waits = Box::pin(host.host.call(call_of("ada", "wait", &forms())));
    assert!(futures_util::poll!(&mut waits).is_pending());
    tokio::select! {
        () = within("the call", files.reached("tools/call", 1)) => {}
        outcome = &mut waits => panic!("{outcome}"),
    }
    let refused = said(&host.call_of(call_of("ada", "greet", &forms())).await);
    assert!(refused.contains("no single request can be named"), "{refused}");
    drop(waits);
    answers.0.lock().clear();
    (host, answers)
}

/// Calls of one caller that the server has asked about, and what it asks.
async fn parked(host: &TestHost, number: usize) -> Vec<(Relay, Ask)> {
    let mut parked = Vec::new();
    for _ in 0..number {
        let mut call = host.host.open(call_of("ada", "greet", &forms()));
        let ask = asked(&mut call).await;
        parked.push((call, ask));
    }
    parked
}

#[tokio::test]
async fn what_could_be_about_two_calls_is_shown_to_nobody_and_then_there_is_one_at_a_time() {
    let host = known_to_ask(CallLimits::default()).await;
    let mut first = host.host.open(call_of("ada", "wait", &forms()));
    assert!(futures_util::poll!(Box::pin(first.next())).is_pending());
    let mut second = host.host.open(call_of("ada", "greet", &forms()));
    // It waits for the first one to end, which is never by itself.
    assert!(tokio::time::timeout(Duration::from_millis(200), second.next()).await.is_err());
    assert_eq!(host.status("files").lines.len(), 1);
    // What nobody can be asked about, and what others do, goes on.
    assert_eq!(host.call_of(call_of("ada", "echo", &json!({}))).await.ending(), Ending::Answered);
    assert_eq!(host.call_of(call_of("ben", "echo", &forms())).await.ending(), Ending::Answered);
    drop(first);
    answer(asked(&mut second).await, "Ada");
    assert!(said(&ended(second).await).contains("Ada"));
}

#[tokio::test]
async fn a_call_that_waits_for_an_answer_keeps_no_other_waiting_up_to_four() {
    let host = known_to_ask(CallLimits::default()).await;
    let mut parked = Vec::new();
    for number in 1..=4 {
        let mut call = host.host.open(call_of("ada", "greet", &forms()));
        let ask = asked(&mut call).await;
        parked.push((call, ask));
        assert_eq!(host.status("files").lines.len(), number);
    }
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_millis(200), fifth.next()).await.is_err());
    let status = host.status("files");
    assert_eq!(status.lines.iter().map(|line| line.parked).collect::<Vec<_>>(), [1, 1, 1, 1]);
    // Each answer finds its own call.
    for (number, (call, ask)) in parked.into_iter().enumerate().rev() {
        answer(ask, &format!("Ada {number}"));
        let end = said(&ended(call).await);
        assert!(end.contains(&format!("Ada {number}")), "{end}");
    }
    answer(asked(&mut fifth).await, "the fifth");
    assert!(said(&ended(fifth).await).contains("the fifth"));
    assert_eq!(host.status("files").lines.len(), 4);
}

/// A person may take minutes, or have left: nobody can tell. Whoever needs the place is served all the same. What is said
/// afterwards reaches nobody: a server that goes on would act on it, and the caller is told to call again.
#[tokio::test(start_paused = true)]
async fn what_has_waited_longest_for_an_answer_gives_way_when_every_line_waits() {
    let (host, answers) = known_to_ask_and_told(CallLimits::default()).await;
    let parked = parked(&host, 4).await;
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(29), fifth.next()).await.is_err(), "nobody is hurried");
    let began = tokio::time::Instant::now();
    let ask = asked(&mut fifth).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let mut parked = parked.into_iter();
    let (first, late) = parked.next().unwrap();
    answer(late, "too late");
    assert_eq!(
        ended(first).await.to_string(),
        "failed: nobody had answered what `files` asked for 30s, and another call needed its connection; call again"
    );
    let waits: Vec<usize> = host.status("files").lines.iter().map(|line| line.parked).collect();
    assert_eq!(waits, [1, 1, 1, 1], "the fifth has the line of the first");
    for (number, (call, ask)) in parked.chain([(fifth, ask)]).enumerate() {
        answer(ask, &format!("Ada {number}"));
        let end = said(&ended(call).await);
        assert!(end.contains(&format!("Ada {number}")), "{end}");
    }
    let calls: Vec<usize> = host.status("files").lines.iter().map(|line| line.calls).collect();
    assert_eq!(calls, [0, 0, 0, 0]);
    let told: Vec<String> = answers.0.lock().iter().map(|message| message["result"].to_string()).collect();
    assert_eq!(told[0], r#"{"action":"cancel"}"#, "{told:?}");
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(!told.iter().any(|told| told.contains("too late")), "{told:?}");
}

/// Nobody is ended for a line that is about to be free.
#[tokio::test(start_paused = true)]
async fn no_call_gives_way_while_another_goes_on() {
    let limits = CallLimits { patience: Duration::from_secs(90), ..CallLimits::default() };
    let (host, answers) = known_to_ask_and_told(limits).await;
    let parked = parked(&host, 3).await;
    let mut goes_on = host.host.open(call_of("ada", "wait", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(31), goes_on.next()).await.is_err());
    assert_eq!(host.status("files").lines.len(), 4);
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(60), fifth.next()).await.is_err());
    drop(goes_on);
    let ask = asked(&mut fifth).await;
    for (number, (call, ask)) in parked.into_iter().chain([(fifth, ask)]).enumerate() {
        answer(ask, &format!("Ada {number}"));
        let end = said(&ended(call).await);
        assert!(end.contains(&format!("Ada {number}")), "{end}");
    }
    let told: Vec<String> = answers.0.lock().iter().map(|message| message["result"].to_string()).collect();
    assert!(told.len() == 4 && told.iter().all(|told| told.contains("accept")), "{told:?}");
}

/// Nobody may come back to a call that gave way: it is recorded as what it was.
#[tokio::test(start_paused = true)]
async fn a_call_that_gave_way_is_recorded_as_that_also_when_nobody_comes_back() {
    let host = known_to_ask(CallLimits::default()).await;
    let before = host.records().len();
    let mut parked = parked(&host, 4).await;
    tokio::time::advance(Duration::from_secs(30)).await;
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    let ask = asked(&mut fifth).await;
    drop(parked.remove(0));
    drop(parked.remove(0));
    answer(ask, "Ada");
    assert!(said(&ended(fifth).await).contains("Ada"));
    let records = host.records();
    let ends: Vec<_> = records[before..].iter().map(|record| (record.ending, record.message.as_deref())).collect();
    let because = "nobody had answered what `files` asked for 30s, and another call needed its connection; call again";
    let expected = [(Ending::Failed, Some(because)), (Ending::Cancelled, Some("cancelled")), (Ending::Answered, None)];
    assert_eq!(ends, expected);
}

/// What its server works on is not abandoned, however long ago the question was.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_gives_way_to_nobody() {
    let limits = CallLimits { patience: Duration::from_secs(90), ..CallLimits::default() };
    let mut builder = TestHost::new().wanted(in_sessions(&files().tool_that("ponder", "Ponder", Behaviour::Ponder)));
    builder.options.calls = limits;
    let host = builder.start().await;
    host.ready("files").await;
    let mut ponders = Vec::new();
    for _ in 1..=4 {
        let mut call = host.host.open(call_of("ada", "ponder", &forms()));
        answer(asked(&mut call).await, "Ada");
        ponders.push(call);
    }
    let mut fifth = host.host.open(call_of("ada", "greet", &forms()));
    assert!(tokio::time::timeout(Duration::from_secs(60), fifth.next()).await.is_err());
}

#[tokio::test]
async fn whoever_waits_too_long_for_a_turn_is_told_so() {
    let limits = CallLimits { patience: Duration::from_millis(300), ..CallLimits::default() };
    let host = known_to_ask(limits).await;
    let mut first = host.host.open(call_of("ada", "wait", &forms()));
    assert!(futures_util::poll!(Box::pin(first.next())).is_pending());
    let outcome = host.call_of(call_of("ada", "greet", &forms())).await;
    assert_eq!(outcome.to_string(), "refused: no free slot within 300ms: 1 calls to a server that asks are under way");
}

#[tokio::test]
async fn a_call_that_waits_for_an_answer_takes_no_slot_and_only_so_many_may() {
    let mut builder = TestHost::new().wanted(in_sessions(&files()));
    builder.options.calls = CallLimits { in_all: 1, per_server: 1, waiting: 0, parked: 1, ..CallLimits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let mut first = host.host.open(call_of("ada", "greet", &forms()));
    let ask = asked(&mut first).await;
    assert_eq!(host.call_of(call_of("ada", "echo", &forms())).await.ending(), Ending::Answered);
    let mut second = host.host.open(call_of("ada", "greet", &forms()));
    let outcome = within("the end", async { second.next().await }).await;
    let said_so = format!("{outcome:?}");
    assert!(said_so.contains("1 calls of this caller that wait for an answer are under way"), "{said_so}");
    let mut other = host.host.open(call_of("ben", "greet", &forms()));
    asked(&mut other).await.answer(Answer::Nobody);
    assert_eq!(ended(other).await.ending(), Ending::Answered);
    answer(ask, "Ada");
    assert!(said(&ended(first).await).contains("Ada"));
    let asks: Vec<u32> = host.records().iter().map(|record| record.asks).collect();
    assert_eq!(asks, [0, 0, 1, 1]);
}
