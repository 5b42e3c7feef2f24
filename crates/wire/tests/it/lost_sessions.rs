//! Lost sessions, and what is restored in the next one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{
        DownstreamOptions,
        http::{HttpDownstream, HttpDownstreamOptions, ResponseBody},
    },
    exchange::{ExchangeEvent, LogLevel, Outcome},
    limit::Limits,
    notice::{Notice, SubscriptionFilter},
    revision::{Era, Revision},
    up::{ConnectOptions, EraChoice, KeptSession, Peer},
};

use crate::{
    routes::{http, pinned},
    test_service::TestService,
};

/// A downstream whose sessions the test ends without the client's knowledge.
async fn forgetful() -> (Arc<HttpDownstream>, Peer) {
    let (_, downstream, peer) = forgetful_at().await;
    (downstream, peer)
}

/// As [`forgetful`], with the URL.
async fn forgetful_at() -> (String, Arc<HttpDownstream>, Peer) {
    let (address, downstream, mut peers) = crowded(Limits::default().sessions).await;
    (address, downstream, peers.remove(0))
}

/// A downstream with this maximum of sessions, and up to two peers.
async fn crowded(sessions: usize) -> (String, Arc<HttpDownstream>, Vec<Peer>) {
    let limits = Limits { sessions, ..Limits::default() };
    let downstream =
        DownstreamOptions { revisions: Revision::of(Era::Legacy).collect(), limits, ..DownstreamOptions::default() };
    let options = HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() };
    let downstream = HttpDownstream::new(TestService::new(), options).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = toolway_wire::down::http::serve(listener, Arc::clone(&downstream), CancellationToken::new());
    tokio::runtime::Handle::current().spawn(serving);
    let mut peers = Vec::new();
    for _ in 0..sessions.min(2) {
        peers.push(Peer::connect(Arc::new(http(&address)), pinned(EraChoice::Legacy)).await.unwrap());
    }
    (address, downstream, peers)
}

async fn forget(downstream: &HttpDownstream, session: &str) -> Response<ResponseBody> {
    let request = Request::delete("/mcp").header("host", "localhost").header("mcp-session-id", session);
    downstream.respond(request.body(Full::<Bytes>::default()).unwrap()).await
}

#[tokio::test]
async fn lost_session_is_restored_with_log_level_and_subscriptions() {
    let (downstream, peer) = forgetful().await;
    peer.set_log_level(LogLevel::Error).await.unwrap();
    let mut listening = peer.listen(SubscriptionFilter::resource("memo://one")).await.unwrap();
    let lost = peer.session().expect("a session");
    assert!(forget(&downstream, &lost).await.status().is_success());

    let mut logs = 0;
    let outcome = peer
        .call_tool("count", None)
        .unwrap()
        .outcome_with(None, |happening| logs += usize::from(matches!(happening, ExchangeEvent::Log(_))))
        .await;
    assert!(matches!(outcome, Outcome::Answered(_)), "the refused request is repeated: {outcome:?}");
    assert_eq!(logs, 0, "the log level was set again");
    assert_ne!(peer.session().expect("a session"), lost);

    let changed = peer.call_tool("change", None).unwrap().outcome().await;
    assert!(matches!(changed, Outcome::Answered(_)), "{changed:?}");
    let heard = tokio::time::timeout(Duration::from_secs(5), listening.next()).await;
    assert!(matches!(heard, Ok(Some(Notice::Updated { .. }))), "the subscription was made again: {heard:?}");
}

#[tokio::test]
async fn concurrent_calls_in_a_lost_session_begin_one_new_session() {
    let (downstream, peer) = forgetful().await;
    forget(&downstream, &peer.session().unwrap()).await;
    let calls = (0..20).map(|_| peer.call_tool("echo", None).unwrap().outcome());
    for outcome in futures_util::future::join_all(calls).await {
        assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    }
    // 20 calls, one new session.
    let session = peer.session().unwrap();
    peer.close().await;
    assert_eq!(forget(&downstream, &session).await.status(), 404, "it was given back");
}

