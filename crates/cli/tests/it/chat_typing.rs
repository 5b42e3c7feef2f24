//! Keys that are typed while the model works: messages that wait for the end of the turn, and Esc, which stops it.

use serde_json::{Value, json};

use crate::{chat_screen::ChatScreen, home::Home};

const CHAT: [&str; 3] = ["chat", "--model", "scripted:script.json"];

/// An answer of many words, one every `delay` milliseconds.
fn slow(delay: u64) -> Value {
    let words: Vec<String> = (1..=400).map(|word| format!("w{word}")).collect();
    json!({ "text": words.join(" "), "delayMs": delay })
}

/// What the user said in the last conversation.
fn said(home: &Home) -> Vec<String> {
    let shown = home.run(&["history", "show", "last", "-o", "json"]).json();
    let messages = shown["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    messages.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_messages_that_are_typed_while_the_model_streams_are_sent_one_after_the_other() {
    let home = Home::with_script(&json!([slow(15), { "text": "Second." }, { "text": "Third." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("one\r").sees("w3 w4").types("two").sees("» two").types("\r").sees("queued: two");
    chat.types("th").sees("queued: two » th").types("ree\r").sees("queued: two queued: three");
    chat.sees("w400").sees("> two").sees("Second.").sees("> three").sees("Third.").sees_times("tokens in", 3);
    // The words of the model are whole, and nothing of what was typed is left among them.
    let text = chat.text();
    let words: Vec<String> = (1..=400).map(|word| format!("w{word}")).collect();
    assert!(text.contains(&words.join(" ")), "{text}");
    assert!(!text.contains('»') && !text.contains("queued:"), "{text}");
    chat.types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["one", "two", "three"]);
}

#[test]
fn esc_stops_a_stream_and_what_waits_is_sent_and_a_draft_is_at_the_prompt() {
    let home = Home::with_script(&json!([slow(40), { "text": "Instead." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("one\r").sees("w3").types("two\rdra").sees("queued: two » dra").types("\u{1b}");
    chat.sees("Stopped.").sees("> two").sees("Instead.").sees_times("tokens in", 2).sees("> dra");
    assert!(!chat.text().contains("w400") && !chat.text().contains("Press Ctrl-C"), "{}", chat.text());
    chat.types("ft\r").sees("> draft").sees("it has only 2 turns").types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["one", "two", "draft"]);
}

#[test]
fn esc_stops_a_tool_call() {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "sample__count", "arguments": { "to": 100, "pause": 500 } }] }, { "text": "Next." },
    ]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("go\r").sees("sample.count").types("\u{1b}").sees("cancelled").sees("Stopped.");
    chat.types("on\r").sees("Next.").sees_times("tokens in", 2).types("/exit\r");
    assert!(chat.end().0.success());
}

#[test]
fn esc_and_typed_ahead_text_do_not_answer_an_approval_and_the_draft_is_kept() {
    let write = json!({ "tool": "sample__write_memo", "arguments": { "text": "memo" } });
    let mut first = slow(10);
    first["calls"] = json!([write]);
    let home = Home::with_script(&json!([first, { "text": "Declined." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    // `y` before the prompt is part of a message.
    chat.prompts(1).types("write\r").sees("w3").types("y").sees("» y").types("yy").sees("» yyy");
    chat.sees("Approval required").sees("[y] once").types("\u{1b}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(home.run(&["calls", "list", "--state", "succeeded"]).json().as_array().unwrap().is_empty());
    chat.types("n").sees("reason").types("\r").sees("Declined.").sees("tokens in").sees("> yyy");
    chat.types("\r").sees("it has only 2 turns").types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["write", "yyy"]);
}

#[test]
fn pasted_lines_are_one_queued_message() {
    let home = Home::with_script(&json!([slow(15), { "text": "Got it." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 60);
    chat.prompts(1).types("one\r").sees("w3").types("\u{1b}[200~two\r\nthree\u{1b}[201~").sees("» two three");
    assert!(!chat.text().contains("queued:"), "pasting does not queue: {}", chat.text());
    chat.types("\r").sees("queued: two three").sees("Got it.").sees_times("tokens in", 2).types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["one", "two\nthree"]);
}

#[test]
fn ctrl_c_takes_queued_messages_back_to_the_prompt() {
    let home = Home::with_script(&json!([slow(40), { "text": "Edited." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("one\r").sees("w3").types("two\r").sees("queued: two").types("th").sees("» th");
    chat.types("\u{3}").sees("Stopped. Press Ctrl-C again to leave.").sees("The queued message was not sent");
    chat.sees("> two th");
    chat.types("ree\r").sees("Edited.").sees_times("tokens in", 2).types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(said(&home), ["one", "two\nthree"]);
}
