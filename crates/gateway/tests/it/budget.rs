//! Clients and servers that make the gateway keep as much as possible: it stays within its byte budget, and other clients
//! are served.

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
};
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Feed, Outcome, Request},
    json::Raw,
    limit::{CONNECTIONS_WITHOUT_KEY, Limits},
    notice::SubscriptionFilter,
    up::EraChoice,
};

use crate::{
    raw_client::{RawClient, request},
    test_gateway::TestGateway,
};

/// Byte budget of the gateway; a client and a server get half of it each.
const BUDGET: usize = 16 * 1024 * 1024;
/// Progress token that makes the first message a progress notification.
const TOKEN: &str = "t";

/// A gateway with a byte budget, and its clients.
struct Limited {
    gateway: TestGateway,
    memory: MemoryBudget,
    mallory: RawClient,
    bob: RawClient,
    _keys: tempfile::TempDir,
}

/// A server whose only tool sends `logs` log messages and then a result, each of `size` bytes.
#[derive(Debug)]
struct Flood;

impl Service for Flood {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = Raw::of(&json!({ "name": "flood", "version": "1" }));
        Profile { info, capabilities: Raw::of(&json!({ "tools": {}, "logging": {} })), instructions: None }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 1_000);
        if request.method() == "tools/list" {
            let tool = json!({ "name": "flood", "inputSchema": { "type": "object" } });
            feed.end(Outcome::Answered(Raw::of(&json!({ "tools": [tool] }))));
            return exchange;
        }
        let arguments = request.param("arguments").unwrap_or_else(Raw::empty_object);
        let number = |key: &str| arguments.get(key).and_then(|value| value.as_u64()).unwrap_or_default() as usize;
        flood(&feed, number("logs"), &"x".repeat(number("size")));
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let notices = mpsc::channel(1).1;
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}

fn flood(feed: &Feed, logs: usize, text: &str) {
    feed.progress(Raw::of(&json!({ "progress": 1 })));
    (0..logs).for_each(|number| feed.log(Raw::of(&json!({ "level": "error", "data": format!("{number} {text}") }))));
    let content = json!([{ "type": "text", "text": text }]);
    feed.end(Outcome::Answered(Raw::of(&json!({ "content": content, "isError": false }))));
}

impl Limited {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["mallory", "bob"].map(|name| file.add(name, None, None).unwrap());
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let memory = MemoryBudget::new(BUDGET);
        let limits = Limits { memory: memory.clone(), ..Limits::default() };
        let flood = WantedServer::new(name("flood"), Way::InProcess(Arc::new(Flood)));
        let files = FixtureServer::new("files").tool("echo", "Give it back");
        let mut builder = TestHost::with(&files, "files").wanted(WantedServer { era: EraChoice::Legacy, ..flood });
        builder.options.limits = limits.clone();
        let gateway = TestGateway::bounded(builder, access, limits).await;
        gateway.host.ready("files").await;
        gateway.host.ready("flood").await;
        let [mallory, bob] = keys.map(|key| gateway.raw_client("/mcp", Some(key.expose())));
        Self { gateway, memory, mallory, bob, _keys: folder }
    }

    /// Asserts that the budget holds and another client is served.
    async fn holds(&self) {
        assert!(self.memory.peak() <= BUDGET, "{:?}", self.memory);
        let echo = json!({ "name": "files__echo", "arguments": { "text": "hi" } });
        let served = within("another client", self.bob.ask("tools/call", echo)).await;
        assert_eq!(served["result"]["isError"], false, "{served}");
    }

    /// Posts in a session on a connection whose client reads only the beginning of the response.
    async fn post_and_read_nothing(&self, session: &RawClient, message: &Value) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(self.gateway.address).await.unwrap();
        let (body, address) = (message.to_string(), self.gateway.address);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nmcp-session-id: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            session.key(),
            session.session(),
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 16]).await.unwrap();
        stream
    }

    /// Waits until a charge was refused.
    async fn exhausted(&self) {
        self.until("an exhausted budget", |memory| 0 < memory.refused()).await;
    }

    /// Waits until nothing in transit is charged any more. What is listed, and open sessions, stay.
    async fn released(&self) {
        self.until("a released budget", |memory| memory.used_by(Kept::Transit) == 0).await;
    }

    async fn until(&self, what: &str, holds: impl Fn(&MemoryBudget) -> bool) {
        let waiting = async {
            while !holds(&self.memory) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(what, waiting).await;
    }
}

