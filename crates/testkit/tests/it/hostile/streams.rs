//! Event streams: oversized, endless, broken and resumed.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_testkit::odd::{
    compliant::{self, SupportedEras},
    http::{Act, OddHttp, RecordedRequest, Reply, compliant_http, event},
};
use toolway_wire::{
    error::TimeoutKind,
    exchange::Outcome,
    limit::Limits,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, check, connected, faults, odd_call, outcome_code, pinned, short_timeout};
use crate::dialling::{LONG, SHORT};

fn hello(seen: &RecordedRequest) -> Value {
    SupportedEras::Both.answer(seen.message()).unwrap()
}

#[tokio::test]
async fn oversized_event_fails_its_call() {
    for (name, text) in [
        ("one line", format!("data: {}\n\n", "x".repeat(20_000))),
        ("many lines", "data: x\n".repeat(3_000)),
        ("a comment", format!(": {}\n\n", "x".repeat(20_000))),
        ("a name", format!("event: {}\n\n", "x".repeat(20_000))),
    ] {
        check(name, move |_: &RecordedRequest| Reply::events(text.clone()).then(Act::Hang), pinned, "too_large").await;
    }
    let endless = |_: &RecordedRequest| Reply::events("data: ").then(Act::SayForEver(vec![b'x'; 1_000]));
    check("endless line", endless, pinned, "too_large").await;
    let message = |seen: &RecordedRequest| {
        let text = compliant::answered(seen.id(), &compliant::text(&"x".repeat(10_000)));
        Reply::events(event(&text)).then(Act::Hang)
    };
    check("a message over its own bound", message, pinned, "too_large").await;
}

#[tokio::test]
async fn endless_stream_without_messages_times_out() {
    let noises = [("comments", ": x\n\n"), ("pings", "event: ping\ndata: {}\n\n"), ("blank lines", "\n")];
    join_all(noises.map(async |(name, noise)| {
        let odd = move |_: &RecordedRequest| Reply::events("").then(Act::SayForEver(noise.repeat(100).into_bytes()));
        check(name, odd, short_timeout, "timed_out").await;
    }))
    .await;
}

/// Progress resets the idle timeout, but not the total timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn endless_progress_ends_with_the_total_timeout() {
    for era in ERAS {
        let odd = odd_call(|seen| {
            let params = json!({ "progressToken": seen.id(), "progress": 1 });
            let progress = event(&compliant::notification("notifications/progress", &params));
            Reply::events("").then(Act::SayForEver(progress.repeat(50).into_bytes()))
        });
        let odd = odd.await;
        let mut connect = short_timeout(era);
        connect.timeouts.call.total = Some(SHORT * 2);
        let peer = connected(&odd, connect).await;
        let outcome = tokio::time::timeout(LONG / 4, call(&peer, "odd")).await.unwrap();
        assert!(matches!(outcome, Outcome::TimedOut { kind: TimeoutKind::Total, .. }), "{era:?}: {outcome:?}");
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}

