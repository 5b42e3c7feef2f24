//! The same scenario through all four combinations of client and server era, in memory.
//!
//! A client calls a tool, receives progress, answers a server request for its name and gets the result; then it makes
//! another call and cancels it. Clients and servers are literal messages, one pair per era. Between them is the shortest
//! possible relay: a service whose `open` is `Peer::open` (`relay.rs`). It names no era, as the design requires.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{self, DownstreamOptions},
    error::WireError,
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::Revision,
    up::{
        ConnectOptions, Peer,
        stdio::{ServerStreams, StdioTransport, StreamOpener},
    },
};

use crate::relay::Relay;

#[tokio::test]
async fn a_legacy_client_reaches_a_legacy_server() {
    run_scenario(LegacyClient, LegacyServer).await;
}

#[tokio::test]
async fn a_legacy_client_reaches_a_modern_server() {
    run_scenario(LegacyClient, ModernServer).await;
}

#[tokio::test]
async fn a_modern_client_reaches_a_legacy_server() {
    run_scenario(ModernClient, LegacyServer).await;
}

#[tokio::test]
async fn a_modern_client_reaches_a_modern_server() {
    run_scenario(ModernClient, ModernServer).await;
}

/// The scenario.
async fn run_scenario(client: impl Client, server: impl Server) {
    let (mut at_client, mut at_server, revision) = relay(&server).await;
    assert_eq!(revision, server.revision());

    client.initialize(&mut at_client).await;

    let call = client.call(&mut at_client, 11, "greet").await;
    let asked = server.receive_call(&mut at_server, "greet").await;
    server.send_progress(&mut at_server, &asked).await;
    assert_eq!(client.receive_progress(&mut at_client).await, json!({ "progress": 1, "total": 2 }));

    let question = server.request_name(&mut at_server, &asked).await;
    let ask = client.receive_server_request(&mut at_client, &call).await;
    assert_eq!(ask["params"]["message"], "Who are you?");
    let retry = client.answer(&mut at_client, &call, &ask, "Ada").await;
    let (name, asked) = server.receive_name(&mut at_server, &asked, &question).await;
    assert_eq!(name, "Ada");

    server.send_result(&mut at_server, &asked, "hello Ada").await;
    assert_eq!(client.receive_text(&mut at_client, &retry).await, "hello Ada");

    let call = client.call(&mut at_client, 12, "sleep").await;
    let asked = server.receive_call(&mut at_server, "sleep").await;
    client.cancel(&mut at_client, &call).await;
    server.receive_cancellation(&mut at_server, &asked).await;
}

/// Messages of a client of one era.
trait Client {
    async fn initialize(&self, wire: &mut Wire);
    async fn call(&self, wire: &mut Wire, id: u64, tool: &str) -> Value;
    async fn receive_server_request(&self, wire: &mut Wire, call: &Value) -> Value;
    async fn answer(&self, wire: &mut Wire, call: &Value, ask: &Value, name: &str) -> Value;

    async fn receive_progress(&self, wire: &mut Wire) -> Value {
        let mut params = wire.receive("notifications/progress").await["params"].take();
        assert_eq!(params.as_object_mut().unwrap().remove("progressToken"), Some(json!("mine")), "its own token");
        params
    }

    async fn receive_text(&self, wire: &mut Wire, call: &Value) -> String {
        let reply = wire.next().await;
        assert_eq!(reply["id"], call["id"]);
        reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {reply}")).to_owned()
    }

    async fn cancel(&self, wire: &mut Wire, call: &Value) {
        wire.send(json!({ "method": "notifications/cancelled", "params": { "requestId": call["id"] } })).await;
    }
}

/// Messages of a server of one era.
trait Server {
    fn revision(&self) -> Revision;
    async fn answer_handshake(&self, wire: &mut Wire);
    async fn request_name(&self, wire: &mut Wire, call: &Value) -> Value;
    async fn receive_name(&self, wire: &mut Wire, call: &Value, question: &Value) -> (String, Value);
    fn result(&self, text: &str) -> Value;

    async fn receive_call(&self, wire: &mut Wire, tool: &str) -> Value {
        let call = wire.receive("tools/call").await;
        assert_eq!(call["params"]["name"], tool);
        assert_eq!(call["params"]["arguments"], json!({ "big": 7 }));
        call
    }

    async fn send_progress(&self, wire: &mut Wire, call: &Value) {
        let token = &call["params"]["_meta"]["progressToken"];
        wire.send(json!({
            "method": "notifications/progress",
            "params": { "progressToken": token, "progress": 1, "total": 2 }
        }))
        .await;
    }

    async fn send_result(&self, wire: &mut Wire, call: &Value, text: &str) {
        wire.send(json!({ "id": call["id"], "result": self.result(text) })).await;
    }

    async fn receive_cancellation(&self, wire: &mut Wire, call: &Value) {
        assert_eq!(wire.receive("notifications/cancelled").await["params"]["requestId"], call["id"]);
    }
}

struct LegacyClient;

