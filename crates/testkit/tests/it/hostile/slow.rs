//! Slow responses: the idle timeout ends them, even if single bytes arrive.

use std::time::Duration;

use futures_util::future::join_all;
use toolway_testkit::odd::http::{Act, RecordedRequest, Reply};

use super::{ERAS, call, check, connected, odd_call, short_timeout};
use crate::dialling::LONG;

/// Sends these bytes one by one with pauses, and then nothing.
fn dripping(first: &str, then: &str) -> Reply {
    let mut reply = Reply::bare().say(first);
    for byte in then.bytes().cycle().take(100) {
        reply = reply.then(Act::Wait(Duration::from_millis(10))).say([byte]);
    }
    reply.then(Act::Hang)
}

const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn silent_server_times_out() {
    check("silence", |_: &RecordedRequest| Reply::bare().then(Act::Hang), short_timeout, "timed_out").await;
}

#[tokio::test]
async fn timed_out_calls_leave_no_connections_open() {
    for era in ERAS {
        let odd = odd_call(|_| Reply::bare().then(Act::Hang)).await;
        let peer = connected(&odd, short_timeout(era)).await;
        join_all((0..30).map(|_| call(&peer, "odd"))).await;
        // At most one connection for each cancellation, and one that is kept for reuse.
        tokio::time::timeout(LONG, odd.until_open(31)).await.unwrap();
    }
}

#[tokio::test]
async fn slow_head_times_out() {
    check("head", |_: &RecordedRequest| dripping("HTTP/1.1 200 OK\r\nX-Slow: ", "x"), short_timeout, "timed_out").await;
}

#[tokio::test]
async fn slow_body_times_out() {
    check("body", |_: &RecordedRequest| dripping(JSON, " "), short_timeout, "timed_out").await;
}

#[tokio::test]
async fn slow_event_times_out() {
    check("event", |_: &RecordedRequest| dripping(EVENTS, "data: x\n"), short_timeout, "timed_out").await;
}

/// Bytes on the wire do not reset the idle timeout of a call.
#[tokio::test]
async fn slow_comments_time_out() {
    check("comments", |_: &RecordedRequest| dripping(EVENTS, ":\n\n"), short_timeout, "timed_out").await;
}
