//! HTTP+SSE (2024-11-05): all messages come over one stream, and its end closes the connection.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolway_testkit::odd::{
    compliant::{self, SupportedEras},
    http::{Act, OddHttp, RecordedRequest, Reply, event},
};
use toolway_wire::up::{ConnectOptions, EraChoice, Peer, transport::HttpMode};

use super::{call, connected, faults, outcome_code, pinned, short_timeout};
use crate::dialling::LONG;

/// Sender of the event stream; dropping it ends the stream.
type EventSender = Arc<Mutex<Option<mpsc::Sender<Vec<u8>>>>>;

/// A server that is correct except for the tool `odd`.
async fn http_sse_server(odd: impl Fn(&RecordedRequest, &EventSender) -> Reply + Send + Sync + 'static) -> OddHttp {
    let events = EventSender::default();
    OddHttp::start(move |seen| match seen.verb.as_str() {
        "GET" => {
            let (sender, receiver) = mpsc::channel(16);
            *events.lock() = Some(sender);
            Reply::events("event: endpoint\ndata: /messages\n\n").then(Act::Relay(receiver))
        }
        _ if seen.path == "/mcp" => Reply::empty(405),
        _ if seen.tool() == "odd" => odd(seen, &events),
        _ => {
            if let Some(answer) = SupportedEras::Legacy.answer(seen.message()) {
                say(&events, event(&answer));
            }
            Reply::empty(202)
        }
    })
    .await
    .unwrap()
}

fn say(events: &EventSender, text: String) {
    events.lock().as_ref().unwrap().try_send(text.into_bytes()).unwrap();
}

async fn connect_and_call(odd: &OddHttp, expected: &str, connect: ConnectOptions) -> Peer {
    let peer = connected(odd, connect).await;
    assert_eq!(peer.protocol().http_mode, HttpMode::EventStream);
    let outcome = call(&peer, "odd").await;
    assert_eq!(outcome_code(&outcome), expected, "{outcome:?}");
    peer
}

#[tokio::test]
async fn refused_post_fails_its_call() {
    for (status, expected) in [(404, "http_status"), (500, "http_status"), (401, "unauthorized")] {
        let odd = http_sse_server(move |_, _| Reply::empty(status)).await;
        let peer = connect_and_call(&odd, expected, pinned(EraChoice::Legacy)).await;
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{status}");
    }
    let odd = http_sse_server(|_, _| Reply::bare().then(Act::Close)).await;
    let peer = connect_and_call(&odd, "ended", pinned(EraChoice::Legacy)).await;
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
}

#[tokio::test]
async fn hanging_post_times_out() {
    let odd = http_sse_server(|_, _| Reply::bare().then(Act::Hang)).await;
    let peer = connect_and_call(&odd, "timed_out", short_timeout(EraChoice::Legacy)).await;
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
    // Only the stream, the cancellation and the next call may hold connections.
    tokio::time::timeout(LONG, odd.until_open(3)).await.unwrap();
}

#[tokio::test]
async fn oversized_message_fails_its_call_and_oversized_event_ends_the_stream() {
    let long = |length: usize| {
        http_sse_server(move |seen, events| {
            say(events, event(&compliant::answered(seen.id(), &compliant::text(&"x".repeat(length)))));
            Reply::empty(202)
        })
    };
    let odd = long(10_000).await;
    let peer = connect_and_call(&odd, "too_large", pinned(EraChoice::Legacy)).await;
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");

    let odd = long(20_000).await;
    let peer = connect_and_call(&odd, "too_large", pinned(EraChoice::Legacy)).await;
    assert_eq!(peer.closed().await.code(), "too_large");
}

#[tokio::test]
async fn invalid_events_are_reported_only() {
    let odd = http_sse_server(|seen, events| {
        say(events, "data: {not json}\n\nevent: endpoint\ndata: http://elsewhere.example/\n\n: hi\n\n".to_owned());
        say(events, event(&SupportedEras::Legacy.answer(seen.message()).unwrap()));
        Reply::empty(202)
    });
    let odd = odd.await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let mut notices = peer.notices();
    assert_eq!(outcome_code(&call(&peer, "odd").await), "answered");
    assert_eq!(faults(&mut notices), ["protocol"]);
    // A second endpoint event is ignored.
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
}

#[tokio::test]
async fn end_of_the_stream_closes_the_connection() {
    let odd = http_sse_server(|_, events| {
        events.lock().take();
        Reply::empty(202)
    });
    let odd = odd.await;
    let peer = connect_and_call(&odd, "ended", pinned(EraChoice::Legacy)).await;
    assert_eq!(peer.closed().await.code(), "ended");
    assert_eq!(outcome_code(&call(&peer, "hello").await), "ended");
}
