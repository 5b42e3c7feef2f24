//! Third-party clients through the gateway: each lists, calls, answers server requests and receives change notifications
//! as far as it can. The results are the rows of `docs/reference/clients.md`.

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
/// Number of tools of the conformance server.
const TOOLS: usize = 44;
/// With a handshake, or the era that the gateway offers.
const BOTH: [&str; 2] = ["legacy", "auto"];

/// A conformance server over HTTP; killed on drop.
pub(crate) struct HttpServerProcess {
    child: Child,
    url: String,
}

/// A gateway with servers of both eras over stdio and HTTP, and a third-party server.
struct ClientFixture {
    home: Home,
    serving: Serving,
    _old: HttpServerProcess,
    _new: HttpServerProcess,
}

#[test]
fn the_typescript_sdk() {
    run_client(&node("typescript_sdk_client.mjs"), &["legacy"]);
}

#[test]
fn the_client_package_of_typescript() {
    run_client(&node("typescript_2_client.mjs"), &BOTH);
}

#[test]
fn the_python_sdk() {
    run_client(&python("python_sdk_client.py"), &BOTH);
}

#[test]
fn fastmcp() {
    run_client(&python("fastmcp_client.py"), &BOTH);
}

#[test]
fn rmcp() {
    run_client(&[built("rmcp-client")], &BOTH);
}

#[test]
fn the_inspectors_command_line() {
    run_client(&node("inspector_client.mjs"), &BOTH);
}

#[test]
fn every_row_of_the_page_has_a_test() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, 11, "{PAGE}");
}

/// Runs one client in these modes and compares its rows.
fn run_client(client: &[PathBuf], modes: &[&str]) {
    let fixture = ClientFixture::new();
    for mode in modes {
        let did = fixture.everywhere(client, mode);
        let theirs = fixture.run(client, &fixture.plan_of_others(mode, &did));
        assert_eq!(theirs["called"], "Echo: x", "{theirs}");
        if did["elicited"].is_string() {
            assert!(theirs["elicited"].as_str().unwrap().contains("User provided"), "{theirs}");
            assert!(theirs["sampled"].as_str().unwrap().contains("heard"), "{theirs}");
        }
        assert_eq!(theirs["subscribed"], did["subscribed"], "{theirs}");
        on_the_page(&row(&did));
        if modes.last() == Some(mode) {
            assert_eq!(ClientFixture::with_a_key(client, mode), did, "with a key, at /mcp, under public names");
        }
    }
    fixture.serving.stop();
}

impl ClientFixture {
    fn new() -> Self {
        let home = Home::new();
        let (old, new) = (HttpServerProcess::start("2025-11-25"), HttpServerProcess::start("2026-07-28"));
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

    /// Runs the client against both eras and both transports; asserts the same results. The long run uses all four servers.
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

    /// A plan for the public `server-everything`, without elicitation if the client does not support it.
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

    /// Runs the client against one server behind a gateway with keys, at the URL of the whole catalog.
    fn with_a_key(client: &[PathBuf], mode: &str) -> Value {
        let home = Home::new();
        home.configure(&json!({ "mcpServers": { "only": started("2025-11-25") } }).to_string());
        let serving = Serving::start(&home, &[]);
        // The catalog does not wait for servers; a fast client would see an empty one.
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

impl HttpServerProcess {
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

impl Drop for HttpServerProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// The plan for a conformance server; `prefix` is the prefix of its tool names.
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

/// Runs a client and returns its results.
fn run(home: &Home, client: &[PathBuf], plan: &Value) -> Value {
    let around = home.command(&[]);
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).arg(plan.to_string()).env_clear().current_dir(home.path("")).stdin(Stdio::null());
    command.envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(&command.output().unwrap()).json()
}

/// Replaces the error text of a refused elicitation, which differs between the eras.
fn without_reason(mut did: Value) -> Value {
    if let Some(refused) = did.get_mut("refused") {
        let text = refused.as_str().unwrap();
        let reasons = ["the caller", "the client does not support", "the client lacks a capability"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{refused}");
        *refused = json!(true);
    }
    did
}

/// The results of a client as a row of the page.
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

/// An entry of a conformance server over stdio.
fn started(era: &str) -> Value {
    json!({ "command": built("conformance-server"), "args": ["--era", era, "--stdio"] })
}

/// A program of this workspace. Tests are built into `deps`, programs next to it.
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
