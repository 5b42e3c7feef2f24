//! Who is turned away at the door of the HTTP downstream, with which status, and that the service never hears of it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, request};
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::{Value, json};
use toolway_wire::{
    down::{
        DownstreamOptions,
        http::{HostGuard, HttpDownstreamOptions, Principal},
    },
    limit::Limits,
    revision::{Era, Revision},
};

use crate::{
    callers::{Door, call, notification, posting, refused, request, stateless, with},
    service::Parrot,
};

const MODERN: &str = "2026-07-28";

fn parrot() -> (Arc<Parrot>, Door) {
    let parrot = Parrot::new();
    (Arc::clone(&parrot), Door::with(parrot, DownstreamOptions::default()))
}

fn to(method: &str, path: &str, host: &str) -> request::Builder {
    Request::builder().method(method).uri(path).header("host", host).header("content-type", "application/json")
}

/// The headers that a stateless call of `echo` has to have.
fn headers(version: &'static str) -> [(&'static str, &'static str); 3] {
    [("mcp-protocol-version", version), ("mcp-method", "tools/call"), ("mcp-name", "echo")]
}

#[tokio::test]
async fn foreign_pages_and_names_do_not_come_in() {
    let (parrot, door) = parrot();
    let good = stateless(call(1, "echo"), MODERN).to_string();
    let came = |request| door.send(with(request, &headers(MODERN)), good.clone());
    assert_eq!(came(to("POST", "/mcp", "evil.example")).await.status, 403);
    assert_eq!(came(posting().header("origin", "https://evil.example")).await.status, 403);
    assert_eq!(came(posting().header("origin", "null")).await.status, 403);
    assert_eq!(came(to("POST", "/other", "localhost")).await.status, 404);
    assert_eq!(came(to("PUT", "/mcp", "localhost")).await.status, 405);
    assert!(parrot.seen().is_empty());
    assert_eq!(came(posting().header("origin", "http://localhost:3000")).await.status, 200);
    assert_eq!(parrot.seen().len(), 1);
}

