//! Clients and servers that make the gateway keep much: its process stays within the byte budget, and when they are gone its
//! memory is near the idle figure again.

use std::{
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolway_testkit::{hoarder::Hoarder, process_memory::kilobytes};
use toolway_wire::budget::Kept;

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY},
};

/// Allowed above the idle figure, in kilobytes: what the allocators of the program and of SQLite keep for the next request,
/// 15,000 to 25,000, and some. Unfinished bodies make the gateway keep at least twice as much.
const MORE: u64 = 40_000;
/// Freed memory goes back to the system after a second, at the next request; a busy machine takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn memory(serving: &Serving) -> u64 {
    kilobytes(&serving.pid().to_string(), "Rss").unwrap()
}

/// Waits until the gateway keeps what it was sent.
fn grows(serving: &Serving, idle: u64) {
    let began = Instant::now();
    while memory(serving) < idle + 2 * MORE {
        assert!(began.elapsed() < PATIENCE, "{} kB, idle {idle} kB", memory(serving));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the gateway needs little more than `idle`, while requests arrive.
fn settles(serving: &Serving, idle: u64, after: &str) {
    let began = Instant::now();
    while idle + MORE < memory(serving) {
        assert!(began.elapsed() < PATIENCE, "after {after}: {} kB, idle {idle} kB", memory(serving));
        say_hello(serving);
        thread::sleep(Duration::from_millis(100));
    }
}

/// A call, which all parts of the gateway work on.
fn say_hello(serving: &Serving) {
    let hello = json!({ "name": "sample__echo", "arguments": { "text": "hello" } });
    assert_eq!(Answer::of(serving.call("tools/call", hello)).status, 200);
}

/// Sends a request whose body does not end.
fn unfinished_body(serving: &Serving) -> TcpStream {
    let mut stream = TcpStream::connect(&serving.authority).unwrap();
    let (authority, key) = (&serving.authority, serving.key());
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 4000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; 3_900_000]).unwrap();
    stream
}

/// Calls a tool with a large result, which is not read.
fn unread_result(serving: &Serving) -> TcpStream {
    let arguments = json!({ "text": "x".repeat(2_000_000) });
    serving.call("tools/call", json!({ "name": "sample__echo", "arguments": arguments }))
}

#[test]
fn memory_of_the_gateway_returns_to_near_idle_after_attacks() {
    let home = Home::with_sample();
    let serving = Serving::start(&home, &[]);
    serving.settled(serving.key(), "sample", "ready");
    say_hello(&serving);
    let idle = memory(&serving);

    let bodies: Vec<_> = (0..30).map(|_| unfinished_body(&serving)).collect();
    grows(&serving, idle);
    drop(bodies);
    settles(&serving, idle, "30 unfinished bodies");

    let results: Vec<_> = (0..15).map(|_| unread_result(&serving)).collect();
    drop(results);
    settles(&serving, idle, "15 unread results");

    let silent: Vec<_> = (0..1_000).map(|_| TcpStream::connect(&serving.authority).unwrap()).collect();
    drop(silent);
    settles(&serving, idle, "1,000 silent connections");
}

/// Byte budget of the story with hostile lists, in bytes.
const BUDGET: u64 = 64 << 20;
/// Allowed above the idle figure and the budget, in kilobytes. Beside what [`MORE`] allows, memory that was freed stays
/// with the heaps of the threads that freed it until the allocator returns it, and messages of up to 8 MB are moved from
/// one buffer to another while they are read.
const ABOVE_BUDGET: u64 = MORE + 48_000;

/// Bytes charged to the budget, by kind.
fn charged(serving: &Serving, key: &str, kind: &str) -> u64 {
    let metrics = serving.get("/metrics", key).body;
    let series = format!("toolway_memory_bytes{{kind=\"{kind}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("{kind} is missing: {metrics}")).parse().unwrap()
}

fn total(serving: &Serving, key: &str) -> u64 {
    Kept::ALL.into_iter().map(|kind| charged(serving, key, kind.as_str())).sum()
}

/// A legacy session of a client, which calls the tool of the hostile server.
fn session(serving: &Serving, key: &str) -> String {
    let bearer = format!("Bearer {key}");
    let post = |session: Option<&str>, body: Value| {
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        Answer::of(serving.send("POST", "/mcp", &headers, &body.to_string()))
    };
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "story", "version": "1" } });
    let begun = post(None, json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
    let id = begun.head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let id = id.unwrap_or_else(|| panic!("{begun:?}"));
    post(Some(&id), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let params = json!({ "name": "hoarder__small", "arguments": {} });
    let held = post(Some(&id), json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
    assert_eq!(held.status, 200, "{held:?}");
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_lists_in_sessions_of_four_clients_stay_within_the_budget() {
    // About 6 MB for each session, others in each and after every change, of which it announces fifty a second.
    let hoarder = Hoarder::new(600, 10_000).over_http().await.unwrap();
    let home = Home::new();
    let servers = json!({
        "sample": { "command": TOOLWAY, "args": ["sample"] },
        "hoarder": { "url": hoarder.url(), "sharing": "session" },
    });
    home.configure(&json!({ "limits": { "memory": "64MB" }, "mcpServers": servers }).to_string());
    let keys: Vec<String> = ["ada", "ben", "cleo", "dan"].iter().map(|name| client(&home, name)).collect();
    let serving = Serving::start(&home, &[]);
    tokio::task::block_in_place(|| {
        serving.settled(&keys[0], "sample", "ready");
        serving.settled(&keys[0], "hoarder", "ready");
        let idle = memory(&serving);
        let mut peak = idle;
        thread::scope(|scope| {
            for key in &keys {
                scope.spawn(|| (0..8).for_each(|_| drop(session(&serving, key))));
            }
        });
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            let used = total(&serving, &keys[1]);
            assert!(used <= BUDGET, "{used} bytes are charged");
            peak = peak.max(memory(&serving));
            echo(&serving, &keys[1]);
        }
        assert!(1_000_000 < charged(&serving, &keys[1], "listing"));
        assert!(peak <= idle + BUDGET / 1_024 + ABOVE_BUDGET, "{peak} kB, idle {idle} kB");
    });
}

/// A client with a key of its own.
fn client(home: &Home, name: &str) -> String {
    let added = home.run(&["clients", "add", name, "-o", "json"]).json();
    added["key"].as_str().unwrap_or_else(|| panic!("{added}")).to_owned()
}

fn echo(serving: &Serving, key: &str) {
    let hello = json!({ "name": "sample__echo", "arguments": { "text": "hello" } });
    assert_eq!(Answer::of(serving.call_as(key, "tools/call", hello)).status, 200);
}
