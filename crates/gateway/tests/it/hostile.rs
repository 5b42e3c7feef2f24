//! Clients that send false, excessive, incomplete or malformed input; other clients are served meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use toolway_gateway::access::{Access, KeyFile};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};
use toolway_wire::{limit::Limits, seal::Sealer};

use crate::{
    raw_client::{RawClient, request, with_meta},
    test_gateway::TestGateway,
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A gateway with small limits.
struct Small {
    gateway: TestGateway,
    _keys: tempfile::TempDir,
}

/// Starts it with two clients.
async fn small(files: &FixtureServer) -> (Small, RawClient, RawClient) {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let keys = ["mallory", "bob"].map(|name| file.add(name, None, None).unwrap());
    let (access, _) = Access::with_keys(Some(file)).unwrap();
    let limits = Limits { message_bytes: 256 * 1024, sessions_per_caller: 4, sessions: 64, ..Limits::default() };
    let gateway = TestGateway::bounded(TestHost::with(files, "files"), access, limits).await;
    gateway.host.ready("files").await;
    let [mallory, bob] = keys.map(|key| gateway.raw_client("/mcp", Some(key.expose())));
    (Small { gateway, _keys: folder }, mallory, bob)
}

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("echo", "Give it back")
}

async fn is_served(bob: &RawClient) {
    let served = bob.ask("tools/call", json!({ "name": "files__echo", "arguments": { "text": "hi" } }));
    let served = within("another caller", served).await;
    assert_eq!(served["result"]["isError"], false, "{served}");
}

#[tokio::test]
async fn header_that_contradicts_the_body_is_refused() {
    let files = files();
    let (_small, mallory, bob) = small(&files).await;
    let params = with_meta(json!({ "name": "files__echo", "arguments": {} }));
    let message = request(1, "tools/call", params);
    let version = ("mcp-protocol-version", "2026-07-28");
    for headers in [
        vec![JSON, version, ("mcp-method", "tools/list"), ("mcp-name", "files__echo")],
        vec![JSON, version, ("mcp-method", "tools/call"), ("mcp-name", "files__other")],
        vec![JSON, version, ("mcp-name", "files__echo")],
        vec![JSON, version, ("mcp-method", "tools/call")],
        vec![JSON, ("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/call"), ("mcp-name", "files__echo")],
    ] {
        let refused = mallory.send("POST", &headers, message.to_string()).await;
        assert_eq!(refused.status, 400, "{headers:?}");
    }
    assert!(files.seen("tools/call").is_empty());
    is_served(&bob).await;
}

/// CVE-2026-27896, GHSA-f897-62hf-6gxq: limits and duplicate keys are checked before the content is used.
#[tokio::test]
async fn malformed_messages_are_refused_and_reach_no_server() {
    let files = files();
    let (_small, mallory, bob) = small(&files).await;
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let large = request(
        1,
        "tools/call",
        with_meta(json!({ "name": "files__echo", "arguments": { "text": "x".repeat(300_000) } })),
    );
    let twice =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"files__echo"}}"#;
    let named_twice = request(1, "tools/call", with_meta(json!({ "name": "files__echo" })))
        .to_string()
        .replace(r#""name":"files__echo""#, r#""name":"files__echo","name":"files__other""#);
    for (what, body, status) in [
        ("deep", deep.as_str(), 400),
        ("large", &large.to_string(), 413),
        ("two methods", twice, 400),
        ("two names", &named_twice, 200),
        ("half", r#"{"jsonrpc":"2.0","id":1"#, 400),
        ("nothing", "", 400),
        ("no text", "\u{0}\u{1}", 400),
        ("a batch", "[]", 400),
    ] {
        let headers =
            [JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "files__echo")];
        let refused = mallory.send("POST", &headers, body.to_owned()).await;
        assert_eq!(refused.status, status, "{what}");
        let said = refused.answer().await;
        assert!(said["error"]["code"].is_i64() && said["result"].is_null(), "{what}: {said}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        let body = request(1, "tools/list", json!({})).to_string();
        assert_eq!(mallory.send("POST", &[("content-type", kind)], body).await.status, 415, "{kind}");
    }
    assert!(files.seen("tools/call").is_empty());
    is_served(&bob).await;
}

/// CVE-2026-63128: sessions are limited per caller; a flood evicts only sessions of its author.
#[tokio::test]
async fn flood_of_sessions_evicts_only_sessions_of_its_author() {
    let files = files();
    let (small, mallory, bob) = small(&files).await;
    let bobs = bob.clone().start_session().await;
    let mut first = None;
    for _ in 0..20 {
        let session = mallory.clone().start_session().await;
        first.get_or_insert(session);
    }
    let metrics = bob.at("/metrics").get().await.text().await;
    assert!(metrics.lines().any(|line| line == "toolway_sessions 5"), "{metrics}");
    let call = request(1, "tools/call", json!({ "name": "files__echo", "arguments": {} }));
    assert_eq!(first.unwrap().post(&call).await.status, 404);
    assert_eq!(bobs.post(&call).await.status, 200);
    drop(small);
}

#[tokio::test]
async fn slow_readers_and_writers_do_not_block_others() {
    let files = files();
    let (small, mallory, bob) = small(&files).await;
    let text = "x".repeat(200_000);
    let message = request(1, "tools/call", with_meta(json!({ "name": "files__echo", "arguments": { "text": text } })));
    let key = mallory.key().to_owned();
    let head = |length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: files__echo\r\n\
             content-length: {length}\r\n\r\n",
            small.gateway.address
        )
    };
    let mut stuck = Vec::new();
    for number in 0..24 {
        let mut stream = TcpStream::connect(small.gateway.address).await.unwrap();
        let body = message.to_string();
        match number % 3 {
            // Reads no response.
            0 => stream.write_all(format!("{}{body}", head(body.len())).as_bytes()).await.unwrap(),
            // Never finishes its body.
            1 => stream.write_all(format!("{}{{", head(body.len())).as_bytes()).await.unwrap(),
            // Never finishes its headers.
            _ => stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").await.unwrap(),
        }
        stuck.push(stream);
    }
    let began = Instant::now();
    for _ in 0..10 {
        is_served(&bob).await;
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn smuggled_request_is_refused() {
    let files = files();
    let (small, mallory, bob) = small(&files).await;
    // Both length headers at once: request smuggling relies on which of them is used.
    let mut stream = TcpStream::connect(small.gateway.address).await.unwrap();
    let text = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
        small.gateway.address,
        mallory.key()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut said));
    drop(reading.await);
    let said = String::from_utf8_lossy(&said);
    assert!(!said.contains("toolway_calls_total"), "{said}");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    is_served(&bob).await;
}

