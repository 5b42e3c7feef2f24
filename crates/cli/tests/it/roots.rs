//! Roots: folders that servers are told to work in.

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, root},
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
