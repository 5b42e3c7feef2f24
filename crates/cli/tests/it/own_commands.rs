//! Commands of the program, run by a server.

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, TOOLWAY},
};

/// Runs these commands in a server of a gateway, each by this shell command; returns the error objects that they printed.
fn run_by_server(home: &Home, commands: &[&str], shell: &str) -> Vec<Value> {
    let said = home.path("said");
    let lines: String =
        commands.iter().map(|words| format!("{shell} '{TOOLWAY} {words}' 2>&1 | tail -n 1\n")).collect();
    let (folder, file) = (home.path("").display().to_string(), said.display().to_string());
    let script = home.write(
        "server.sh",
        &format!("export HOME={folder} TOOLWAY_OUTPUT=json\n{{\n{lines}}} >{file}.part\nmv {file}.part {file}\nexec {TOOLWAY} sample\n"),
    );
    let rules = json!([{ "match": { "server": "shop" }, "then": "ask" }]);
    let config =
        json!({ "mcpServers": { "shop": { "command": "sh", "args": [script] } }, "policy": { "rules": rules } });
    home.configure(&config.to_string());
    let serving = Serving::start(home, &[]);
    home.settled(&serving, "shop", "ready");
    let said = std::fs::read_to_string(said).unwrap();
    said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"))).collect()
}

#[test]
fn commands_that_widen_rights_are_refused_to_servers() {
    let commands = [
        "servers add more --url https://example.com/mcp",
        "servers update shop --url https://example.com/mcp",
        "servers enable shop",
        "servers remove shop",
        "servers accept shop",
        "clients add mallory",
        "config init",
        "config reload",
        "import claude-code --copy",
        "import claude-code",
        "policy allow shop.echo",
        "trust allow 01 --unattended",
        "inbox answer 01",
        "trust remove 01",
        "trust server shop full",
        "trust folder add /tmp full",
        "login shop",
        "secret set token",
        "secret list",
        "secret move shop",
        "secret remove token",
        "console --no-open",
    ];
    let home = Home::new();
    let before = home.path(".config/toolway/toolway.json");
    for (words, said) in commands.iter().zip(run_by_server(&home, &commands, "sh -c")) {
        let error = &said["error"];
        assert_eq!((&error["exit"], &error["code"]), (&json!(7), &json!("started_by_server")), "{words}: {said}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("only you can run this command, because it can widen"), "{message}");
        assert_eq!(error["hint"], "run it in a terminal of your own");
    }
    assert!(std::fs::read_to_string(before).unwrap().contains("server.sh"), "nothing was changed");
    assert_eq!(home.run(&["clients", "list"]).json(), json!({ "clients": [] }));
    home.run(&["clients", "add", "editor"]).ok();
}

#[test]
fn a_detached_process_of_a_server_is_refused_as_well() {
    let commands = ["clients add mallory", "trust remove 01"];
    // Another session, orphaned, and without any of the variables of its server.
    for shell in ["setsid -w sh -c", "setsid -w env -i HOME=\"$HOME\" TOOLWAY_OUTPUT=json sh -c"] {
        let home = Home::new();
        for said in run_by_server(&home, &commands, shell) {
            assert_eq!(said["error"]["code"], "started_by_server", "{shell}: {said}");
        }
    }
}

#[test]
fn a_terminal_of_a_server_is_no_person() {
    let home = Home::new();
    // `script` gives its command a terminal, at which `y` would accept the project's server.
    let project = home.folder("project");
    let entry = json!({ "mcpServers": { "theirs": { "command": TOOLWAY, "args": ["sample"] } } });
    std::fs::write(project.join("toolway.json"), entry.to_string()).unwrap();
    let shell = format!("cd {}; (echo y; sleep 1) | script -eq /dev/null -c", project.display());
    let said = run_by_server(&home, &["@theirs tools"], &shell);
    assert_eq!(said[0]["error"]["code"], "not_accepted", "{said:?}");
}
