//! `kill -9` while tasks run: at a server that we start, at one with sessions over HTTP, and at one without.
//!
//! Three rounds of each kind; fifty with `TOOLWAY_TEST_LONG=1`. `TOOLWAY_CHAOS_SEED` repeats the moments of an earlier run.

use std::{
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    chaos::rng::{self, SeededRng},
    gateway::{Answer, Serving},
    home::{Home, Running, root},
    witnessed_jobs::{Transport, WitnessedJobs, quietly},
};

/// Seconds that a job of our own server takes.
const JOB: f64 = 1.5;
/// Longest time until a server listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server over HTTP; stopped on drop.
pub(crate) struct HttpServer {
    _process: Running,
    pub(crate) port: u16,
}

impl HttpServer {
    /// A server of the testkit in one era.
    pub(crate) fn conformance(era: &str) -> Self {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        Self::start(Command::new(Self::conformance_program()).args(["--era", era, "--listen", &listen]), port)
    }

    /// Path of that server.
    pub(crate) fn conformance_program() -> PathBuf {
        let here = std::env::current_exe().unwrap();
        let program = here.ancestors().nth(2).unwrap().join("conformance-server");
        assert!(program.exists(), "{} is missing: run ./test, which builds it", program.display());
        program
    }

    /// The reference server, which has sessions.
    pub(crate) fn everything() -> Self {
        let node = root().join(".interop/node_modules/.bin/node");
        let script = root().join(".interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        assert!(script.exists(), "{} is missing: run ./test, which installs it", script.display());
        let port = free_port();
        Self::start(Command::new(node).arg(script).arg("streamableHttp").env("PORT", port.to_string()), port)
    }

    pub(crate) fn start(command: &mut Command, port: u16) -> Self {
        let process = Running::start(command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()));
        until(|| TcpStream::connect(("127.0.0.1", port)).ok());
        Self { _process: process, port }
    }

    pub(crate) fn entry(&self) -> Value {
        json!({ "url": format!("http://127.0.0.1:{}/mcp", self.port) })
    }
}

/// Moments from a seed, which is printed.
pub(crate) struct Moments(SeededRng);

impl Moments {
    pub(crate) fn new() -> Self {
        Self(SeededRng::of(rng::seed(), 31))
    }

    /// The next time below a bound.
    pub(crate) fn next(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.0.below(most.as_millis() as u64))
    }
}

pub(crate) fn rounds() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 50 } else { 3 }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until there is a value.
pub(crate) fn until<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain");
        thread::sleep(Duration::from_millis(20));
    }
}

fn home(entry: Value) -> Home {
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "jobs": entry } }).to_string());
    home
}

/// The call of a task, as it is recorded.
fn call(home: &Home, id: &str) -> Value {
    home.run(&["calls", "show", id, "-o", "json"]).json()
}

/// Starts a task in a gateway, kills the gateway at some moment, starts it again, and returns the result of the task.
fn survived(home: &Home, words: &[&str], moment: Duration) -> String {
    let serving = Serving::start(home, &[]);
    let detached: Vec<&str> = ["call"].iter().chain(words).copied().chain(["--detach", "-o", "json"]).collect();
    let id = home.run(&detached).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(call(home, &id)["state"], json!("running"));
    thread::sleep(moment);
    drop(serving);
    let again = Serving::start(home, &[]);
    let task = until(|| {
        let task = home.run(&["tasks", "show", &id, "-o", "json"]).json();
        (task["status"] != json!("working") && task["status"] != json!("input-required")).then_some(task)
    });
    assert_eq!(task["status"], json!("completed"), "{task}");
    let call = call(home, &id);
    assert_eq!((&call["state"], &call["taskStatus"]), (&json!("succeeded"), &json!("completed")), "{call}");
    drop(again);
    home.run(&["tasks", "result", &id, "-o", "human"]).ok().to_owned()
}

#[test]
fn tasks_of_a_server_without_sessions_survive_the_gateway() {
    let jobs = WitnessedJobs::new(Transport::Http, "2026-07-28");
    let seconds = format!("seconds={JOB}");
    let mut moments = Moments::new();
    for round in 0..rounds() {
        let label = format!("label={round}");
        let moment = moments.next(Duration::from_secs_f64(JOB * 1.5));
        let result = survived(&jobs.home, &["jobs.long_job", &label, &seconds], moment);
        assert!(result.starts_with("Computed for"), "{result}");
        jobs.assert_done_once(&round.to_string());
    }
    jobs.assert_records_are_true();
}

