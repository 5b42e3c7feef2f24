//! Keys at the prompt of `toolway chat`: new lines, pasted text and Ctrl-C, with and without the kitty keyboard protocol.

use serde_json::json;

use crate::{
    chat_screen::{ChatScreen, Keyboard},
    home::Home,
};

const CHAT: [&str; 3] = ["chat", "--model", "scripted:script.json"];

/// What the user said in the last conversation.
fn said(home: &Home) -> Vec<String> {
    let shown = home.run(&["history", "show", "last", "-o", "json"]).json();
    let messages = shown["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    messages.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn shift_enter_and_alt_enter_begin_a_new_line_where_the_terminal_reports_keys() {
    let home = Home::with_script(&json!([{ "text": "First." }, { "text": "Second." }]));
    let mut chat = ChatScreen::start_with(&home, &CHAT, 80, Keyboard::Kitty);
    chat.prompts(1).types("one\u{1b}[13;2utwo").sees("> one two").types("\r").sees("First.").sees_times("tokens in", 1);
    chat.prompts(2).types("three\u{1b}[13;3ufour\r").sees("Second.").sees_times("tokens in", 2);
    // Ctrl-C and Ctrl-D are reported as keys with modifiers.
    chat.prompts(3).types("dropped").sees("> dropped").types("\u{1b}[99;5u").prompts(4).types("\u{1b}[100;5u");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["one\ntwo", "three\nfour"]);
}

#[test]
fn pasted_lines_are_one_message() {
    let home = Home::with_script(&json!([{ "text": "All of it." }]));
    for columns in [80, 40] {
        let mut chat = ChatScreen::start(&home, &CHAT, columns);
        chat.prompts(1).types("\u{1b}[200~one\ntwo\r\nthree\rfour\u{1b}[201~").sees("one two three four");
        assert!(!chat.text().contains("All of it."), "pasting does not send: {}", chat.text());
        chat.types(" and five\r").sees("All of it.").sees("tokens in").types("/exit\r");
        assert!(chat.end().0.success());
        assert_eq!(said(&home), ["one\ntwo\nthree\nfour and five"]);
    }
}

#[test]
fn ctrl_c_drops_the_text_at_the_prompt_and_leaves_only_from_an_empty_one() {
    let home = Home::with_script(&json!([{ "text": "Here." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("half a message").sees("> half a message").types("\u{3}").prompts(2);
    chat.types("more").sees("> more").types("\u{3}").prompts(3);
    assert!(!chat.text().contains("Press Ctrl-C"), "{}", chat.text());
    chat.types("still there?\r").sees("Here.").sees("tokens in").prompts(4);
    chat.types("\u{3}").sees("Press Ctrl-C again to leave.").prompts(5).types("\u{3}");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["still there?"], "what was dropped is not sent");
}

#[test]
fn in_mode_ask_the_models_calls_are_asked_about_and_the_users_own_prompts_are_not() {
    let home = Home::with_script(&json!([
        { "text": "Hello Ada." },
        { "calls": [{ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } }] },
        { "expect": [{ "error": false }], "text": "Five." },
    ]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("/mode ask\r").sees("asks about every call").prompts(2);
    chat.types("/sample.introduce name=Ada\r").sees("Hello Ada.").sees("tokens in").prompts(3);
    assert!(!chat.text().contains("Approval required"), "{}", chat.text());
    chat.types("add\r").sees("Approval required").sees("[y] once").types("y").sees("Five.").sees_times("tokens in", 2);
    chat.types("/mode\r").sees("› ask").types("\r").sees_times("Mode ask", 2).prompts(5).types("/exit\r");
    assert!(chat.end().0.success());
}

#[test]
fn results_are_opened_and_lists_are_chosen_from_with_arrow_keys() {
    let echo = |text: &str| json!({ "tool": "sample__echo", "arguments": { "text": text } });
    let home = Home::with_script(&json!([
        { "calls": [echo("one\ntwo\nthree of the first"), echo("only\nthe second")] },
        { "text": "Read." },
    ]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("/show\r").sees("No result yet.").prompts(2);
    chat.types("go\r").sees("(+2 lines) [").sees("Read.").sees("tokens in").prompts(3);
    let number = if chat.text().contains("(+2 lines) [1]") { 1 } else { 2 };
    chat.types(&format!("/show {number}\r")).sees_times("three of the first", 3).sees("toolway calls show ").prompts(4);
    chat.types("/show 9\r").sees("No result [9].").prompts(5);
    chat.types("/mode\r")
        .sees("› writes")
        .types("\u{1b}[B")
        .sees("› allow")
        .types("\r")
        .sees("Mode allow (asks about")
        .prompts(6);
    // Left without a choice, the list is gone and the mode is as it was.
    chat.types("/mode\r")
        .sees("› allow")
        .types("\u{1b}[A")
        .sees("› writes")
        .types("q")
        .sees_times("Mode allow", 2)
        .prompts(7);
    assert!(!chat.text().contains("› "), "{}", chat.text());
    chat.types("/resume\r").sees("› ").sees(" s ago go").types("\r").sees("Conversation `go`").types("/exit\r");
    assert!(chat.end().0.success());
}

#[test]
fn a_result_waits_until_the_prompts_are_answered() {
    let write = |text: &str| json!({ "tool": "sample__write_memo", "arguments": { "text": text } });
    let home = Home::with_script(&json!([{ "calls": [write("one"), write("two")] }, { "text": "Done." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("write\r").sees("2 calls require approval").sees("[o] one by one").types("o");
    chat.sees_times("[y] once", 1).types("y").sees_times("[y] once", 2);
    let has_ended = || home.run(&["calls", "list", "--state", "succeeded"]).json().as_array().unwrap().len() == 1;
    let began = std::time::Instant::now();
    while !has_ended() {
        assert!(began.elapsed().as_secs() < 60, "the approved call does not end");
    }
    assert!(!chat.text().contains('✓'), "the prompt is the last thing on the screen: {}", chat.text());
    chat.types("y").sees_times("✓ sample.write_memo", 2).sees("Done.").types("/exit\r");
    assert!(chat.end().0.success());
}
