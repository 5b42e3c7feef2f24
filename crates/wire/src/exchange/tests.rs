//! Order of events, single outcome, timeouts and cancellation of an exchange.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use super::{
    Answer, Cause, Exchange, ExchangeEvent, ExchangeInterceptor, ExchangeTimeouts, Feed, Outcome, ServerRequestDetails,
    ServerRequestId, pair,
};
use crate::{error::TimeoutKind, json::Raw};

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

fn details() -> ServerRequestDetails {
    ServerRequestDetails {
        id: ServerRequestId(1),
        key: None,
        method: "roots/list".to_owned(),
        params: None,
        cause: Cause::Request,
    }
}

fn timeouts() -> ExchangeTimeouts {
    ExchangeTimeouts { idle: Some(Duration::from_secs(10)), total: Some(Duration::from_secs(25)) }
}

async fn sleep_secs(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn timed() -> (Exchange, Feed) {
    pair(timeouts(), 8)
}

#[tokio::test]
async fn events_arrive_in_order_with_one_outcome() {
    let (mut exchange, feed) = timed();
    feed.progress(raw(r#"{"progress":1}"#));
    feed.log(raw(r#"{"level":"info"}"#));
    assert!(feed.end(Outcome::Answered(raw("1"))));
    assert!(!feed.end(Outcome::Answered(raw("2"))), "there is one end");
    feed.progress(raw(r#"{"progress":2}"#));
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Progress(_))));
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Log(_))));
    assert!(
        matches!(exchange.next().await, Some(ExchangeEvent::Ended(Outcome::Answered(one))) if one.as_u64() == Some(1))
    );
    assert!(exchange.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn progress_restarts_the_idle_timeout_but_not_the_total() {
    let (mut exchange, feed) = timed();
    for step in 0..3 {
        sleep_secs(8).await;
        feed.progress(raw(&format!("{{\"progress\":{step}}}")));
        assert!(matches!(exchange.next().await, Some(ExchangeEvent::Progress(_))));
    }
    let end = exchange.next().await;
    assert!(matches!(end, Some(ExchangeEvent::Ended(Outcome::TimedOut { kind: TimeoutKind::Total, .. }))), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_expires_and_cancels_at_the_server() {
    let (mut exchange, feed) = timed();
    let cancelled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&cancelled);
    feed.when_cancelled(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let end = exchange.next().await;
    assert!(matches!(end, Some(ExchangeEvent::Ended(Outcome::TimedOut { kind: TimeoutKind::Idle, .. }))), "{end:?}");
    drop(exchange);
    assert_eq!(cancelled.load(Ordering::Relaxed), 1);
    assert!(!feed.end(Outcome::Cancelled), "an answer after the end is ignored");
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_paused_while_a_server_request_is_open() {
    let (mut exchange, feed) = timed();
    sleep_secs(5).await;
    let answer = feed.ask(details());
    let Some(ExchangeEvent::ServerRequest(request)) = exchange.next().await else { panic!("no server request") };
    assert!(tokio::time::timeout(Duration::from_secs(3_600), exchange.next()).await.is_err(), "still waiting");
    request.answer(Answer::Given(raw(r#"{"roots":[]}"#)));
    assert!(matches!(answer.await, Answer::Given(_)));
    sleep_secs(9).await;
    feed.end(Outcome::Answered(raw("{}")));
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Ended(Outcome::Answered(_)))));
}

#[tokio::test(start_paused = true)]
async fn withdrawing_a_server_request_resumes_the_timeouts() {
    let (mut exchange, feed) = timed();
    let _answer = feed.ask(details());
    let Some(ExchangeEvent::ServerRequest(_open)) = exchange.next().await else { panic!("no server request") };
    feed.withdraw(ServerRequestId(1));
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Withdrawn(ServerRequestId(1)))));
    let end = exchange.next().await;
    assert!(matches!(end, Some(ExchangeEvent::Ended(Outcome::TimedOut { kind: TimeoutKind::Idle, .. }))), "{end:?}");
}

#[tokio::test]
async fn unread_server_request_is_answered_as_unavailable() {
    let (exchange, feed) = timed();
    let answer = feed.ask(details());
    drop(exchange);
    assert!(matches!(answer.await, Answer::Unavailable));
    feed.cancelled().await;
    assert!(matches!(feed.ask(details()).await, Answer::Unavailable));
}

#[tokio::test]
async fn slow_caller_misses_old_progress_but_no_server_request_or_outcome() {
    let (mut exchange, feed) = timed();
    let answer = feed.ask(details());
    for step in 0..20 {
        feed.progress(raw(&format!("{{\"progress\":{step}}}")));
    }
    feed.end(Outcome::Answered(raw("{}")));
    assert_eq!(exchange.missed(), 13);
    let Some(ExchangeEvent::ServerRequest(request)) = exchange.next().await else { panic!("no server request") };
    request.answer(Answer::declined());
    assert!(matches!(answer.await, Answer::Given(_)));
    let mut seen = 0;
    while let Some(event) = exchange.next().await {
        seen += usize::from(matches!(event, ExchangeEvent::Progress(_)));
    }
    assert_eq!(seen, 7);
}

#[tokio::test]
async fn cancelling_ends_with_its_own_outcome() {
    let (mut exchange, feed) = timed();
    exchange.cancel("not needed");
    assert!(!feed.end(Outcome::Answered(raw("{}"))));
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Ended(Outcome::Cancelled))));
    let (mut exchange, feed) = timed();
    drop(feed);
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Ended(Outcome::Failed(_)))));
}

