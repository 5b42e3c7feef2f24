//! `kill -9` during calls, with a witness server that writes its effects to its own file: nothing acknowledged is lost,
//! nothing is done twice under one key, and what is recorded as not sent did not happen.
//!
//! `TOOLWAY_TEST_LONG=1` kills fifty times; `TOOLWAY_CRASH_SEED` repeats the choices of an earlier run.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::{Value, json};
use toolway_testkit::{effects::EffectsFile, seeded_random::SeededRandom};

use crate::{chat_screen::ChatScreen, home::Home, stdio_client::StdioClient};

/// Calls of one round.
const CALLS: usize = 8;
/// Longest time that a call takes after its effect, in milliseconds.
const AFTER: u64 = 40;

fn rounds() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 50 } else { 3 }
}

/// A home with the witness as its server, and the file with its effects.
struct Scene {
    home: Home,
    file: PathBuf,
    /// The witness over HTTP, which is not a process of the gateway and lives on.
    far: Option<Child>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let server = here.ancestors().nth(2).unwrap().join("witness-server");
    assert!(server.exists(), "{} is missing: run ./test, which builds it", server.display());
    server
}

impl Scene {
    fn new(transport: Transport) -> Self {
        let home = Home::new();
        let file = home.path("effects");
        let (entry, far) = match transport {
            Transport::Stdio => (json!({ "command": program(), "args": [file, "--stdio"] }), None),
            Transport::Http => {
                let mut command = Command::new(program());
                let mut far =
                    command.arg(&file).args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
                let mut url = String::new();
                BufReader::new(far.stdout.take().unwrap()).read_line(&mut url).unwrap();
                (json!({ "url": url.trim() }), Some(far))
            }
        };
        home.configure(&json!({ "mcpServers": { "witness": entry } }).to_string());
        Self { home, file, far }
    }

    /// How often each effect happened.
    fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for id in EffectsFile::read(&self.file) {
            *effects.entry(id).or_default() += 1;
        }
        effects
    }

    /// The keys of calls with this outcome.
    fn keys(&self, outcome: &str) -> Vec<String> {
        let database = Connection::open(self.home.path(".local/state/toolway/toolway.db")).unwrap();
        let sql = "SELECT key FROM idempotency_keys JOIN calls ON id = call WHERE outcome = ?";
        let mut statement = database.prepare(sql).unwrap();
        let keys = statement.query_map([outcome], |row| row.get(0)).unwrap();
        keys.map(Result::unwrap).collect()
    }

    fn assert_nothing_twice(&self) {
        let twice: Vec<_> = self.effects().into_iter().filter(|(_, count)| *count != 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(far) = &mut self.far {
            let _gone = far.kill();
            let _gone = far.wait();
        }
    }
}

fn params(id: &str, after: u64) -> Value {
    let arguments = json!({ "id": id, "afterMs": after });
    json!({ "name": "witness__act", "arguments": arguments, "_meta": { "toolway/idempotencyKey": id } })
}

/// One round: calls, a kill at a random moment, and every call again under its key.
fn kill_and_repeat(scene: &Scene, round: usize, random: &mut SeededRandom) {
    let mut gateway = StdioClient::start(&scene.home);
    let calls: Vec<(String, u64)> =
        (0..CALLS).map(|number| (format!("{round}-{number}"), random.below(AFTER))).collect();
    let mut open: BTreeMap<u64, &str> = BTreeMap::new();
    for (id, after) in &calls {
        open.insert(gateway.send("tools/call", params(id, *after)), id);
    }
    let mut acknowledged = BTreeMap::new();
    for _ in 0..random.below(CALLS as u64) {
        let response = gateway.next_response().unwrap();
        let id = open[&response["id"].as_u64().unwrap()];
        assert_eq!(response["result"]["content"][0]["text"], format!("did {id}"), "{response}");
        acknowledged.insert(id, response["result"].clone());
    }
    thread::sleep(Duration::from_millis(random.below(10)));
    gateway.kill();

    // The next process closes what the killed one left open.
    let mut gateway = StdioClient::start(&scene.home);
    gateway.request("tools/list", json!({}));
    let effects = scene.effects();
    for key in scene.keys("not-sent") {
        assert_eq!(effects.get(&key), None, "recorded as not sent, and happened");
    }
    for (id, after) in &calls {
        let result = gateway.request("tools/call", params(id, *after))["result"].clone();
        match (acknowledged.get(id.as_str()), result["_meta"]["toolway/outcome"].as_str()) {
            (Some(first), _) => assert_eq!(result["content"], first["content"], "{id}: {result}"),
            (None, Some(outcome)) => assert_eq!(outcome, "unknown", "{id}: {result}"),
            (None, None) => assert_eq!(result["content"][0]["text"], format!("did {id}"), "{result}"),
        }
    }
    scene.assert_nothing_twice();
    gateway.leave();
}

