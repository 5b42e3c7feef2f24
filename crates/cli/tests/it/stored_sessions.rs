//! Sessions of HTTP servers written by others: resumed after `kill -9`, kept or ended by a clean shutdown.

use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, Running, root},
};

/// A server over HTTP that was started for a story; stopped on drop.
pub(crate) struct HttpServer {
    _process: Running,
    authority: String,
}

impl HttpServer {
    fn start(program: &str, words: &[&str]) -> Self {
        let program = root().join(".interop").join(program);
        assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
        let mut command = Command::new(program);
        let script = root().join("tests/interop/servers").join(words[0]);
        let mut process = Running::start(command.arg(script).args(&words[1..]).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on http://").unwrap();
        Self { authority: url.trim_end_matches("/mcp").to_owned(), _process: process }
    }

    pub(crate) fn counting() -> Self {
        Self::start("node_modules/.bin/node", &["counting_typescript.mjs"])
    }

    pub(crate) fn entry(&self) -> Value {
        json!({ "url": format!("http://{}/mcp", self.authority), "era": "legacy" })
    }

    /// Sends a request around Toolway.
    fn request(&self, line: &str, session: &str) -> Answer {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(&self.authority).unwrap();
        let text = format!(
            "{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nmcp-session-id: {session}\r\n\r\n",
            self.authority
        );
        stream.write_all(text.as_bytes()).unwrap();
        Answer::of(stream)
    }

    /// `sessions` and `handshakes` of the server that counts.
    fn counts(&self) -> Value {
        self.request("GET /counts", "").json()
    }
}

/// A home with the server and a client with a stored key.
struct Stage {
    home: Home,
    key: String,
}

impl Stage {
    fn new(entry: Value) -> Self {
        let home = Home::new();
        home.configure(&json!({ "mcpServers": { "counter": entry } }).to_string());
        let key = home.run(&["clients", "add", "ada", "-o", "json"]).json()["key"].as_str().unwrap().to_owned();
        Self { home, key }
    }

    fn serve(&self) -> Serving {
        Serving::start(&self.home, &[])
    }

    /// Calls the tool that counts in its session.
    fn count(&self, serving: &Serving) -> String {
        self.count_declaring(serving, &json!({}))
    }

    /// The same by a client with these capabilities.
    fn count_declaring(&self, serving: &Serving, capabilities: &Value) -> String {
        let params = json!({ "name": "counter__count", "arguments": {} });
        counted(serving.call_declaring(&self.key, "tools/call", params, capabilities))
    }

