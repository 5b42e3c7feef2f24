//! The event stream: resume, reset, limits, end.

use std::time::Duration;

use toolway_testkit::fixture_server::FixtureServer;

use crate::stage::Stage;

#[tokio::test]
async fn calls_are_streamed_and_a_stream_resumes_where_it_was_cut() {
    let files = FixtureServer::new("files").tool("read", "");
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    drop(stage.host.call("files__read").await);
    let (first, call) = events.next("call").await;
    assert_eq!(
        (&call["tool"], &call["state"], &call["surface"]),
        (&"files__read".into(), &"pending".into(), &"call".into())
    );
    drop(events);
    drop(stage.host.call("files__read").await);
    let mut resumed = browser.events(Some(&first)).await;
    let mut ended = 0;
    while ended < 2 {
        ended += usize::from(resumed.next("call").await.1["state"] == "succeeded");
    }
}

#[tokio::test]
async fn an_unknown_event_id_is_a_reset() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    for last in ["other-1", "nonsense"] {
        let mut events = browser.events(Some(last)).await;
        let (id, data) = events.next("reset").await;
        assert!(id.ends_with("-0") && data == serde_json::json!({}), "{id}");
    }
}

#[tokio::test]
async fn too_many_streams_are_refused() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(browser.events(None).await);
    }
    let reply = browser.get("/api/v1/events").await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "too_many_streams"));
}

#[tokio::test]
async fn streams_end_with_their_session_and_with_the_console() {
    let stage = Stage::with_lifetimes(Duration::from_secs(60), Duration::from_secs(2)).await;
    stage.browser().await.events(None).await.ended().await;

    let mut stage = Stage::new(&[]).await;
    let events = stage.browser().await.events(None).await;
    stage.stop.cancel();
    events.ended().await;
    let serving = stage.serving.take().unwrap();
    toolway_testkit::test_host::within("shutdown", serving).await.unwrap().unwrap();
}
