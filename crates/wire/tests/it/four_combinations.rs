//! One exchange, two accents on each side: the same story through all four combinations, in memory.
//!
//! A client calls a tool, hears of its progress, is asked its name in the middle of the call, answers, and gets the
//! result; then it makes another call and gives it up. Clients and servers are written here as the literal messages
//! they put on the wire, one pair per era. Between them stands the shortest possible relay: a service whose `open`
//! is `Peer::open` (`relay.rs`). That nothing in it names an era is the point of the whole design.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{self, DownstreamOptions},
    error::WireError,
    exchange::{Answer, ServerRequestHandler, ServerRequestDetails},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::Revision,
    up::{
        ConnectOptions, Peer,
        stdio::{StreamOpener, StdioTransport, ServerStreams},
    },
};

use crate::relay::Relay;

#[tokio::test]
async fn a_legacy_client_reaches_a_legacy_server() {
    story(LegacyClient, LegacyServer).await;
}

#[tokio::test]
async fn a_legacy_client_reaches_a_modern_server() {
    story(LegacyClient, ModernServer).await;
}

#[tokio::test]
async fn a_modern_client_reaches_a_legacy_server() {
    story(ModernClient, LegacyServer).await;
}

#[tokio::test]
async fn a_modern_client_reaches_a_modern_server() {
    story(ModernClient, ModernServer).await;
}

/// The story, told once.
async fn story(client: impl Client, server: impl Server) {
    let (mut at_client, mut at_server, revision) = relay(&server).await;
    assert_eq!(revision, server.revision());

    client.says_hello(&mut at_client).await;

    let call = client.calls(&mut at_client, 11, "greet").await;
    let asked = server.is_called(&mut at_server, "greet").await;
    server.reports_progress(&mut at_server, &asked).await;
    assert_eq!(client.hears_progress(&mut at_client).await, json!({ "progress": 1, "total": 2 }));

    let question = server.asks_for_a_name(&mut at_server, &asked).await;
    let ask = client.is_asked(&mut at_client, &call).await;
    assert_eq!(ask["params"]["message"], "Who are you?");
    let retry = client.answers(&mut at_client, &call, &ask, "Ada").await;
    let (name, asked) = server.learns(&mut at_server, &asked, &question).await;
    assert_eq!(name, "Ada");

    server.says(&mut at_server, &asked, "hello Ada").await;
    assert_eq!(client.gets_text(&mut at_client, &retry).await, "hello Ada");

    let call = client.calls(&mut at_client, 12, "sleep").await;
    let asked = server.is_called(&mut at_server, "sleep").await;
    client.gives_up(&mut at_client, &call).await;
    server.hears_that_it_is_off(&mut at_server, &asked).await;
}

/// A client of one era, by its messages.
trait Client {
    async fn says_hello(&self, wire: &mut Wire);
    async fn calls(&self, wire: &mut Wire, id: u64, tool: &str) -> Value;
    async fn is_asked(&self, wire: &mut Wire, call: &Value) -> Value;
    async fn answers(&self, wire: &mut Wire, call: &Value, ask: &Value, name: &str) -> Value;

    async fn hears_progress(&self, wire: &mut Wire) -> Value {
        let mut params = wire.hears("notifications/progress").await["params"].take();
        assert_eq!(params.as_object_mut().unwrap().remove("progressToken"), Some(json!("mine")), "its own token");
        params
    }

    async fn gets_text(&self, wire: &mut Wire, call: &Value) -> String {
        let reply = wire.next().await;
        assert_eq!(reply["id"], call["id"]);
        reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {reply}")).to_owned()
    }

    async fn gives_up(&self, wire: &mut Wire, call: &Value) {
        wire.says(json!({ "method": "notifications/cancelled", "params": { "requestId": call["id"] } })).await;
    }
}

/// A server of one era, by its messages.
trait Server {
    fn revision(&self) -> Revision;
    async fn is_greeted(&self, wire: &mut Wire);
    async fn asks_for_a_name(&self, wire: &mut Wire, call: &Value) -> Value;
    async fn learns(&self, wire: &mut Wire, call: &Value, question: &Value) -> (String, Value);
    fn result(&self, text: &str) -> Value;

