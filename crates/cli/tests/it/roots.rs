//! Roots: folders that servers are told to work in.

use serde_json::{Value, json};

use crate::home::{Home, root};

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
