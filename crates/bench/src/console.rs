//! Times of the console's API with 1,000 tools and 10,000 recorded calls, and the size of its pages.
//!
//! The browser's own times are measured by the browser stories; this is what the server adds to them.

use std::{
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    peer::{Era, Way},
    processes::{self, GatewayProcess},
};

/// Tools of the server.
const TOOLS: usize = 1_000;
/// Recorded calls, over this many connections.
const CALLS: usize = 10_000;
const WIDTH: usize = 16;
/// Requests for each row.
const ROUNDS: usize = 30;
/// Longest time of a response that a user waits for.
const BUDGET: Duration = Duration::from_millis(100);
/// Largest size of all pages, in bytes.
const MAX_PAGE_BYTES: usize = 300 * 1024;

/// A connection of a signed-in browser.
struct Browser {
    stream: TcpStream,
    authority: String,
    cookie: String,
}

/// A response.
struct Reply {
    head: String,
    body: Vec<u8>,
    took: Duration,
}

/// Runs the measurement and prints it.
pub(crate) fn run() -> io::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> io::Result<ExitCode> {
    let program = processes::program().await?;
    let here = std::env::current_exe()?;
    let servers = json!({ "many": { "command": here, "args": Way::StdioModern.role(TOOLS) } });
    let options = ["--log", "off", "--console", "127.0.0.1:0"];
    let process = GatewayProcess::start_with(&program, servers, &options).await?;
    process.wait_for_tools(&["many__small".to_owned()]).await?;
    process.load(Era::Modern, "many").await?.round_trips("small", CALLS / WIDTH, WIDTH).await?;
    let link = process.console.clone().ok_or_else(|| io::Error::other("the gateway has no console"))?;
    let mut browser = Browser::open(&link).await?;
    println!("console: {TOOLS} tools, {CALLS} calls, {ROUNDS} requests each");
    let mut within = true;
    let calls = "/api/v1/calls?limit=100";
    for path in [
        "/api/v1/session",
        "/api/v1/servers",
        "/api/v1/servers/many",
        calls,
        "/api/v1/calls?limit=100&server=many&state=succeeded",
        "/api/v1/calls?limit=100&state=failed",
        "/api/v1/calls?limit=100&caller=client",
        "/api/v1/inbox",
        "/api/v1/conversations",
    ] {
        within &= browser.row(path).await?;
    }
    let page: serde_json::Value = serde_json::from_slice(&browser.get(calls).await?.body).map_err(io::Error::other)?;
    let next = page["next"].as_str().unwrap_or_default();
    within &= browser.row(&format!("/api/v1/calls?limit=100&before={next}")).await?;
    within &= browser.row(&format!("/api/v1/calls/{next}")).await?;
    within &= browser.pages().await?;
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Browser {
    async fn open(link: &str) -> io::Result<Self> {
        let (authority, path) = link
            .strip_prefix("http://")
            .and_then(|link| link.split_once('/'))
            .ok_or_else(|| io::Error::other("the link is not valid"))?;
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let mut browser = Self { stream, authority: authority.to_owned(), cookie: String::new() };
        let reply = browser.get(&format!("/{path}")).await?;
        let cookie = reply.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next());
        browser.cookie = cookie.ok_or_else(|| io::Error::other("the link does not sign in"))?.to_owned();
        Ok(browser)
    }

    /// Prints median, slowest and size of a path; returns whether the median is within the budget.
    async fn row(&mut self, path: &str) -> io::Result<bool> {
        let (mut times, mut size) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            let reply = self.get(path).await?;
            if !reply.head.starts_with("HTTP/1.1 200") {
                return Err(io::Error::other(format!("{path}: {}", reply.head)));
            }
            size = reply.body.len();
            times.push(reply.took);
        }
        times.sort_unstable();
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{path:<64} {:>7.2} ms  slowest {:>7.2} ms  {size:>8} bytes", ms(median), ms(slowest));
        Ok(median <= BUDGET)
    }

    /// Loads the page with everything it refers to, one request after another.
    async fn pages(&mut self) -> io::Result<bool> {
        let begun = Instant::now();
        let index = self.get("/").await?.body;
        let (mut size, mut seen) = (index.len(), vec!["/".to_owned()]);
        let mut left = references(&index);
        while let Some(path) = left.pop() {
            if seen.contains(&path) {
                continue;
            }
            let reply = self.get(&path).await?;
            seen.push(path);
            if reply.head.starts_with("HTTP/1.1 200") {
                size += reply.body.len();
                left.extend(references(&reply.body));
            }
        }
        println!("{} files of the page: {:.2} ms, {size} bytes", seen.len(), ms(begun.elapsed()));
        Ok(size <= MAX_PAGE_BYTES)
    }

    async fn get(&mut self, path: &str) -> io::Result<Reply> {
        let Self { authority, cookie, .. } = self;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\ncookie: {cookie}\r\n\r\n");
        let begun = Instant::now();
        self.stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        let (head, length) = loop {
            if self.stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::Error::other("the console closed the connection"));
            }
            if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
                bytes.drain(..end + 4);
                break (head, length);
            }
        };
        while bytes.len() < length {
            if self.stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::Error::other("the console closed the connection"));
            }
        }
        Ok(Reply { head, body: bytes, took: begun.elapsed() })
    }
}

/// Scripts, styles and icons that a file names in quotes.
fn references(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let is_file = |word: &&str| [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end)) && !word.contains(' ');
    let words = text.split(['"', '\'']).filter(is_file);
    words.map(|word| format!("/{}", word.trim_start_matches("./").trim_start_matches('/'))).collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