#[test]
fn tasks_in_a_session_of_the_reference_server_survive_the_gateway() {
    let server = HttpServer::everything();
    let home = home(server.entry());
    let mut moments = Moments::new();
    for _ in 0..rounds() {
        let moment = moments.next(Duration::from_secs(3));
        let result = survived(&home, &["jobs.simulate-research-query", "topic=paint"], moment);
        assert!(result.contains("paint"), "{result}");
    }
}

#[test]
fn tasks_of_a_server_that_was_started_are_lost_with_the_gateway() {
    let script = root().join(".interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let node = root().join(".interop/node_modules/.bin/node");
    let home = home(json!({ "command": node, "args": [script, "stdio"] }));
    let mut moments = Moments::new();
    for _ in 0..rounds() {
        let serving = Serving::start(&home, &[]);
        let detached =
            home.run(&["call", "jobs.simulate-research-query", "topic=paint", "--detach", "-o", "json"]).json();
        let id = detached["id"].as_str().unwrap();
        thread::sleep(moments.next(Duration::from_millis(1_500)));
        drop(serving);
        let ran = home.run(&["tasks", "result", id, "-o", "human"]);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.talk.contains("is lost: its server ended with the process"), "{ran:?}");
        let call = call(&home, id);
        assert_eq!((&call["state"], &call["taskStatus"]), (&json!("interrupted"), &json!("lost")), "{call}");
    }
}

#[test]
fn a_task_whose_command_was_killed_is_waited_for_by_the_next() {
    let jobs = WitnessedJobs::new(Transport::Http, "2026-07-28");
    let home = &jobs.home;
    let seconds = format!("seconds={JOB}");
    let mut moments = Moments::new();
    for round in 0..rounds() {
        let label = format!("label={round}");
        let command = quietly(&mut home.command(&["call", "jobs.long_job", &label, &seconds]));
        let started = || {
            let tasks = home.run(&["tasks", "-o", "json"]).json();
            (tasks.as_array().unwrap().len() == round + 1).then_some(tasks)
        };
        until(started);
        thread::sleep(moments.next(Duration::from_secs_f64(JOB / 2.0)));
        drop(command);
        let ran = home.run(&["tasks", "wait", "last", "-o", "human"]);
        assert!(ran.ok().starts_with("Computed for"), "{ran:?}");
        let calls = home.run(&["calls", "list", "-o", "json"]).json();
        assert_eq!(calls[0]["state"], json!("succeeded"), "{calls}");
        assert_eq!(calls.as_array().unwrap().len(), round + 1, "a call is recorded once: {calls}");
        jobs.assert_done_once(&round.to_string());
    }
    jobs.assert_records_are_true();
}

#[test]
fn a_repetition_under_its_key_gets_the_result_of_a_task_whose_command_was_killed() {
    let jobs = WitnessedJobs::new(Transport::Http, "2026-07-28");
    let home = &jobs.home;
    let seconds = format!("seconds={JOB}");
    let mut moments = Moments::new();
    for round in 0..rounds() {
        let key = format!("key-{round}");
        let label = format!("label={round}");
        let words = ["call", "jobs.long_job", &label, &seconds, "--idempotency-key", &key, "-o", "human"];
        let command = quietly(&mut home.command(&words));
        let tasks = || home.run(&["tasks", "-o", "json"]).json().as_array().unwrap().len();
        until(|| (tasks() == round + 1).then_some(()));
        thread::sleep(moments.next(Duration::from_secs_f64(JOB / 2.0)));
        drop(command);
        assert!(home.run(&words).ok().starts_with("Computed for"));
        assert_eq!(tasks(), round + 1, "the server was not asked again");
        jobs.assert_done_once(&round.to_string());
    }
    jobs.assert_records_are_true();
}

#[test]
fn a_call_that_is_detached_without_a_gateway_needs_a_server_that_keeps_its_task() {
    let script = root().join(".interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let node = root().join(".interop/node_modules/.bin/node");
    let stdio = home(json!({ "command": node, "args": [script, "stdio"] }));
    let words = ["call", "jobs.simulate-research-query", "topic=paint", "--detach", "-o", "human"];
    let ran = stdio.run(&words);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.talk.contains("needs a running gateway"), "{ran:?}");
    let server = HttpServer::conformance("2026-07-28");
    let http = home(server.entry());
    let id = http.run(&["call", "jobs.long_job", "seconds=1", "--detach", "-o", "human"]).ok().trim().to_owned();
    assert_eq!(http.run(&["tasks", "show", &id, "-o", "json"]).json()["status"], json!("working"));
    assert!(http.run(&["tasks", "wait", &id, "-o", "human"]).ok().starts_with("Computed for"));
    let id = http.run(&["call", "jobs.long_job", "seconds=600", "--detach", "-o", "human"]).ok().trim().to_owned();
    assert!(http.run(&["tasks", "cancel", &id, "-o", "human"]).ok().ends_with(": cancelled\n"));
    assert_eq!(call(&http, &id)["state"], json!("cancelled"));
}