fn call(id: u64, logs: usize, size: usize) -> Value {
    let arguments = json!({ "logs": logs, "size": size });
    let meta = json!({ "progressToken": TOKEN });
    request(id, "tools/call", json!({ "name": "flood__flood", "arguments": arguments, "_meta": meta }))
}

#[tokio::test]
async fn unfinished_bodies_stay_within_the_share_of_their_client() {
    let limited = Limited::start().await;
    let (address, key) = (limited.gateway.address, limited.mallory.key());
    let unfinished = |_| async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: 2000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The gateway may refuse it meanwhile.
        drop(stream.write_all(&vec![b' '; 1_500_000]).await);
        stream
    };
    let open = within("all bodies", join_all((0..30).map(unfinished))).await;
    limited.exhausted().await;
    assert!(limited.memory.used_by(Kept::Transit) <= BUDGET / 2, "{:?}", limited.memory);
    limited.holds().await;
    drop(open);
    limited.released().await;
}

#[tokio::test]
async fn unread_streams_of_many_sessions_stay_within_the_budget() {
    let limited = Limited::start().await;
    let mut unread = Vec::new();
    for _ in 0..15 {
        let session = limited.mallory.clone().start_session().await;
        unread.push(within("a stream", limited.post_and_read_nothing(&session, &call(1, 0, 5_000_000))).await);
    }
    limited.exhausted().await;
    limited.holds().await;
}

#[tokio::test]
async fn unread_logs_of_one_call_make_room_for_its_result() {
    let limited = Limited::start().await;
    let session = limited.mallory.clone().start_session().await;
    let mut stream = session.post(&call(1, 150, 200_000)).await;
    limited.exhausted().await;
    limited.holds().await;
    let mut last = Value::Null;
    while let Some(message) = stream.message().await {
        last = message;
    }
    assert_eq!(last["result"]["isError"], false, "{:.100}", last.to_string());
}

#[tokio::test]
async fn result_that_does_not_fit_is_replaced_by_an_error() {
    let limited = Limited::start().await;
    let session = limited.mallory.clone().start_session().await;
    let answer = session.post(&call(1, 0, BUDGET)).await.answer().await;
    assert!(answer["result"]["isError"] == true || answer["error"]["code"].is_i64(), "{:.100}", answer.to_string());
    limited.holds().await;
    // A short finished stream is kept for a while.
    limited.until("a released budget", |memory| memory.used_by(Kept::Transit) < 64 * 1024).await;
}

#[tokio::test]
async fn silent_connections_without_a_key_shut_no_client_out() {
    let limited = Limited::start().await;
    let address = limited.gateway.address;
    let mut silent = Vec::new();
    for _ in 0..4 * CONNECTIONS_WITHOUT_KEY {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    limited.holds().await;
    let closed = 3 * CONNECTIONS_WITHOUT_KEY;
    for stream in &mut silent[..closed] {
        let read = within("the end of a silent connection", stream.read(&mut [0])).await;
        assert!(read.is_err() || read.is_ok_and(|read| read == 0));
    }
}

#[tokio::test]
async fn connections_of_one_client_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("mallory", None, None).unwrap();
    let (access, _) = Access::with_keys(Some(file)).unwrap();
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let limits = Limits { connections: 3, ..Limits::default() };
    let gateway = TestGateway::bounded(TestHost::with(&files, "files"), access, limits).await;
    let status = || async {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let head = format!(
            "GET /servers HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            gateway.address,
            key.expose()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        (String::from_utf8(line.to_vec()).unwrap(), stream)
    };
    let mut open = Vec::new();
    for _ in 0..3 {
        let (line, stream) = within("a response", status()).await;
        assert_eq!(line, "HTTP/1.1 200");
        open.push(stream);
    }
    assert_eq!(within("a response", status()).await.0, "HTTP/1.1 429");
    drop(open);
    let free = async { while status().await.0 != "HTTP/1.1 200" {} };
    within("a free connection", free).await;
}
