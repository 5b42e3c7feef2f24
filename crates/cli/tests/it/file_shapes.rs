//! Files of further shapes, named with `--config` or imported; `config init`, `servers show` and what a server could reach.

use serde_json::{Value, json};
use toolway_testkit::fixture_server::FixtureServer;
use toolway_wire::revision::Era;

use crate::home::{Home, TOOLWAY};

/// The three shapes with the sample server, each with the name of its file.
fn shapes() -> [(&'static str, String); 3] {
    let section = format!(
        "mcp:\n  servers:\n    - id: mine\n      transport: {{type: stdio, executable: {TOOLWAY}, args: [sample]}}\n"
    );
    let map = json!({
        "servers": { "mine": { "transport": "stdio", "command": format!("{TOOLWAY} sample"), "trust": true } },
        "globalSettings": { "defaultTimeout": 60_000 },
    });
    let list =
        json!([{ "name": "mine", "transport": "stdio", "command": format!("{TOOLWAY} sample"), "retryAttempts": 2 }]);
    [("agent.yaml", section), ("map.json", map.to_string()), ("list.json", list.to_string())]
}

#[test]
fn setting_for_all_servers_is_copied_to_the_users_file() {
    let home = Home::new();
    let [(name, text), ..] = shapes();
    let file = home.write(name, &text.replace("mcp:\n", "mcp:\n  expose_resources_tool: false\n"));
    home.configure(r#"{ "agent": { "exposePrompts": true } } // mine"#);
    home.run(&["import", file.to_str().unwrap(), "--copy"]).ok();
    let ours = std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    assert!(ours.contains("// mine"), "{ours}");
    let shown = home.run(&["config", "show", "-o", "json"]).ok().to_owned();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let values = shown["values"].as_array().unwrap();
    let value = |key: &str| &values.iter().find(|value| value["key"] == key).unwrap()["value"];
    assert_eq!((value("agent.exposeResources"), value("agent.exposePrompts")), (&json!(false), &json!(true)));
}

#[test]
fn servers_of_each_shape_are_called_with_config_and_after_import() {
    for (name, text) in shapes() {
        let home = Home::new();
        let file = home.write(name, &text);
        let file = file.to_str().unwrap();
        let called = home.run(&["call", "mine.add", "a=2", "b=3", "--config", file]);
        assert!(called.code == 0 && called.out.contains('5'), "{name}: {called:?}");

        let found = home.run(&["import", file]).json();
        assert_eq!(found["files"][0]["servers"][0]["name"], "mine", "{name}");
        home.run(&["import", file, "--copy"]).ok();
        let called = home.run(&["call", "mine.add", "a=2", "b=4"]);
        assert!(called.code == 0 && called.out.contains('6'), "{name}: {called:?}");
    }
}

#[test]
fn file_that_is_not_understood_exits_with_2() {
    let home = Home::new();
    let file = home.write("other.json", r#"{"mcpServer": {"a": {"command": "x"}}}"#);
    let file = file.to_str().unwrap();
    for words in [&["servers"][..], &["tools"], &["status"], &["doctor"], &["config", "check"], &["config", "show"]] {
        let ran = home.run(&[words, &["--config", file]].concat());
        assert_eq!(ran.code, 2, "{words:?}: {ran:?}");
        let all = format!("{}{}", ran.out, ran.talk);
        assert!(all.contains("the file is not understood: unknown key `mcpServer`"), "{words:?}: {all}");
    }
    home.run(&["import", file]).failed(2, "config");
    home.configure(r#"{"servers": 7}"#);
    home.run(&["servers"]).failed(2, "config");
}

#[test]
fn file_of_another_shape_is_not_edited() {
    let home = Home::new();
    let [_, (name, text), _] = shapes();
    let file = home.write(name, &text);
    home.run(&["servers", "add", "other", "--stdio", "x", "--config", file.to_str().unwrap()]).failed(2, "config");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn example_is_written_once_and_is_valid() {
    for name in [".config/toolway/toolway.json", "team.yaml"] {
        let home = Home::new();
        let path = home.path(name);
        let named = ["--config", path.to_str().unwrap()];
        let named = if name == "team.yaml" { &named[..] } else { &[] };
        home.run(&[&["config", "init"], named].concat()).ok();
        let checked = home.run(&[&["config", "check", "--strict"], named].concat()).json();
        assert_eq!(checked, json!({ "problems": [], "warnings": [] }), "{name}");
        let servers = home.run(&[&["servers"], named].concat()).json();
        assert_eq!(servers["servers"].as_array().map(Vec::len), Some(2), "{name}");
        home.run(&[&["config", "init"], named].concat()).failed(2, "file_exists");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_shown_with_its_session_and_last_connection() {
    let server = FixtureServer::new("it").tool("read", "Reads.").over_http(Some(Era::Legacy)).await.unwrap();
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "it": { "url": server.url(), "era": "legacy" } } }).to_string());
    let shown = home.run(&["servers", "show", "it"]).json();
    assert_eq!((&shown["state"], &shown["config"]["era"]), (&json!("ready"), &json!("legacy")));
    let connected = shown["lastConnectedAt"].as_str().unwrap();
    assert!(connected.starts_with("20") && connected.ends_with('Z'), "{connected}");
    let session = shown["sessionId"].as_str().unwrap();
    assert!(!session.ends_with('…') && 16 <= session.len(), "{session}");
    let status = home.run(&["status", "it"]).json();
    assert_eq!(status["servers"][0]["sessionId"], Value::Null, "only `servers show` shows it");
    let ran = home.run(&["servers", "show", "it", "-o", "human"]);
    let text = ran.ok();
    assert!(text.contains("last connected") && text.contains("session  "), "{text}");
    home.run(&["servers", "show", "other"]).failed(2, "unknown_server");
}

#[test]
fn doctor_says_what_a_server_could_reach() {
    let home = Home::new();
    let folder = home.folder("work");
    home.configure(
        &json!({ "mcpServers": { "it": { "command": TOOLWAY, "args": ["sample"], "cwd": folder, "env": { "KEY": "1" } } } })
            .to_string(),
    );
    let reach = &home.run(&["doctor", "it"]).json()["servers"][0]["reach"];
    assert_eq!((&reach["network"], &reach["folder"]), (&json!("not restricted"), &json!(folder)));
    assert!(reach["environment"].as_array().unwrap().contains(&json!("KEY")), "{reach}");
    let ran = home.run(&["doctor", "it", "-v", "-o", "human"]);
    let text = ran.ok();
    let started = format!("starts in {}", folder.display());
    assert!(text.contains("network not restricted") && text.contains(&started), "{text}");
}