#[tokio::test]
async fn a_name_that_was_given_to_the_guard_comes_in() {
    let guard = HostGuard::and_hosts(["Tools.Example".to_owned()]);
    let door = Door::to(Parrot::new(), HttpDownstreamOptions { guard, ..HttpDownstreamOptions::default() });
    let list = stateless(request(1, "tools/list", json!({})), MODERN).to_string();
    for (host, status) in [("tools.example:8080", 200), ("localhost", 200), ("other.example", 403)] {
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
        let reply = door.send(with(to("POST", "/mcp", host), &headers), list.clone()).await;
        assert_eq!(reply.status, status, "{host}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_its_status_and_code() {
    let parrot = Parrot::new();
    let limits = Limits { message_bytes: 1_000, ..Limits::default() };
    let door = Door::with(Arc::clone(&parrot) as _, DownstreamOptions { limits, ..DownstreamOptions::default() });
    let form = Request::post("/mcp").header("host", "localhost").header("content-type", "text/plain");
    assert_eq!(door.send(form, call(1, "echo").to_string()).await.status, 415);

    let long = call(1, &"x".repeat(1_000)).to_string();
    for (body, status, code) in [
        (long.as_str(), 413, -32600),
        ("{", 400, -32700),
        ("", 400, -32700),
        ("7", 400, -32600),
        (r#"{"jsonrpc":"2.0"}"#, 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
    ] {
        let reply = door.send(posting(), body.to_owned()).await;
        assert_eq!(reply.status, status, "{body}");
        assert_eq!(refused(&reply.message()), (Value::Null, code), "{body}");
    }
    let twice = r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}"#;
    let reply = door.send(posting(), twice).await;
    assert_eq!(refused(&reply.message()), (json!(7), -32600), "it is told which request");
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_request() {
    let (parrot, door) = parrot();
    let begun = Bytes::from(call(1, "echo").to_string());
    let pieces = [Ok(Frame::data(begun)), Err(std::io::Error::other("the caller is gone"))];
    let request = posting().body(StreamBody::new(futures_util::stream::iter(pieces))).unwrap();
    assert_eq!(door.0.respond(request).await.status(), 400);
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn a_stateless_request_whose_headers_say_something_else_is_refused() {
    let (parrot, door) = parrot();
    let message = stateless(call(1, "echo"), MODERN);
    let [version, method, name] = headers(MODERN);
    let odd = [
        (vec![method, name], "is missing"),
        (vec![("mcp-protocol-version", "2027-01-01"), method, name], "does not match the body"),
        (vec![version, name], "mcp-method is missing"),
        (vec![version, ("mcp-method", "tools/list"), name], "mcp-method does not match"),
        (vec![version, method, ("mcp-name", "wait")], "mcp-name does not match"),
        (vec![version, method, ("mcp-name", "=?base64?%?=")], "mcp-name is malformed"),
    ];
    for (headers, problem) in odd {
        let reply = door.post(&headers, &message).await;
        let message = reply.message();
        assert_eq!((reply.status.as_u16(), refused(&message)), (400, (json!(1), -32020)), "{message}");
        assert!(message["error"]["message"].as_str().unwrap().contains(problem), "{problem}: {message}");
    }
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn a_revision_or_method_that_is_not_spoken_is_refused_with_what_is() {
    let (parrot, door) = parrot();
    let reply = door.post(&headers("2027-01-01"), &stateless(call(1, "echo"), "2027-01-01")).await;
    let message = reply.message();
    assert_eq!((reply.status.as_u16(), refused(&message)), (400, (json!(1), -32022)));
    assert_eq!(message["error"]["data"], json!({ "supported": [MODERN], "requested": "2027-01-01" }));

    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "ping")];
    let reply = door.post(&headers, &stateless(request(2, "ping", json!({})), MODERN)).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message())), (404, (json!(2), -32601)));
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn a_session_is_known_only_to_whoever_began_it() {
    let (parrot, door) = parrot();
    let session = door.session("2025-11-25").await;
    let ours = [("mcp-session-id", session.as_str())];
    let mut foreign = with(posting(), &ours);
    foreign.extensions_mut().unwrap().insert(Principal(Arc::from("mallory")));
    assert_eq!(door.send(foreign, call(1, "echo").to_string()).await.status, 404);
    let mut foreign = with(to("DELETE", "/mcp", "localhost"), &ours);
    foreign.extensions_mut().unwrap().insert(Principal(Arc::from("mallory")));
    assert_eq!(door.send(foreign, "").await.status, 404);
    assert!(parrot.seen().is_empty());
    assert_eq!(door.post(&ours, &call(1, "echo")).await.status, 200, "it is still there");
}

#[tokio::test]
async fn a_session_has_to_be_named_and_has_one_stream() {
    let (_, door) = parrot();
    let get = |headers: &[(&str, &str)]| {
        let request = with(to("GET", "/mcp", "localhost"), headers).body(http_body_util::Full::<Bytes>::default());
        door.0.respond(request.unwrap())
    };
    let unknown = [("mcp-session-id", "guessed")];
    assert_eq!(get(&[]).await.status(), 405);
    assert_eq!(get(&unknown).await.status(), 404);
    assert_eq!(door.send(to("DELETE", "/mcp", "localhost"), "").await.status, 405);
    assert_eq!(door.send(with(to("DELETE", "/mcp", "localhost"), &unknown), "").await.status, 404);
    assert_eq!(door.post(&unknown, &call(1, "echo")).await.status, 404);
    assert_eq!(door.post(&[], &notification("notifications/initialized", json!({}))).await.status, 400);

    let session = door.session("2025-11-25").await;
    let ours = [("mcp-session-id", session.as_str())];
    let odd = [ours[0], ("mcp-protocol-version", "1999-01-01")];
    assert_eq!(get(&odd).await.status(), 400, "a version nobody speaks");
    assert_eq!(door.post(&odd, &call(1, "echo")).await.status, 400);
    let stateless = [ours[0], ("mcp-protocol-version", MODERN)];
    assert_eq!(get(&stateless).await.status(), 400, "a version without sessions");
    let older = [ours[0], ("mcp-protocol-version", "2025-06-18")];
    assert_eq!(door.post(&older, &call(1, "echo")).await.status, 200, "another that has them");
    let first = get(&ours).await;
    assert_eq!(first.status(), 200);
    assert_eq!(get(&ours).await.status(), 409);
    drop(first);
    assert_eq!(get(&ours).await.status(), 200, "it is free again");
}

#[tokio::test]
async fn sessions_are_bounded_in_number_and_absent_where_none_are_kept() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let door = Door::with(Parrot::new(), DownstreamOptions { limits, ..DownstreamOptions::default() });
    let session = door.session("2025-11-25").await;
    let initialize = request(9, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    let mut foreign = posting();
    foreign.extensions_mut().unwrap().insert(Principal(Arc::from("mallory")));
    let reply = door.send(foreign, initialize.to_string()).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message())), (503, (json!(9), -32603)));
    let ours = [("mcp-session-id", session.as_str())];
    assert_eq!(door.post(&ours, &call(1, "echo")).await.status, 200, "nobody's session gives way to another caller");
    assert_eq!(door.post(&[], &initialize).await.status, 200);
    assert_eq!(door.post(&ours, &call(2, "echo")).await.status, 404, "its own idle one does");

    let revisions = Revision::of(Era::Modern).collect();
    let door = Door::with(Parrot::new(), DownstreamOptions { revisions, ..DownstreamOptions::default() });
    let reply = door.post(&[], &initialize).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message())), (400, (json!(9), -32022)));
    assert_eq!(reply.message()["error"]["data"]["supported"], json!([MODERN]));
}
