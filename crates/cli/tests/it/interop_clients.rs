//! Clients that others wrote, through the gateway: each lists, calls, is asked in the middle and hears of a change as
//! far as it can. Their rows stand in `docs/reference/clients.md`.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, Ran, root},
};

const PAGE: &str = "docs/reference/clients.md";
/// What the conformance server offers.
const TOOLS: usize = 43;
/// A handshake first, or whichever era the other side speaks.
const BOTH: [&str; 2] = ["legacy", "auto"];

/// A conformance server on a port, as long as this lives.
pub(crate) struct OnPort {
    child: Child,
    url: String,
}

/// A gateway in front of servers of both eras, started and on ports, and one that others wrote.
struct Stage {
    home: Home,
    serving: Serving,
    _old: OnPort,
    _new: OnPort,
}

#[test]
fn the_typescript_sdk() {
    tell(&node("typescript_sdk_client.mjs"), &["legacy"]);
}

#[test]
fn the_client_package_of_typescript() {
    tell(&node("typescript_2_client.mjs"), &BOTH);
}

#[test]
fn the_python_sdk() {
    tell(&python("python_sdk_client.py"), &BOTH);
}

#[test]
fn fastmcp() {
    tell(&python("fastmcp_client.py"), &BOTH);
}

#[test]
fn rmcp() {
    tell(&[built("rmcp-client")], &BOTH);
}

#[test]
fn the_inspectors_command_line() {
    tell(&node("inspector_client.mjs"), &BOTH);
}

#[test]
fn every_row_of_the_page_belongs_to_a_story() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, 11, "{PAGE}");
}

/// The whole story of one client, and its rows.
fn tell(client: &[PathBuf], modes: &[&str]) {
    let stage = Stage::new();
    for mode in modes {
        let did = stage.everywhere(client, mode);
        let theirs = stage.run(client, &stage.plan_of_others(mode, &did));
        assert_eq!(theirs["called"], "Echo: x", "{theirs}");
        if did["elicited"].is_string() {
            assert!(theirs["elicited"].as_str().unwrap().contains("User provided"), "{theirs}");
            assert!(theirs["sampled"].as_str().unwrap().contains("heard"), "{theirs}");
        }
        assert_eq!(theirs["subscribed"], did["subscribed"], "{theirs}");
        on_the_page(&row(&did));
        if modes.last() == Some(mode) {
            assert_eq!(Stage::with_a_key(client, mode), did, "with a key, at /mcp, under public names");
        }
    }
    stage.serving.stop();
}

impl Stage {
    fn new() -> Self {
        let home = Home::new();
        let (old, new) = (OnPort::start("2025-11-25"), OnPort::start("2026-07-28"));
        home.configure(
            &json!({
                "gateway": { "access": "open" },
                "mcpServers": {
                    "old": started("2025-11-25"),
                    "new": started("2026-07-28"),
                    "old-on-a-port": { "url": old.url },
                    "new-on-a-port": { "url": new.url },
                    "everything": { "command": "mcp-server-everything", "args": ["stdio"] },
                },
            })
            .to_string(),
        );
        let serving = Serving::start(&home, &[]);
        Self { home, serving, _old: old, _new: new }
    }

    /// Both eras of server, over either transport; what it did is the same everywhere. The full run takes all four.
    fn everywhere(&self, client: &[PathBuf], mode: &str) -> Value {
        let servers: &[&str] = match (std::env::var_os("TOOLWAY_TEST_LONG"), mode) {
            (Some(_), _) => &["old", "new", "old-on-a-port", "new-on-a-port"],
            (None, "legacy") => &["old", "new-on-a-port"],
            (None, _) => &["new", "old-on-a-port"],
        };
        let tell = |server: &&str| {
            let url = format!("http://{}/servers/{server}/mcp", self.serving.authority);
            without_reason(self.run(client, &plan(&url, mode, None, "")))
        };
        let did = tell(&servers[0]);
        for server in &servers[1..] {
            assert_eq!(tell(server), did, "{server}");
        }
        did
    }

    /// A plan for the public `server-everything`. Who cannot be asked is not.
    fn plan_of_others(&self, mode: &str, did: &Value) -> Value {
        let mut plan = plan(&format!("http://{}/servers/everything/mcp", self.serving.authority), mode, None, "");
        plan["call"] = json!(["echo", { "message": "x" }]);
        plan["elicit"] = json!(["trigger-elicitation-request", {}]);
        plan["sample"] = json!(["trigger-sampling-request", { "prompt": "hello", "maxTokens": 10 }]);
        plan["answer"] = json!({ "name": "ada", "check": true });
        plan["change"] = Value::Null;
        plan["watch"] = json!("demo://resource/static/document/architecture.md");
        if !did["elicited"].is_string() {
            plan["elicit"] = Value::Null;
        }
        plan
    }

