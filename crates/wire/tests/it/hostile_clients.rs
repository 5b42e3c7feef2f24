//! Hostile requests to the HTTP downstream: each gets its status and code and never reaches the service.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderName;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use toolway_wire::{
    down::{
        Caller, DownstreamOptions, Profile, Service, ServiceSubscription,
        http::{HttpDownstream, HttpDownstreamOptions, HttpSsePaths, Principal, Responder},
    },
    exchange::{Exchange, Request},
    header::ParamHeader,
    limit::Limits,
    notice::SubscriptionFilter,
};

use crate::{
    raw_clients::{call, notification, request, stateless},
    socket_clients::{OpenResponse, SocketServer},
    test_service::TestService,
};

const MODERN: &str = "2026-07-28";
const HEADERS: [(&str, &str); 4] =
    [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "echo"), ("mcp-param-city", "Riga")];

/// A service whose tool requires one argument in a header.
struct Annotated(Arc<TestService>);

impl Service for Annotated {
    fn profile(&self, caller: &Caller) -> Profile {
        self.0.profile(caller)
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        self.0.open(request, caller)
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        self.0.listen(wanted, caller)
    }

    fn param_headers(&self, tool: &str, _caller: &Caller) -> Vec<ParamHeader> {
        let name = HeaderName::from_static("mcp-param-city");
        let city = ParamHeader { name, path: vec!["city".to_owned()], integer: false };
        if tool == "echo" { vec![city] } else { Vec::new() }
    }
}

async fn served() -> (Arc<TestService>, SocketServer) {
    let parrot = TestService::new();
    let limits = Limits { message_bytes: 4_000, depth: 20, ..Limits::default() };
    let downstream = DownstreamOptions { limits, ..DownstreamOptions::default() };
    let paths = HttpSsePaths { stream: "/sse".to_owned(), messages: "/messages".to_owned() };
    let options = HttpDownstreamOptions { downstream, http_sse: Some(paths), ..HttpDownstreamOptions::default() };
    (Arc::clone(&parrot), SocketServer::start(Arc::new(Annotated(parrot)), options).await)
}

fn good() -> String {
    let mut message = stateless(call(1, "echo"), MODERN);
    message["params"]["arguments"] = json!({ "city": "Riga" });
    message.to_string()
}

/// The default headers, with some changed or omitted.
fn headers<'a>(changed: &[(&'a str, Option<&'a str>)]) -> Vec<(&'a str, &'a str)> {
    let kept = HEADERS.into_iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    kept.chain(changed.iter().filter_map(|(name, value)| Some((*name, (*value)?)))).collect()
}

async fn outcome(reply: OpenResponse) -> (u16, Option<i64>) {
    let status = reply.status;
    let json = reply.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let code = if json { reply.whole().await["error"]["code"].as_i64() } else { None };
    (status, code)
}