    async fn is_called(&self, wire: &mut Wire, tool: &str) -> Value {
        let call = wire.hears("tools/call").await;
        assert_eq!(call["params"]["name"], tool);
        assert_eq!(call["params"]["arguments"], json!({ "big": 7 }));
        call
    }

    async fn reports_progress(&self, wire: &mut Wire, call: &Value) {
        let token = &call["params"]["_meta"]["progressToken"];
        wire.says(json!({
            "method": "notifications/progress",
            "params": { "progressToken": token, "progress": 1, "total": 2 }
        }))
        .await;
    }

    async fn says(&self, wire: &mut Wire, call: &Value, text: &str) {
        wire.says(json!({ "id": call["id"], "result": self.result(text) })).await;
    }

    async fn hears_that_it_is_off(&self, wire: &mut Wire, call: &Value) {
        assert_eq!(wire.hears("notifications/cancelled").await["params"]["requestId"], call["id"]);
    }
}

struct LegacyClient;

impl Client for LegacyClient {
    async fn says_hello(&self, wire: &mut Wire) {
        wire.says(json!({ "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "old", "version": "1" } } }))
            .await;
        assert_eq!(wire.next().await["result"]["protocolVersion"], "2025-11-25");
        wire.says(json!({ "method": "notifications/initialized" })).await;
    }

    async fn calls(&self, wire: &mut Wire, id: u64, tool: &str) -> Value {
        wire.says(json!({ "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": { "big": 7 }, "_meta": { "progressToken": "mine" } } }))
            .await
    }

    /// The question is a request on its own stream, while its call is open …
    async fn is_asked(&self, wire: &mut Wire, _call: &Value) -> Value {
        wire.hears("elicitation/create").await
    }

    /// … and the answer is a response.
    async fn answers(&self, wire: &mut Wire, call: &Value, ask: &Value, name: &str) -> Value {
        wire.says(json!({ "id": ask["id"], "result": { "action": "accept", "content": { "name": name } } })).await;
        call.clone()
    }
}

struct ModernClient;

impl ModernClient {
    fn meta() -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            "progressToken": "mine",
        })
    }
}

impl Client for ModernClient {
    async fn says_hello(&self, _wire: &mut Wire) {}

    async fn calls(&self, wire: &mut Wire, id: u64, tool: &str) -> Value {
        wire.says(json!({ "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": { "big": 7 }, "_meta": Self::meta() } }))
            .await
    }

    /// The question ends its request …
    async fn is_asked(&self, wire: &mut Wire, call: &Value) -> Value {
        let mut reply = wire.next().await;
        assert_eq!((&reply["id"], &reply["result"]["resultType"]), (&call["id"], &json!("input_required")));
        let (key, mut ask) = {
            let requests = reply["result"]["inputRequests"].as_object().unwrap();
            let (key, ask) = requests.iter().next().unwrap();
            (key.clone(), ask.clone())
        };
        ask["key"] = json!(key);
        ask["state"] = reply["result"]["requestState"].take();
        ask
    }

    /// … and the answer comes with the next one.
    async fn answers(&self, wire: &mut Wire, call: &Value, ask: &Value, name: &str) -> Value {
        let mut retry = call.clone();
        retry["id"] = json!("a retry");
        retry["params"]["requestState"] = ask["state"].clone();
        let key = ask["key"].as_str().unwrap();
        retry["params"]["inputResponses"] = json!({ key: { "action": "accept", "content": { "name": name } } });
        wire.says(retry).await
    }
}

struct LegacyServer;

impl Server for LegacyServer {
    fn revision(&self) -> Revision {
        Revision::V2025_11_25
    }