#[tokio::test(start_paused = true)]
async fn endless_progress_does_not_outlast_the_total_timeout() {
    let (mut exchange, feed) = timed();
    for _ in 0..100_000 {
        // Always something to read.
        feed.progress(raw("{}"));
        feed.progress(raw("{}"));
        tokio::time::advance(Duration::from_millis(100)).await;
        if let Some(ExchangeEvent::Ended(outcome)) = exchange.next().await {
            assert!(matches!(outcome, Outcome::TimedOut { kind: TimeoutKind::Total, .. }), "{outcome:?}");
            return;
        }
    }
    panic!("the exchange never ended");
}

/// An interceptor that changes results and nothing else.
#[derive(Debug)]
struct Signed(Exchange);

impl ExchangeInterceptor for Signed {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        self.0.poll_next(context).map(|event| match event {
            Some(ExchangeEvent::Ended(Outcome::Answered(_))) => {
                Some(ExchangeEvent::Ended(Outcome::Answered(raw(r#"{"signed":true}"#))))
            }
            other => other,
        })
    }

    fn cancel(&mut self, reason: &str) {
        self.0.cancel(reason);
    }

    fn missed(&self) -> u64 {
        self.0.missed()
    }
}

#[tokio::test]
async fn interceptor_sees_every_event_without_delay() {
    let (exchange, feed) = timed();
    let mut exchange = Exchange::through(Signed(exchange));
    feed.progress(raw("{}"));
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Progress(_))));
    feed.end(Outcome::Answered(raw("{}")));
    let Some(ExchangeEvent::Ended(Outcome::Answered(result))) = exchange.next().await else { panic!("no answer") };
    assert_eq!(result.to_string(), r#"{"signed":true}"#);
    assert!(exchange.next().await.is_none());
}

#[tokio::test]
async fn dropping_an_intercepted_exchange_cancels_it() {
    let (exchange, feed) = timed();
    drop(Exchange::through(Signed(exchange)));
    assert!(feed.is_cancelled());
    let (exchange, feed) = timed();
    let mut exchange = Exchange::through(Signed(exchange));
    exchange.cancel("not needed");
    assert!(feed.is_cancelled());
    assert!(matches!(exchange.next().await, Some(ExchangeEvent::Ended(Outcome::Cancelled))));
}