fn gateway_story(transport: Transport) {
    let scene = Scene::new(transport);
    let mut random = SeededRandom::seeded_by("TOOLWAY_CRASH_SEED");
    for round in 0..rounds() {
        kill_and_repeat(&scene, round, &mut random);
    }
    // Each call was made, or its outcome is known to be unknown.
    let missing = rounds() * CALLS - scene.effects().len();
    assert!(missing <= scene.keys("unknown").len(), "{missing} are missing");
}

#[test]
fn a_gateway_that_is_killed_during_calls_over_stdio_does_nothing_twice() {
    gateway_story(Transport::Stdio);
}

#[test]
fn a_gateway_that_is_killed_during_calls_over_http_does_nothing_twice() {
    gateway_story(Transport::Http);
}

fn command_story(transport: Transport) {
    let scene = Scene::new(transport);
    let mut random = SeededRandom::seeded_by("TOOLWAY_CRASH_SEED");
    for round in 0..rounds() {
        let id = format!("id=call-{round}");
        let after = format!("afterMs={}", random.below(AFTER));
        let key = format!("key-{round}");
        let words = ["call", "witness.act", &id, &after, "--idempotency-key", &key, "-o", "json"];
        let mut child = scene.home.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(random.below(250)));
        child.kill().unwrap();
        child.wait().unwrap();
        let again = scene.home.run(&words);
        match again.code {
            0 => {}
            7 => assert!(again.talk.contains("outcome is unknown"), "{again:?}"),
            _ => panic!("{again:?}"),
        }
        scene.assert_nothing_twice();
    }
}

#[test]
fn a_call_that_is_killed_and_repeated_under_its_key_acts_once() {
    command_story(Transport::Stdio);
    command_story(Transport::Http);
}

/// A scene in which the model acts and does not get an answer.
fn acting(id: &str) -> Scene {
    let scene = Scene::new(Transport::Http);
    let arguments = json!({ "id": id, "afterMs": 60_000 });
    let turns = json!([{ "calls": [{ "tool": "witness__act", "arguments": arguments }] }, { "text": "Never." }]);
    scene.home.write("script.json", &json!({ "turns": turns }).to_string());
    scene
}

impl Scene {
    fn until_acted(&self) {
        let began = Instant::now();
        while self.effects().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "the model calls");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resumes the last conversation: the model is told that the outcome is unknown, and nothing is done again.
    fn resume(&self, id: &str) {
        let expected = "the call was interrupted; outcome unknown: the server may have acted on the call";
        let next = json!([{ "expect": [{ "contains": expected }], "text": "I will look first." }]);
        self.home.write("next.json", &json!({ "turns": next }).to_string());
        let resumed = ["chat", "--model", "scripted:next.json", "--resume", "last"];
        let mut chat = ChatScreen::start(&self.home, &resumed, 100);
        chat.sees("> ").types("go on\r").sees("I will look first.").types("/exit\r");
        assert!(chat.end().0.success());
        assert_eq!(self.effects(), BTreeMap::from([(id.to_owned(), 1)]));
    }
}

const ALLOWED: [&str; 4] = ["--model", "scripted:script.json", "--mode", "allow"];

#[test]
fn a_run_that_is_killed_during_a_call_and_resumed_does_not_act_again() {
    for _ in 0..rounds() {
        let scene = acting("run");
        let mut command = scene.home.command(&[&["run"], &ALLOWED[..], &["act"]].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        scene.until_acted();
        child.kill().unwrap();
        child.wait().unwrap();
        scene.resume("run");
    }
}

#[test]
fn a_chat_that_is_killed_during_a_call_and_resumed_does_not_act_again() {
    for _ in 0..rounds() {
        let scene = acting("chat");
        let mut chat = ChatScreen::start(&scene.home, &[&["chat"], &ALLOWED[..]].concat(), 100);
        chat.prompts(1).types("act\r");
        scene.until_acted();
        chat.kills();
        scene.resume("chat");
    }
}
