//! Approvals at a terminal: real keys, real screen.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{
    home::{Home, TOOLWAY},
    terminal::Terminal,
};

/// Longest time of a command after its last key.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home with the sample server and a rule that asks before each of its tools.
fn home() -> Home {
    let home = Home::new();
    let rule = json!({ "match": { "server": "shop" }, "then": "ask", "reason": "money is involved" });
    let config = json!({
        "mcpServers": { "shop": { "command": TOOLWAY, "args": ["sample"] } },
        "policy": { "rules": [rule] },
    });
    home.configure(&config.to_string());
    home
}

/// A command without colours.
fn command(home: &Home, words: &[&str]) -> Command {
    let mut command = home.command(words);
    command.env("NO_COLOR", "1");
    command
}

/// A text without the places where a line may be broken.
fn without_spaces(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// The newest recorded call, with its details.
fn last_call(home: &Home) -> Value {
    let calls = home.run(&["calls", "list", "-o", "json"]).json();
    home.run(&["calls", "show", calls[0]["id"].as_str().unwrap(), "-o", "json"]).json()
}

#[test]
fn a_call_is_approved_once_and_the_record_says_where() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal.answers("[y] once", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    assert!(shown.contains("Approval required: tool `add` of `shop`"), "{shown}");
    assert!(shown.contains("  a: 2\r\n") && shown.contains("  b: 3\r\n"), "{shown}");
    assert!(without_spaces(&shown).contains("toolway.json:1:moneyisinvolved"), "{shown}");
    assert!(shown.contains("Approved once.") && shown.contains("{\"sum\":5.0}"), "{shown}");
    assert_eq!(last_call(&home)["approvedBy"], json!("terminal"));
}

#[test]
fn an_answer_of_always_is_saved_and_the_next_call_is_not_asked_about() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal
        .answers("[a] always", "a")
        .answers("Allow every later call of tool `add` of `shop` by `terminal`", "")
        .answers("[n] back", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && shown.contains("Approved and saved."), "{shown}");
    home.run(&["call", "shop.add", "a=2", "b=3"]).ok();
    assert!(last_call(&home)["approvedBy"].as_str().unwrap().starts_with("saved approval"), "{}", last_call(&home));
    assert_eq!(home.run(&["trust", "list", "-o", "json"]).json()[0]["effect"], json!("allow"));
}

#[test]
fn always_for_a_raw_method_shows_its_params_and_is_listed_with_the_method() {
    let home = home();
    let wipe = |path: &str| command(&home, &["rpc", "shop", "disk/wipe", &json!({ "path": path }).to_string()]);
    let mut terminal = Terminal::start(wipe("/tmp/a"));
    terminal.answers("path: /tmp/a", "").answers("[a] always", "a");
    terminal.answers("path=\"/tmp/a\"", "").answers("[n] back", "y");
    let (_, shown) = terminal.end(PATIENCE);
    assert!(shown.contains("Approved and saved."), "{shown}");
    assert_eq!(home.run(&["trust", "list", "-o", "json"]).json()[0]["method"], json!("disk/wipe"));
    let listed = home.run(&["trust", "list", "-o", "human"]);
    assert!(listed.out.contains("method disk/wipe"), "{listed:?}");
    let mut terminal = Terminal::start(wipe("/"));
    terminal.answers("[n] no", "n").answers("reason", "\r");
    let (_, shown) = terminal.end(PATIENCE);
    assert!(shown.contains("path: /"), "{shown}");
}

#[test]
fn always_shows_the_path_that_it_covers_and_another_path_is_asked_about() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.echo", "text=/tmp/a"]));
    terminal.answers("[a] always", "a").answers("text=\"/tmp/a\"", "").answers("[n] back", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && shown.contains("Approved and saved."), "{shown}");
    assert!(without_spaces(&shown).contains("Otherargumentsmaydiffer"), "{shown}");
    home.run(&["call", "shop.echo", "text=/tmp/a"]).ok();
    home.run(&["call", "shop.echo", "text=/tmp/b"]).failed(7, "no_approver");
    let saved = home.run(&["trust", "list", "-o", "json"]).json();
    assert_eq!(saved[0]["arguments"], json!({ "/text": "/tmp/a" }), "{saved}");
    home.run(&["trust", "remove", saved[0]["id"].as_str().unwrap()]).ok();
    home.run(&["call", "shop.echo", "text=/tmp/a"]).failed(7, "no_approver");
}

#[test]
fn an_answer_of_never_is_saved_and_the_next_call_is_refused() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal.answers("[x] never", "x").answers("[n] back", "n").answers("[x] never", "x").answers("[n] back", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert_eq!(status.code(), Some(7), "{shown}");
    assert!(shown.contains("Refused and saved."), "{shown}");
    let (status, shown) = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"])).end(PATIENCE);
    assert_eq!(status.code(), Some(7), "{shown}");
    assert!(!shown.contains("[y] once"), "{shown}");
}

#[test]
fn a_declined_call_is_refused_with_the_reason() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal.answers("[n] no", "n").answers("reason; Enter: none", "use the test shop\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert_eq!(status.code(), Some(7), "{shown}");
    assert!(shown.contains("approval declined: use the test shop"), "{shown}");
    let call = last_call(&home);
    assert_eq!((&call["state"], &call["approvedBy"]), (&json!("refused"), &Value::Null), "{call}");
}