#[tokio::test]
async fn names_cannot_inject_lines_or_paths() {
    let files = files();
    let (_small, mallory, bob) = small(&files).await;
    for path in [
        "/servers/..%2f..%2fmcp",
        "/servers/%66iles/mcp",
        "/servers/files%00/mcp",
        "//mcp",
        "/mcp/..",
        "/servers/files/mcp/",
    ] {
        assert_eq!(mallory.at(path).get().await.status, 404, "{path}");
    }
    for name in ["files__echo\r\n{\"jsonrpc\":\"2.0\"}", "../files__echo", "files__echo\u{0}"] {
        let message = request(1, "tools/call", with_meta(json!({ "name": name })));
        let refused: Value = mallory.post(&message).await.answer().await;
        assert!(refused["error"].is_object(), "{name:?} {refused}");
    }
    assert!(files.seen("tools/call").is_empty());
    is_served(&bob).await;
}

/// A handle can be opened after a restart, but its parked call is gone; a handle of another gateway is invalid.
#[tokio::test]
async fn handles_from_before_a_restart_and_from_other_gateways_are_refused() {
    let files = FixtureServer::new("files").tool_that("greet", "Greet", Behaviour::Greet);
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("ada", None, None).unwrap();
    let (ours, theirs) = (Arc::new(Sealer::with_random_key().unwrap()), Arc::new(Sealer::with_random_key().unwrap()));
    let start = async |sealer: &Arc<Sealer>| {
        let (access, _) = Access::with_keys(Some(file.clone())).unwrap();
        let gateway = TestGateway::sealed(TestHost::with(&files, "files"), access, Arc::clone(sealer)).await;
        gateway.host.ready("files").await;
        gateway
    };
    let (before, after, elsewhere) = (start(&ours).await, start(&ours).await, start(&theirs).await);
    let asked =
        before.raw_client("/mcp", Some(key.expose())).ask("tools/call", json!({ "name": "files__greet" })).await;
    let state = &asked["result"]["requestState"];
    assert!(state.is_string(), "{asked}");
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let retry = json!({ "name": "files__greet", "requestState": state, "inputResponses": answers });
    for (gateway, why) in
        [(&after, "the interaction has expired; call again"), (&elsewhere, "was not issued by this server")]
    {
        let refused = gateway.raw_client("/mcp", Some(key.expose())).ask("tools/call", retry.clone()).await;
        assert!(refused["error"].is_object() || refused["result"]["isError"] == true, "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert_eq!(files.seen("tools/call").len(), 1, "nothing was called again");
}

/// A hosted task ends with the gateway, and a later request for it says so.
#[tokio::test]
async fn hosted_task_is_reported_as_gone_after_a_restart() {
    let files = files();
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("ada", None, None).unwrap();
    let sealer = Arc::new(Sealer::with_random_key().unwrap());
    let start = async || {
        let (access, _) = Access::with_keys(Some(file.clone())).unwrap();
        let gateway = TestGateway::sealed(TestHost::with(&files, "files"), access, Arc::clone(&sealer)).await;
        gateway.host.ready("files").await;
        gateway
    };
    let (before, after) = (start().await, start().await);
    let session = async |gateway: &TestGateway| gateway.raw_client("/mcp", Some(key.expose())).start_session().await;
    let call = json!({ "name": "files__echo", "arguments": {}, "task": { "ttl": 60_000 } });
    let made = session(&before).await.post(&request(1, "tools/call", call)).await.answer().await;
    let id = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}"));
    let again = session(&after).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = again.post(&request(2, method, json!({ "taskId": id }))).await.answer().await;
        let why = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {refused}"));
        assert!(why.contains("the gateway restarted"), "{method}: {refused}");
    }
}
