//! Clients that make the gateway keep much: when they are gone, the memory of its process is near the idle figure again.

use std::{
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use toolway_testkit::process_memory::kilobytes;

use crate::{
    gateway::{Answer, Serving},
    home::Home,
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