/// A client of revision 2025-11-25 with a session at the gateway.
pub(crate) struct SessionClient<'a> {
    serving: &'a Serving,
    key: &'a str,
    session: String,
}

impl<'a> SessionClient<'a> {
    pub(crate) fn connect(serving: &'a Serving, key: &'a str) -> Self {
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "story", "version": "1" } });
        let mut client = Self { serving, key, session: String::new() };
        let answer = client.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
        let session = answer.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        client.session = session.unwrap();
        client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// The response to a request.
    pub(crate) fn request(&self, method: &str, params: &Value) -> Value {
        let answer = self.post(&json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params })).body;
        let line = answer.lines().find_map(|line| line.strip_prefix("data: ").filter(|data| data.contains("\"id\":2")));
        serde_json::from_str(line.unwrap_or(&answer)).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn post(&self, message: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        if !self.session.is_empty() {
            headers.extend([("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", "2025-11-25")]);
        }
        Answer::of(self.serving.send("POST", "/mcp", &headers, &message.to_string()))
    }
}

#[test]
fn tasks_that_the_gateway_hosts_for_its_clients_survive_it() {
    let jobs = WitnessedJobs::new(Transport::Http, "2026-07-28");
    let home = &jobs.home;
    let sample = json!({ "command": crate::home::TOOLWAY, "args": ["sample"] });
    home.configure(&json!({ "mcpServers": { "jobs": jobs.entry("2026-07-28"), "workshop": sample } }).to_string());
    let key = home.run(&["clients", "add", "ada", "-o", "json"]).json()["key"].as_str().unwrap().to_owned();
    let mut moments = Moments::new();
    for round in 0..rounds() {
        let serving = Serving::start(home, &[]);
        serving.settled(&key, "jobs", "ready");
        serving.settled(&key, "workshop", "ready");
        let client = SessionClient::connect(&serving, &key);
        let begin = |name: &str, arguments: Value| {
            let params = json!({ "name": name, "arguments": arguments, "task": { "ttl": 600_000 } });
            let begun = client.request("tools/call", &params);
            begun["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
        };
        let sum = begin("workshop__add", json!({ "a": 2, "b": 3 }));
        until(|| {
            (client.request("tasks/get", &json!({ "taskId": sum }))["result"]["status"] == json!("completed"))
                .then_some(())
        });
        let job = begin("jobs__long_job", json!({ "label": round.to_string(), "seconds": JOB }));
        until(|| {
            let tasks = home.run(&["tasks", "jobs", "-o", "json"]).json();
            (tasks[0]["status"] == json!("working")).then_some(())
        });
        thread::sleep(moments.next(Duration::from_secs_f64(JOB)));
        drop(serving);
        let again = Serving::start(home, &[]);
        let client = SessionClient::connect(&again, &key);
        let result = client.request("tasks/result", &json!({ "taskId": sum }));
        assert_eq!(result["result"]["structuredContent"]["sum"], json!(5.0), "{result}");
        let result = client.request("tasks/result", &json!({ "taskId": job }));
        let text = result["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        assert!(text.starts_with("Computed for"), "{result}");
        jobs.assert_done_once(&round.to_string());
        let listed = |client: &SessionClient<'_>| {
            let page = client.request("tasks/list", &json!({}));
            let ids = page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
            ids.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let own = listed(&client);
        assert_eq!(own.len(), 2 * (round + 1), "those of all earlier processes: {own:?}");
        // The newest first; listed ids can be used.
        let result = client.request("tasks/result", &json!({ "taskId": own[1] }));
        assert_eq!(result["result"]["structuredContent"]["sum"], json!(5.0), "{result}");
        let other = home.run(&["clients", "add", "ben", "-o", "json"]).json()["key"].as_str().unwrap().to_owned();
        let outsider = SessionClient::connect(&again, &other);
        assert!(outsider.request("tasks/get", &json!({ "taskId": sum }))["error"].is_object());
        assert!(listed(&outsider).is_empty());
        assert!(outsider.request("tasks/get", &json!({ "taskId": own[1] }))["error"].is_object());
        home.run(&["clients", "revoke", "ben", "-o", "json"]);
    }
}