#[tokio::test]
async fn stray_messages_are_faults_only() {
    for era in ERAS {
        let odd = odd_call(|seen| {
            let stray = [
                event(&compliant::answered(&json!(4711), &json!({}))),
                event(&json!([])),
                "data: {not json}\n\n".to_owned(),
                "event: message\ndata:\n\n".to_owned(),
                "event: vendor\ndata: {\"jsonrpc\":\"2.0\"}\n\n".to_owned(),
            ];
            // The answer, followed by stray messages.
            Reply::events(stray[..1].concat() + &stray[3..].concat() + &event(&hello(seen)) + &stray[..3].concat())
        });
        let odd = odd.await;
        let peer = connected(&odd, pinned(era)).await;
        let mut notices = peer.notices();
        assert_eq!(outcome_code(&call(&peer, "odd").await), "answered", "{era:?}");
        assert_eq!(faults(&mut notices), ["protocol"], "{era:?}");
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}

#[tokio::test]
async fn request_on_a_stateless_stream_is_a_fault_and_is_not_answered() {
    let odd = odd_call(|seen| {
        let ask = compliant::request(&json!("e"), "elicitation/create", &json!({ "message": "?" }));
        Reply::events(event(&ask) + &event(&hello(seen)))
    });
    let odd = odd.await;
    let peer = connected(&odd, pinned(EraChoice::Modern)).await;
    let mut notices = peer.notices();
    assert_eq!(outcome_code(&call(&peer, "odd").await), "answered");
    assert_eq!(faults(&mut notices), ["protocol"]);
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
    assert!(!odd.briefs().contains(&"POST answer".to_owned()), "{:?}", odd.briefs());
}

/// An invalid event has no id, but it came on the stream of this call.
#[tokio::test]
async fn invalid_event_fails_the_call_of_its_stream() {
    for text in ["data: {not json}\n\n", "data: {\"id\":\n\n", "data: 42\n\n"] {
        check(text, move |_: &RecordedRequest| Reply::events(text).then(Act::Hang), pinned, "protocol").await;
    }
}

#[tokio::test]
async fn broken_stream_fails_its_call() {
    for (name, odd) in [
        ("closed", (|_| Reply::events(": hi\n\n")) as fn(&RecordedRequest) -> Reply),
        ("reset", |_| Reply::events(": hi\n\n").then(Act::Reset)),
        ("in an event", |seen| Reply::events(format!("data: {}\n", hello(seen)))),
        ("half closed", |_| Reply::events(": hi\n\n").then(Act::HalfClose).then(Act::Hang)),
    ] {
        check(name, odd, pinned, "ended").await;
    }
    // A stateless stream cannot be resumed.
    let odd = odd_call(|_| Reply::events("id: 1\ndata:\n\n")).await;
    let peer = connected(&odd, pinned(EraChoice::Modern)).await;
    assert_eq!(outcome_code(&call(&peer, "odd").await), "ended");
    assert!(!odd.briefs().contains(&"GET".to_owned()));
}

/// A server that answers GET with `Last-Event-ID` by `resumed`.
async fn resuming(
    first: &'static str,
    resumed: impl Fn(&str, &RecordedRequest) -> Reply + Send + Sync + 'static,
) -> OddHttp {
    OddHttp::start(move |seen| match (seen.verb.as_str(), seen.header("last-event-id")) {
        ("GET", Some(last)) => resumed(last, seen),
        _ if seen.tool() == "odd" => Reply::events(first),
        _ => compliant_http(SupportedEras::Both, seen),
    })
    .await
    .unwrap()
}

fn resumptions(odd: &OddHttp) -> Vec<String> {
    odd.seen().iter().filter_map(|seen| seen.header("last-event-id").map(str::to_owned)).collect()
}

#[tokio::test]
async fn stream_with_a_session_is_resumed_after_the_retry_time() {
    // Id of the call, which a server would know from the event id.
    let odd = resuming("id: one\nretry: 150\ndata:\n\n", |last, _| match last {
        "one" => Reply::events("id: two\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/vendor\"}\n\n"),
        "two" => Reply::events("id: three\nretry: 20\ndata:\n\n"),
        _ => Reply::events(event(&compliant::answered(&json!(2), &compliant::text("at last")))),
    });
    let odd = odd.await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let started = Instant::now();
    let outcome = call(&peer, "odd").await;
    let took = started.elapsed();
    assert!(format!("{outcome:?}").contains("at last"), "{outcome:?}");
    assert_eq!(resumptions(&odd), ["one", "two", "three"]);
    assert!(Duration::from_millis(300) <= took && took < Duration::from_secs(2), "{took:?}");
    assert_eq!(odd.seen().iter().filter(|seen| seen.tool() == "odd").count(), 1);
}

/// Event ids belong to one session.
#[tokio::test]
async fn stream_is_not_resumed_in_another_session() {
    let odd = OddHttp::start(|seen| match (seen.verb.as_str(), seen.header("last-event-id")) {
        ("GET", Some(_)) => Reply::events(event(&compliant::answered(&json!(2), &compliant::text("another's")))),
        ("POST", _) if seen.method() == "initialize" => {
            Reply::json(200, &hello(seen)).header("Mcp-Session-Id", format!("session-{}", seen.before))
        }
        _ if seen.tool() == "odd" => Reply::events("id: one\nretry: 700\ndata:\n\n"),
        _ if seen.tool() == "hello" && seen.header("mcp-session-id") == Some("session-0") => Reply::empty(404),
        _ => compliant_http(SupportedEras::Legacy, seen),
    });
    let odd = odd.await.unwrap();
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let lost = async {
        odd.until(|seen| seen.iter().any(|seen| seen.tool() == "odd")).await;
        call(&peer, "hello").await
    };
    let (broken, renewed) = tokio::join!(call(&peer, "odd"), lost);
    assert_eq!((outcome_code(&broken), outcome_code(&renewed)), ("ended", "answered"), "{broken:?} {renewed:?}");
    assert_eq!(peer.session().as_deref(), Some("session-1"));
    assert_eq!(resumptions(&odd), [""; 0]);
}

#[tokio::test]
async fn stream_without_new_events_is_given_up() {
    let limits = Limits { resumptions: 3, ..Limits::default() };
    let connect = ConnectOptions { limits, ..pinned(EraChoice::Legacy) };
    // Closed without events, unreachable, and with comments only.
    for (name, odd) in [
        ("empty", (|_, _| Reply::events("")) as fn(&str, &RecordedRequest) -> Reply),
        ("closed", |_, _| Reply::bare().then(Act::Close)),
        ("comments", |_, _| Reply::events(": still here\n\n")),
    ] {
        let odd = resuming("id: one\nretry: 20\ndata:\n\n", odd).await;
        let connect = ConnectOptions { limits: connect.limits.clone(), ..pinned(EraChoice::Legacy) };
        let peer = connected(&odd, connect).await;
        assert_eq!(outcome_code(&call(&peer, "odd").await), "ended", "{name}");
        assert_eq!(resumptions(&odd), ["one"; 3], "{name}");
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{name}");
    }
    drop(connect);
}

#[tokio::test]
async fn failed_resumption_is_reported() {
    for (name, odd, expected) in [
        ("404", (|_, _| Reply::empty(404)) as fn(&str, &RecordedRequest) -> Reply, "http_status"),
        ("405", |_, _| Reply::empty(405), "http_status"),
        ("401", |_, _| Reply::empty(401), "unauthorized"),
        ("html", |_, _| Reply::html(200), "http_status"),
    ] {
        let odd = resuming("id: one\nretry: 20\ndata:\n\n", odd).await;
        let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
        assert_eq!(outcome_code(&call(&peer, "odd").await), expected, "{name}");
        assert_eq!(resumptions(&odd), ["one"], "{name}");
    }
}

/// Events without a message do not reset the timeout, and a minimum pause is kept.
#[tokio::test]
async fn stream_that_breaks_repeatedly_times_out_with_few_attempts() {
    let odd = resuming("id: 0\nretry: 0\ndata:\n\n", |last, _| {
        let next = last.parse::<u64>().unwrap_or_default() + 1;
        Reply::events(format!("id: {next}\nretry: 0\ndata:\n\n"))
    });
    let odd = odd.await;
    let peer = connected(&odd, short_timeout(EraChoice::Legacy)).await;
    assert_eq!(outcome_code(&call(&peer, "odd").await), "timed_out");
    let count = resumptions(&odd).len();
    assert!((1..=20).contains(&count), "taken up {count} times in 300 ms");
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
}

/// The same for the stream without a request.
#[tokio::test]
async fn standing_stream_that_breaks_repeatedly_is_opened_rarely() {
    let odd = OddHttp::start(|seen| match seen.verb.as_str() {
        "GET" => Reply::events(format!("id: {}\nretry: 0\ndata:\n\n", seen.before)),
        _ => compliant_http(SupportedEras::Both, seen),
    });
    let odd = odd.await.unwrap();
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let before = odd.briefs().iter().filter(|brief| *brief == "GET").count();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let count = odd.briefs().iter().filter(|brief| *brief == "GET").count() - before;
    assert!(count <= 20, "opened {count} times in 300 ms");
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
}
