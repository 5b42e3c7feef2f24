//! Streams of events: over the bound, without an end, broken off, and taken up again where they broke.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_testkit::odd::{
    http::{Act, OddHttp, Reply, Seen, event, polite_http},
    polite::{self, Speaks},
};
use toolway_wire::{
    error::Clock,
    exchange::Outcome,
    limit::Limits,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, check, connected, faults, hasty, odd_call, pinned, word};
use crate::dialling::{LONG, SHORT};

fn hello(seen: &Seen) -> Value {
    Speaks::Both.answer(seen.message()).unwrap()
}

#[tokio::test]
async fn an_event_over_the_bound_fails_its_call() {
    for (name, text) in [
        ("one line", format!("data: {}\n\n", "x".repeat(20_000))),
        ("many lines", "data: x\n".repeat(3_000)),
        ("a comment", format!(": {}\n\n", "x".repeat(20_000))),
        ("a name", format!("event: {}\n\n", "x".repeat(20_000))),
    ] {
        check(name, move |_: &Seen| Reply::events(text.clone()).then(Act::Hang), pinned, "too_large").await;
    }
    let endless = |_: &Seen| Reply::events("data: ").then(Act::SayForEver(vec![b'x'; 1_000]));
    check("endless line", endless, pinned, "too_large").await;
    let message = |seen: &Seen| {
        let text = polite::answered(seen.id(), &polite::text(&"x".repeat(10_000)));
        Reply::events(event(&text)).then(Act::Hang)
    };
    check("a message over its own bound", message, pinned, "too_large").await;
}

#[tokio::test]
async fn a_stream_that_says_nothing_without_end_runs_out_of_time() {
    let noises = [("comments", ": x\n\n"), ("pings", "event: ping\ndata: {}\n\n"), ("blank lines", "\n")];
    join_all(noises.map(async |(name, noise)| {
        let odd = move |_: &Seen| Reply::events("").then(Act::SayForEver(noise.repeat(100).into_bytes()));
        check(name, odd, hasty, "timed_out").await;
    }))
    .await;
}

/// Progress is a sign of life, and there is an end to that too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_of_progress_without_end_runs_out_of_all_its_time() {
    for era in ERAS {
        let odd = odd_call(|seen| {
            let params = json!({ "progressToken": seen.id(), "progress": 1 });
            let progress = event(&polite::notification("notifications/progress", &params));
            Reply::events("").then(Act::SayForEver(progress.repeat(50).into_bytes()))
        });
        let odd = odd.await;
        let mut connect = hasty(era);
        connect.timeouts.call.total = Some(SHORT * 2);
        let peer = connected(&odd, connect).await;
        let outcome = tokio::time::timeout(LONG / 4, call(&peer, "odd")).await.unwrap();
        assert!(matches!(outcome, Outcome::TimedOut { clock: Clock::Total, .. }), "{era:?}: {outcome:?}");
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}

#[tokio::test]
async fn messages_beside_the_answer_are_faults_and_nothing_more() {
    for era in ERAS {
        let odd = odd_call(|seen| {
            let stray = [
                event(&polite::answered(&json!(4711), &json!({}))),
                event(&json!([])),
                "data: {not json}\n\n".to_owned(),
                "event: message\ndata:\n\n".to_owned(),
                "event: vendor\ndata: {\"jsonrpc\":\"2.0\"}\n\n".to_owned(),
            ];
            // The answer, and what comes after it, to nobody.
            Reply::events(stray[..1].concat() + &stray[3..].concat() + &event(&hello(seen)) + &stray[..3].concat())
        });
        let odd = odd.await;
        let peer = connected(&odd, pinned(era)).await;
        let mut notices = peer.notices();
        assert_eq!(word(&call(&peer, "odd").await), "answered", "{era:?}");
        assert_eq!(faults(&mut notices), ["protocol"], "{era:?}");
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{era:?}");
    }
}

