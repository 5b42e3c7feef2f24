//! The console with 1,000 tools, 100,000 recorded calls and 500 conversations: times of its API, size of its pages, and first
//! paint and interactions in a browser, which `tests/console/measure.mjs` measures.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
};

use crate::{
    peer::{Era, Way},
    processes::{self, GatewayProcess},
};

/// Tools of the server.
const TOOLS: usize = 1_000;
/// Recorded calls, over this many connections.
const CALLS: usize = 100_000;
const WIDTH: usize = 16;
/// Stored conversations, each of one message and its answer.
const CONVERSATIONS: usize = 500;
/// What the model of the conversations says.
const SCRIPT: &str = r#"{ "turns": [{ "text": "Noted." }] }"#;
/// Requests for each row.
const ROUNDS: usize = 30;
/// Longest time of a response that a user waits for.
const BUDGET: Duration = Duration::from_millis(100);
/// Largest size of all pages, in bytes.
const MAX_PAGE_BYTES: usize = 400_000;

/// A connection of a signed-in browser.
struct Browser {
    stream: TcpStream,
    authority: String,
    cookie: String,
    /// Token for changes, without which the page is signed out.
    key: String,
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
    let stories = stories().await?;
    let program = processes::program().await?;
    let here = std::env::current_exe()?;
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), SCRIPT)?;
    let config = json!({
        "mcpServers": { "many": { "command": here, "args": Way::StdioModern.role(TOOLS) } },
        "models": { "script": { "vendor": "scripted", "model": script.path() } },
    });
    let options = ["--log", "off", "--console", "127.0.0.1:0"];
    let process = GatewayProcess::start_configured(&program, config, &options).await?;
    process.wait_for_tools(&["many__small".to_owned()]).await?;
    process.load(Era::Modern, "many").await?.round_trips("small", CALLS / WIDTH, WIDTH).await?;
    let link = process.console.clone().ok_or_else(|| io::Error::other("the gateway has no console"))?;
    let mut browser = Browser::open(&link).await?;
    browser.converse().await?;
    println!(
        "console: {TOOLS} tools, {CALLS} calls, {CONVERSATIONS} conversations; API: median of {ROUNDS} requests; browser: best of 5"
    );
    println!("{:<64} {:>10} {:>10} {:>10} {:>10}", "", "figure", "slowest", "size", "limit");
    let mut within = true;
    let calls = "/api/v1/calls?limit=100";
    for path in [
        "/api/v1/session",
        "/api/v1/servers",
        "/api/v1/servers/many",
        "/api/v1/tools",
        "/api/v1/tools/many/small",
        "/api/v1/resources",
        "/api/v1/prompts",
        calls,
        "/api/v1/calls?limit=100&server=many&state=succeeded",
        "/api/v1/calls?limit=100&state=failed",
        "/api/v1/calls?limit=100&caller=client",
        "/api/v1/calls?limit=100&since=2020-01-01&until=2099-01-01",
        "/api/v1/inbox",
        "/api/v1/tasks",
        "/api/v1/conversations",
    ] {
        within &= browser.row(path).await?;
    }
    let page = browser.get(calls).await?.read()?;
    let next = page["next"].as_str().unwrap_or_default();
    within &= browser.row(&format!("/api/v1/calls?limit=100&before={next}")).await?;
    within &= browser.row(&format!("/api/v1/calls/{next}")).await?;
    within &= browser.pages().await?;
    within &= browser.figures(&stories).await?;
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
        let mut browser = Self { stream, authority: authority.to_owned(), cookie: String::new(), key: String::new() };
        let reply = browser.get(&format!("/{path}")).await?;
        let cookie = reply.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next());
        browser.cookie = cookie.ok_or_else(|| io::Error::other("the link does not sign in"))?.to_owned();
        let key = reply.head.lines().find_map(|line| line.strip_prefix("location: /#key="));
        browser.key = key.ok_or_else(|| io::Error::other("the link gives no token"))?.to_owned();
        Ok(browser)
    }

    /// Has the conversations, one after the other.
    async fn converse(&mut self) -> io::Result<()> {
        for number in 0..CONVERSATIONS {
            let said = json!({ "text": format!("Please keep note {number}"), "model": "script" });
            let begun = self.post("/api/v1/chat", &said).await?.read()?;
            let path = format!("/api/v1/conversations/{}", begun["conversation"].as_str().unwrap_or_default());
            while self.is_under_way(&path).await? {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(())
    }

    /// Whether the turn of a conversation goes on; it is stored a moment after its turn has begun.
    async fn is_under_way(&mut self, path: &str) -> io::Result<bool> {
        let reply = self.get(path).await?;
        Ok(reply.head.starts_with("HTTP/1.1 404") || reply.read()?["running"] == true)
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
        let size = format!("{:.1} KB", kilobytes(size));
        line(path, &ms(median), &ms(slowest), &size, &ms(BUDGET));
        Ok(median <= BUDGET)
    }

    /// Loads the page with everything it refers to, one request after another.
    async fn pages(&mut self) -> io::Result<bool> {
        let begun = Instant::now();
        let index = self.get("/").await?.body;
        let mut kinds = BTreeMap::from([("html", index.len())]);
        let mut seen = vec!["/".to_owned()];
        let mut left = references(&index);
        while let Some(path) = left.pop() {
            if seen.contains(&path) {
                continue;
            }
            let reply = self.get(&path).await?;
            if reply.head.starts_with("HTTP/1.1 200") {
                let kind = ["js", "css"].into_iter().find(|kind| path.ends_with(kind)).unwrap_or("svg");
                *kinds.entry(kind).or_default() += reply.body.len();
                left.extend(references(&reply.body));
            }
            seen.push(path);
        }
        let took = begun.elapsed();
        for (kind, size) in &kinds {
            line(&format!("page: {kind}"), "", "", &format!("{:.1} KB", kilobytes(*size)), "");
        }
        let size: usize = kinds.values().sum();
        let files = format!("page: {} files", seen.len());
        let limit = format!("{:.0} KB", kilobytes(MAX_PAGE_BYTES));
        line(&files, &ms(took), "", &format!("{:.1} KB", kilobytes(size)), &limit);
        Ok(size <= MAX_PAGE_BYTES)
    }

    /// First paint and interactions in a browser that uses this session.
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    async fn figures(&self, stories: &Path) -> io::Result<bool> {
        let mut node = Command::new("node");
        node.arg(stories.join("measure.mjs")).arg(format!("http://{}", self.authority)).arg("many");
        node.arg(CALLS.to_string()).arg(CONVERSATIONS.to_string()).env("COOKIE", &self.cookie).env("KEY", &self.key);
        let output = node.stderr(std::process::Stdio::inherit());
        let output = output.kill_on_drop(true).output().await?;
        if !output.status.success() {
            return Err(io::Error::other("the browser could not be measured"));
        }
        let mut within = true;
        for figure in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let figure: Value = serde_json::from_slice(figure).map_err(io::Error::other)?;
            let number = |key: &str| figure[key].as_f64().unwrap_or(f64::INFINITY);
            let (took, limit) = (number("ms"), number("limit"));
            let what = format!("browser: {}", figure["what"].as_str().unwrap_or_default());
            line(&what, &format!("{took:.2} ms"), "", "", &format!("{limit:.2} ms"));
            within &= took <= limit;
        }
        Ok(within)
    }

    async fn get(&mut self, path: &str) -> io::Result<Reply> {
        let Self { authority, cookie, .. } = self;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\ncookie: {cookie}\r\n\r\n");
        self.send(&request).await
    }

    async fn post(&mut self, path: &str, body: &Value) -> io::Result<Reply> {
        let Self { authority, cookie, key, .. } = self;
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncookie: {cookie}\r\norigin: http://{authority}\r\nx-toolway-csrf: \
             {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(&request).await
    }

    async fn send(&mut self, request: &str) -> io::Result<Reply> {
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

impl Reply {
    /// The body as JSON; an error for a status other than success.
    fn read(&self) -> io::Result<Value> {
        if !self.head.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(self.head.clone()));
        }
        serde_json::from_slice(&self.body).map_err(io::Error::other)
    }
}

/// Scripts, styles and icons that a file names in quotes.
fn references(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let is_file = |word: &&str| [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end)) && !word.contains(' ');
    let words = text.split(['"', '\'']).filter(is_file);
    words.map(|word| format!("/{}", word.trim_start_matches("./").trim_start_matches('/'))).collect()
}

/// The folder with the browser stories, after what drives the browser is installed. Its script says what is missing and how
/// to install it.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
async fn stories() -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/console");
    let installed = Command::new(folder.join("install")).status().await;
    match installed {
        Ok(status) if status.success() => Ok(folder),
        _ => Err(io::Error::other(
            "no browser to measure: install Node 20 and Debian's package `chromium-headless-shell` (`./test` does), then \
             run `tests/console/install`",
        )),
    }
}

fn line(what: &str, figure: &str, slowest: &str, size: &str, limit: &str) {
    println!("{what:<64} {figure:>10} {slowest:>10} {size:>10} {limit:>10}");
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1_000.0
}
