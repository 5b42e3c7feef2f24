//! Idle sessions, and clients that open too many sessions.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request};
use http_body_util::Full;
use serde_json::{Value, json};
use toolway_wire::{
    down::{
        DownstreamOptions,
        http::{Principal, ResponseBody},
    },
    limit::Limits,
};

use crate::{
    raw_clients::{RawHttpClient, call, notification, posting, request},
    test_service::TestService,
};

const IDLE: Duration = Duration::from_secs(1_800);

fn http_client(limits: Limits) -> (Arc<TestService>, RawHttpClient) {
    let parrot = TestService::new();
    let options = DownstreamOptions { limits, session_idle: IDLE, ..DownstreamOptions::default() };
    (Arc::clone(&parrot), RawHttpClient::with(parrot, options))
}

async fn status(http_client: &RawHttpClient, session: &str) -> u16 {
    http_client.post(&[("mcp-session-id", session)], &request(7, "ping", json!({}))).await.status.as_u16()
}

async fn get(http_client: &RawHttpClient, session: &str) -> Response<ResponseBody> {
    let request = Request::get("/mcp").header("host", "localhost").header("mcp-session-id", session);
    http_client.0.respond(request.body(Full::<Bytes>::default()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn idle_session_ends_and_a_new_one_can_be_opened() {
    let (_, http_client) = http_client(Limits::default());
    let (left, used) = (http_client.session("2025-11-25").await, http_client.session("2025-11-25").await);
    for _ in 0..3 {
        tokio::time::sleep(IDLE * 2 / 5).await;
        assert_eq!(status(&http_client, &used).await, 200, "an active session stays open");
    }
    assert_eq!(status(&http_client, &left).await, 404);
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!(status(&http_client, &used).await, 404);
    let again = http_client.session("2025-11-25").await;
    assert_eq!(status(&http_client, &again).await, 200);
}

#[tokio::test(start_paused = true)]
async fn active_call_or_open_stream_keeps_a_session() {
    let (parrot, http_client) = http_client(Limits::default());
    let (works, reads) = (http_client.session("2025-11-25").await, http_client.session("2025-11-25").await);
    let standing = get(&http_client, &reads).await;
    assert_eq!(standing.status(), 200);
    // The client disconnects; the call continues.
    let waiting =
        http_client.0.respond(posting().header("mcp-session-id", &works).body(whole(&call(1, "wait"))).unwrap());
    assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());

    tokio::time::sleep(IDLE * 5).await;
    assert_eq!(parrot.cancelled(), 0, "the call is still active");
    assert_eq!(status(&http_client, &works).await, 200);
    assert_eq!(status(&http_client, &reads).await, 200);

    drop(standing);
    let cancelled = notification("notifications/cancelled", json!({ "requestId": 1 }));
    assert_eq!(http_client.post(&[("mcp-session-id", &works)], &cancelled).await.status, 202);
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!((status(&http_client, &works).await, status(&http_client, &reads).await), (404, 404));
}

/// Clients take 202 as "no response"; some refuse 204, which has no content type.
#[tokio::test(start_paused = true)]
async fn cancelled_request_is_answered_with_accepted() {
    let (_, http_client) = http_client(Limits::default());
    let session = http_client.session("2025-11-25").await;
    let waiting = posting().header("mcp-session-id", &session).body(whole(&call(1, "wait"))).unwrap();
    let mut waiting = Box::pin(http_client.0.respond(waiting));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let cancelled = notification("notifications/cancelled", json!({ "requestId": 1 }));
    assert_eq!(http_client.post(&[("mcp-session-id", &session)], &cancelled).await.status, 202);
    assert_eq!(waiting.await.status(), 202);
}

/// A call whose server request cannot be answered continues, ends, and does not keep its session open forever.
#[tokio::test(start_paused = true)]
async fn server_request_without_a_stream_is_answered_as_unavailable() {
    let (parrot, http_client) = http_client(Limits::default());
    let (early, late) = (http_client.session("2025-11-25").await, http_client.session("2025-11-25").await);
    let ask = |session: &str| posting().header("mcp-session-id", session).body(whole(&call(1, "ask"))).unwrap();
    // Disconnects before the response has started: there is no stream to resume.
    let mut asking = Box::pin(http_client.0.respond(ask(&early)));
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    // Disconnects after the server request and does not return in time.
    let asked = http_client.0.respond(ask(&late)).await;
    assert_eq!(asked.headers()["content-type"], "text/event-stream");
    drop(asked);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(parrot.seen().len(), 2);
    for session in [&early, &late] {
        let again = http_client.post(&[("mcp-session-id", session)], &call(1, "echo")).await;
        assert!(again.message()["result"].is_object(), "the call is over, its id is free: {}", again.text);
    }
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!((status(&http_client, &early).await, status(&http_client, &late).await), (404, 404));
}

/// A client that lost its connection has time to resume its stream and answer.
#[tokio::test(start_paused = true)]
async fn server_request_waits_for_a_client_that_resumes_its_stream() {
    let (_, http_client) = http_client(Limits::default());
    let session = http_client.session("2025-11-25").await;
    let asking = posting().header("mcp-session-id", &session).body(whole(&call(1, "ask"))).unwrap();
    drop(http_client.0.respond(asking).await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let resuming = Request::get("/mcp").header("host", "localhost").header("mcp-session-id", &session);
    let resuming = resuming.header("last-event-id", "1-0").body(Full::<Bytes>::default()).unwrap();
    let stream = http_client.0.respond(resuming).await;
    assert_eq!(stream.status(), 200);
    // The stream is open: the user may take any time.
    tokio::time::sleep(Duration::from_secs(500)).await;
    let answer =
        json!({ "jsonrpc": "2.0", "id": "ask-1", "result": { "action": "accept", "content": { "name": "Ada" } } });
    assert_eq!(http_client.post(&[("mcp-session-id", &session)], &answer).await.status, 202);
    let text = http_body_util::BodyExt::collect(stream.into_body()).await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("elicitation/create") && text.contains("Ada"), "{text}");
}

fn whole(message: &Value) -> Full<Bytes> {
    Full::new(message.to_string().into())
}

fn by(who: &str) -> request::Builder {
    posting().extension(Principal(Arc::from(who)))
}

/// CVE-2026-63128: sessions are limited per caller, so a flood affects only its own caller.
#[tokio::test]
async fn flood_of_sessions_closes_only_the_callers_own_sessions() {
    let (_, http_client) = http_client(Limits { sessions: 20, sessions_per_caller: 3, ..Limits::default() });
    let initialize = request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).to_string();
    let begin = async |who: &str| {
        let reply = http_client.send(by(who), initialize.clone()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let ping = async |who: &str, session: &str| {
        let message = request(1, "ping", json!({})).to_string();
        http_client.send(by(who).header("mcp-session-id", session), message).await.status.as_u16()
    };
    let ada = begin("ada").await;
    let mut mallory = Vec::new();
    for _ in 0..50 {
        mallory.push(begin("mallory").await);
    }
    assert_eq!(ping("ada", &ada).await, 200);
    let left = async |session| ping("mallory", session).await;
    assert_eq!([left(&mallory[0]).await, left(&mallory[46]).await, left(&mallory[47]).await], [404, 404, 200]);
    assert_eq!(ping("ada", &mallory[49]).await, 404, "a session id of another caller is unknown");
}
