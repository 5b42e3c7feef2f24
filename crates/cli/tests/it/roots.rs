//! Roots: folders that servers are told to work in; told with the public `server-filesystem`, which uses them instead of its
//! own.

use serde_json::json;

use crate::home::{Home, root};

/// A home with the server, which is given the folder `own`, and with these roots.
fn home(roots: &serde_json::Value) -> Home {
    let program = root().join(".interop/node_modules/.bin/mcp-server-filesystem");
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    let home = Home::new();
    let own = home.folder("own");
    let server = json!({ "command": program, "args": [own] });
    home.configure(&json!({ "roots": roots, "mcpServers": { "files": server } }).to_string());
    home
}

fn allowed(home: &Home, words: &[&str]) -> String {
    home.run(&[&["call", "files", "list_allowed_directories", "-o", "human"], words].concat()).ok().to_owned()
}

#[test]
fn server_works_in_the_roots_of_the_configuration_and_of_the_command() {
    let home = home(&json!([{ "path": "~/notes", "name": "notes" }, { "path": "~/off", "enabled": false }]));
    home.folder("notes");
    let given = home.folder("given folder");
    let said = allowed(&home, &[]);
    assert!(said.contains("/notes") && !said.contains("/off") && !said.contains("/own"), "{said}");
    let said = allowed(&home, &["--root", given.to_str().unwrap()]);
    assert!(said.contains("/given folder") && said.contains("/notes"), "{said}");
}

#[test]
fn without_roots_the_server_keeps_its_own_folder() {
    assert!(allowed(&home(&json!([])), &[]).contains("/own"));
}

#[test]
fn wrong_roots_are_refused_before_a_server_starts() {
    let home = home(&json!([]));
    let missing = home.run(&["call", "files", "list_allowed_directories", "--root", "missing"]).failed(2, "root");
    assert!(missing["message"].as_str().unwrap().starts_with("root `missing`: "), "{missing}");
    home.run(&["serve", "--root", "."]).failed(2, "usage");
    for wrong in [json!([{ "path": "notes" }]), json!([{ "uri": "notes" }]), json!([{ "name": "notes" }])] {
        let home = self::home(&wrong);
        home.run(&["call", "files", "list_allowed_directories"]).failed(2, "config");
    }
}