#[tokio::test]
async fn subscription_continues_in_the_next_session() {
    let (downstream, peer) = forgetful().await;
    let mut listening = peer.listen(SubscriptionFilter::resource("memo://one")).await.unwrap();
    let lost = peer.session().unwrap();
    assert!(forget(&downstream, &lost).await.status().is_success());
    // The standing stream ends with its session, and reopening it shows that the session is lost.
    while peer.session().is_none_or(|session| session == lost) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The subscription is restored right after the new session, not before.
    let heard = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let changed = peer.call_tool("change", None).unwrap().outcome().await;
            assert!(matches!(changed, Outcome::Answered(_)), "{changed:?}");
            if let Ok(heard) = tokio::time::timeout(Duration::from_millis(500), listening.next()).await {
                return heard;
            }
        }
    });
    let heard = heard.await.expect("a notice");
    assert!(matches!(heard, Some(Notice::Updated { .. })), "{heard:?}");
}

#[tokio::test]
async fn ended_session_ends_its_requests() {
    let (downstream, peer) = forgetful().await;
    let mut exchange = peer.call_tool("wait", None).unwrap();
    let begun = tokio::time::timeout(Duration::from_millis(300), exchange.next()).await;
    assert!(!matches!(begun, Ok(Some(ExchangeEvent::Ended(_)))), "{begun:?}");
    forget(&downstream, &peer.session().unwrap()).await;
    let end = tokio::time::timeout(Duration::from_secs(10), exchange.outcome()).await.expect("an end");
    assert!(matches!(end, Outcome::Failed(_)), "{end:?}");
}

#[tokio::test]
async fn session_continues_in_a_later_connection() {
    let (address, _downstream, peer) = forgetful_at().await;
    let kept = peer.kept_session().expect("a session");
    assert!(!format!("{kept:?}").contains(&kept.id));
    peer.leave().await;

    let options = ConnectOptions { resume: Some(kept.clone()), ..pinned(EraChoice::Legacy) };
    let again = Peer::connect(Arc::new(http(&address)), options).await.unwrap();
    assert_eq!(again.session().as_ref(), Some(&kept.id));
    assert_eq!(again.profile().revision, kept.revision);
    let outcome = again.call_tool("echo", None).unwrap().outcome().await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
}

#[tokio::test]
async fn ids_of_a_resumed_session_differ_from_those_that_are_in_progress() {
    let (address, _downstream, killed) = forgetful_at().await;
    let mut waiting: Vec<_> = (0..8).map(|_| killed.call_tool("wait", None).unwrap()).collect();
    // They are at the server once a later call was answered.
    assert!(matches!(killed.call_tool("echo", None).unwrap().outcome().await, Outcome::Answered(_)));

    let options = ConnectOptions { resume: killed.kept_session(), ..pinned(EraChoice::Legacy) };
    let again = Peer::connect(Arc::new(http(&address)), options).await.unwrap();
    for _ in 0..16 {
        let outcome = again.call_tool("echo", None).unwrap().outcome().await;
        assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    }
    assert_eq!(again.session(), killed.session());
    waiting.clear();
}

#[tokio::test]
async fn forgotten_session_is_replaced_by_a_new_one() {
    let (address, downstream, peer) = forgetful_at().await;
    let kept = peer.kept_session().expect("a session");
    peer.leave().await;
    forget(&downstream, &kept.id).await;

    let options = ConnectOptions { resume: Some(kept.clone()), ..pinned(EraChoice::Legacy) };
    let again = Peer::connect(Arc::new(http(&address)), options).await.unwrap();
    assert_ne!(again.session().expect("a session"), kept.id);
    let outcome = again.call_tool("echo", None).unwrap().outcome().await;
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
}

#[tokio::test]
async fn longest_idle_session_is_evicted_over_the_limit() {
    let (address, _downstream, peers) = crowded(2).await;
    let first = peers[0].session().unwrap();
    // The second session was used after the first.
    assert!(matches!(peers[1].call_tool("echo", None).unwrap().outcome().await, Outcome::Answered(_)));
    let third = Peer::connect(Arc::new(http(&address)), pinned(EraChoice::Legacy)).await.unwrap();
    assert!(matches!(third.call_tool("echo", None).unwrap().outcome().await, Outcome::Answered(_)));
    let kept = KeptSession { id: first, revision: Revision::NEWEST_LEGACY, hello: peers[0].profile().raw.clone() };
    let options = ConnectOptions { resume: Some(kept.clone()), ..pinned(EraChoice::Legacy) };
    let again = Peer::connect(Arc::new(http(&address)), options).await.unwrap();
    assert_ne!(again.session(), Some(kept.id), "it was forgotten");
}
