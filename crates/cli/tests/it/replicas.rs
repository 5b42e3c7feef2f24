//! Two gateways over one Postgres database, and a client with a session that is sent to either of them.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolway_testkit::postgres::TestDatabase;

use crate::{
    gateway::{Answer, Serving, until},
    home::{Home, TOOLWAY},
};

/// At least 32 characters.
const KEY: &str = "the key of the cluster of these stories";

const PATIENCE: Duration = Duration::from_secs(20);

/// Two running gateways.
struct Replicas {
    first: Serving,
    second: Serving,
    homes: [Home; 2],
    _database: TestDatabase,
}

/// A client with a session.
struct Client {
    session: String,
}

/// A port of this machine that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn home(store: &Value) -> Home {
    let home = Home::new();
    let config = json!({
        "mcpServers": { "sample": { "command": TOOLWAY, "args": ["sample"] } },
        "store": store,
        "cluster": { "key": "env:CLUSTER_KEY", "address": format!("127.0.0.1:{}", free_port()) },
        "gateway": { "access": "open" },
    });
    home.configure(&config.to_string());
    home
}

fn serve(home: &Home) -> Serving {
    let serving = Serving::start_with(home, &[], &[("CLUSTER_KEY", KEY)]);
    serving.settled("", "sample", "ready");
    serving
}

impl Replicas {
    fn start() -> Self {
        let database = TestDatabase::new();
        let homes = std::array::from_fn(|_| home(&json!({ "url": database.url().expose() })));
        Self { first: serve(&homes[0]), second: serve(&homes[1]), homes, _database: database }
    }
}

impl Client {
    /// Begins a session at this gateway.
    fn begin(serving: &Serving, capabilities: &Value) -> Self {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "story", "version": "1" },
        });
        let mut client = Self { session: String::new() };
        let begun = client.post(serving, &message(0, "initialize", params));
        assert_eq!(begun.status, 200, "{begun:?}");
        let head = begun.head.to_lowercase();
        let session = head.find("mcp-session-id: ").map(|at| &begun.head[at + "mcp-session-id: ".len()..]).unwrap();
        client.session = session.lines().next().unwrap().trim().to_owned();
        client
    }

    fn open(&self, serving: &Serving, method: &str, body: &str) -> std::net::TcpStream {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        if !self.session.is_empty() {
            headers.push(("mcp-session-id", self.session.as_str()));
        }
        serving.send(method, "/mcp", &headers, body)
    }

    fn post(&self, serving: &Serving, message: &Value) -> Answer {
        Answer::of(self.open(serving, "POST", &message.to_string()))
    }

    fn call(&self, serving: &Serving, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": format!("sample__{tool}"), "arguments": arguments });
        let answer = self.post(serving, &message(1, "tools/call", params));
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        answer["result"].clone()
    }

    fn memo(&self, serving: &Serving) -> String {
        let read = self.post(serving, &message(2, "resources/read", json!({ "uri": "memo://today" }))).json();
        read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}")).to_owned()
    }
}

fn message(id: u64, method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    message["params"] = params;
    message
}

#[test]
fn a_client_that_alternates_between_two_gateways_has_one_session() {
    let replicas = Replicas::start();
    let (first, second) = (&replicas.first, &replicas.second);
    let client = Client::begin(first, &json!({}));
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(client.post(second, &ready).status, 202);
    for round in 0..4 {
        let (here, there) = if round % 2 == 0 { (first, second) } else { (second, first) };
        let text = format!("round {round}");
        client.call(here, "write_memo", json!({ "text": text }));
        assert_eq!(client.memo(there), text, "a server with state sees one client in one process");
    }
    let ended = Answer::of(client.open(second, "DELETE", ""));
    assert_eq!(ended.status, 200, "{ended:?}");
    for serving in [first, second] {
        assert_eq!(client.post(serving, &message(3, "ping", json!({}))).status, 404);
    }
    // Members are listed every few seconds.
    let began = Instant::now();
    while first.get("/ready", "").json()["cluster"]["members"].as_array().map(Vec::len) != Some(2) {
        assert!(began.elapsed() < PATIENCE, "{:?}", first.get("/ready", ""));
    }
    let status = replicas.homes[0].run_with(&["status"], &[("CLUSTER_KEY", KEY)], "");
    assert!(status.talk.contains("live, this one"), "{status:?}");
    assert_eq!(status.json()["cluster"]["members"].as_array().map(Vec::len), Some(2), "{status:?}");
    replicas.homes[0].run_with(&["audit", "verify"], &[("CLUSTER_KEY", KEY)], "").ok();
}

