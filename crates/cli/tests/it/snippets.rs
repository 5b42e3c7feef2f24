//! Snippets as READMEs publish them: the same shapes are accepted as a file, by `servers add` and by the console.

use serde_json::{Value, json};

use crate::{
    console::{Browser, serving},
    home::{Home, TOOLWAY},
};

/// The sample server in the shapes of several applications; a program in each, named `mine`.
fn snippets() -> Vec<Value> {
    let entry = json!({ "command": TOOLWAY, "args": ["sample"] });
    let opencode = json!({ "type": "local", "command": [TOOLWAY, "sample"], "enabled": true });
    vec![
        json!({ "mcpServers": { "mine": entry } }),
        json!({ "mcpServers": { "mine": { "command": [TOOLWAY, "sample"], "tools": ["*"] } } }),
        json!({ "mcp": { "servers": { "mine": entry } } }),
        json!({ "mcp": { "mine": opencode } }),
        json!({ "context_servers": { "mine": { "source": "custom", "command": TOOLWAY, "args": ["sample"] } } }),
        json!({ "servers": { "mine": { "type": "stdio", "command": TOOLWAY, "args": ["sample"] } } }),
        json!({ "mine": entry }),
    ]
}

#[test]
fn snippet_works_as_a_file_and_with_servers_add() {
    for snippet in snippets() {
        let home = Home::new();
        let file = home.write("snippet.json", &snippet.to_string());
        let called = home.run(&["call", "mine.add", "a=2", "b=3", "--config", file.to_str().unwrap()]);
        assert!(called.code == 0 && called.out.contains('5'), "{snippet}: {called:?}");
        home.run(&["servers", "add", "--snippet", file.to_str().unwrap()]).ok();
        let called = home.run(&["call", "mine.add", "a=2", "b=4"]);
        assert!(called.code == 0 && called.out.contains('6'), "{snippet}: {called:?}");
    }
}

#[test]
fn console_reads_the_same_snippets_and_refuses_what_is_no_url() {
    let home = Home::new();
    home.configure(r#"{ "mcpServers": {} }"#);
    let (_serving, browser) = serving(&home);
    for snippet in snippets() {
        let parsed = parse(&browser, &snippet.to_string());
        assert_eq!(
            (&parsed["name"], &parsed["entry"]["command"], &parsed["entry"]["args"]),
            (&"mine".into(), &TOOLWAY.into(), &json!(["sample"])),
            "{snippet}"
        );
    }
    for key in ["url", "serverUrl", "httpUrl", "baseUrl"] {
        let parsed = parse(&browser, &json!({ "mcpServers": { "far": { key: "https://e.org/mcp" } } }).to_string());
        assert_eq!(parsed["entry"]["url"], "https://e.org/mcp", "{key}");
    }
    let (status, refused) = browser.post("/api/v1/servers/parse", &json!({ "text": "htp://x" }));
    assert_eq!(status, 200, "{refused}");
    assert!(refused.to_string().contains("`htp://x` is not the URL of a server"), "{refused}");
}

#[test]
fn bare_entry_gets_the_name_of_its_program() {
    let home = Home::new();
    let entry = json!({ "command": TOOLWAY, "args": ["sample"] }).to_string();
    home.run_with_input(&["servers", "add", "--snippet", "-"], &entry).ok();
    let called = home.run(&["call", "toolway.add", "a=2", "b=3"]);
    assert!(called.code == 0 && called.out.contains('5'), "{called:?}");
}

#[test]
fn server_of_a_named_file_starts_in_the_home_directory() {
    let home = Home::new();
    let script = format!("pwd > {}; exec {TOOLWAY} sample", home.path("where").display());
    let entry = json!({ "command": "sh", "args": ["-c", script] });
    let elsewhere = home.folder("elsewhere");
    let file = home.write("team.json", &json!({ "mcpServers": { "mine": entry } }).to_string());
    let mut command = home.command(&["tools", "--config", file.to_str().unwrap()]);
    assert!(command.current_dir(elsewhere).output().unwrap().status.success());
    let started = std::fs::read_to_string(home.path("where")).unwrap();
    assert_eq!(started.trim(), home.path("").canonicalize().unwrap().to_str().unwrap());
}

fn parse(browser: &Browser, text: &str) -> Value {
    let (status, parsed) = browser.post("/api/v1/servers/parse", &json!({ "text": text }));
    assert_eq!(status, 200, "{text}: {parsed}");
    parsed
}
