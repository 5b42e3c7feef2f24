//! A conversation that was compacted goes on in another process, also after `kill -9`.

use serde_json::{Value, json};

use crate::{chat_screen::ChatScreen, home::Home};

/// A home with a model of a small window, and another one for what comes later.
fn home(turns: &[Value]) -> Home {
    let home = Home::new();
    let model = |script: &str| json!({ "vendor": "scripted", "model": script, "contextWindow": 4000 });
    let models = json!({ "small": model("script.json"), "later": model("later.json") });
    home.configure(&json!({ "models": models, "defaultModel": "small" }).to_string());
    home.write("script.json", &json!({ "turns": turns }).to_string());
    home.write("later.json", &json!({ "turns": [{ "text": "Here again." }] }).to_string());
    home
}

#[test]
fn a_compacted_conversation_is_resumed_with_its_summary_after_kill_9_in_the_middle_of_a_turn() {
    let words: Vec<String> = (0..500).map(|word| format!("w{word}")).collect();
    let mut turns: Vec<Value> = (1..=6).map(|turn| json!({ "text": format!("Answer {turn}.") })).collect();
    turns.push(json!({ "text": words.join(" "), "delayMs": 50 }));
    let home = home(&turns);
    let mut chat = ChatScreen::start(&home, &["chat"], 100);
    for turn in 1..=6 {
        chat.prompts(turn).types(&format!("question {turn}\r")).sees(&format!("Answer {turn}."));
        chat.sees_times("tokens in", turn);
    }
    chat.prompts(7).types("/compact\r").sees("4 older messages were summarised").prompts(8);
    chat.types("question 7\r").sees("w3");
    chat.kills();
    let words = ["chat", "--model", "later", "--resume", "last"];
    let ran = home.run_with_input(&words, "go on\n/usage\n");
    assert!(ran.ok().contains("Here again."), "{ran:?}");
    let meter = ran.out.lines().find(|line| line.starts_with("context: ")).unwrap();
    assert!(meter.contains(" summary "), "the summary of the process that was killed is used: {meter}");
    let shown = home.run(&["history", "show", "last"]).json();
    let said = shown["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    let said: Vec<&str> = said.map(|message| message["text"].as_str().unwrap()).collect();
    let expected: Vec<String> = (1..=7).map(|turn| format!("question {turn}")).chain(["go on".to_owned()]).collect();
    assert_eq!(said, expected, "the store has every message");
    let replay = home.run(&["history", "replay", "last", "-o", "json"]).json();
    let purposes: Vec<&Value> =
        replay["requests"].as_array().unwrap().iter().map(|request| &request["purpose"]).collect();
    assert_eq!(purposes.iter().filter(|purpose| **purpose == "summary").count(), 1, "{replay:#}");
    assert_eq!((purposes.len(), &replay["identical"]), (8, &json!(true)), "{replay:#}");
}