#[tokio::test]
async fn a_request_on_a_stream_without_a_session_is_a_fault_and_is_not_answered() {
    let odd = odd_call(|seen| {
        let ask = polite::request(&json!("e"), "elicitation/create", &json!({ "message": "?" }));
        Reply::events(event(&ask) + &event(&hello(seen)))
    });
    let odd = odd.await;
    let peer = connected(&odd, pinned(EraChoice::Modern)).await;
    let mut notices = peer.notices();
    assert_eq!(word(&call(&peer, "odd").await), "answered");
    assert_eq!(faults(&mut notices), ["protocol"]);
    assert_eq!(word(&call(&peer, "hello").await), "answered");
    assert!(!odd.briefs().contains(&"POST answer".to_owned()), "{:?}", odd.briefs());
}

/// Nobody can tell which call an event that is no message was about, but it came on this call's own stream.
#[tokio::test]
async fn an_event_that_is_no_message_fails_the_call_of_its_stream() {
    for text in ["data: {not json}\n\n", "data: {\"id\":\n\n", "data: 42\n\n"] {
        check(text, move |_: &Seen| Reply::events(text).then(Act::Hang), pinned, "protocol").await;
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_fails_its_call() {
    for (name, odd) in [
        ("closed", (|_| Reply::events(": hi\n\n")) as fn(&Seen) -> Reply),
        ("reset", |_| Reply::events(": hi\n\n").then(Act::Reset)),
        ("in an event", |seen| Reply::events(format!("data: {}\n", hello(seen)))),
        ("half closed", |_| Reply::events(": hi\n\n").then(Act::HalfClose).then(Act::Hang)),
    ] {
        check(name, odd, pinned, "ended").await;
    }
    // Without a session there is nothing to take up again.
    let odd = odd_call(|_| Reply::events("id: 1\ndata:\n\n")).await;
    let peer = connected(&odd, pinned(EraChoice::Modern)).await;
    assert_eq!(word(&call(&peer, "odd").await), "ended");
    assert!(!odd.briefs().contains(&"GET".to_owned()));
}

/// What a GET is answered with, given the id of the last event.
async fn resuming(first: &'static str, resumed: impl Fn(&str, &Seen) -> Reply + Send + Sync + 'static) -> OddHttp {
    OddHttp::start(move |seen| match (seen.verb.as_str(), seen.header("last-event-id")) {
        ("GET", Some(last)) => resumed(last, seen),
        _ if seen.tool() == "odd" => Reply::events(first),
        _ => polite_http(Speaks::Both, seen),
    })
    .await
    .unwrap()
}

fn resumptions(odd: &OddHttp) -> Vec<String> {
    odd.seen().iter().filter_map(|seen| seen.header("last-event-id").map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_stream_with_a_session_is_taken_up_where_it_broke_after_the_time_the_server_wants() {
    // The id of the call: what a server would know from the event.
    let odd = resuming("id: one\nretry: 150\ndata:\n\n", |last, _| match last {
        "one" => Reply::events("id: two\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/vendor\"}\n\n"),
        "two" => Reply::events("id: three\nretry: 20\ndata:\n\n"),
        _ => Reply::events(event(&polite::answered(&json!(2), &polite::text("at last")))),
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

/// The place where a stream broke is a place in its session: in the next one it would be another's.
#[tokio::test]
async fn a_stream_is_not_taken_up_in_another_session() {
    let odd = OddHttp::start(|seen| match (seen.verb.as_str(), seen.header("last-event-id")) {
        ("GET", Some(_)) => Reply::events(event(&polite::answered(&json!(2), &polite::text("another's")))),
        ("POST", _) if seen.method() == "initialize" => {
            Reply::json(200, &hello(seen)).header("Mcp-Session-Id", format!("session-{}", seen.before))
        }
        _ if seen.tool() == "odd" => Reply::events("id: one\nretry: 700\ndata:\n\n"),
        _ if seen.tool() == "hello" && seen.header("mcp-session-id") == Some("session-0") => Reply::empty(404),
        _ => polite_http(Speaks::Legacy, seen),
    });
    let odd = odd.await.unwrap();
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let lost = async {
        odd.until(|seen| seen.iter().any(|seen| seen.tool() == "odd")).await;
        call(&peer, "hello").await
    };
    let (broken, renewed) = tokio::join!(call(&peer, "odd"), lost);
    assert_eq!((word(&broken), word(&renewed)), ("ended", "answered"), "{broken:?} {renewed:?}");
    assert_eq!(peer.session().as_deref(), Some("session-1"));
    assert_eq!(resumptions(&odd), [""; 0]);
}

#[tokio::test]
async fn a_stream_that_brings_nothing_new_is_given_up() {
    let limits = Limits { resumptions: 3, ..Limits::default() };
    let connect = ConnectOptions { limits, ..pinned(EraChoice::Legacy) };
    // Closed without a word, unreachable, and with words that are none.
    for (name, odd) in [
        ("empty", (|_, _| Reply::events("")) as fn(&str, &Seen) -> Reply),
        ("closed", |_, _| Reply::bare().then(Act::Close)),
        ("comments", |_, _| Reply::events(": still here\n\n")),
    ] {
        let odd = resuming("id: one\nretry: 20\ndata:\n\n", odd).await;
        let connect = ConnectOptions { limits: connect.limits.clone(), ..pinned(EraChoice::Legacy) };
        let peer = connected(&odd, connect).await;
        assert_eq!(word(&call(&peer, "odd").await), "ended", "{name}");
        assert_eq!(resumptions(&odd), ["one"; 3], "{name}");
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{name}");
    }
    drop(connect);
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_says_so() {
    for (name, odd, expected) in [
        ("404", (|_, _| Reply::empty(404)) as fn(&str, &Seen) -> Reply, "http_status"),
        ("405", |_, _| Reply::empty(405), "http_status"),
        ("401", |_, _| Reply::empty(401), "unauthorized"),
        ("html", |_, _| Reply::html(200), "protocol"),
    ] {
        let odd = resuming("id: one\nretry: 20\ndata:\n\n", odd).await;
        let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
        assert_eq!(word(&call(&peer, "odd").await), expected, "{name}");
        assert_eq!(resumptions(&odd), ["one"], "{name}");
    }
}

/// New events without a message wind no clock, and a server that wants no pause is given one.
#[tokio::test]
async fn a_stream_that_only_ever_breaks_again_runs_out_of_time_and_is_not_hammered() {
    let odd = resuming("id: 0\nretry: 0\ndata:\n\n", |last, _| {
        let next = last.parse::<u64>().unwrap_or_default() + 1;
        Reply::events(format!("id: {next}\nretry: 0\ndata:\n\n"))
    });
    let odd = odd.await;
    let peer = connected(&odd, hasty(EraChoice::Legacy)).await;
    assert_eq!(word(&call(&peer, "odd").await), "timed_out");
    let count = resumptions(&odd).len();
    assert!((1..=20).contains(&count), "taken up {count} times in 300 ms");
    assert_eq!(word(&call(&peer, "hello").await), "answered");
}

/// The same for the stream that belongs to no request.
#[tokio::test]
async fn a_standing_stream_that_only_ever_breaks_is_not_hammered() {
    let odd = OddHttp::start(|seen| match seen.verb.as_str() {
        "GET" => Reply::events(format!("id: {}\nretry: 0\ndata:\n\n", seen.before)),
        _ => polite_http(Speaks::Both, seen),
    });
    let odd = odd.await.unwrap();
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let before = odd.briefs().iter().filter(|brief| *brief == "GET").count();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let count = odd.briefs().iter().filter(|brief| *brief == "GET").count() - before;
    assert!(count <= 20, "opened {count} times in 300 ms");
    assert_eq!(word(&call(&peer, "hello").await), "answered");
}
