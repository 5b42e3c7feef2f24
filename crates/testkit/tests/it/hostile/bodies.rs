//! HTTP responses that are invalid, incomplete or different from their head.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolway_testkit::odd::{
    compliant::{self, SupportedEras},
    http::{Act, RecordedRequest, Reply, event},
};
use toolway_wire::{
    limit::Limits,
    revision::Revision,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, check, connected, faults, odd_call, outcome_code, pinned, short_timeout};

/// A head with this line, then this body.
fn head(line: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{line}\r\n\r\n{body}")
}

fn hello(seen: &RecordedRequest) -> Value {
    SupportedEras::Both.answer(seen.message()).unwrap()
}

#[tokio::test]
async fn text_that_is_not_a_message_fails_its_call() {
    let body = |text: &'static [u8]| move |_: &RecordedRequest| Reply::body(200, "application/json", text);
    for (name, text, expected) in [
        ("truncated", &b"{\"jsonrpc\":\"2.0\",\"id\":2,\"resu"[..], "protocol"),
        ("empty", b"", "protocol"),
        ("not utf-8", b"{\"id\":2,\"result\":{\"text\":\"caf\xe9\"}}", "protocol"),
        ("a scalar", b"42", "protocol"),
        ("empty object", b"{}", "protocol"),
        ("two messages", b"{\"id\":2,\"result\":{}}{\"id\":3,\"result\":{}}", "protocol"),
        ("a notification", b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/vendor\"}", "ended"),
    ] {
        check(name, body(text), pinned, expected).await;
    }
    let deep = |_: &RecordedRequest| {
        Reply::body(200, "application/json", format!("{}{}", "[".repeat(2_000), "]".repeat(2_000)))
    };
    check("deep", deep, pinned, "protocol").await;
    let deep = |seen: &RecordedRequest| {
        let nest = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
        Reply::body(200, "application/json", format!("{{\"result\":{{\"x\":{nest}}},\"id\":{}}}", seen.id()))
    };
    check("deep result", deep, pinned, "protocol").await;
}

#[tokio::test]
async fn statuses_and_types_without_an_answer_are_distinct_errors() {
    for (name, reply, expected) in [
        ("html", (|_| Reply::html(200)) as fn(&RecordedRequest) -> Reply, "http_status"),
        ("no type", |_| Reply::bare().say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), "protocol"),
        ("202", |_| Reply::empty(202), "protocol"),
        ("204", |_| Reply::empty(204), "protocol"),
        (
            "101",
            |_| Reply::bare().say("HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            "http_status",
        ),
        ("304", |_| Reply::empty(304), "http_status"),
        ("400", |_| Reply::empty(400), "http_status"),
        ("413", |_| Reply::html(413), "http_status"),
        ("429", |_| Reply::empty(429), "http_status"),
        ("500", |_| Reply::html(500), "http_status"),
        ("503 json", |_| Reply::json(503, &json!({ "error": "busy" })), "http_status"),
        ("401", |_| Reply::empty(401).header("WWW-Authenticate", "Bearer"), "unauthorized"),
        ("403", |_| Reply::empty(403), "unauthorized"),
        ("307 elsewhere", |_| Reply::empty(307).header("Location", "http://elsewhere.example/"), "redirect"),
        ("400 error", |seen| Reply::json(400, &compliant::error(seen.id(), -32602, "no")), "refused"),
        ("404 error", |seen| Reply::json(404, &compliant::error(seen.id(), -32601, "no")), "refused"),
        ("500 error without an id", |_| Reply::json(500, &compliant::error(&json!(null), -32603, "no")), "refused"),
        ("200 error without an id", |_| Reply::json(200, &compliant::error(&json!(null), -32603, "no")), "refused"),
    ] {
        check(name, reply, pinned, expected).await;
    }
}

#[tokio::test]
async fn response_is_accepted_for_its_own_request_only() {
    for (name, id) in [("wrong id", json!(4711)), ("string id", json!("2")), ("no id", json!(null))] {
        for era in ERAS {
            let id = id.clone();
            let odd = odd_call(move |_| Reply::json(200, &compliant::answered(&id, &compliant::text("x")))).await;
            let peer = connected(&odd, pinned(era)).await;
            let mut notices = peer.notices();
            let outcome = call(&peer, "odd").await;
            assert_eq!(outcome_code(&outcome), "ended", "{name}, {era:?}: {outcome:?}");
            assert_eq!(faults(&mut notices), ["protocol"], "{name}, {era:?}");
            assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{name}, {era:?}");
        }
    }
}