    async fn is_greeted(&self, wire: &mut Wire) {
        let probe = wire.hears("server/discover").await;
        wire.says(json!({ "id": probe["id"], "error": { "code": -32601, "message": "unknown" } })).await;
        let hello = wire.hears("initialize").await;
        wire.says(json!({ "id": hello["id"], "result": { "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} }, "serverInfo": { "name": "old", "version": "1" } } }))
            .await;
        wire.hears("notifications/initialized").await;
    }

    async fn asks_for_a_name(&self, wire: &mut Wire, _call: &Value) -> Value {
        wire.says(json!({ "id": "q", "method": "elicitation/create", "params": {
            "message": "Who are you?", "requestedSchema": { "type": "object" } } }))
            .await
    }

    async fn learns(&self, wire: &mut Wire, call: &Value, question: &Value) -> (String, Value) {
        let reply = wire.next().await;
        assert_eq!(reply["id"], question["id"]);
        (reply["result"]["content"]["name"].as_str().unwrap().to_owned(), call.clone())
    }

    fn result(&self, text: &str) -> Value {
        json!({ "content": [{ "type": "text", "text": text }] })
    }
}

struct ModernServer;

impl Server for ModernServer {
    fn revision(&self) -> Revision {
        Revision::V2026_07_28
    }

    async fn is_greeted(&self, wire: &mut Wire) {
        let probe = wire.hears("server/discover").await;
        wire.says(json!({ "id": probe["id"], "result": { "resultType": "complete",
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" } }))
        .await;
    }

    async fn asks_for_a_name(&self, wire: &mut Wire, call: &Value) -> Value {
        wire.says(json!({ "id": call["id"], "result": { "resultType": "input_required", "requestState": "s\u{1f511}",
            "inputRequests": { "name": { "method": "elicitation/create", "params": {
                "message": "Who are you?", "requestedSchema": { "type": "object" } } } } } }))
            .await
    }

    async fn learns(&self, wire: &mut Wire, call: &Value, _question: &Value) -> (String, Value) {
        let retry = wire.hears("tools/call").await;
        assert_ne!(retry["id"], call["id"]);
        assert_eq!(retry["params"]["requestState"], "s\u{1f511}");
        (retry["params"]["inputResponses"]["name"]["content"]["name"].as_str().unwrap().to_owned(), retry)
    }

    fn result(&self, text: &str) -> Value {
        json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
    }
}

/// One end of a line-framed wire.
struct Wire {
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Wire {
    fn new(stream: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read: BufReader::new(read).lines(), write }
    }

    async fn says(&mut self, mut message: Value) -> Value {
        message["jsonrpc"] = json!("2.0");
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        message
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(std::time::Duration::from_secs(10), self.read.next_line());
        serde_json::from_str(&line.await.expect("in time").unwrap().expect("a line")).unwrap()
    }

    async fn hears(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }
}

/// Puts the relay between a client's wire and a server's wire.
async fn relay(server: &impl Server) -> (Wire, Wire, Revision) {
    let (server_end, our_end) = tokio::io::duplex(64 * 1024);
    let mut at_server = Wire::new(server_end);
    let transport = StdioTransport::new(Arc::new(Once(Mutex::new(Some(our_end)))), Limits::default());
    let options = ConnectOptions { asks: Some(Arc::new(CanBeAsked)), ..ConnectOptions::default() };
    let (peer, ()) = tokio::join!(Peer::connect(Arc::new(transport), options), server.is_greeted(&mut at_server));
    let peer = peer.unwrap();
    let revision = peer.profile().revision;

    let (client_end, our_end) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(our_end);
    let downstream = down::stdio::serve(read, write, Arc::new(Relay(peer)), DownstreamOptions::default(), CancellationToken::new());
    tokio::runtime::Handle::current().spawn(downstream);
    (Wire::new(client_end), at_server, revision)
}

/// Streams that can be opened once.
#[derive(Debug)]
struct Once(Mutex<Option<DuplexStream>>);

impl StreamOpener for Once {
    fn target(&self) -> String {
        "a scripted server".to_owned()
    }

    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>> {
        let (read, write) = tokio::io::split(self.0.lock().take().expect("opened once"));
        Box::pin(async move { Ok(ServerStreams { read: Box::new(read), write: Box::new(write), process: None }) })
    }
}

/// CapabilityScope that questions can be put; they are answered through the exchange.
struct CanBeAsked;

impl ServerRequestHandler for CanBeAsked {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": {} })))
    }

    fn answer(&self, _question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Unavailable })
    }
}