#[test]
fn keys_typed_before_the_prompt_do_not_answer_it() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal.types("yyyy\r");
    terminal.answers("[n] no", "n").answers("> ", "\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert_eq!(status.code(), Some(7), "{shown}");
}

#[test]
fn pasted_text_does_not_answer_an_approval() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal.answers("[n] no", "\u{1b}[200~yes\u{1b}[201~n").answers("> ", "\r");
    assert_eq!(terminal.end(PATIENCE).0.code(), Some(7));
}

#[test]
fn long_arguments_are_folded_and_shown_on_request_on_a_narrow_terminal() {
    let home = home();
    let text: String = (1..=30).map(|number| format!("line {number} of the memo\n")).collect();
    let arguments = json!({ "text": text }).to_string();
    let words = ["call", "shop.write_memo", "--args", &arguments];
    let mut terminal = Terminal::start_with(command(&home, &words), 40);
    terminal.answers("  │ line 4 of the memo", "").answers("26 more lines", "").answers("[v] show all", "v");
    terminal.answers("  │ line 30 of the memo", "").answers("[y] once", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    let (_, prompt) = shown.split_once("Approval required").unwrap();
    let prompt = prompt.split("Approved once.").next().unwrap();
    for line in prompt.split(['\r', '\n']).filter(|line| !line.contains('\u{1b}')) {
        assert!(line.chars().count() <= 40, "{line:?}");
    }
}

#[test]
fn control_sequences_in_arguments_do_not_reach_the_terminal() {
    let home = home();
    let evil = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\r\n[y] once\u{202e}";
    let words = ["call", "shop.echo", "--args", &json!({ "text": evil }).to_string()];
    let mut terminal = Terminal::start(command(&home, &words));
    terminal.answers("  │ [y] once", "").answers("[n] no", "n").answers("> ", "\r");
    let (_, shown) = terminal.end(PATIENCE);
    let ours = ["\r\u{1b}[K", "\u{1b}[?2004h", "\u{1b}[?2004l"];
    let rest = ours.iter().fold(shown.clone(), |text, sequence| text.replace(sequence, ""));
    let bad = rest.chars().find(|letter| letter.is_control() && !matches!(letter, '\r' | '\n'));
    assert_eq!(bad, None, "{shown:?}");
    assert!(!rest.contains('\u{202e}'), "{shown:?}");
}

#[test]
fn ctrl_c_at_an_approval_ends_the_command_and_restores_the_terminal() {
    let home = home();
    let mut terminal = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"]));
    terminal.answers("[y] once", "\u{3}");
    terminal.until("interrupted");
    assert!(terminal.is_restored());
    let (status, shown) = terminal.end(PATIENCE);
    assert_eq!(status.code(), Some(130), "{shown}");
    assert_eq!(last_call(&home)["state"], json!("cancelled"));
}

#[test]
fn without_a_terminal_the_call_is_refused_with_the_rule_that_would_allow_it() {
    let home = home();
    let ran = home.run(&["call", "shop.add", "a=2", "b=3"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.talk.contains("this rule would allow it"), "{ran:?}");
}

/// Starts a chat with a scripted model that makes two calls in one turn.
fn chat(home: &Home, last: &Value) -> Terminal {
    let calls = json!([
        { "tool": "shop__add", "arguments": { "a": 2, "b": 3 } },
        { "tool": "shop__echo", "arguments": { "text": "hello" } },
    ]);
    let script = json!({ "turns": [{ "calls": calls }, last] });
    let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
    let mut terminal = Terminal::start(command(home, &["chat", "--model", &model]));
    terminal.answers("> ", "go\r");
    terminal
}

#[test]
fn calls_of_one_turn_are_one_question() {
    let home = home();
    let last = json!({ "expect": [{ "contains": "5" }, { "contains": "hello" }], "text": "All done." });
    let mut terminal = chat(&home, &last);
    terminal.answers("2 calls require approval", "").answers("1. tool `add` of `shop`", "");
    terminal.answers("2. tool `echo` of `shop`", "").answers("[y] approve all", "y");
    terminal.answers("Approved 2 calls once.", "").answers("All done.", "").answers("> ", "/exit\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
}

#[test]
fn calls_of_one_turn_are_answered_one_by_one_and_the_model_gets_the_reason() {
    let home = home();
    let last = json!({ "expect": [{ "contains": "5" }, { "contains": "not this one" }], "text": "All done." });
    let mut terminal = chat(&home, &last);
    terminal.answers("2 calls require approval", "").answers("[o] one by one", "o");
    terminal.answers("[c] for this conversation", "c").answers("Approved for this conversation.", "");
    terminal
        .answers("tool `echo` of `shop`", "")
        .answers("[n] no", "n")
        .answers("reason for the model", "not this one\r");
    terminal.answers("All done.", "").answers("> ", "/exit\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
}

#[test]
fn calls_of_one_turn_are_declined_together() {
    let home = home();
    let last = json!({ "expect": [{ "contains": "declined" }, { "contains": "declined" }], "text": "All done." });
    let mut terminal = chat(&home, &last);
    terminal.answers("2 calls require approval", "").answers("[n] decline all", "n").answers("> ", "\r");
    terminal.answers("Declined 2 calls.", "").answers("All done.", "").answers("> ", "/exit\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
}
