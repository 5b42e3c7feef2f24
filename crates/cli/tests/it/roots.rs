//! Roots: folders that servers are told to work in.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    gateway::{Answer, Serving},
    home::{Home, Running, TOOLWAY, odd, root},
};

/// A peer that is installed by `./test`.
fn peer(path: &str) -> String {
    let program = root().join(path);
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    program.to_str().unwrap().to_owned()
}

/// A home with these roots, and with a server on FastMCP whose tool asks for them during its call.
fn home(roots: &Value) -> Home {
    let home = Home::new();
    let script = root().join("tests/interop/servers/asking_fastmcp.py");
    let server = json!({ "command": peer(".interop/venv/bin/python"), "args": [script] });
    home.configure(&json!({ "roots": roots, "mcpServers": { "asking": server } }).to_string());
    home
}

#[test]
fn server_gets_the_roots_of_the_configuration_and_of_the_command() {
    let home = home(&json!([{ "path": "~/notes", "name": "notes" }, { "path": "~/off", "enabled": false }]));
    let given = home.folder("given folder");
    let told = |words: &[&str]| {
        let called = home.run(&[&["call", "asking", "roots", "-o", "human"], words].concat());
        called.ok().to_owned()
    };
    let base = format!("file://{}", home.path("").display().to_string().trim_end_matches('/'));
    assert_eq!(told(&[]), format!("{base}/notes\n"));
    let both = told(&["--root", given.to_str().unwrap(), "--root", given.to_str().unwrap()]);
    assert_eq!(both, format!("{base}/given%20folder\n{base}/notes\n"));
}

#[test]
fn listed_roots_are_enabled_or_disabled() {
    let home = home(&json!([{ "path": "~/notes" }, { "path": "~/off", "enabled": false }]));
    let listed = home.run(&["roots", "list", "-o", "human"]);
    let state = |name: &str| {
        let line = listed.ok().lines().find(|line| line.ends_with(name)).unwrap();
        line.split_whitespace().rev().nth(1).unwrap()
    };
    assert_eq!((state("/notes"), state("/off")), ("enabled", "disabled"), "{listed:?}");
}

#[test]
fn only_a_server_with_a_session_is_told_that_changed_roots_are_announced() {
    let home = Home::with_sample();
    let folder = home.folder("here");
    let declared = |era: &str, pointer: &str| {
        let words = ["call", "sample.add", "1", "2", "--dry-run", "--root", folder.to_str().unwrap(), "--era", era];
        let traced = home.run(&[&words[..], &["--verbose"]].concat());
        let sent = traced.talk.lines().filter_map(|line| line.strip_prefix("→ "));
        let sent = sent.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let sent: Vec<Value> = sent.filter_map(|message| message.pointer(pointer).cloned()).collect();
        assert!(!sent.is_empty(), "{traced:?}");
        sent
    };
    let modern = declared("modern", "/params/_meta/io.modelcontextprotocol~1clientCapabilities/roots");
    assert!(modern.iter().all(|roots| *roots == json!({})), "{modern:?}");
    assert_eq!(declared("legacy", "/params/capabilities/roots"), [json!({ "listChanged": true })]);
}

#[test]
fn without_roots_a_server_keeps_its_own_folder() {
    let home = Home::new();
    let own = home.folder("own");
    let server = format!("{} {}", peer(".interop/node_modules/.bin/mcp-server-filesystem"), own.display());
    let said = home.run(&["call", "--stdio", &server, "list_allowed_directories", "-o", "human"]);
    assert!(said.ok().contains("/own"), "{said:?}");
}

#[test]
fn first_call_to_a_server_that_reads_its_roots_after_its_start_finds_them() {
    let home = Home::new();
    let [own, given] = ["own", "given"].map(|name| home.folder(name).to_str().unwrap().to_owned());
    let server = json!({ "command": peer(".interop/node_modules/.bin/mcp-server-filesystem"), "args": [own] });
    home.configure(&json!({ "mcpServers": { "files": server } }).to_string());
    for _ in 0..3 {
        let called = home.run(&["call", "files.list_allowed_directories", "--root", &given, "-o", "human"]);
        assert!(called.ok().contains(&given) && !called.ok().contains(&own), "{called:?}");
    }
}

#[test]
fn wrong_roots_are_refused_before_a_server_starts() {
    let home = home(&json!([]));
    let missing = home.run(&["call", "asking", "roots", "--root", "missing"]).failed(2, "root");
    assert!(missing["message"].as_str().unwrap().starts_with("root `missing`: "), "{missing}");
    home.run(&["serve", "--root", "."]).failed(2, "usage");
    for wrong in [json!([{ "path": "notes" }]), json!([{ "uri": "notes" }]), json!([{ "name": "notes" }])] {
        self::home(&wrong).run(&["call", "asking", "roots"]).failed(2, "config");
    }
}

