//! `toolway import` at a terminal: copies after one question, or keeps reading; scripts get the options named.

use std::{fs, time::Duration};

use serde_json::json;

use crate::{
    home::{Home, TOOLWAY},
    terminal::Terminal,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A home with two servers of VS Code, one of them with a hidden input and a token in clear, and one of Cursor with the
/// same name as a server of the user.
fn home() -> Home {
    let home = Home::new();
    home.configure(r#"{ "mcpServers": { "taken": { "command": "x" } } }"#);
    let script = format!("printf '%s' \"$TOKEN\" > {}; exec {TOOLWAY} sample", home.path("got").display());
    let vscode = json!({
        "inputs": [{ "type": "promptString", "id": "token", "description": "Token of the tracker", "password": true }],
        "servers": {
            "issues": { "command": "sh", "args": ["-c", script], "env": { "TOKEN": "${input:token}" } },
            "notes": { "command": TOOLWAY, "args": ["sample"], "env": { "API_KEY": "sk-t0ps3cret-t0ps3cret" } },
        },
    });
    home.write(".config/Code/User/mcp.json", &vscode.to_string());
    home.write(".cursor/mcp.json", &json!({ "mcpServers": { "taken": { "command": "y" } } }).to_string());
    home
}

#[test]
fn one_question_copies_the_servers_and_their_inputs_go_to_the_vault() {
    let home = home();
    let mut terminal = Terminal::start_with(home.command(&["import"]), 200);
    terminal.answers("Copy these 2 servers to ", "\r").answers("Token of the tracker (hidden", "s3cret-tok\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    assert!(shown.contains("Left out: `taken` of cursor"), "{shown}");
    assert!(shown.contains("server `taken` already exists"), "{shown}");
    assert!(shown.contains("1 secret goes to the vault"), "{shown}");
    let text = fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    assert!(text.contains("${secret:issues-token}") && text.contains("${secret:notes-API_KEY}"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    home.run(&["call", "issues.add", "a=1", "b=2"]).ok();
    assert_eq!(fs::read_to_string(home.path("got")).unwrap(), "s3cret-tok");
}

#[test]
fn files_are_kept_reading_if_the_copy_is_declined() {
    let home = home();
    let mut terminal = Terminal::start_with(home.command(&["import", "vscode"]), 200);
    terminal.answers("Copy these 2 servers", "n").answers("Keep reading the files of vscode", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    let config = home.run(&["config", "show"]).out;
    assert!(config.contains("vscode"), "{config}");
    home.run(&["call", "notes.add", "a=1", "b=2"]).ok();
    // The input of a file that is read where it is has a secret of its own, and the error is the command.
    let failed = home.run(&["call", "issues.add", "a=1", "b=2"]);
    let all = format!("{}{}", failed.out, failed.talk);
    let command = all.split("`toolway secret set ").nth(1).unwrap_or_else(|| panic!("{all}"));
    let name = command.split('`').next().unwrap();
    home.run_with_input(&["secret", "set", name], "kept-tok").ok();
    home.run(&["call", "issues.add", "a=1", "b=2"]).ok();
    assert_eq!(fs::read_to_string(home.path("got")).unwrap(), "kept-tok");
}

#[test]
fn script_gets_the_options_named_and_what_is_missing() {
    let home = home();
    let found = home.run(&["import", "vscode", "-o", "human"]);
    assert!(found.talk.contains("hint: copy these 2 servers with `toolway import vscode --copy`"), "{found:?}");
    assert!(found.talk.contains(", or keep reading the file with `toolway import vscode --keep`\n"), "{found:?}");
    let copied = home.run(&["import", "vscode", "--copy"]).json();
    assert_eq!(copied["entries"][0]["missing"], json!([{ "input": "token", "secret": "issues-token" }]), "{copied}");
    home.run_with_input(&["secret", "set", "issues-token"], "later").ok();
    home.run(&["call", "issues.add", "a=1", "b=2"]).ok();
    assert_eq!(fs::read_to_string(home.path("got")).unwrap(), "later");
}
