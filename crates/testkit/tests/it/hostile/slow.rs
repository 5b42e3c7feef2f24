//! Replies that come a byte at a time, or stop coming: the idle clock ends them, whatever trickles in.

use std::time::Duration;

use futures_util::future::join_all;
use toolway_testkit::odd::http::{Act, Reply, Seen};

use super::{ERAS, call, check, connected, hasty, odd_call};
use crate::dialling::LONG;

/// Says each of these with a pause in between, and then nothing.
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
async fn nothing_at_all() {
    check("silence", |_: &Seen| Reply::bare().then(Act::Hang), hasty, "timed_out").await;
}

#[tokio::test]
async fn a_call_that_runs_out_of_time_leaves_no_connection_behind() {
    for era in ERAS {
        let odd = odd_call(|_| Reply::bare().then(Act::Hang)).await;
        let peer = connected(&odd, hasty(era)).await;
        join_all((0..30).map(|_| call(&peer, "odd"))).await;
        // One for each that is told of it, at most, and what is kept to be used again.
        tokio::time::timeout(LONG, odd.until_open(31)).await.unwrap();
    }
}

#[tokio::test]
async fn a_head_that_trickles_in() {
    check("head", |_: &Seen| dripping("HTTP/1.1 200 OK\r\nX-Slow: ", "x"), hasty, "timed_out").await;
}

#[tokio::test]
async fn a_body_that_trickles_in() {
    check("body", |_: &Seen| dripping(JSON, " "), hasty, "timed_out").await;
}

#[tokio::test]
async fn an_event_that_trickles_in() {
    check("event", |_: &Seen| dripping(EVENTS, "data: x\n"), hasty, "timed_out").await;
}

/// Signs of life on the wire are not signs of life of a call.
#[tokio::test]
async fn comments_that_trickle_in() {
    check("comments", |_: &Seen| dripping(EVENTS, ":\n\n"), hasty, "timed_out").await;
}
