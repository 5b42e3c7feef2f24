//! What servers written by others ask for, and what takes long, in `run` and at the terminal: a form, a URL, roots, a task, a
//! session, an outcome. Sampling: `sampling.rs`; in `chat`: `chat.rs`, `roots.rs`; clients of the gateway: `client_walks.rs`,
//! `interop_tasks.rs`; the console: `tests/console/stories/requests.mjs`, `tasks.mjs`.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    gateway::Serving,
    home::{Home, Ran, Running, root},
    left_to_inbox::waiting,
    stored_sessions::HttpServer,
    task_crashes::until,
    terminal::Terminal,
};

const RUN: [&str; 6] = ["run", "go", "--model", "scripted:script.json", "--mode", "allow"];
const PATIENCE: Duration = Duration::from_secs(60);
/// A task of `server-everything`, which takes about four seconds.
const RESEARCH: &str = "every.simulate-research-query";

fn peer(path: &str) -> String {
    let program = root().join(".interop").join(path);
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    program.to_str().unwrap().to_owned()
}

/// A home with FastMCP's server, with `server-everything`, and with a model of these turns.
fn home(turns: &Value) -> Home {
    let home = Home::with_script(turns);
    let asking = json!([root().join("tests/interop/servers/asking_fastmcp.py")]);
    let servers = json!({
        "asking": { "command": peer("venv/bin/python"), "args": asking },
        "every": { "command": peer("node_modules/.bin/mcp-server-everything"), "args": ["stdio"] },
    });
    home.configure(&json!({ "mcpServers": servers }).to_string());
    home
}

/// A model that calls a tool and says what it got.
fn calling(tool: &str) -> Value {
    json!([{ "calls": [{ "tool": tool }] }, { "text": "It said: {{result}}" }])
}

fn run(home: &Home, words: &[&str]) -> Ran {
    home.run(&[&RUN[..], words].concat())
}