    /// Begins a session of the client at the gateway; returns its id.
    fn begin(&self, serving: &Serving) -> String {
        let info = json!({ "name": "window", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let begun = Answer::of(self.post(serving, None, "initialize", &params));
        let id = begun.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap_or_else(|| panic!("{begun:?}")).trim().to_owned()
    }

    /// Calls the tool that counts in a session of the client.
    fn count_in(&self, serving: &Serving, session: &str) -> String {
        let params = json!({ "name": "counter__count", "arguments": {} });
        counted(self.post(serving, Some(session), "tools/call", &params))
    }

    fn post(&self, serving: &Serving, session: Option<&str>, method: &str, params: &Value) -> TcpStream {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        serving.send("POST", "/mcp", &headers, &body)
    }

    /// The session ids that the gateway uses: the shared one, and that of the client.
    fn sessions(&self) -> [String; 2] {
        let shown = self.home.run(&["servers", "show", "counter", "-o", "json"]).json();
        let id = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no id in {shown}")).to_owned();
        [id(&shown["sessionId"]), id(&shown["connections"][0]["sessionId"])]
    }
}

/// The count in a response.
fn counted(response: TcpStream) -> String {
    let answer = Answer::of(response).body;
    let text = answer.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer);
    let response: Value = serde_json::from_str(text).expect(&answer);
    response["result"]["content"][0]["text"].as_str().expect(&answer).to_owned()
}

#[test]
fn killed_gateway_goes_on_in_the_sessions_of_a_typescript_server() {
    let server = HttpServer::counting();
    let stage = Stage::new(server.entry());
    let serving = stage.serve();
    assert_eq!([stage.count(&serving), stage.count(&serving)], ["1", "2"]);
    let (before, counts) = (stage.sessions(), server.counts());
    assert_ne!(before[0], before[1]);
    // Nothing is said to the server.
    drop(serving);

    let serving = stage.serve();
    assert_eq!(stage.count(&serving), "3");
    assert_eq!((stage.sessions(), server.counts()), (before.clone(), counts), "no handshake");
    let shown = stage.home.run(&["servers", "show", "counter", "-o", "human"]);
    assert!(shown.ok().contains(&format!("{}, of client:ada", before[1])), "{shown:?}");
    assert!(!stage.home.run(&["status", "-o", "json"]).ok().contains(&before[1]));
    assert!(!serving.stop().contains(&before[1]), "the log has no session id");
    assert_eq!(server.counts()["sessions"], 0, "a clean shutdown deletes them");
    let serving = stage.serve();
    assert_eq!(stage.count(&serving), "1");
}

#[test]
fn forgotten_session_begins_anew_and_that_is_said() {
    let server = HttpServer::counting();
    let stage = Stage::new(server.entry());
    let serving = stage.serve();
    assert_eq!([stage.count(&serving), stage.count(&serving)], ["1", "2"]);
    let before = stage.sessions();
    assert_eq!(server.request("DELETE /mcp", &before[1]).status, 200);
    assert_eq!(stage.count(&serving), "1", "while it runs");
    let between = stage.sessions();
    assert_ne!(before[1], between[1]);
    drop(serving);

    for session in &between {
        assert_eq!(server.request("DELETE /mcp", session).status, 200);
    }
    let serving = stage.serve();
    assert_eq!(stage.count(&serving), "1", "after a restart");
    let after = stage.sessions();
    assert!(!between.contains(&after[0]) && !between.contains(&after[1]));
    let log = serving.stop();
    assert!(log.contains("the server no longer has the session of the last run"), "{log}");
}

#[test]
fn kept_sessions_outlive_a_clean_shutdown_until_the_entry_changes() {
    let server = HttpServer::counting();
    let mut entry = server.entry();
    entry["sessions"] = json!("keep");
    let stage = Stage::new(entry.clone());
    for expected in ["1", "2", "3"] {
        let serving = stage.serve();
        assert_eq!(stage.count(&serving), expected);
        serving.stop();
    }
    assert_eq!(server.counts(), json!({ "sessions": 2, "handshakes": 2 }));
    entry["headers"] = json!({ "X-Tenant": "other" });
    stage.home.configure(&json!({ "mcpServers": { "counter": entry } }).to_string());
    assert_eq!(stage.count(&stage.serve()), "1");
    // A new client of the same name does not get the session of the old one.
    stage.home.run(&["clients", "revoke", "ada"]).ok();
    let key = stage.home.run(&["clients", "add", "ada", "-o", "json"]).json()["key"].as_str().unwrap().to_owned();
    let stage = Stage { key, ..stage };
    assert_eq!(stage.count(&stage.serve()), "1");
}

#[test]
fn call_goes_on_in_a_kept_session() {
    let server = HttpServer::counting();
    let home = Home::new();
    home.configure(&json!({ "sessions": "keep", "mcpServers": { "counter": server.entry() } }).to_string());
    let count = || home.run(&["call", "counter.count", "-o", "human"]).ok().to_owned();
    assert_eq!([count(), count()], ["1\n", "2\n"]);
    home.configure(&json!({ "mcpServers": { "counter": server.entry() } }).to_string());
    assert_eq!([count(), count()], ["3\n", "1\n"], "ended after the third");
}

#[test]
fn killed_gateway_resumes_the_session_of_a_fastmcp_server() {
    let server = HttpServer::start("venv/bin/python", &["fastmcp_server.py", "--transport", "http"]);
    let stage = Stage::new(server.entry());
    let serving = stage.serve();
    let shared = |serving: &Serving| {
        serving.settled(&stage.key, "counter", "ready");
        let shown = stage.home.run(&["servers", "show", "counter", "-o", "json"]).json();
        shown["sessionId"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
    };
    let before = shared(&serving);
    drop(serving);
    assert_eq!(shared(&stage.serve()), before);
}

#[test]
fn session_is_not_resumed_with_other_capabilities_or_another_token() {
    let server = HttpServer::counting();
    let mut entry = server.entry();
    entry["headers"] = json!({ "Authorization": "Bearer ${COUNTER_TOKEN}" });
    let stage = Stage::new(entry);
    let serve = |token: &str| Serving::start_with(&stage.home, &[], &[("COUNTER_TOKEN", token)]);
    let forms = json!({ "elicitation": { "form": {} } });
    let serving = serve("one");
    assert_eq!([stage.count(&serving), stage.count(&serving)], ["1", "2"]);
    drop(serving);

    let serving = serve("one");
    assert_eq!(stage.count_declaring(&serving, &forms), "1", "the server was told of no forms");
    assert_eq!(stage.count(&serving), "3", "as declared before");
    drop(serving);

    let serving = serve("two");
    assert_eq!(stage.count(&serving), "1", "the credential is another one");
    drop(serving);
    // What was issued under the old token is not kept beside the new one.
    assert_eq!(stage.count(&serve("one")), "1");
}

/// A session of a client ends with the gateway, and with it what belongs to this session only.
#[test]
fn server_with_a_session_for_each_session_of_a_client_begins_anew_after_a_kill() {
    let server = HttpServer::counting();
    let mut entry = server.entry();
    entry["sharing"] = json!("session");
    let stage = Stage::new(entry);
    let serving = stage.serve();
    serving.settled(&stage.key, "counter", "ready");
    let windows = [stage.begin(&serving), stage.begin(&serving)];
    for expected in ["1", "2"] {
        assert_eq!(windows.each_ref().map(|window| stage.count_in(&serving, window)), [expected, expected]);
    }
    drop(serving);

    let serving = stage.serve();
    serving.settled(&stage.key, "counter", "ready");
    let gone = stage.post(&serving, Some(&windows[0]), "tools/list", &json!({}));
    assert_eq!(Answer::of(gone).status, 404);
    let window = stage.begin(&serving);
    assert_eq!(stage.count_in(&serving, &window), "1", "neither window is mixed with a new one");
}