impl Client for LegacyClient {
    async fn initialize(&self, wire: &mut Wire) {
        wire.send(json!({ "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "old", "version": "1" } } }))
            .await;
        assert_eq!(wire.next().await["result"]["protocolVersion"], "2025-11-25");
        wire.send(json!({ "method": "notifications/initialized" })).await;
    }

    async fn call(&self, wire: &mut Wire, id: u64, tool: &str) -> Value {
        wire.send(json!({ "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": { "big": 7 }, "_meta": { "progressToken": "mine" } } }))
            .await
    }

    /// The server request arrives while the call is open.
    async fn receive_server_request(&self, wire: &mut Wire, _call: &Value) -> Value {
        wire.receive("elicitation/create").await
    }

    /// The answer is a response.
    async fn answer(&self, wire: &mut Wire, call: &Value, ask: &Value, name: &str) -> Value {
        wire.send(json!({ "id": ask["id"], "result": { "action": "accept", "content": { "name": name } } })).await;
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
    async fn initialize(&self, _wire: &mut Wire) {}

    async fn call(&self, wire: &mut Wire, id: u64, tool: &str) -> Value {
        wire.send(json!({ "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": { "big": 7 }, "_meta": Self::meta() } }))
            .await
    }

    /// The server request arrives as the result of the call.
    async fn receive_server_request(&self, wire: &mut Wire, call: &Value) -> Value {
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

    /// The answer is sent with a retry of the call.
    async fn answer(&self, wire: &mut Wire, call: &Value, ask: &Value, name: &str) -> Value {
        let mut retry = call.clone();
        retry["id"] = json!("a retry");
        retry["params"]["requestState"] = ask["state"].clone();
        let key = ask["key"].as_str().unwrap();
        retry["params"]["inputResponses"] = json!({ key: { "action": "accept", "content": { "name": name } } });
        wire.send(retry).await
    }
}

struct LegacyServer;

impl Server for LegacyServer {
    fn revision(&self) -> Revision {
        Revision::V2025_11_25
    }

    async fn answer_handshake(&self, wire: &mut Wire) {
        let probe = wire.receive("server/discover").await;
        wire.send(json!({ "id": probe["id"], "error": { "code": -32601, "message": "unknown" } })).await;
        let hello = wire.receive("initialize").await;
        wire.send(json!({ "id": hello["id"], "result": { "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} }, "serverInfo": { "name": "old", "version": "1" } } }))
            .await;
        wire.receive("notifications/initialized").await;
    }

    async fn request_name(&self, wire: &mut Wire, _call: &Value) -> Value {
        wire.send(json!({ "id": "q", "method": "elicitation/create", "params": {
            "message": "Who are you?", "requestedSchema": { "type": "object" } } }))
            .await
    }

    async fn receive_name(&self, wire: &mut Wire, call: &Value, question: &Value) -> (String, Value) {
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

    async fn answer_handshake(&self, wire: &mut Wire) {
        let probe = wire.receive("server/discover").await;
        wire.send(json!({ "id": probe["id"], "result": { "resultType": "complete",
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" } }))
        .await;
    }

    async fn request_name(&self, wire: &mut Wire, call: &Value) -> Value {
        wire.send(json!({ "id": call["id"], "result": { "resultType": "input_required", "requestState": "s\u{1f511}",
            "inputRequests": { "name": { "method": "elicitation/create", "params": {
                "message": "Who are you?", "requestedSchema": { "type": "object" } } } } } }))
            .await
    }

    async fn receive_name(&self, wire: &mut Wire, call: &Value, _question: &Value) -> (String, Value) {
        let retry = wire.receive("tools/call").await;
        assert_ne!(retry["id"], call["id"]);
        assert_eq!(retry["params"]["requestState"], "s\u{1f511}");
        (retry["params"]["inputResponses"]["name"]["content"]["name"].as_str().unwrap().to_owned(), retry)
    }

    fn result(&self, text: &str) -> Value {
        json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
    }
}

/// One end of a newline-delimited stream.
struct Wire {
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Wire {
    fn new(stream: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read: BufReader::new(read).lines(), write }
    }

    async fn send(&mut self, mut message: Value) -> Value {
        message["jsonrpc"] = json!("2.0");
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        message
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(std::time::Duration::from_secs(10), self.read.next_line());
        serde_json::from_str(&line.await.expect("in time").unwrap().expect("a line")).unwrap()
    }

    async fn receive(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }
}

/// Connects a client and a server through the relay.
async fn relay(server: &impl Server) -> (Wire, Wire, Revision) {
    let (server_end, our_end) = tokio::io::duplex(64 * 1024);
    let mut at_server = Wire::new(server_end);
    let transport = StdioTransport::new(Arc::new(Once(Mutex::new(Some(our_end)))), Limits::default());
    let options = ConnectOptions { request_handler: Some(Arc::new(DeclaresElicitation)), ..ConnectOptions::default() };
    let (peer, ()) = tokio::join!(Peer::connect(Arc::new(transport), options), server.answer_handshake(&mut at_server));
    let peer = peer.unwrap();
    let revision = peer.profile().revision;

    let (client_end, our_end) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(our_end);
    let downstream =
        down::stdio::serve(read, write, Arc::new(Relay(peer)), DownstreamOptions::default(), CancellationToken::new());
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

/// Declares elicitation; requests are answered through the exchange.
struct DeclaresElicitation;

impl ServerRequestHandler for DeclaresElicitation {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": {} })))
    }

    fn answer(&self, _request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Unavailable })
    }
}