#[test]
fn a_form_that_is_asked_through_one_gateway_is_answered_at_the_other() {
    let replicas = Replicas::start();
    let client = Client::begin(&replicas.first, &json!({ "elicitation": { "form": {} } }));
    let params = json!({ "name": "sample__greet", "arguments": {} });
    let asking = message(7, "tools/call", params).to_string();
    for (asks, answers) in [(&replicas.first, &replicas.second), (&replicas.second, &replicas.first)] {
        let mut stream = client.open(asks, "POST", &asking);
        let said = until(&mut stream, "elicitation/create");
        let event = said.lines().find(|line| line.contains("elicitation/create")).unwrap();
        let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        let content = json!({ "action": "accept", "content": { "name": "Grace" } });
        let answer = json!({ "jsonrpc": "2.0", "id": event["id"], "result": content });
        assert_eq!(client.post(answers, &answer).status, 202);
        until(&mut stream, "Grace");
    }
}

#[test]
fn the_next_request_after_kill_9_is_answered_by_the_other_gateway_before_the_lease_ends() {
    let replicas = Replicas::start();
    let Replicas { first, second, .. } = &replicas;
    let client = Client::begin(first, &json!({}));
    client.call(second, "echo", json!({ "text": "before" }));
    // A call that the first one has when it is killed, through the second.
    let params =
        json!({ "name": "sample__count", "arguments": { "to": 100, "pause": 500 }, "_meta": { "progressToken": 1 } });
    let mut open = client.open(second, "POST", &message(9, "tools/call", params).to_string());
    until(&mut open, "notifications/progress");
    kill_process(Pid::from_raw(i32::try_from(first.pid()).unwrap()).unwrap(), Signal::KILL).unwrap();
    let began = Instant::now();
    let echoed = client.call(second, "echo", json!({ "text": "after" }));
    assert_eq!(echoed["content"][0]["text"], "after");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let end = until(&mut open, "outcome");
    assert!(end.contains(r#""id":9"#) && end.contains(r#""outcome":"unknown""#), "{end}");
}

#[test]
fn a_cluster_needs_a_database_and_a_key_that_cannot_be_guessed() {
    let without = home(&json!({}));
    let ran = without.run_with(&["serve", "--listen", "127.0.0.1:0", "--console", "off"], &[("CLUSTER_KEY", KEY)], "");
    assert!(ran.code == 2 && ran.talk.contains("`cluster` needs `store.url`"), "{ran:?}");
    let doctor = without.run_with(&["doctor"], &[("CLUSTER_KEY", KEY)], "");
    assert!(doctor.talk.contains("warning: `cluster` needs `store.url`"), "{doctor:?}");
    let database = home(&json!({ "url": "postgres://127.0.0.1:1/none" }));
    for (value, expected) in [(None, "CLUSTER_KEY"), (Some("short"), "at least 32 characters")] {
        let variables: Vec<_> = value.map(|value| ("CLUSTER_KEY", value)).into_iter().collect();
        let ran = database.run_with(&["serve", "--listen", "127.0.0.1:0", "--console", "off"], &variables, "");
        assert!(ran.code == 2 && ran.talk.contains("`cluster.key`") && ran.talk.contains(expected), "{ran:?}");
    }
}