/// The URIs that the server gets in a call of this client, which has no roots of its own.
fn told(serving: &Serving, key: &str) -> String {
    let params = json!({ "name": "asking__roots", "arguments": {} });
    let called = Answer::of(serving.call_as(key, "tools/call", params));
    let Some((_, data)) = called.body.split_once("data: {\"jsonrpc\"") else { return called.json().to_string() };
    data.to_owned()
}

#[test]
fn changed_roots_are_used_by_the_running_gateway() {
    let home = home(&json!([]));
    let add = |name| home.run(&["clients", "add", name, "-o", "raw"]).ok().trim().to_owned();
    let (editor, helper) = (add("editor"), add("helper"));
    let folder = |name: &str| home.folder(name).to_str().unwrap().to_owned();
    let serving = Serving::start(&home, &[]);
    serving.settled(&editor, "asking", "ready");
    let refused = told(&serving, &editor);
    assert!(refused.contains("\"isError\":true"), "no roots are declared: {refused}");

    let of_editor = folder("of editor");
    home.run(&["roots", "add", &of_editor, "--client", "editor", "--name", "mine"]).ok();
    home.run(&["roots", "add", &folder("of all")]).ok();
    home.run(&["roots", "add", &folder("of server"), "--server", "asking"]).ok();
    let told_editor = told(&serving, &editor);
    for name in ["of%20all", "of%20server", "of%20editor"] {
        assert!(told_editor.contains(name), "{name}: {told_editor}");
    }
    let told_helper = told(&serving, &helper);
    assert!(told_helper.contains("of%20all") && !told_helper.contains("of%20editor"), "{told_helper}");

    let listed = home.run(&["roots", "list", "--client", "editor", "-o", "json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed[1]["for"], "client editor");
    home.run(&["roots", "remove", &of_editor, "--client", "editor"]).ok();
    let told_editor = told(&serving, &editor);
    assert!(told_editor.contains("of%20all") && !told_editor.contains("of%20editor"), "{told_editor}");
    home.run(&["roots", "remove", &of_editor, "--client", "editor"]).failed(2, "root");
    home.run(&["roots", "add", "/srv", "--client", "editor", "--server", "asking"]).failed(2, "usage");
}

#[test]
fn server_filesystem_behind_the_gateway_moves_to_changed_roots() {
    let home = Home::new();
    let [own, first, second] = ["own", "first", "second"].map(|name| home.folder(name).to_str().unwrap().to_owned());
    let server = json!({ "command": peer(".interop/node_modules/.bin/mcp-server-filesystem"), "args": [own] });
    home.configure(&json!({ "roots": [{ "path": first }], "mcpServers": { "files": server } }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "files", "ready");
    let allows = |folder: &str| {
        // The server reads its roots in the background.
        let params = || json!({ "name": "files__list_allowed_directories", "arguments": {} });
        (0..200).any(|_| Answer::of(serving.call("tools/call", params())).body.contains(folder))
    };
    assert!(allows(&first), "the configured root replaces the folder of the command line");
    home.run(&["roots", "add", &second]).ok();
    assert!(allows(&second), "the server was told that its roots changed");
}

/// The roots that a client supplied, after a request to `/roots`.
fn supplied(serving: &Serving, key: &str, method: &str, roots: &Value) -> Value {
    let headers = [("authorization", format!("Bearer {key}"))];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = if method == "PUT" { json!({ "roots": roots }).to_string() } else { String::new() };
    Answer::of(serving.send(method, "/roots", &headers, &body)).json()
}

#[test]
fn supplied_roots_survive_a_restart_and_end_with_their_key() {
    let home = home(&json!([]));
    let add = || home.run(&["clients", "add", "editor", "-o", "raw"]).ok().trim().to_owned();
    let editor = add();
    let uri = format!("file://{}", home.folder("mine").display());
    let mine = json!([{ "uri": uri, "name": "mine" }]);
    let serving = Serving::start(&home, &[]);
    assert_eq!(supplied(&serving, &editor, "PUT", &mine), json!({ "roots": mine, "dropped": [] }));
    drop(serving);
    let serving = Serving::start(&home, &[]);
    assert_eq!(supplied(&serving, &editor, "GET", &json!(null)), json!({ "roots": mine }));
    serving.settled(&editor, "asking", "ready");
    assert!(told(&serving, &editor).contains("/mine"));
    // A later client of the same name is another one.
    home.run(&["clients", "revoke", "editor"]).ok();
    let editor = add();
    assert_eq!(supplied(&serving, &editor, "GET", &json!(null)), json!({ "roots": [] }));
    drop(serving);
    let serving = Serving::start(&home, &[]);
    assert_eq!(supplied(&serving, &editor, "GET", &json!(null)), json!({ "roots": [] }));
}

#[test]
fn dropped_roots_of_a_client_are_logged_and_audited() {
    let home = home(&json!([]));
    let config = json!({ "gateway": { "publicUrl": "https://gateway.example", "access": "keys" }, "mcpServers": {
        "sample": { "command": TOOLWAY, "args": ["sample"] } } });
    home.configure(&config.to_string());
    let log = home.path("serve.log");
    let serving = Serving::start(&home, &["--log-file", log.to_str().unwrap()]);
    let roots = json!([{ "uri": "file:///etc" }, { "uri": "https://a.example/" }]);
    let set = supplied(&serving, serving.key(), "PUT", &roots);
    assert_eq!(set, json!({ "roots": [{ "uri": "https://a.example/" }], "dropped": ["file:///etc"] }));
    has_logged_and_audited_one_dropped_root(&home, &log);
}

/// Waits for the audit entry about one dropped root of a client.
fn has_logged_and_audited_one_dropped_root(home: &Home, log: &Path) {
    let is_about_roots = |entry: &Value| entry["details"]["dropped"].is_number();
    let began = Instant::now();
    let entry = loop {
        let entries = home.run(&["audit", "query", "--kind", "server-request", "-o", "json"]).json();
        let found = entries.as_array().unwrap().iter().find(|entry| is_about_roots(entry)).cloned();
        if let Some(entry) = found {
            break entry;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{entries}");
    };
    let details = &entry["details"];
    assert_eq!((&details["method"], &details["dropped"]), (&json!("roots/list"), &json!(1)), "{entry}");
    assert!(details["reason"].as_str().unwrap().contains("`gateway.rootsWithin` is not set"), "{entry}");
    assert!(entry["caller"].as_str().unwrap().starts_with("client:"), "{entry}");
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("roots of a client are not passed on to servers"), "{said}");
}

/// Waits until a command says in the audit log that it uses other roots: it looks at its configuration every second.
fn until_other_roots_are_used(home: &Home) {
    let began = Instant::now();
    let is_used = || {
        let entries = home.run(&["audit", "query", "--kind", "configuration", "-o", "json"]).json();
        let is_roots = |entry: &Value| entry["details"]["change"] == "roots";
        entries.as_array().unwrap().iter().any(is_roots)
    };
    while !is_used() {
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn a_running_run_uses_a_root_that_is_added() {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "form__odd", "arguments": { "message": "Go on?", "requestedSchema": {} } }] },
        { "calls": [{ "tool": "asking__roots" }] },
        { "expect": [{ "contains": "/added", "error": false }], "text": "Done." },
    ]));
    let script = root().join("tests/interop/servers/asking_fastmcp.py");
    let command = odd("elicits");
    let (program, argument) = command.split_once(' ').unwrap();
    let config = json!({ "roots": [{ "path": home.folder("first") }], "mcpServers": {
        "asking": { "command": peer(".interop/venv/bin/python"), "args": [script], "trust": "full" },
        "form": { "command": program, "args": [argument], "trust": "full" },
    } });
    home.configure(&config.to_string());
    let _serving = Serving::start(&home, &[]);
    let mut run = home.command(&["run", "--model", "scripted:script.json", "go", "--wait"]);
    let running = Running::start(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let began = Instant::now();
    let item = loop {
        let items = home.run(&["inbox", "list", "-o", "json"]).json();
        match items[0]["id"].as_str() {
            Some(id) => break id.to_owned(),
            None => assert!(began.elapsed() < Duration::from_secs(60), "{items}"),
        }
    };
    home.run(&["roots", "add", home.folder("added").to_str().unwrap()]).ok();
    until_other_roots_are_used(&home);
    home.run(&["inbox", "answer", &item]).ok();
    let ran = running.output();
    assert_eq!(ran.json()["result"], "Done.", "{ran:?}");
}

#[test]
fn a_running_chat_uses_a_root_that_is_added() {
    let asks = json!([{ "tool": "asking__roots" }]);
    let home = Home::with_script(&json!([
        { "calls": asks },
        { "expect": [{ "contains": "/first", "error": false }], "text": "One folder." },
        { "calls": asks },
        { "expect": [{ "contains": "/added", "error": false }], "text": "Two folders." },
    ]));
    let script = root().join("tests/interop/servers/asking_fastmcp.py");
    let config = json!({ "roots": [{ "path": home.folder("first") }], "mcpServers": {
        "asking": { "command": peer(".interop/venv/bin/python"), "args": [script], "trust": "full" },
    } });
    home.configure(&config.to_string());
    let mut chat = ChatScreen::start(&home, &["chat", "--model", "scripted:script.json"], 100);
    chat.prompts(1).types("go\r").sees("One folder.").prompts(2);
    home.run(&["roots", "add", home.folder("added").to_str().unwrap()]).ok();
    until_other_roots_are_used(&home);
    chat.types("again\r").sees("Two folders.").types("/exit\r");
    assert!(chat.end().0.success());
}
