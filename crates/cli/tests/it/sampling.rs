//! Sampling: a server asks a model, as far as the configuration allows; told with the public `server-everything`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    home::{Home, Ran, root},
    terminal::Terminal,
};

const PATIENCE: Duration = Duration::from_secs(60);
const CALL: [&str; 4] = ["call", "every", "trigger-sampling-request", "prompt=Name a colour"];

/// A home with the server, a model that answers once, and these settings at the top and in the server's entry.
fn home(top: &Value, server: &Value) -> Home {
    let program = root().join(".interop/node_modules/.bin/mcp-server-everything");
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    let home = Home::new();
    let script = home.write("script.json", &json!({ "turns": [{ "text": "Blue, as always." }] }).to_string());
    home.configure(
        &json!({
            "models": { "small": { "vendor": "scripted", "model": script } },
            "sampling": top,
            "mcpServers": { "every": { "command": program, "args": ["stdio"], "sampling": server } },
        })
        .to_string(),
    );
    home
}

fn call(top: &Value, server: &Value) -> Ran {
    home(top, server).run(&CALL)
}

#[test]
fn model_answers_where_every_level_allows_it() {
    let answered = call(&json!({ "allow": "always", "maxTokens": 50 }), &json!(true));
    assert!(answered.ok().contains("Blue, as always."), "{answered:?}");
    assert!(call(&json!({ "allow": "always" }), &json!({ "allow": "always" })).ok().contains("Blue"));
    // The server sees the tool only if it was told that it can ask.
    for (top, server) in [
        (json!({}), json!(true)),
        (json!({ "allow": "never" }), json!({ "allow": "always" })),
        (json!({ "allow": "always" }), json!(false)),
        (json!({ "allow": "always" }), json!({ "allow": "never" })),
    ] {
        let refused = call(&top, &server);
        assert_eq!(refused.code, 2, "{top} {server}: {refused:?}");
    }
    // Without a terminal the tool is listed, and the call says what it needs.
    let home = home(&json!({ "allow": "ask" }), &json!({ "allow": "always" }));
    assert!(home.run(&["tools", "every", "-o", "raw"]).ok().contains("trigger-sampling-request"));
    assert_eq!(home.run(&CALL).code, 6);
}

#[test]
fn person_sees_the_request_and_decides() {
    let home = home(&json!({ "allow": "ask" }), &json!(true));
    let start = || {
        let mut command = home.command(&CALL);
        command.env("NO_COLOR", "1");
        Terminal::start_with(command, 100)
    };
    let mut terminal = start();
    terminal.answers("[y] let the model answer once", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    for part in ["`every` asks the model `small`, for at most 100 tokens:", "Name a colour", "Blue, as always."] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let mut terminal = start();
    terminal.answers("[y] let the model answer once", "n");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(!status.success() && !shown.contains("Blue"), "{status}: {shown}");
}

#[test]
fn run_answers_with_the_model_that_sampling_names() {
    let home = home(&json!({ "allow": "ask", "model": "small" }), &json!(true));
    let call = json!({ "tool": "every__trigger-sampling-request", "arguments": { "prompt": "Name a colour" } });
    let turns = json!([{ "calls": [call] }, { "text": "It said: {{result}}" }]);
    let script = home.write("run.json", &json!({ "turns": turns }).to_string());
    let run = |mode| {
        let model = format!("scripted:{}", script.display());
        home.run(&["run", "Ask for a colour", "--model", &model, "--mode", mode, "-o", "json"])
    };
    assert!(run("allow").ok().contains("Blue, as always."));
    let refused = run("writes");
    assert!(refused.code != 0 || !refused.ok().contains("Blue"), "{refused:?}");
}

#[test]
fn quota_refuses_with_its_name_and_when_it_ends() {
    let home = home(&json!({ "allow": "always", "requestsPerHour": 1 }), &json!({ "tokensPerDay": 100 }));
    assert!(home.run(&CALL).ok().contains("Blue"));
    let refused = home.run(&CALL);
    assert_ne!(refused.code, 0);
    let said = format!("{refused:?}");
    assert!(said.contains("`sampling.requestsPerHour` is 1, and there is room for this request from 20"), "{said}");
}

#[test]
fn always_for_this_server_is_saved_and_can_be_removed() {
    let home = home(&json!({ "allow": "ask", "tokensPerDay": 10_000 }), &json!(true));
    let start = || {
        let mut command = home.command(&CALL);
        command.env("NO_COLOR", "1");
        Terminal::start_with(command, 100)
    };
    let mut terminal = start();
    terminal.answers("[a] always for this server", "a");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && shown.contains("left after this: 9900 tokens today in all"), "{shown}");
    let (status, shown) = start().end(PATIENCE);
    assert!(status.success() && shown.contains("Blue") && !shown.contains("always for"), "{shown}");
    let saved = home.run(&["trust", "list", "-o", "json"]).json();
    assert_eq!(saved[0]["tool"], json!("sampling/createMessage"), "{saved}");
    home.run(&["trust", "remove", saved[0]["id"].as_str().unwrap()]).ok();
    let mut terminal = start();
    terminal.answers("[a] always for this server", "n");
    assert!(!terminal.end(PATIENCE).0.success());
}

#[test]
fn answer_is_shown_before_the_server_gets_it() {
    let home = home(&json!({ "allow": "always", "review": true }), &json!(true));
    for answer in ["y", "n"] {
        let mut command = home.command(&CALL);
        command.env("NO_COLOR", "1");
        let mut terminal = Terminal::start_with(command, 100);
        terminal.answers("[y] send this answer to the server", answer);
        let (status, shown) = terminal.end(PATIENCE);
        assert!(shown.contains("The model `small` answers `every`:") && shown.contains("Blue"), "{shown}");
        assert_eq!(status.success(), answer == "y", "{shown}");
    }
}
