//! Requests that the HTTP downstream rejects, with their status, before they reach the service.

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
    raw_clients::{RawHttpClient, call, notification, posting, refused, request, stateless, with},
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";

fn parrot() -> (Arc<TestService>, RawHttpClient) {
    let parrot = TestService::new();
    (Arc::clone(&parrot), RawHttpClient::with(parrot, DownstreamOptions::default()))
}

fn to(method: &str, path: &str, host: &str) -> request::Builder {
    Request::builder().method(method).uri(path).header("host", host).header("content-type", "application/json")
}

/// Required headers of a stateless call of `echo`.
fn headers(version: &'static str) -> [(&'static str, &'static str); 3] {
    [("mcp-protocol-version", version), ("mcp-method", "tools/call"), ("mcp-name", "echo")]
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_rejected() {
    let (parrot, http_client) = parrot();
    let good = stateless(call(1, "echo"), MODERN).to_string();
    let respond = |request| http_client.send(with(request, &headers(MODERN)), good.clone());
    assert_eq!(respond(to("POST", "/mcp", "evil.example")).await.status, 403);
    assert_eq!(respond(posting().header("origin", "https://evil.example")).await.status, 403);
    assert_eq!(respond(posting().header("origin", "null")).await.status, 403);
    assert_eq!(respond(to("POST", "/other", "localhost")).await.status, 404);
    assert_eq!(respond(to("PUT", "/mcp", "localhost")).await.status, 405);
    assert!(parrot.seen().is_empty());
    assert_eq!(respond(posting().header("origin", "http://localhost:3000")).await.status, 200);
    assert_eq!(parrot.seen().len(), 1);
}

#[tokio::test]
async fn host_allowed_by_the_guard_is_accepted() {
    let guard = HostGuard::and_hosts(["Tools.Example".to_owned()]);
    let http_client =
        RawHttpClient::to(TestService::new(), HttpDownstreamOptions { guard, ..HttpDownstreamOptions::default() });
    let list = stateless(request(1, "tools/list", json!({})), MODERN).to_string();
    for (host, status) in [("tools.example:8080", 200), ("localhost", 200), ("other.example", 403)] {
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
        let reply = http_client.send(with(to("POST", "/mcp", host), &headers), list.clone()).await;
        assert_eq!(reply.status, status, "{host}");
    }
}

#[tokio::test]
async fn invalid_message_is_refused_with_status_and_code() {
    let parrot = TestService::new();
    let limits = Limits { message_bytes: 1_000, ..Limits::default() };
    let http_client =
        RawHttpClient::with(Arc::clone(&parrot) as _, DownstreamOptions { limits, ..DownstreamOptions::default() });
    let form = Request::post("/mcp").header("host", "localhost").header("content-type", "text/plain");
    assert_eq!(http_client.send(form, call(1, "echo").to_string()).await.status, 415);

    let long = call(1, &"x".repeat(1_000)).to_string();
    for (body, status, code) in [
        (long.as_str(), 413, -32600),
        ("{", 400, -32700),
        ("", 400, -32700),
        ("7", 400, -32600),
        (r#"{"jsonrpc":"2.0"}"#, 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
    ] {
        let reply = http_client.send(posting(), body.to_owned()).await;
        assert_eq!(reply.status, status, "{body}");
        assert_eq!(refused(&reply.message()), (Value::Null, code), "{body}");
    }
    let twice = r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}"#;
    let reply = http_client.send(posting(), twice).await;
    assert_eq!(refused(&reply.message()), (json!(7), -32600), "the error names the request");
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn truncated_body_is_refused() {
    let (parrot, http_client) = parrot();
    let begun = Bytes::from(call(1, "echo").to_string());
    let pieces = [Ok(Frame::data(begun)), Err(std::io::Error::other("the client disconnected"))];
    let request = posting().body(StreamBody::new(futures_util::stream::iter(pieces))).unwrap();
    assert_eq!(http_client.0.respond(request).await.status(), 400);
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn stateless_request_with_mismatched_headers_is_refused() {
    let (parrot, http_client) = parrot();
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
        let reply = http_client.post(&headers, &message).await;
        let message = reply.message();
        assert_eq!((reply.status.as_u16(), refused(&message)), (400, (json!(1), -32020)), "{message}");
        assert!(message["error"]["message"].as_str().unwrap().contains(problem), "{problem}: {message}");
    }
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn unsupported_revision_or_method_is_refused_with_the_supported_ones() {
    let (parrot, http_client) = parrot();
    let reply = http_client.post(&headers("2027-01-01"), &stateless(call(1, "echo"), "2027-01-01")).await;
    let message = reply.message();
    assert_eq!((reply.status.as_u16(), refused(&message)), (400, (json!(1), -32022)));
    assert_eq!(message["error"]["data"], json!({ "supported": [MODERN], "requested": "2027-01-01" }));

    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "ping")];
    let reply = http_client.post(&headers, &stateless(request(2, "ping", json!({})), MODERN)).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message())), (404, (json!(2), -32601)));
    assert!(parrot.seen().is_empty());
}

