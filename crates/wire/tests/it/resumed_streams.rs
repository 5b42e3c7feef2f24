//! Interrupted streams of sessions and how clients resume them, over real sockets.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::down::{DownstreamOptions, http::HttpDownstreamOptions};

use crate::{
    raw_clients::{RawHttpClient, call, stateless},
    socket_clients::SocketServer,
    test_service::TestService,
};

async fn serve_test_service() -> SocketServer {
    let mut served = SocketServer::start(TestService::new(), HttpDownstreamOptions::default()).await;
    served.begin().await;
    served
}

fn counting(id: u64) -> Value {
    let mut message = call(id, "count");
    message["params"]["_meta"] = json!({ "progressToken": "t" });
    message
}

#[tokio::test]
async fn stream_begins_with_an_id_and_every_event_has_its_own() {
    let served = serve_test_service().await;
    let (mut first, mut second) = (served.post(&counting(1)).await, served.post(&counting(2)).await);
    let mut seen = Vec::new();
    for stream in [&mut first, &mut second] {
        let beginning = stream.event().await.unwrap();
        assert!(beginning.data.is_empty() && beginning.retry.is_some(), "{beginning:?}");
        seen.push(beginning.id.unwrap());
        while let Some(event) = stream.event().await {
            seen.push(event.id.expect("an id"));
        }
    }
    assert_eq!(seen.len(), 16, "two beginnings, and six notifications and an answer each: {seen:?}");
    let mut distinct = seen.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

#[tokio::test]
async fn only_the_newest_stateful_revision_gets_an_event_without_data() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = RawHttpClient::with(TestService::new(), DownstreamOptions::default());
        let session = client.session(revision).await;
        let reply = client.post(&[("mcp-session-id", &session)], &counting(1)).await;
        let (events, has_opening) = (reply.events(), revision == "2025-11-25");
        assert_eq!(events.iter().any(|event| event.data.is_empty()), has_opening, "{revision}: {}", reply.text);
        assert!(has_opening || reply.text.starts_with(':'), "a comment opens the stream: {}", reply.text);
        assert_eq!(reply.messages().len(), 7, "{revision}");
    }
}

#[tokio::test]
async fn interrupted_stream_is_resumed_where_it_broke() {
    let served = serve_test_service().await;
    let mut stream = served.post(&counting(1)).await;
    let mut places = vec![stream.event().await.unwrap().id.unwrap()];
    let mut said = Vec::new();
    while let Some(event) = stream.event().await {
        places.push(event.id.unwrap());
        said.push(serde_json::from_slice::<Value>(&event.data).unwrap());
    }
    drop(stream);
    for (index, place) in places.iter().enumerate() {
        let mut rest = served.resume(place).await;
        assert_eq!(rest.status, 200);
        assert_eq!(rest.event().await.unwrap().id.as_ref(), Some(place), "it begins where it was left");
        for expected in &said[index..] {
            assert_eq!(rest.message().await.as_ref(), Some(expected), "after {place}");
        }
        assert!(rest.message().await.is_none(), "only the interrupted stream is resumed");
    }
}

#[tokio::test]
async fn unknown_event_id_is_gone() {
    let served = serve_test_service().await;
    for place in ["7-1", "0-99", "nonsense", "", "1-", "-1", "99999999999999999999-1"] {
        assert_eq!(served.resume(place).await.status, 410, "{place}");
    }
    assert_eq!(served.resume("0-0").await.status, 200, "the standing stream is there");
}

#[tokio::test]
async fn call_continues_without_a_reader_and_its_response_waits() {
    let served = serve_test_service().await;
    let mut stream = served.post(&call(1, "ask")).await;
    let place = stream.event().await.unwrap().id.unwrap();
    let question = stream.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    drop(stream);

    // The stream has no reader, and the answer is sent on another connection.
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
    assert_eq!(served.post(&answer).await.status, 202);
    let mut rest = served.resume(&place).await;
    assert_eq!(rest.message().await.unwrap(), question, "it may not have arrived");
    let answered = rest.message().await.unwrap();
    assert_eq!(
        (&answered["id"], answered["result"]["content"][0]["text"].as_str()),
        (&json!(1), Some(r#"{"action":"decline"}"#))
    );
    assert!(rest.message().await.is_none());
}

#[tokio::test]
async fn standing_stream_is_taken_over_with_its_event_id() {
    let served = serve_test_service().await;
    let mut standing = served.in_session("GET", &[], &Value::Null).await;
    let place = standing.event().await.unwrap().id.unwrap();
    assert_eq!(served.in_session("GET", &[], &Value::Null).await.status, 409, "there is one");
    assert_eq!(served.post(&call(1, "change")).await.status, 200);
    let told = standing.message().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    // As after a connection that failed unnoticed.
    let mut again = served.resume(&place).await;
    assert_eq!(again.message().await.unwrap(), told);
    assert!(standing.message().await.is_none(), "there is one reader");
}

#[tokio::test]
async fn another_session_cannot_resume_a_stream() {
    let mut served = serve_test_service().await;
    let mut stream = served.post(&counting(1)).await;
    let place = stream.event().await.unwrap().id.unwrap();
    served.session = None;
    served.begin().await;
    assert_eq!(served.resume(&place).await.status, 410);
}

/// G-07: a disconnect cancels a stateless call, but not a call of a session.
#[tokio::test]
async fn disconnect_cancels_only_a_stateless_call() {
    let parrot = TestService::new();
    let mut served = SocketServer::start(parrot.clone(), HttpDownstreamOptions::default()).await;
    served.begin().await;
    let waiting = tokio::time::timeout(Duration::from_millis(200), served.post(&call(1, "wait"))).await;
    assert!(waiting.is_err(), "the client disconnects before the response");
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "wait")];
    let message = stateless(call(2, "wait"), "2026-07-28").to_string();
    let waiting = tokio::time::timeout(Duration::from_millis(200), served.send("POST", &headers, message)).await;
    assert!(waiting.is_err());
    tokio::time::timeout(Duration::from_secs(1), async {
        while parrot.cancelled() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is given up within a second");
    assert_eq!((parrot.seen().len(), parrot.cancelled()), (2, 1), "the other one goes on");
}
