//! Sentences that users stumbled over, as the program says them now. `docs/reference/messages.md` has all of them.

use serde_json::json;

use crate::home::{Home, Ran, TOOLWAY, sample};

/// The program's help on `words`, by its first line.
fn first_line(words: &[&str]) -> String {
    let ran = Home::new().run(&[words, &["--help"]].concat());
    ran.ok().lines().next().unwrap().to_owned()
}

/// What a command prints for a person.
fn human(home: &Home, words: &[&str]) -> Ran {
    home.run(&[words, &["-o", "human"]].concat())
}

#[test]
fn help_says_what_the_program_and_status_do() {
    let program = "One binary to list, call, debug and serve all your MCP servers, and to let a model use them safely";
    assert_eq!(first_line(&[]), program);
    assert_eq!(first_line(&["servers", "status"]), "Connect to each server and report its state");
}

#[test]
fn import_says_how_many_applications_were_checked() {
    let ran = human(&Home::new(), &["import"]);
    assert_eq!(ran.talk.trim(), "no MCP configuration of other applications found (16 checked)", "{ran:?}");
}

#[test]
fn invalid_json_is_shown_with_its_place() {
    let ran = human(&Home::with_sample(), &["call", "sample.echo", "{text: 1}"]);
    assert!(ran.talk.contains("invalid JSON at column 2, near `text:`"), "{ran:?}");
}

#[test]
fn entry_with_command_and_url_is_told_to_have_one() {
    let home = Home::new();
    home.configure(r#"{ "mcpServers": { "both": { "command": "x", "url": "http://127.0.0.1:1/" } } }"#);
    let ran = human(&home, &["config", "check"]);
    assert!(ran.out.contains("set either `command` or `url`, not both"), "{ran:?}");
}

#[test]
fn doctor_quotes_stray_output_and_the_last_stderr_output() {
    let home = Home::new();
    let chatty = json!({ "command": "sh", "args": ["-c", "echo hello; exec sleep 600"], "timeouts": { "connect": 5 } });
    let dead = json!({ "command": "sh", "args": ["-c", "echo no database >&2; exit 3"] });
    let sample = json!({ "command": TOOLWAY, "args": ["sample"] });
    home.configure(&json!({ "mcpServers": { "chatty": chatty, "dead": dead, "sample": sample } }).to_string());
    let shown = human(&home, &["doctor", "-v"]).out;
    let stray = "the server printed non-MCP text on stdout: \"hello\" (logs belong on stderr)";
    for sentence in [stray, "last stderr output: no database", "cleanup        child processes are ended on exit"] {
        assert!(shown.contains(sentence), "{sentence}: {shown}");
    }
}

#[test]
fn tool_that_needs_a_user_says_how_to_answer() {
    let ran = human(&Home::new(), &["call", "--stdio", &sample(), "greet"]);
    let sentence = "toolway: this tool needs user input (elicitation); answer it with `--answer field=value`";
    assert!(ran.talk.contains(sentence), "{ran:?}");
}

#[test]
fn command_for_a_gateway_says_that_it_needs_one() {
    let ran = human(&Home::with_sample(), &["servers", "connect", "sample"]);
    assert!(ran.talk.starts_with("toolway: this command needs a running gateway: "), "{ran:?}");
}

#[test]
fn configuration_explains_the_log_level_for_clients() {
    let page = include_str!("../../../../docs/reference/config.md");
    assert!(page.contains("default log level forwarded to clients (2025-11-25 or older) that never set one"));
}
