//! Sessions that nobody uses any more, and callers that begin too many of them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request};
use http_body_util::Full;
use serde_json::{Value, json};
use toolway_wire::{
    down::{
        DownstreamOptions,
        http::{ResponseBody, Principal},
    },
    limit::Limits,
};

use crate::{
    callers::{Door, call, notification, posting, request},
    service::Parrot,
};

const IDLE: Duration = Duration::from_secs(1_800);

fn door(limits: Limits) -> (Arc<Parrot>, Door) {
    let parrot = Parrot::new();
    let options = DownstreamOptions { limits, session_idle: IDLE, ..DownstreamOptions::default() };
    (Arc::clone(&parrot), Door::with(parrot, options))
}

async fn status(door: &Door, session: &str) -> u16 {
    door.post(&[("mcp-session-id", session)], &request(7, "ping", json!({}))).await.status.as_u16()
}

async fn get(door: &Door, session: &str) -> Response<ResponseBody> {
    let request = Request::get("/mcp").header("host", "localhost").header("mcp-session-id", session);
    door.0.respond(request.body(Full::<Bytes>::default()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_session_left_alone_ends_and_the_next_one_begins_as_ever() {
    let (_, door) = door(Limits::default());
    let (left, used) = (door.session("2025-11-25").await, door.session("2025-11-25").await);
    for _ in 0..3 {
        tokio::time::sleep(IDLE * 2 / 5).await;
        assert_eq!(status(&door, &used).await, 200, "whoever is heard of is there");
    }
    assert_eq!(status(&door, &left).await, 404);
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!(status(&door, &used).await, 404);
    let again = door.session("2025-11-25").await;
    assert_eq!(status(&door, &again).await, 200);
}

#[tokio::test(start_paused = true)]
async fn work_under_way_and_a_stream_that_is_read_keep_a_session() {
    let (parrot, door) = door(Limits::default());
    let (works, reads) = (door.session("2025-11-25").await, door.session("2025-11-25").await);
    let standing = get(&door, &reads).await;
    assert_eq!(standing.status(), 200);
    // Its caller hangs up; the work goes on.
    let waiting = door.0.respond(posting().header("mcp-session-id", &works).body(whole(&call(1, "wait"))).unwrap());
    assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());

    tokio::time::sleep(IDLE * 5).await;
    assert_eq!(parrot.cancelled(), 0, "it still works");
    assert_eq!(status(&door, &works).await, 200);
    assert_eq!(status(&door, &reads).await, 200);

    drop(standing);
    let cancelled = notification("notifications/cancelled", json!({ "requestId": 1 }));
    assert_eq!(door.post(&[("mcp-session-id", &works)], &cancelled).await.status, 202);
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!((status(&door, &works).await, status(&door, &reads).await), (404, 404));
}

/// A call that asks something goes on without anybody to answer it: it ends, and does not keep its session for ever.
#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_can_hear_is_answered_by_nobody() {
    let (parrot, door) = door(Limits::default());
    let (early, late) = (door.session("2025-11-25").await, door.session("2025-11-25").await);
    let ask = |session: &str| posting().header("mcp-session-id", session).body(whole(&call(1, "ask"))).unwrap();
    // Hangs up before anything was said: there is no stream that it could ask for.
    let mut asking = Box::pin(door.0.respond(ask(&early)));
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    // Hangs up when it was asked, and is not back in time.
    let asked = door.0.respond(ask(&late)).await;
    assert_eq!(asked.headers()["content-type"], "text/event-stream");
    drop(asked);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(parrot.seen().len(), 2);
    for session in [&early, &late] {
        let again = door.post(&[("mcp-session-id", session)], &call(1, "echo")).await;
        assert!(again.message()["result"].is_object(), "the call is over, its id is free: {}", again.text);
    }
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!((status(&door, &early).await, status(&door, &late).await), (404, 404));
}

/// Whoever lost its connection has time to come back and answer.
#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_caller_that_takes_its_stream_up_again() {
    let (_, door) = door(Limits::default());
    let session = door.session("2025-11-25").await;
    let asking = posting().header("mcp-session-id", &session).body(whole(&call(1, "ask"))).unwrap();
    drop(door.0.respond(asking).await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let resuming = Request::get("/mcp").header("host", "localhost").header("mcp-session-id", &session);
    let resuming = resuming.header("last-event-id", "1-0").body(Full::<Bytes>::default()).unwrap();
    let stream = door.0.respond(resuming).await;
    assert_eq!(stream.status(), 200);
    // Somebody reads: a person may take their time.
    tokio::time::sleep(Duration::from_secs(500)).await;
    let answer =
        json!({ "jsonrpc": "2.0", "id": "ask-1", "result": { "action": "accept", "content": { "name": "Ada" } } });
    assert_eq!(door.post(&[("mcp-session-id", &session)], &answer).await.status, 202);
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

/// CVE-2026-63128: sessions are bounded per caller, and only the caller that floods feels it.
#[tokio::test]
async fn a_flood_of_sessions_takes_only_the_flooders_own() {
    let (_, door) = door(Limits { sessions: 20, sessions_per_caller: 3, ..Limits::default() });
    let initialize = request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).to_string();
    let begin = async |who: &str| {
        let reply = door.send(by(who), initialize.clone()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let ping = async |who: &str, session: &str| {
        let message = request(1, "ping", json!({})).to_string();
        door.send(by(who).header("mcp-session-id", session), message).await.status.as_u16()
    };
    let ada = begin("ada").await;
    let mut mallory = Vec::new();
    for _ in 0..50 {
        mallory.push(begin("mallory").await);
    }
    assert_eq!(ping("ada", &ada).await, 200);
    let left = async |session| ping("mallory", session).await;
    assert_eq!([left(&mallory[0]).await, left(&mallory[46]).await, left(&mallory[47]).await], [404, 404, 200]);
    assert_eq!(ping("ada", &mallory[49]).await, 404, "a name alone opens nothing");
}
