//! Sessions that servers lose: once, repeatedly, for many calls at once, and while they are renewed.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use toolway_testkit::odd::{
    compliant::SupportedEras,
    http::{Act, OddHttp, RecordedRequest, Reply, compliant_http},
};
use toolway_wire::{exchange::LogLevel, up::EraChoice};

use super::{call, connected, faults, outcome_code, pinned, short_timeout};

/// A server with numbered sessions that loses the session of a request if `forgets` says so.
async fn forgetful(forgets: impl Fn(usize, &RecordedRequest) -> bool + Send + Sync + 'static) -> OddHttp {
    let newest = AtomicUsize::new(0);
    OddHttp::start(move |seen| match seen.method() {
        "initialize" => {
            let number = newest.fetch_add(1, Ordering::Relaxed) + 1;
            Reply::json(200, &SupportedEras::Legacy.answer(seen.message()).unwrap())
                .header("Mcp-Session-Id", number.to_string())
        }
        _ => match seen.header("mcp-session-id").map(str::parse) {
            Some(Ok(session)) if seen.verb == "POST" && forgets(session, seen) => Reply::empty(404),
            Some(_) => compliant_http(SupportedEras::Legacy, seen),
            None => Reply::empty(400),
        },
    })
    .await
    .unwrap()
}

fn count(odd: &OddHttp, brief: &str) -> usize {
    odd.briefs().iter().filter(|seen| *seen == brief).count()
}

#[tokio::test]
async fn lost_session_is_renewed_and_the_call_repeated() {
    let odd = forgetful(|session, seen| session == 1 && seen.tool() == "odd").await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    assert_eq!(outcome_code(&call(&peer, "odd").await), "answered");
    assert_eq!((count(&odd, "POST initialize"), count(&odd, "POST tools/call")), (2, 2));
    assert_eq!(peer.session().as_deref(), Some("2"));
}

#[tokio::test]
async fn session_lost_twice_fails_the_call_and_the_next_call_starts_another() {
    let odd = forgetful(|session, seen| session <= 2 && seen.method() == "tools/call").await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    assert_eq!(outcome_code(&call(&peer, "odd").await), "ended");
    assert_eq!((count(&odd, "POST initialize"), count(&odd, "POST tools/call")), (2, 2));
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
    assert_eq!((count(&odd, "POST initialize"), count(&odd, "POST tools/call")), (3, 3));
}

#[tokio::test]
async fn many_calls_that_lose_one_session_start_one_new_session() {
    let odd = forgetful(|session, seen| session == 1 && seen.method() == "tools/call").await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let outcomes = join_all((0..20).map(|_| call(&peer, "odd"))).await;
    assert!(outcomes.iter().all(|outcome| outcome_code(outcome) == "answered"), "{outcomes:?}");
    assert_eq!(count(&odd, "POST initialize"), 2);
}

/// The log level is set again in the new session, which is lost at the same time.
#[tokio::test]
async fn session_lost_during_its_renewal_does_not_deadlock() {
    let odd =
        forgetful(|session, seen| matches!((session, seen.method()), (1, "tools/call") | (2, "logging/setLevel")));
    let odd = odd.await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    peer.set_log_level(LogLevel::Debug).await.unwrap();
    let mut notices = peer.notices();
    assert_eq!(outcome_code(&call(&peer, "odd").await), "ended");
    assert_eq!(faults(&mut notices), ["refused"]);
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
    assert_eq!(peer.session().as_deref(), Some("3"));
}

#[tokio::test]
async fn failed_session_renewal_fails_the_call_and_is_repeated_by_the_next() {
    for (name, reply, expected) in [
        ("503", (|| Reply::empty(503)) as fn() -> Reply, "http_status"),
        ("closed", || Reply::bare().then(Act::Close), "ended"),
        ("silence", || Reply::bare().then(Act::Hang), "timed_out"),
    ] {
        let odd = OddHttp::start(move |seen| match (seen.method(), seen.before) {
            ("initialize", 1) => reply(),
            _ if seen.tool() == "odd" => Reply::empty(404),
            _ => compliant_http(SupportedEras::Legacy, seen),
        });
        let odd = odd.await.unwrap();
        let mut connect = short_timeout(EraChoice::Legacy);
        connect.timeouts.call.idle = Some(crate::dialling::LONG);
        connect.timeouts.handshake = crate::dialling::SHORT * 3;
        let peer = connected(&odd, connect).await;
        assert_eq!(outcome_code(&call(&peer, "odd").await), expected, "{name}");
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{name}");
        assert_eq!(count(&odd, "POST initialize"), 3, "{name}");
    }
}

/// A session id in a later response is ignored.
#[tokio::test]
async fn only_the_handshake_sets_the_session_id() {
    let odd = OddHttp::start(|seen| match seen.method() {
        "initialize" => compliant_http(SupportedEras::Legacy, seen),
        "" => compliant_http(SupportedEras::Legacy, seen),
        _ => compliant_http(SupportedEras::Legacy, seen).header("Mcp-Session-Id", "another"),
    });
    let odd = odd.await.unwrap();
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let mut notices = peer.notices();
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
    assert_eq!(peer.session().as_deref(), Some("compliant"));
    assert!(faults(&mut notices).is_empty());
}