#[tokio::test]
async fn session_is_known_only_to_its_own_principal() {
    let (parrot, http_client) = parrot();
    let session = http_client.session("2025-11-25").await;
    let ours = [("mcp-session-id", session.as_str())];
    let mut foreign = with(posting(), &ours);
    foreign.extensions_mut().unwrap().insert(Principal(Arc::from("mallory")));
    assert_eq!(http_client.send(foreign, call(1, "echo").to_string()).await.status, 404);
    let mut foreign = with(to("DELETE", "/mcp", "localhost"), &ours);
    foreign.extensions_mut().unwrap().insert(Principal(Arc::from("mallory")));
    assert_eq!(http_client.send(foreign, "").await.status, 404);
    assert!(parrot.seen().is_empty());
    assert_eq!(http_client.post(&ours, &call(1, "echo")).await.status, 200, "the session still exists");
}

#[tokio::test]
async fn session_id_is_required_and_a_session_has_one_stream() {
    let (_, http_client) = parrot();
    let get = |headers: &[(&str, &str)]| {
        let request = with(to("GET", "/mcp", "localhost"), headers).body(http_body_util::Full::<Bytes>::default());
        http_client.0.respond(request.unwrap())
    };
    let unknown = [("mcp-session-id", "guessed")];
    assert_eq!(get(&[]).await.status(), 405);
    assert_eq!(get(&unknown).await.status(), 404);
    assert_eq!(http_client.send(to("DELETE", "/mcp", "localhost"), "").await.status, 405);
    assert_eq!(http_client.send(with(to("DELETE", "/mcp", "localhost"), &unknown), "").await.status, 404);
    assert_eq!(http_client.post(&unknown, &call(1, "echo")).await.status, 404);
    assert_eq!(http_client.post(&[], &notification("notifications/initialized", json!({}))).await.status, 400);

    let session = http_client.session("2025-11-25").await;
    let ours = [("mcp-session-id", session.as_str())];
    let odd = [ours[0], ("mcp-protocol-version", "1999-01-01")];
    assert_eq!(get(&odd).await.status(), 400, "an unknown version");
    assert_eq!(http_client.post(&odd, &call(1, "echo")).await.status, 400);
    let stateless = [ours[0], ("mcp-protocol-version", MODERN)];
    assert_eq!(get(&stateless).await.status(), 400, "a version without sessions");
    let older = [ours[0], ("mcp-protocol-version", "2025-06-18")];
    assert_eq!(http_client.post(&older, &call(1, "echo")).await.status, 200, "another version with sessions");
    let first = get(&ours).await;
    assert_eq!(first.status(), 200);
    assert_eq!(get(&ours).await.status(), 409);
    drop(first);
    assert_eq!(get(&ours).await.status(), 200, "the stream can be opened again");
}

#[tokio::test]
async fn sessions_are_limited_and_refused_without_stateful_revisions() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let http_client =
        RawHttpClient::with(TestService::new(), DownstreamOptions { limits, ..DownstreamOptions::default() });
    let session = http_client.session("2025-11-25").await;
    let initialize = request(9, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    let mut foreign = posting();
    foreign.extensions_mut().unwrap().insert(Principal(Arc::from("mallory")));
    let reply = http_client.send(foreign, initialize.to_string()).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message())), (503, (json!(9), -32603)));
    let ours = [("mcp-session-id", session.as_str())];
    assert_eq!(
        http_client.post(&ours, &call(1, "echo")).await.status,
        200,
        "another caller's request does not close this session"
    );
    assert_eq!(http_client.post(&[], &initialize).await.status, 200);
    assert_eq!(http_client.post(&ours, &call(2, "echo")).await.status, 404, "the caller's own idle session is closed");

    let revisions = Revision::of(Era::Modern).collect();
    let http_client =
        RawHttpClient::with(TestService::new(), DownstreamOptions { revisions, ..DownstreamOptions::default() });
    let reply = http_client.post(&[], &initialize).await;
    assert_eq!((reply.status.as_u16(), refused(&reply.message())), (400, (json!(9), -32022)));
    assert_eq!(reply.message()["error"]["data"]["supported"], json!([MODERN]));
}