#[tokio::test]
async fn answer_on_another_response_is_ignored() {
    for era in ERAS {
        let go = Arc::new(Notify::new());
        let waiting = Arc::clone(&go);
        let first = std::sync::Mutex::new(json!(null));
        let odd = odd_call(move |seen| {
            let mut first = first.lock().unwrap();
            if first.is_null() {
                *first = seen.id().clone();
                // Answered correctly, but later.
                return Reply::bare()
                    .then(Act::Until(Arc::clone(&waiting)))
                    .say(head(
                        "Connection: close",
                        &compliant::answered(seen.id(), &compliant::text("mine")).to_string(),
                    ))
                    .then(Act::Close);
            }
            // The second response carries the answer to the first, as a message and as invalid text.
            let foreign = compliant::answered(&first, &compliant::text("not yours"));
            Reply::events(format!("{}data: {{\"id\":{first},\"resu\n\n", event(&foreign)))
        });
        let odd = odd.await;
        let peer = connected(&odd, pinned(era)).await;
        let mut notices = peer.notices();
        let mut patient = peer.call_tool("odd", None).unwrap();
        // The first request is sent before the second.
        odd.until(|seen| seen.iter().any(|seen| seen.tool() == "odd")).await;
        let outcome = call(&peer, "odd").await;
        assert!(matches!(outcome_code(&outcome), "ended" | "protocol"), "{era:?}: {outcome:?}");
        assert_eq!(faults(&mut notices)[0], "protocol", "{era:?}");
        assert!(futures_util::poll!(std::pin::pin!(patient.next())).is_pending(), "{era:?}: it has an answer");
        go.notify_one();
        let outcome = patient.outcome().await;
        assert!(format!("{outcome:?}").contains("mine"), "{era:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn batch_is_accepted_only_in_revisions_that_have_it() {
    let batch = |seen: &RecordedRequest| {
        Reply::json(200, &json!([compliant::notification("notifications/vendor", &json!({})), hello(seen)]))
    };
    check("batch", batch, pinned, "protocol").await;
    let odd = odd_call(batch).await;
    let connect = ConnectOptions { legacy: Revision::V2025_03_26, ..pinned(EraChoice::Legacy) };
    let peer = connected(&odd, connect).await;
    assert_eq!(outcome_code(&call(&peer, "odd").await), "answered");
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered");
}

#[tokio::test]
async fn oversized_batch_fails_its_call() {
    for revision in [Revision::V2025_03_26, Revision::V2025_11_25] {
        let odd = odd_call(|_| Reply::body(200, "application/json", format!("[{}0]", "0,".repeat(2_000)))).await;
        let peer = connected(&odd, ConnectOptions { legacy: revision, ..pinned(EraChoice::Legacy) }).await;
        assert_eq!(outcome_code(&call(&peer, "odd").await), "too_large", "{revision}");
        assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{revision}");
    }
}

#[tokio::test]
async fn wrong_content_length_is_detected() {
    let long = |seen: &RecordedRequest| {
        Reply::bare().say(head("Content-Length: 5000", &hello(seen).to_string())).then(Act::Close)
    };
    check("too long, closed", long, pinned, "ended").await;
    let long = |seen: &RecordedRequest| {
        Reply::bare().say(head("Content-Length: 5000", &hello(seen).to_string())).then(Act::Hang)
    };
    check("too long, open", long, short_timeout, "timed_out").await;
    // The rest would be parsed as the next response.
    let short = |seen: &RecordedRequest| Reply::bare().say(head("Content-Length: 20", &hello(seen).to_string()));
    check("too short", short, pinned, "protocol").await;
    let two = |seen: &RecordedRequest| {
        let reply = hello(seen).to_string();
        Reply::bare()
            .say(head(&format!("Content-Length: {}\r\nContent-Length: 7", reply.len()), &reply))
            .then(Act::Close)
    };
    check("two lengths", two, pinned, "protocol").await;
    for length in ["-1", "twelve", "99999999999999999999999999", "0x10"] {
        let odd = move |seen: &RecordedRequest| {
            Reply::bare().say(head(&format!("Content-Length: {length}"), &hello(seen).to_string())).then(Act::Close)
        };
        check(length, odd, pinned, "protocol").await;
    }
}

/// Bytes after a complete response could be taken for the next response.
#[tokio::test]
async fn second_response_after_the_first_is_ignored() {
    for era in ERAS {
        let odd = odd_call(|seen| {
            let next = json!(seen.id().as_u64().unwrap_or_default() + 1);
            let forged = compliant::answered(&next, &compliant::text("forged")).to_string();
            let forged = head(&format!("Content-Length: {}", forged.len()), &forged);
            Reply::json(200, &hello(seen)).say(forged)
        });
        let odd = odd.await;
        let peer = connected(&odd, pinned(era)).await;
        for _ in 0..10 {
            for tool in ["odd", "hello"] {
                let outcome = call(&peer, tool).await;
                assert!(format!("{outcome:?}").contains("hello"), "{era:?}, {tool}: {outcome:?}");
            }
        }
    }
}

#[tokio::test]
async fn oversized_body_fails_before_it_is_read() {
    for length in ["10001", "9223372036854775807"] {
        let announced = move |_: &RecordedRequest| {
            Reply::bare().say(head(&format!("Content-Length: {length}"), "{")).then(Act::Hang)
        };
        check(length, announced, pinned, "too_large").await;
    }
    let endless = |_: &RecordedRequest| {
        let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
        Reply::bare().say(head("Transfer-Encoding: chunked", "")).then(Act::SayForEver(chunk.into_bytes()))
    };
    check("endless chunks", endless, pinned, "too_large").await;
    let huge = |_: &RecordedRequest| {
        Reply::bare().say(head("Transfer-Encoding: chunked", "ffffffffffff\r\n{")).then(Act::Hang)
    };
    check("one huge chunk", huge, short_timeout, "timed_out").await;
    let until_closed = |_: &RecordedRequest| {
        Reply::bare().say(head("Connection: close", "{")).then(Act::SayForEver(vec![b' '; 1_000]))
    };
    check("endless body", until_closed, pinned, "too_large").await;
}

#[tokio::test]
async fn invalid_chunks_fail_their_call() {
    for (name, chunks) in [
        ("no size", "zz\r\n{}\r\n"),
        ("a size that overflows", "11111111111111111\r\n{}\r\n"),
        ("no end of the chunk", "2\r\n{}{}\r\n"),
    ] {
        let odd =
            move |_: &RecordedRequest| Reply::bare().say(head("Transfer-Encoding: chunked", chunks)).then(Act::Close);
        check(name, odd, pinned, "protocol").await;
    }
}

/// Chunks of one byte are cheap for the sender and must be cheap for us.
#[tokio::test]
async fn body_in_many_chunks_is_read_in_time() {
    for kind in ["application/json", "text/event-stream"] {
        let odd = odd_call(move |seen| {
            let text = compliant::answered(seen.id(), &compliant::text(&"x".repeat(130_000))).to_string();
            let text = if kind == "application/json" { text } else { format!("data: {text}\n\n") };
            let chunks: String = text.chars().map(|letter| format!("1\r\n{letter}\r\n")).collect();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n");
            Reply::bare().say(head + &chunks + "0\r\n\r\n")
        });
        let odd = odd.await;
        let mut connect = ConnectOptions { limits: Limits::default(), ..pinned(EraChoice::Modern) };
        connect.timeouts.call.idle = Some(Duration::from_secs(6));
        let peer = connected(&odd, connect).await;
        assert_eq!(outcome_code(&call(&peer, "odd").await), "answered", "{kind}");
    }
}

#[tokio::test]
async fn broken_connection_fails_its_call_and_no_post_is_repeated() {
    for (name, odd) in [
        ("closed at once", (|_| Reply::bare().then(Act::Close)) as fn(&RecordedRequest) -> Reply),
        ("reset at once", |_| Reply::bare().then(Act::Reset)),
        ("closed in the head", |_| Reply::bare().say("HTTP/1.1 200 OK\r\nConte").then(Act::Close)),
        ("reset in the head", |_| Reply::bare().say("HTTP/1.1 200 OK\r\nConte").then(Act::Reset)),
        ("half closed after the head", |_| Reply::bare().say(head("Content-Length: 9", "")).then(Act::HalfClose)),
        ("half closed at once", |_| Reply::bare().then(Act::HalfClose)),
        ("closed in a chunk", |_| Reply::bare().say(head("Transfer-Encoding: chunked", "9\r\n{")).then(Act::Close)),
    ] {
        check(name, odd, pinned, "ended").await;
    }
}

/// The server may close a reused connection at any time, even after it has read the request.
#[tokio::test]
async fn post_over_a_reused_connection_is_not_repeated() {
    for era in ERAS {
        let odd = odd_call(|_| Reply::bare().then(Act::Close)).await;
        let peer = connected(&odd, pinned(era)).await;
        for _ in 0..20 {
            let connections = odd.connections();
            assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{era:?}");
            let before = odd.seen().len();
            assert_eq!(outcome_code(&call(&peer, "odd").await), "ended", "{era:?}");
            assert_eq!(odd.seen().len(), before + 1, "{era:?}: sent twice");
            assert!(odd.connections() <= connections + 1, "{era:?}: the connection was not used again");
        }
    }
}

/// A request that was not sent at all may use another connection.
#[tokio::test]
async fn idle_connection_that_was_closed_is_replaced() {
    for era in ERAS {
        let odd = odd_call(|seen| Reply::json(200, &hello(seen)).then(Act::Close)).await;
        let peer = connected(&odd, pinned(era)).await;
        for _ in 0..20 {
            assert_eq!(outcome_code(&call(&peer, "odd").await), "answered", "{era:?}");
            // The server closes the connection before it receives the next request.
            tokio::task::yield_now().await;
        }
    }
}
