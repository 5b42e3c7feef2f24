//! A session that is lost in the middle of everything, and what comes back with the next one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{
        FaceOptions,
        http::{FaceBody, HttpFace, HttpFaceOptions},
    },
    exchange::{Happening, LogLevel, Outcome},
    notice::{Notice, Wanted},
    revision::{Era, Revision},
    up::{EraChoice, Peer},
};

use crate::{
    service::Parrot,
    ways::{http, pinned},
};

/// A face whose sessions can be ended behind the client's back.
async fn forgetful() -> (Arc<HttpFace>, Peer) {
    let face = FaceOptions { revisions: Revision::of(Era::Legacy).collect(), ..FaceOptions::default() };
    let options = HttpFaceOptions { face, ..HttpFaceOptions::default() };
    let face = HttpFace::new(Parrot::new(), options).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = toolway_wire::down::http::serve(listener, Arc::clone(&face), CancellationToken::new());
    tokio::runtime::Handle::current().spawn(serving);
    let peer = Peer::connect(Arc::new(http(&address)), pinned(EraChoice::Legacy)).await.unwrap();
    (face, peer)
}

async fn forget(face: &HttpFace, session: &str) -> Response<FaceBody> {
    let request = Request::delete("/mcp").header("host", "localhost").header("mcp-session-id", session);
    face.respond(request.body(Full::<Bytes>::default()).unwrap()).await
}

#[tokio::test]
async fn a_lost_session_is_begun_again_with_its_log_level_and_subscriptions() {
    let (face, peer) = forgetful().await;
    peer.set_log_level(LogLevel::Error).await.unwrap();
    let mut listening = peer.listen(Wanted::resource("memo://one")).await.unwrap();
    let lost = peer.session().expect("a session");
    assert!(forget(&face, &lost).await.status().is_success());

    let mut logs = 0;
    let outcome = peer
        .call_tool("count", None)
        .unwrap()
        .outcome_with(None, |happening| logs += usize::from(matches!(happening, Happening::Log(_))))
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
async fn many_calls_that_meet_a_lost_session_begin_one_new_session() {
    let (face, peer) = forgetful().await;
    forget(&face, &peer.session().unwrap()).await;
    let calls = (0..20).map(|_| peer.call_tool("echo", None).unwrap().outcome());
    for outcome in futures_util::future::join_all(calls).await {
        assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    }
    // 20 calls, one session to give back.
    let session = peer.session().unwrap();
    peer.close().await;
    assert_eq!(forget(&face, &session).await.status(), 404, "it was given back");
}