    /// One server behind a gateway that wants a key, at the address of the whole catalog.
    fn with_a_key(client: &[PathBuf], mode: &str) -> Value {
        let home = Home::new();
        home.configure(&json!({ "mcpServers": { "only": started("2025-11-25") } }).to_string());
        let serving = Serving::start(&home, &[]);
        // The whole catalog waits for nobody: a client that is faster than the server sees an empty one first.
        home.settled(&serving, "only", "ready");
        let plan = plan(&format!("http://{}/mcp", serving.authority), mode, Some(serving.key()), "only__");
        let did = without_reason(run(&home, client, &plan));
        serving.stop();
        did
    }

    fn run(&self, client: &[PathBuf], plan: &Value) -> Value {
        run(&self.home, client, plan)
    }
}

impl OnPort {
    pub(crate) fn start(era: &str) -> Self {
        let mut command = Command::new(built("conformance-server"));
        command.args(["--era", era, "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }
}

impl Drop for OnPort {
    fn drop(&mut self) {
        // It may be gone already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// What to do at a conformance server; `prefix` is what its names begin with there.
fn plan(url: &str, mode: &str, key: Option<&str>, prefix: &str) -> Value {
    let tool = |name: &str, arguments: Value| json!([format!("{prefix}{name}"), arguments]);
    json!({
        "url": url, "mode": mode, "key": key,
        "call": tool("test_simple_text", json!({})),
        "elicit": tool("test_elicitation", json!({ "message": "Who?" })),
        "sample": tool("test_sampling", json!({ "prompt": "hello" })),
        "change": tool("test_trigger_tool_change", json!({})),
        "answer": { "username": "ada", "email": "ada@example.org" },
        "watch": "test://watched-resource",
    })
}

/// Runs a client to its end; what it did.
fn run(home: &Home, client: &[PathBuf], plan: &Value) -> Value {
    let around = home.command(&[]);
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).arg(plan.to_string()).env_clear().current_dir(home.path("")).stdin(Stdio::null());
    command.envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(&command.output().unwrap()).json()
}

/// Servers of the two eras end a call in words of their own when nobody can be asked.
fn without_reason(mut did: Value) -> Value {
    if let Some(refused) = did.get_mut("refused") {
        assert!(refused.as_str().unwrap().contains("the caller"), "{refused}");
        *refused = json!(true);
    }
    did
}

/// What a client did, as a row of the page.
fn row(did: &Value) -> String {
    let yes = |done: bool| if done { "yes" } else { "no" };
    let form =
        did["elicited"].as_str().is_some_and(|said| said.contains("action=accept") && said.contains("ada@example.org"));
    let form = match did["refused"].as_bool() {
        Some(true) => "no: it declares none, and is told so",
        _ => yes(form && did["asked"] == "Who?"),
    };
    let subscribed = did["subscribed"].as_str().map_or("no call for it".to_owned(), |how| format!("`{how}`"));
    format!(
        "| `{}` | {} | {} | {} | {} | {form} | {} | {subscribed} | {} |",
        did["client"].as_str().unwrap(),
        did["version"].as_str().unwrap(),
        did["revision"].as_str().unwrap(),
        yes(did["tools"] == TOOLS),
        yes(did["called"] == "This is a simple text response for testing."),
        yes(did["sampled"] == "LLM response: heard hello"),
        yes(did["changed"] == true),
    )
}

#[track_caller]
fn on_the_page(row: &str) {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    assert!(page.lines().any(|line| line == row), "{PAGE} has no row\n{row}");
}

/// A conformance server as an entry that starts it.
fn started(era: &str) -> Value {
    json!({ "command": built("conformance-server"), "args": ["--era", era, "--stdio"] })
}

/// A program of ours. Tests are built into `deps`, programs beside it.
pub(crate) fn built(name: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join(name);
    assert!(path.exists(), "{} is missing: run ./test, which builds it", path.display());
    path
}

fn node(script: &str) -> [PathBuf; 2] {
    [installed(".interop/node_modules/.bin/node"), script_of(script)]
}

fn python(script: &str) -> [PathBuf; 2] {
    [installed(".interop/venv/bin/python"), script_of(script)]
}

fn script_of(name: &str) -> PathBuf {
    root().join("tests/interop/clients").join(name)
}

fn installed(path: &str) -> PathBuf {
    let path: PathBuf = Path::new(&root()).join(path);
    assert!(path.exists(), "{} is missing: run ./test, which installs it", path.display());
    path
}
