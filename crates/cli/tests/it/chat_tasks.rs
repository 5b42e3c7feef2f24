//! Background tasks in `toolway chat`, at a terminal with a screen.

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    home::Home,
    terminal_tasks::{ERAS, home},
};

const CHAT: [&str; 5] = ["chat", "--model", "scripted:script.json", "--mode", "allow"];

/// A home with a server `jobs` whose tools run as tasks, and a model that begins with one of this many seconds.
fn scripted(era: &str, seconds: u32, turns: &[Value]) -> Home {
    let home = home(era);
    let call = json!({ "tool": "jobs__long_job", "arguments": { "seconds": seconds } });
    let mut script = vec![json!({ "calls": [call] })];
    script.push(json!({ "expect": [{ "contains": "started, id " }], "text": "It has begun." }));
    script.extend_from_slice(turns);
    home.write("script.json", &json!({ "turns": script }).to_string());
    home
}

/// The short id of the task on the screen.
fn task_id(chat: &ChatScreen) -> String {
    let text = chat.text();
    let rest = text.rsplit_once("(task ").unwrap().1;
    rest.split_once(')').unwrap().0.to_owned()
}

#[test]
fn the_user_goes_on_while_a_task_runs_and_the_model_is_told_of_its_end() {
    for era in ERAS {
        let turns = [
            json!({ "heard": ["what is the time?"], "text": "Noon." }),
            json!({ "heard": ["This message is not from the user.", "\n| Computed for 4 seconds.\n"], "text": "All is painted." }),
            json!({ "heard": ["half a message"], "text": "Got it." }),
        ];
        let home = scripted(era, 4, &turns);
        let mut chat = ChatScreen::start(&home, &CHAT, 100);
        chat.prompts(1).types("paint\r").sees("runs in the background").sees("It has begun.");
        // The line above the prompt.
        chat.sees("working: mixing the paint").types("what is the time?\r").sees("Noon.");
        chat.types("half a mess").sees("> half a mess");
        chat.sees("✓ jobs.long_job (task").sees("All is painted.").sees_times("tokens in", 3);
        // What was typed is there again.
        chat.sees("> half a mess").types("age\r").sees("Got it.").sees_times("tokens in", 4);
        // Only the prompt of the message that was sent meanwhile has the line.
        assert_eq!(chat.text().matches("working: mixing").count(), 1, "{era}: {}", chat.text());
        chat.types("/tasks\r").sees("No tasks run in this conversation.").types("/exit\r");
        let (status, shown) = chat.end();
        assert!(status.success(), "{era}: {shown}");
        let stored = home.run(&["history", "show", "last", "-o", "json"]).json();
        let said: Vec<&Value> =
            stored["messages"].as_array().unwrap().iter().filter(|one| one["role"] == "user").collect();
        assert_eq!(said.len(), 4, "{era}: {stored}");
        assert_eq!(said[1]["text"], json!("what is the time?"), "{era}: its own message");
    }
}

#[test]
fn a_cancel_of_the_user_is_told_to_the_model() {
    for era in ERAS {
        let turns = [json!({ "heard": ["was cancelled by the user"], "text": "You stopped it." })];
        let home = scripted(era, 60, &turns);
        let mut chat = ChatScreen::start(&home, &CHAT, 100);
        chat.prompts(1)
            .types("paint\r")
            .sees("It has begun.")
            .types("/tasks\r")
            .sees("Cancel one with /tasks cancel ID.");
        let id = task_id(&chat);
        chat.types(&format!("/tasks cancel {id}\r"))
            .sees("is being cancelled")
            .sees("You stopped it.")
            .types("/exit\r");
        assert!(chat.end().0.success(), "{era}");
        assert_eq!(home.run(&["tasks", "-o", "json"]).json()[0]["status"], json!("cancelled"), "{era}");
    }
}

#[test]
fn a_resumed_conversation_shows_what_became_of_its_task() {
    let turns = [json!({ "heard": ["is lost: whether it had an effect is not known"], "text": "Begin again?" })];
    let home = scripted(ERAS[1], 60, &turns);
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    chat.prompts(1).types("paint\r").sees("It has begun.").sees("working: mixing the paint");
    chat.kills();
    let words: Vec<&str> = CHAT.into_iter().chain(["--resume", "last"]).collect();
    let mut chat = ChatScreen::start(&home, &words, 100);
    chat.sees("is lost").sees("Begin again?").types("/exit\r");
    assert!(chat.end().0.success());
}