#[tokio::test]
async fn invalid_bodies_and_headers_are_refused_with_status_and_code() {
    let (parrot, served) = served().await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let with = |from: &str, to: &str| good().replacen(from, to, 1);
    let bodies = [
        ("a key twice", with(r#""id":1"#, r#""id":1,"id":2"#), 400, -32600),
        ("an argument twice", with(r#""city":"Riga""#, r#""city":"Riga","city":"Oslo""#), 200, -32602),
        ("nested too deep", with(r#""Riga""#, &deep), 400, -32700),
        ("too large", with("Riga", &"x".repeat(5_000)), 413, -32600),
        ("no JSON", "{\"jsonrpc\":".to_owned(), 400, -32700),
        ("no UTF-8 escape", with("Riga", "\\ud800"), 400, -32020),
        ("a batch", format!("[{}]", good()), 400, -32600),
        ("a response", json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string(), 400, -32600),
        ("a number", "7".to_owned(), 400, -32600),
        ("another city", with("Riga", "Oslo"), 400, -32020),
        ("another tool", with("\"echo\"", "\"wait\""), 400, -32020),
        ("another method", with("tools/call", "tools/list"), 400, -32020),
        ("another revision", with(MODERN, "2025-11-25"), 400, -32020),
    ];
    for (name, body, status, code) in bodies {
        let outcome = outcome(served.send("POST", &HEADERS, body).await).await;
        assert_eq!(outcome, (status, Some(code)), "{name}");
    }
    let odd = [
        ("no revision", vec![("mcp-protocol-version", None)]),
        ("no method", vec![("mcp-method", None)]),
        ("no name", vec![("mcp-name", None)]),
        ("no city", vec![("mcp-param-city", None)]),
        ("bad base64", vec![("mcp-name", Some("=?base64?%%?="))]),
        ("another case", vec![("mcp-method", Some("Tools/Call"))]),
        ("two names", vec![("mcp-name", Some("echo")), ("mcp-name", Some("wait"))]),
        ("two cities", vec![("mcp-param-city", Some("Riga")), ("mcp-param-city", Some("Oslo"))]),
        ("two revisions", vec![("mcp-protocol-version", Some(MODERN)), ("mcp-protocol-version", Some("2025-11-25"))]),
    ];
    for (name, changed) in odd {
        let outcome = outcome(served.send("POST", &headers(&changed), good()).await).await;
        assert_eq!(outcome, (400, Some(-32020)), "{name}");
    }
    assert!(parrot.seen().is_empty(), "{:?}", parrot.seen());
    assert_eq!(outcome(served.send("POST", &HEADERS, good()).await).await, (200, None));
    let encoded = headers(&[("mcp-name", Some("=?base64?ZWNobw==?="))]);
    assert_eq!(outcome(served.send("POST", &encoded, good()).await).await, (200, None));
}

#[tokio::test]
async fn unsupported_methods_types_and_origins_are_refused() {
    let (parrot, mut served) = served().await;
    let refused = [
        ("POST", vec![("content-type", "text/plain")], 415),
        ("POST", vec![("content-type", "application/x-www-form-urlencoded")], 415),
        ("POST", vec![("content-type", "")], 415),
        ("POST", vec![("accept", "text/html")], 406),
        ("GET", vec![("accept", "application/json")], 406),
        ("GET", vec![], 405),
        ("DELETE", vec![], 405),
        ("PUT", vec![], 405),
        ("OPTIONS", vec![], 405),
        ("GET", vec![("mcp-protocol-version", MODERN)], 405),
        ("POST", vec![("origin", "https://evil.example")], 403),
        ("POST", vec![("origin", "null")], 403),
        ("GET", vec![("origin", "https://evil.example")], 403),
    ];
    for (method, extra, status) in refused {
        let all: Vec<_> = HEADERS.into_iter().filter(|_| method == "POST").chain(extra.clone()).collect();
        let reply = served.send(method, &all, good()).await;
        assert_eq!(reply.status, status, "{method} {extra:?}");
        assert_eq!(reply.headers.contains_key("allow"), status == 405, "{method} {extra:?}");
    }
    for accept in ["*/*", "application/json, text/event-stream", "application/*;q=0.5", "TEXT/EVENT-STREAM"] {
        let all: Vec<_> = HEADERS.into_iter().chain([("accept", accept)]).collect();
        assert_eq!(served.send("POST", &all, good()).await.status, 200, "{accept}");
    }
    let count = parrot.seen().len();
    assert_eq!(count, 4);

    served.begin().await;
    let session = served.session.clone().unwrap();
    let twice = [("mcp-session-id", session.as_str()), ("mcp-session-id", "other")];
    assert_eq!(served.send("POST", &twice, call(1, "echo").to_string()).await.status, 400);
    assert_eq!(parrot.seen().len(), count);
}

#[tokio::test]
async fn http_sse_clients_have_a_stream_and_a_post_path() {
    let (parrot, served) = served().await;
    let mut stream = served.send_to("/sse", "GET", &[("accept", "text/event-stream")], "").await;
    assert_eq!((stream.status, stream.headers["content-type"].as_bytes()), (200, &b"text/event-stream"[..]));
    let endpoint = stream.event().await.unwrap();
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let endpoint = String::from_utf8(endpoint.data.to_vec()).unwrap();
    assert!(endpoint.starts_with("/messages?session="), "{endpoint}");
    let post = async |message: Value| served.send_to(&endpoint, "POST", &[], message.to_string()).await.status;

    assert_eq!(post(call(9, "echo")).await, 202);
    assert_eq!(stream.message().await.unwrap()["error"]["code"], -32600, "no session yet");
    let capabilities = json!({ "sampling": {}, "elicitation": {} });
    let params = json!({ "protocolVersion": "2024-11-05", "capabilities": capabilities });
    assert_eq!(post(request(0, "initialize", params)).await, 202);
    assert_eq!(stream.message().await.unwrap()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(post(notification("notifications/initialized", json!({}))).await, 202);
    assert_eq!(post(call(1, "count")).await, 202);
    let mut received = Vec::new();
    while received.last().is_none_or(|last: &Value| last["id"] != 1) {
        received.push(stream.message().await.unwrap());
    }
    assert_eq!(received.len(), 4, "three logs and the answer: {received:?}");
    assert_eq!(post(call(2, "change")).await, 202);
    let notices = [stream.message().await.unwrap(), stream.message().await.unwrap()];
    assert!(notices.iter().any(|one| one["method"] == "notifications/tools/list_changed"), "{notices:?}");
    assert_eq!(post(request(3, "ping", json!({}))).await, 202);
    assert_eq!(stream.message().await.unwrap()["result"], json!({}));

    assert_eq!(served.send_to(&endpoint, "POST", &[("content-type", "text/plain")], "{}").await.status, 415);
    assert_eq!(served.send_to(&endpoint, "POST", &[], "{").await.status, 400);
    assert_eq!(served.send_to("/messages?session=guessed", "POST", &[], good()).await.status, 404);
    assert_eq!(served.send_to("/messages", "POST", &[], good()).await.status, 404);
    assert_eq!(served.send_to("/sse", "DELETE", &[], "").await.status, 405);
    assert_eq!(served.send_to("/sse", "GET", &[("accept", "text/html")], "").await.status, 406);
    assert_eq!(served.send_to("/sse", "GET", &[("origin", "null")], "").await.status, 403);

    // The stream is the session: active requests end with it.
    assert_eq!(post(call(4, "wait")).await, 202);
    while parrot.seen().len() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(stream);
    while parrot.cancelled() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(post(call(5, "echo")).await, 404);
}

#[tokio::test]
async fn http_sse_is_disabled_by_default() {
    let served = SocketServer::start(TestService::new(), HttpDownstreamOptions::default()).await;
    assert_eq!(served.send_to("/sse", "GET", &[], "").await.status, 404);
}

/// CVE-2026-52869: the id of a stream is not sufficient to use it.
#[tokio::test]
async fn http_sse_stream_belongs_to_its_principal() {
    let paths = HttpSsePaths { stream: "/sse".to_owned(), messages: "/messages".to_owned() };
    let limits = Limits { sessions_per_caller: 1, ..Limits::default() };
    let downstream = DownstreamOptions { limits, ..DownstreamOptions::default() };
    let options = HttpDownstreamOptions { downstream, http_sse: Some(paths), ..HttpDownstreamOptions::default() };
    let downstream = HttpDownstream::new(TestService::new(), options).unwrap();
    let by = |who: &str, method: &str, path: &str, body: &str| {
        let request = http::Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").extension(Principal(Arc::from(who)));
        downstream.respond(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap())
    };
    let mut stream = by("ada", "GET", "/sse", "").await.into_body();
    let first = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    let text = String::from_utf8(first.to_vec()).unwrap();
    let endpoint = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    let initialize = request(0, "initialize", json!({ "protocolVersion": "2024-11-05" })).to_string();
    assert_eq!(by("mallory", "POST", &endpoint, &initialize).await.status(), 404);
    assert_eq!(by("ada", "POST", &endpoint, &initialize).await.status(), 202);
    assert_eq!(by("ada", "GET", "/sse", "").await.status(), 503, "one each");
    assert_eq!(by("mallory", "GET", "/sse", "").await.status(), 200);
    Responder::drain(&*downstream);
    while let Some(frame) = stream.frame().await {
        assert!(frame.is_ok(), "the stream ends in good order when drained");
    }
}

#[tokio::test]
async fn http_sse_sessions_share_the_limits_and_end_with_their_principal() {
    let paths = HttpSsePaths { stream: "/sse".to_owned(), messages: "/messages".to_owned() };
    let limits = Limits { sessions_per_caller: 1, ..Limits::default() };
    let downstream = DownstreamOptions { limits, ..DownstreamOptions::default() };
    let options = HttpDownstreamOptions { downstream, http_sse: Some(paths), ..HttpDownstreamOptions::default() };
    let downstream = HttpDownstream::new(TestService::new(), options).unwrap();
    let by = |who: &str, method: &str, path: &str, body: &str| {
        let request = http::Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").header("accept", "*/*");
        let request = request.extension(Principal(Arc::from(who)));
        downstream.respond(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap())
    };
    let initialize = request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).to_string();
    let mut stream = by("ada", "GET", "/sse", "").await.into_body();
    assert_eq!(by("ada", "POST", "/mcp", &initialize).await.status(), 503, "one each, over any transport");
    assert_eq!(by("ben", "POST", "/mcp", &initialize).await.status(), 200);
    assert_eq!(downstream.session_count(), 2);
    downstream.expel("ada");
    while let Some(frame) = stream.frame().await {
        assert!(frame.is_ok(), "the stream ends in good order with its principal");
    }
    assert_eq!(downstream.session_count(), 1);
    // An idle session makes room for the stream.
    assert_eq!(by("ada", "POST", "/mcp", &initialize).await.status(), 200);
    let again = by("ada", "GET", "/sse", "").await;
    assert_eq!((again.status().as_u16(), downstream.session_count()), (200, 2));
}
