//! A gateway process, and requests to it over real sockets.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::{Value, json};

use crate::home::{Home, Running, wait};

/// A `toolway serve` process; killed on drop.
pub(crate) struct Serving {
    child: Running,
    /// The first line of its standard output.
    pub(crate) said: Value,
    pub(crate) authority: String,
    talk: Option<JoinHandle<String>>,
    /// The terminal of its standard output: a key is printed to a terminal only.
    _screen: File,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Serving {
    /// Starts it on a free port; `words` are further options.
    pub(crate) fn start(home: &Home, words: &[&str]) -> Self {
        Self::start_with(home, words, &[])
    }

    /// Like [`Self::start`], with environment variables.
    pub(crate) fn start_with(home: &Home, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "-o", "json"]);
        if !words.contains(&"--console") {
            // Its default port is the same for all stories.
            command.args(["--console", "off"]);
        }
        command.envs(variables.iter().copied());
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let screen = File::options().read(true).write(true).open(name).unwrap();
        let mut child = Running::start(command.args(words).stdout(screen).stderr(Stdio::piped()));
        drop(command);
        let (terminal, mut line) = (File::from(terminal), String::new());
        // Reading fails if the process has ended; what it said is reported below.
        let _ended = BufReader::new(&terminal).read_line(&mut line);
        let mut stderr = child.stderr.take().unwrap();
        let talk = thread::spawn(move || {
            let mut talk = Vec::new();
            stderr.read_to_end(&mut talk).unwrap();
            String::from_utf8_lossy(&talk).into_owned()
        });
        let said: Value = match serde_json::from_str(&line) {
            Ok(said) => said,
            Err(_) => {
                // Its stderr ends with it.
                drop(child);
                panic!("{line:?} {}", talk.join().unwrap())
            }
        };
        let url = said["listening"].as_str().unwrap();
        let authority = url.split_once("://").unwrap().1.trim_end_matches("/mcp").to_owned();
        Self { child, said, authority, talk: Some(talk), _screen: terminal }
    }

    /// The key that was printed.
    pub(crate) fn key(&self) -> &str {
        self.said["key"].as_str().unwrap()
    }

    /// PID of the gateway.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a GET request with this key.
    pub(crate) fn get(&self, path: &str, key: &str) -> Answer {
        Answer::of(self.send("GET", path, &[("authorization", &format!("Bearer {key}"))], ""))
    }

    /// Sends a stateless MCP request with the printed key; the response is read from the stream.
    pub(crate) fn call(&self, method: &str, params: Value) -> TcpStream {
        self.call_as(self.key(), method, params)
    }

    /// Like [`Self::call`], with another key.
    pub(crate) fn call_as(&self, key: &str, method: &str, params: Value) -> TcpStream {
        self.call_declaring(key, method, params, &json!({}))
    }

    /// Like [`Self::call_as`], by a client with these capabilities.
    pub(crate) fn call_declaring(&self, key: &str, method: &str, params: Value, capabilities: &Value) -> TcpStream {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "story", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "progressToken": "steps",
        });
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let bearer = format!("Bearer {key}");
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        self.send("POST", "/mcp", &headers, &body)
    }

    /// Sends a request on a connection of its own.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.authority);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits for its exit; returns the exit code and its standard error.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let status = wait(&mut self.child, PATIENCE);
        (status.code(), self.talk.take().unwrap().join().unwrap())
    }

    /// Stops it; returns its standard error.
    pub(crate) fn stop(self) -> String {
        self.terminate();
        let (code, talk) = self.ended();
        assert_eq!(code, Some(0), "{talk}");
        talk
    }
}

impl Home {
    /// Waits until a server of the gateway is in this state; returns its view.
    #[track_caller]
    pub(crate) fn settled(&self, serving: &Serving, server: &str, state: &str) -> Value {
        serving.settled(serving.key(), server, state)
    }
}

impl Serving {
    /// Like [`Home::settled`], with the key of another client.
    #[track_caller]
    pub(crate) fn settled(&self, key: &str, server: &str, state: &str) -> Value {
        let began = Instant::now();
        loop {
            let servers = self.get("/servers", key).json();
            let found = servers["servers"].as_array().unwrap().iter().find(|found| found["name"] == server);
            let heard = |found: &&Value| state != "ready" || found["counts"].is_object();
            if let Some(found) = found.filter(|found| found["state"] == state).filter(heard) {
                return found.clone();
            }
            assert!(began.elapsed() < PATIENCE, "{servers}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Answer {
    /// Reads until the connection is closed.
    pub(crate) fn of(mut stream: TcpStream) -> Self {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        Self::read(&String::from_utf8_lossy(&text))
    }

    pub(crate) fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Reads a stream until it contains `word`; returns all that was read.
#[track_caller]
pub(crate) fn until(stream: &mut TcpStream, word: &str) -> String {
    let (mut said, mut chunk) = (String::new(), [0; 4096]);
    while !said.contains(word) {
        let length = stream.read(&mut chunk).unwrap();
        assert_ne!(length, 0, "it ended before `{word}`: {said}");
        said += &String::from_utf8_lossy(&chunk[..length]);
    }
    said
}