#[test]
fn a_run_answers_forms_that_a_server_sends_or_returns() {
    for (tool, era) in [("asking__pushed", "legacy"), ("asking__by_result", "modern")] {
        let home = home(&calling(tool));
        let file = home.path(".config/toolway/toolway.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        config["mcpServers"]["asking"]["era"] = json!(era);
        home.configure(&config.to_string());
        let answered = run(&home, &["--answer", "name=Ada"]);
        assert!(answered.ok().contains("It said: hello Ada"), "{era}: {answered:?}");
        let declared_nothing = run(&home, &[]);
        assert!(!declared_nothing.out.contains("hello"), "{era}: {declared_nothing:?}");
    }
}

#[test]
fn a_url_in_a_run_is_opened_by_another_and_the_run_goes_on() {
    let home = home(&calling("asking__opened"));
    let serving = Serving::start(&home, &[]);
    let mut command = home.command(&[&RUN[..], &["--wait"]].concat());
    let running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let item = &waiting(&home, 1)[0];
    assert_eq!(item["url"], json!("https://pay.example/confirm?cart=7"), "{item}");
    home.run(&["inbox", "answer", item["id"].as_str().unwrap()]).ok();
    let ran = running.output();
    assert!(ran.ok().contains("It said: opened: accept"), "{ran:?}");
    serving.stop();
}

#[test]
fn a_url_is_opened_from_the_terminal() {
    let home = home(&json!([]));
    let script = home.write("browser.sh", "printf '%s' \"$1\" > \"$(dirname \"$0\")/opened\"\n");
    let mut command = home.command(&["call", "asking.opened"]);
    command.env("NO_COLOR", "1").env("BROWSER", format!("sh {}", script.display()));
    let mut terminal = Terminal::start(command);
    terminal.answers("Confirm the payment", "").answers("host: pay.example", "");
    terminal.answers("[y] open in the browser", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && shown.contains("opened: accept"), "{shown}");
    let opened = home.path("opened");
    until(|| std::fs::read_to_string(&opened).ok().filter(|url| url == "https://pay.example/confirm?cart=7"));
}

#[test]
fn a_run_gives_a_server_its_roots() {
    let home = home(&calling("every__get-roots-list"));
    let folder = home.folder("mine");
    let ran = run(&home, &["--root", folder.to_str().unwrap()]);
    assert!(ran.ok().contains(&format!("file://{}", folder.display())), "{ran:?}");
}

#[test]
fn a_run_gets_the_result_of_a_task() {
    let call = json!({ "tool": "every__simulate-research-query", "arguments": { "topic": "paint" } });
    let home = home(&json!([
        { "calls": [call] },
        { "expect": [{ "contains": "started, id " }], "text": "It looks." },
        { "heard": ["This message is not from the user.", "# Research Report: paint"], "text": "It is known." },
    ]));
    let ran = run(&home, &["-o", "json"]);
    assert_eq!(ran.json()["result"], json!("It is known."), "{ran:?}");
    let tasks = home.run(&["tasks", "every", "-o", "json"]).json();
    assert_eq!(tasks[0]["status"], json!("completed"), "{tasks}");
}

#[test]
fn a_call_at_the_terminal_waits_for_a_task_or_cancels_it() {
    let home = home(&json!([]));
    let mut terminal = Terminal::start(home.command(&["call", RESEARCH, "topic=paint"]));
    terminal.answers("Gathering sources", "").answers("# Research Report: paint", "");
    assert!(terminal.end(PATIENCE).0.success());
    let terminal = Terminal::start(home.command(&["call", RESEARCH, "topic=clay"]));
    terminal.until("Gathering sources");
    terminal.interrupts();
    let (status, shown) = terminal.end(PATIENCE);
    assert_eq!(status.code(), Some(130), "{shown}");
    let tasks = home.run(&["tasks", "-o", "json"]).json();
    assert_eq!([&tasks[0]["status"], &tasks[1]["status"]], ["cancelled", "completed"], "{tasks}");
}

/// A home with a server over HTTP that counts in its session, and a model that calls it once in each turn.
fn counting(server: &HttpServer) -> Home {
    let turn = |text: &str| [json!({ "calls": [{ "tool": "counter__count" }] }), json!({ "text": text })];
    let home = Home::with_script(&json!([turn("It said: {{result}}"), turn("Then: {{result}}")].concat()));
    let settings = json!({ "sessions": "keep", "mcpServers": { "counter": server.entry() } });
    home.configure(&settings.to_string());
    home
}

#[test]
fn runs_and_a_chat_that_was_killed_go_on_in_the_session_of_a_server() {
    let server = HttpServer::counting();
    let home = counting(&server);
    for count in ["1", "2"] {
        let ran = run(&home, &[]);
        assert!(ran.ok().contains(&format!("It said: {count}")), "{ran:?}");
    }
    let words = ["chat", "--model", "scripted:script.json", "--mode", "allow"];
    let mut chat = ChatScreen::start(&home, &words, 100);
    // A chat answers forms, which a run does not: the server was told so in another session.
    chat.prompts(1).types("count\r").sees("It said: 1");
    chat.kills();
    let mut chat = ChatScreen::start(&home, &words, 100);
    chat.prompts(1).types("count\r").sees("It said: 2").types("/exit\r");
    assert!(chat.end().0.success());
}

/// A home whose `server-everything` writes the id of its process, and a call that takes long.
fn mortal(turns: &Value) -> Home {
    let home = home(turns);
    let script = home.write("every.sh", "echo $$ > every.pid\nexec mcp-server-everything stdio\n");
    let every = json!({ "command": "sh", "args": [script], "cwd": script.parent() });
    home.configure(&json!({ "mcpServers": { "every": every } }).to_string());
    home
}

/// Ends the server as the system does when memory runs out, once the call has reached it.
fn kill_server(home: &Home) {
    until(|| (home.run(&["calls", "list", "-o", "json"]).json()[0]["state"] == json!("running")).then_some(()));
    let id = std::fs::read_to_string(home.path("every.pid")).unwrap();
    assert!(Command::new("kill").args(["-9", id.trim()]).status().unwrap().success());
}

const LONG: [&str; 2] = ["duration=600", "steps=600"];

/// The outcome of the call is unknown, until a person says what was found.
fn is_unknown(home: &Home) {
    let call = || home.run(&["calls", "show", "last", "-o", "json"]).json();
    let before = call();
    assert_eq!(before["outcome"], json!("unknown"), "{before}");
    home.run(&["calls", "settle", "last", "--did-not-happen"]).ok();
    let after = call();
    assert_eq!(after["settlement"]["finding"], json!("did-not-happen"), "{after}");
}

#[test]
fn a_call_whose_server_was_killed_says_at_the_terminal_that_it_may_have_acted() {
    let home = mortal(&json!([]));
    let words = [&["call", "every.trigger-long-running-operation"], &LONG[..]].concat();
    let terminal = Terminal::start(home.command(&words));
    terminal.until("1/600");
    kill_server(&home);
    let (status, shown) = terminal.end(PATIENCE);
    assert!(!status.success() && shown.contains("may have acted"), "{shown}");
    is_unknown(&home);
}

#[test]
fn a_model_in_a_run_is_told_that_a_server_that_was_killed_may_have_acted() {
    let arguments = json!({ "duration": 600, "steps": 600 });
    let home = mortal(&json!([
        { "calls": [{ "tool": "every__trigger-long-running-operation", "arguments": arguments }] },
        { "expect": [{ "contains": "outcome unknown", "error": true }], "text": "I look first." },
    ]));
    let mut command = home.command(&RUN);
    let running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    until(|| home.path("every.pid").exists().then_some(()));
    kill_server(&home);
    let ran = running.output();
    assert!(ran.ok().contains("I look first."), "{ran:?}");
    is_unknown(&home);
}
