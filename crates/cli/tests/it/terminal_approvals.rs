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
    assert!(shown.contains("  1 a: 2\r\n") && shown.contains("  2 b: 3\r\n"), "{shown}");
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
    let (status, shown) = Terminal::start(command(&home, &["call", "shop.add", "a=2", "b=3"])).end(PATIENCE);
    assert!(status.success() && !shown.contains("[y] once"), "{shown}");
    assert!(last_call(&home)["approvedBy"].as_str().unwrap().starts_with("saved approval"), "{}", last_call(&home));
    assert_eq!(home.run(&["trust", "list", "-o", "json"]).json()[0]["effect"], json!("allow"));
}

#[test]
fn a_saved_approval_holds_for_scripts_only_after_it_was_extended_at_a_terminal() {
    let home = home();
    let words = ["call", "shop.write_memo", "text=milk"];
    let mut terminal = Terminal::start(command(&home, &words));
    terminal.answers("covers: text = \"milk\"", "").answers("[a] always", "a").answers("[n] back", "y");
    assert!(terminal.end(PATIENCE).0.success());
    let id = home.run(&["trust", "list", "-o", "json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let error = home.run(&words).failed(7, "no_approver");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("toolway policy allow shop.write_memo --caller terminal"), "{error}");
    assert!(message.contains(&format!("toolway trust allow {id} --unattended")), "{error}");
    home.run(&["trust", "allow", &id, "--unattended"]).failed(7, "no_terminal");
    home.run(&words).failed(7, "no_approver");
    for (line, extended) in [("\r", false), ("n\r", false), ("y\r", true)] {
        home.run(&words).failed(7, "no_approver");
        let mut terminal = Terminal::start(command(&home, &["trust", "allow", &id, "--unattended"]));
        terminal.answers("for terminal covers: text = \"milk\"", "").answers("[y/N]", line);
        let (status, shown) = terminal.end(PATIENCE);
        assert_eq!(status.success(), extended, "{line}: {shown}");
    }
    home.run(&words).ok();
    home.run(&["call", "shop.write_memo", "text=bread"]).failed(7, "no_approver");
}

#[test]
fn a_second_question_says_what_differs_and_its_scope_can_be_changed() {
    let home = home();
    let write = |text: &str| json!({ "calls": [{ "tool": "shop__write_memo", "arguments": { "text": text } }] });
    let script = json!({ "turns": [
        write("bread"), write("bread, tea"), write("bread, tea, milk"), { "text": "All done." },
    ] });
    let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
    let mut terminal = Terminal::start(command(&home, &["chat", "--model", &model]));
    terminal.answers("> ", "go\r").answers("covers: text = \"bread\"", "").answers("[c] this conversation", "c");
    terminal.answers("(2nd time)", "").answers("1 text (differs): bread, tea", "").answers("covers: any text", "");
    terminal.answers("[c] this conversation", "1").answers("covers: text = \"bread, tea\"", "");
    terminal
        .answers("[c] this conversation", "1")
        .answers("covers: any text", "")
        .answers("[c] this conversation", "c");
    terminal.answers("All done.", "").answers("> ", "/exit\r");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && !shown.contains("3rd time"), "{shown}");
}

#[test]
fn always_for_a_raw_method_shows_its_params_and_is_listed_with_the_method() {
    let home = home();
    let wipe = |path: &str| command(&home, &["rpc", "shop", "disk/wipe", &json!({ "path": path }).to_string()]);
    let mut terminal = Terminal::start(wipe("/tmp/a"));
    terminal.answers("1 path: /tmp/a", "").answers("covers: path = \"/tmp/a\"", "").answers("[a] always", "a");
    terminal.answers("Allow every later call", "").answers("[n] back", "y");
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
fn always_shows_what_it_covers_and_other_arguments_are_asked_about() {
    let home = home();
    let call = |text: &str| Terminal::start(command(&home, &["call", "shop.write_memo", text]));
    let mut terminal = call("text=/tmp/a");
    terminal.answers("covers: text = \"/tmp/a\"", "").answers("[a] always", "a");
    terminal.answers("Allow every later call", "").answers("[n] back", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && shown.contains("Approved and saved."), "{shown}");
    assert!(call("text=/tmp/a").end(PATIENCE).0.success());
    let mut terminal = call("text=/tmp/b");
    terminal.answers("[n] no", "n").answers("> ", "\r");
    assert_eq!(terminal.end(PATIENCE).0.code(), Some(7));
    let saved = home.run(&["trust", "list", "-o", "json"]).json();
    assert_eq!(saved[0]["scope"], json!({ "arguments": { "text": { "same": "/tmp/a" } } }), "{saved}");
    home.run(&["trust", "remove", saved[0]["id"].as_str().unwrap()]).ok();
    let mut terminal = call("text=/tmp/a");
    terminal.answers("[n] no", "n").answers("> ", "\r");
    assert_eq!(terminal.end(PATIENCE).0.code(), Some(7));
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
fn a_never_refuses_a_run_whatever_is_allowed() {
    let home = home();
    let calls = json!([{ "tool": "shop__write_memo", "arguments": { "text": "milk" } }]);
    let script = json!({ "turns": [{ "calls": calls }, { "text": "Done." }] });
    let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
    let mut terminal = Terminal::start(command(&home, &["chat", "--model", &model]));
    terminal.answers("> ", "go\r").answers("[x] never this tool", "x").answers("[n] back", "y");
    terminal.answers("Done.", "").answers("> ", "/exit\r");
    assert!(terminal.end(PATIENCE).0.success());
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    let allow = json!([{ "match": { "server": "shop" }, "then": "allow" }]);
    home.configure(&json!({ "mcpServers": { "shop": server }, "policy": { "rules": allow } }).to_string());
    for words in [&["run", "go", "--model", &model][..], &["run", "go", "--mode", "allow", "--model", &model]] {
        let error = home.run(words).failed(7, "denied");
        assert!(error["hint"].as_str().unwrap().contains("toolway trust remove "), "{error}");
    }
    assert_eq!(last_call(&home)["state"], json!("refused"));
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
    assert_eq!((&call["state"], &call["approvedBy"]), (&json!("refused"), &json!("terminal")), "{call}");
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
fn long_arguments_are_folded_and_must_be_shown_before_they_are_approved() {
    let home = home();
    let text: String = (1..=90).map(|number| format!("line {number} of the memo\n")).collect();
    let arguments = json!({ "text": text }).to_string();
    let words = ["call", "shop.write_memo", "--args", &arguments];
    let mut terminal = Terminal::start_with(command(&home, &words), 40);
    terminal.answers("  │ line 40 of the memo", "").answers("50 more lines", "");
    // The key of an approval is not offered, and does nothing.
    terminal.answers("[v] show all", "yv").answers("  │ line 90 of the memo", "").answers("[y] once", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    let (_, prompt) = shown.split_once("Approval required").unwrap();
    let prompt = prompt.split("Approved once.").next().unwrap();
    for line in prompt.split(['\r', '\n']).filter(|line| !line.contains('\u{1b}')) {
        assert!(line.chars().count() <= 40, "{line:?}");
    }
}

/// Values that hide a part of a command, and what the prompt shows of them.
const HOSTILE: [(&str, &str); 12] = [
    ("ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}", r"ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}"),
    ("ls\u{1b}P; rm -rf x;\u{1b}\\", r"ls\u{1b}P; rm -rf x;\u{1b}\"),
    ("ls\u{1b}[;rm -rf x;m", r"ls\u{1b}[;rm -rf x;m"),
    ("ls\u{9d}; rm -rf x\u{9c}", r"ls\u{9d}; rm -rf x\u{9c}"),
    ("rm -rf x\rls -la   ", r"rm -rf x\u{d}ls -la"),
    ("rm -rf x\u{8}\u{8}\u{8}ls", r"rm -rf x\u{8}\u{8}\u{8}ls"),
    ("a\u{202e}txt.exe", r"a\u{202e}txt.exe"),
    ("r\u{200b}m", r"r\u{200b}m"),
    ("go\u{e0072}\u{e006d}", r"go\u{e0072}\u{e006d}"),
    ("\u{3164}=1", r"\u{3164}=1"),
    ("a\u{301}\u{301}\u{301}\u{301}\u{301}", r"\u{301}"),
    ("x\0y\u{2028}z", r"x\u{0}y\u{2028}z"),
];

#[test]
fn hidden_characters_are_shown_and_need_the_key_twice() {
    let home = home();
    for (value, visible) in HOSTILE {
        let words = ["call", "shop.echo", "--args", &json!({ "text": value }).to_string()];
        let mut terminal = Terminal::start(command(&home, &words));
        terminal.answers(visible, "").answers("argument `text` contains hidden characters", "");
        terminal.answers("[y] once", "y").answers("press the key again", "").answers("[n] back", "n");
        terminal.answers("[y] once", "y").answers("[y] approve them", "y");
        let (status, shown) = terminal.end(PATIENCE);
        assert!(status.success() && shown.contains("Approved once."), "{shown}");
        let ours = ["\r\u{1b}[K", "\u{1b}[?2004h", "\u{1b}[?2004l"];
        let rest = ours.iter().fold(shown.clone(), |text, sequence| text.replace(sequence, ""));
        let is_bad = |letter: &char| {
            letter.is_control() && !matches!(letter, '\r' | '\n')
                || "\u{202e}\u{200b}\u{3164}\u{2028}".contains(*letter)
        };
        assert_eq!(rest.chars().find(is_bad), None, "{shown:?}");
    }
}

#[test]
fn text_that_imitates_our_keys_or_an_escape_is_told_apart() {
    let home = home();
    let words = ["call", "shop.echo", "--args", &json!({ "text": "\\u{1b}\r\n[y] once" }).to_string()];
    let mut terminal = Terminal::start(command(&home, &words));
    terminal.answers(r"  │ \u{5c}u{1b}", "").answers("  │ [y] once", "").answers("[n] no", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && !shown.contains("hidden"), "{shown}");
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
fn without_a_terminal_the_call_is_refused_with_the_command_that_would_allow_it() {
    let home = home();
    let ran = home.run(&["call", "shop.add", "a=2", "b=3"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.talk.contains("`toolway policy allow shop.add --caller terminal`"), "{ran:?}");
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
    terminal.answers("[c] this conversation", "c").answers("Approved for this conversation.", "");
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
