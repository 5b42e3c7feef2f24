//! Time that `toolway chat` adds to the first streamed token of the model: from Enter to the vendor's receipt of the
//! request, and from the vendor's first byte to the token on the terminal. The vendor is on loopback, answers at once, and
//! the tools of one server are offered.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitCode},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::processes;

/// Messages that are measured, after as many that are not.
const ROUNDS: usize = 40;
/// The budget for the median.
const BUDGET: Duration = Duration::from_millis(5);
/// Longest wait for a text.
const PATIENCE: Duration = Duration::from_secs(30);

/// A chat at a pseudo-terminal.
struct Chat {
    child: Child,
    keyboard: File,
    output: Receiver<(Instant, Vec<u8>)>,
    shown: Vec<u8>,
}

/// When the vendor received a request and sent its first token.
type Exchange = (Instant, Instant);

/// Runs the measurement and prints it.
pub(crate) fn run() -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let program = runtime.block_on(processes::program())?;
    let (address, exchanges) = vendor()?;
    let home = tempfile::tempdir()?;
    let mut chat = Chat::start(&program, home.path(), &address)?;
    let (mut requests, mut tokens, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..2 * ROUNDS {
        chat.until(b"> ")?;
        let entered = Instant::now();
        chat.keyboard.write_all(format!("message {round}\r").as_bytes())?;
        let (received, sent) = exchanges.recv_timeout(PATIENCE).map_err(io::Error::other)?;
        let seen = chat.until(b"Token")?;
        chat.until(b"tokens in")?;
        if round >= ROUNDS {
            let (before, after) = (received - entered, seen.saturating_duration_since(sent));
            requests.push(before);
            tokens.push(after);
            both.push(before + after);
        }
    }
    println!("time added to the first streamed token, median of {ROUNDS}:");
    println!("  Enter to the request at the vendor  {:>9.3?}", median(&mut requests));
    println!("  first token sent to token shown     {:>9.3?}", median(&mut tokens));
    let total = median(&mut both);
    let is_within = total <= BUDGET;
    println!(
        "  both                                {total:>9.3?}  budget {BUDGET:?} {}",
        if is_within { "ok" } else { "OVER" }
    );
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

// === impl Chat ===

impl Chat {
    fn start(program: &Path, home: &Path, vendor: &str) -> io::Result<Self> {
        let model = json!({ "vendor": "openai-chat", "model": "m", "baseUrl": format!("http://{vendor}/v1") });
        let server = json!({ "command": program, "args": ["sample"] });
        let config = json!({ "mcpServers": { "sample": server }, "models": { "mock": model } });
        std::fs::write(home.join("toolway.json"), config.to_string())?;
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        let name = ptsname(&terminal, Vec::new())?.into_string().map_err(io::Error::other)?;
        let side = || File::options().read(true).write(true).open(&name);
        let mut command = Command::new(program);
        command.args(["chat", "--model", "mock", "--config"]).arg(home.join("toolway.json"));
        command.env_clear().env("HOME", home).env("TERM", "xterm").env("LANG", "C.UTF-8");
        let child = command.stdin(side()?).stdout(side()?).stderr(side()?).spawn()?;
        drop(command);
        let keyboard = File::from(terminal);
        let mut screen = keyboard.try_clone()?;
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut chunk) {
                if sender.send((Instant::now(), chunk[..length].to_vec())).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, keyboard, output, shown: Vec::new() })
    }

    /// Waits for a text after the last one; returns when it was shown. Questions about the cursor are answered.
    fn until(&mut self, text: &[u8]) -> io::Result<Instant> {
        let mut at = Instant::now();
        loop {
            if let Some(found) = memchr::memmem::find(&self.shown, text) {
                self.shown.drain(..found + text.len());
                return Ok(at);
            }
            let (when, chunk) = self.output.recv_timeout(PATIENCE).map_err(|_| {
                io::Error::other(format!("the chat does not show more: {}", String::from_utf8_lossy(&self.shown)))
            })?;
            at = when;
            if memchr::memmem::find(&chunk, b"\x1b[6n").is_some() {
                self.keyboard.write_all(b"\x1b[1;1R")?;
            }
            if memchr::memmem::find(&chunk, b"\x1b[c").is_some() {
                self.keyboard.write_all(b"\x1b[?62c")?;
            }
            self.shown.extend_from_slice(&chunk);
        }
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// A vendor that streams two tokens to every request.
fn vendor() -> io::Result<(String, Receiver<Exchange>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let (sender, exchanges) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || serve(&stream, &sender));
        }
    });
    Ok((address, exchanges))
}

fn serve(stream: &TcpStream, exchanges: &mpsc::Sender<Exchange>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        let received = Instant::now();
        let first = event(&json!({ "content": "Token " }), None);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let sent = Instant::now();
        writer.write_all(format!("{head}{}", chunk(&first)).as_bytes())?;
        // The chat may be gone.
        let _gone = exchanges.send((received, sent));
        let rest = event(&json!({ "content": "two." }), None) + &event(&json!({}), Some("stop")) + "data: [DONE]\n\n";
        writer.write_all(format!("{}0\r\n\r\n", chunk(&rest)).as_bytes())?;
    }
}

fn event(delta: &serde_json::Value, end: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": end });
    format!("data: {}\n\n", json!({ "id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice] }))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
