//! `toolway chat` with a script instead of a model, at a real terminal and in a pipe, with servers written by others.

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    home::{Home, TOOLWAY, root},
};

/// A home with the sample server and a script.
fn sample(turns: &Value) -> Home {
    let home = Home::new();
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    home.configure(&json!({ "mcpServers": { "sample": server } }).to_string());
    script(&home, "script.json", turns);
    home
}

/// A home with three public servers and a script. `/notes` in the script is a folder of the home.
fn public_servers(turns: &Value) -> Home {
    let home = Home::new();
    let bin = root().join(".interop/node_modules/.bin/mcp-server-everything");
    assert!(bin.exists(), "{} is missing: run ./test, which installs it", bin.display());
    home.write("notes/a.txt", "milk and bread");
    let memory = home.path("memory.jsonl");
    let servers = json!({
        "files": { "command": "mcp-server-filesystem", "args": [home.path("notes")] },
        "memory": { "command": "mcp-server-memory", "env": { "MEMORY_FILE_PATH": memory } },
        "everything": { "command": "mcp-server-everything", "args": ["stdio"] },
    });
    home.configure(&json!({ "mcpServers": servers }).to_string());
    script(&home, "script.json", turns);
    home
}

fn script(home: &Home, file: &str, turns: &Value) {
    let notes = home.path("notes").display().to_string();
    let text = json!({ "turns": turns }).to_string().replace("/notes", &notes);
    home.write(file, &text);
}

const CHAT: [&str; 3] = ["chat", "--model", "scripted:script.json"];

#[test]
fn several_tools_an_approval_and_a_refusal_in_one_conversation() {
    let home = public_servers(&json!([
        { "text": "Reading **both**.", "calls": [
            { "tool": "files__read_text_file", "arguments": { "path": "/notes/a.txt" } },
            { "tool": "everything__get-sum", "arguments": { "a": 2, "b": 3 } },
            { "tool": "memory__read_graph" },
        ] },
        { "expect": [{ "contains": "milk" }, { "contains": "5" }, { "error": false }], "text": "Now writing.", "calls": [
            { "tool": "files__write_file", "arguments": { "path": "/notes/b.txt", "content": "eggs" } },
        ] },
        { "expect": [{ "error": false }], "text": "Once more.", "calls": [
            { "tool": "files__write_file", "arguments": { "path": "/notes/c.txt", "content": "tea" } },
        ] },
        { "expect": [{ "contains": "no more files", "error": true }], "text": "Done." },
    ]));
    for columns in [80, 40] {
        let mut chat = ChatScreen::start(&home, &CHAT, columns);
        chat.prompts(1).types("go\r").sees("Reading both.").sees("✓ files.read_text_file").sees("✓ memory.read_graph");
        chat.sees("✓ everything.get-sum").sees_times("[y] once", 1).types("y").sees("✓ files.write_file");
        chat.sees_times("[y] once", 2).types("n").sees("eason").types("no more files\r");
        chat.sees("⊘ files.write_file").sees("no more files").sees("Done.").sees("5 calls").prompts(2);
        assert!(chat.lines().iter().all(|line| line.chars().count() <= columns.into()), "{:?}", chat.lines());
        chat.types("/exit\r");
        let (status, shown) = chat.end();
        assert!(status.success() && shown.contains("--resume"), "{shown}");
        assert_eq!(std::fs::read_to_string(home.path("notes/b.txt")).unwrap(), "eggs");
        assert!(!home.path("notes/c.txt").exists(), "a refused write is not sent");
    }
}

#[test]
fn a_form_and_a_task_and_its_cancellation() {
    let research = |topic: &str| json!({ "topic": topic, "ambiguous": false });
    let home = public_servers(&json!([
        { "calls": [{ "tool": "everything__trigger-elicitation-request" }] },
        { "expect": [{ "contains": "Ada", "error": false }], "text": "Nice to meet you." },
        { "calls": [{ "tool": "everything__simulate-research-query", "arguments": research("rust") }] },
        { "expect": [{ "contains": "started, id ", "error": false }], "text": "It looks." },
        { "heard": ["has completed", "rust"], "text": "Researched." },
        { "calls": [{ "tool": "everything__simulate-research-query", "arguments": research("more") }] },
        { "expect": [{ "contains": "started, id ", "error": false }], "text": "It looks again." },
        { "heard": ["was cancelled by the user"], "text": "You ended it." },
    ]));
    let mut chat = ChatScreen::start(&home, &[&CHAT[..], &["--mode", "full"]].concat(), 80);
    chat.prompts(1).types("who am I?\r").sees("1/").types("Ada\r");
    fill_defaults(&mut chat);
    chat.sees("✓ everything.trigger-elicitation-request").sees("Nice to meet you.").sees("1 call,");
    chat.types("research\r").sees("runs in the background").sees("It looks.");
    chat.sees("✓ everything.simulate-research-query (task").sees("Researched.").sees_times("tokens in", 3);
    chat.types("again\r").sees("It looks again.").sees_times("tokens in", 4);
    let tasks = home.run(&["tasks", "-o", "json"]).json();
    assert_eq!(tasks[0]["status"], "working", "{tasks}");
    chat.types(&format!("/tasks cancel {}\r", tasks[0]["id"].as_str().unwrap())).sees("You ended it.").types("/exit\r");
    assert!(chat.end().0.success());
    let states = home.run(&["calls", "list", "-o", "json"]).json();
    let states: Vec<&Value> = states.as_array().unwrap().iter().map(|call| &call["state"]).collect();
    assert_eq!(states, ["cancelled", "succeeded", "succeeded"]);
}

/// Accepts the remaining fields of the form as they are, and sends it.
fn fill_defaults(chat: &mut ChatScreen) {
    for field in 2..=20 {
        let began = std::time::Instant::now();
        let next = loop {
            let text = chat.text();
            if text.contains("[y] send") {
                break None;
            }
            if text.contains(&format!(" {field}/")) {
                break Some(field);
            }
            assert!(began.elapsed().as_secs() < 120, "{text}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        if next.is_none() {
            break;
        }
        chat.types("\r");
    }
    chat.sees("[y] send").types("y");
}

#[test]
fn a_result_that_is_too_large_is_read_on_and_a_server_that_dies_is_reported() {
    let home = public_servers(&json!([
        { "calls": [{ "tool": "files__read_text_file", "arguments": { "path": "/notes/large.txt" } }] },
        { "expect": [{ "contains": "cut by Toolway after 40000", "error": false }], "text": "It is long." },
        { "calls": [{ "tool": "dying__odd" }] },
        { "expect": [{ "error": true }], "text": "It is gone." },
    ]));
    home.write("notes/large.txt", &"a long line of text\n".repeat(5_000));
    let odd = crate::home::odd("cut");
    let (program, argument) = odd.split_once(' ').unwrap();
    let config = std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["mcpServers"]["dying"] = json!({ "command": program, "args": [argument] });
    home.configure(&config.to_string());
    let mut chat = ChatScreen::start(&home, &[&CHAT[..], &["--mode", "full"]].concat(), 80);
    chat.prompts(1).types("read\r").sees("lines) ").sees("It is long.").sees("1 call,");
    chat.types("try the other\r").sees("✗ dying.odd").sees("It is gone.").sees_times("1 call,", 2);
    chat.types("/servers\r").sees("files: ready").types("\u{4}");
    assert!(chat.end().0.success());
}

#[test]
fn a_conversation_goes_on_after_kill_9() {
    let home = sample(&json!([
        { "text": "First answer.", "calls": [{ "tool": "sample__echo", "arguments": { "text": "kept" } }] },
        { "text": "Second answer, which takes its time to be said.", "delayMs": 1000 },
    ]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("remember me\r").sees("✓ sample.echo").sees("Second");
    chat.kills();
    script(&home, "next.json", &json!([{ "expect": [{ "contains": "kept" }], "text": "I remember." }]));
    let words = ["chat", "--model", "scripted:next.json", "--resume", "last"];
    let mut chat = ChatScreen::start(&home, &words, 80);
    chat.sees("> remember me")
        .sees("First answer.")
        .types("go on\r")
        .sees("I remember.")
        .sees("tokens")
        .types("/exit\r");
    assert!(chat.end().0.success());
    let shown = home.run(&["history", "show", "last", "-o", "json"]).json();
    let roles: Vec<&Value> = shown["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert_eq!(shown["title"], "remember me");
}

#[test]
fn commands_prompts_completion_and_lines_work_at_the_editor() {
    let home = sample(&json!([{ "text": "Hello Ada." }, { "text": "Two lines." }]));
    let mut chat = ChatScreen::start(&home, &CHAT, 80);
    chat.prompts(1).types("/he\t\r").sees("/clear Begin a new conversation");
    chat.types("/servers\r").sees("sample: ready");
    chat.types("/tools write\r").sees("sample.write_memo Replace the text");
    chat.types("/mode writes\r").sees("asks about calls that may write");
    chat.types("/modle\r").sees("did you mean `mode`?");
    chat.types("/sample/introduce\r").sees("name:").types("Ada\r").sees("Hello Ada.").sees("tokens in");
    chat.types("one\u{1b}\rtwo\r").sees("Two lines.").sees_times("tokens in", 2);
    chat.types("/clear\r").sees("New conversation.").types("/resume\r");
    chat.sees("Continue a conversation (").types("q").prompts(10).types("\u{3}");
    chat.sees("Press Ctrl-C again to leave.").types("\u{3}");
    assert!(chat.end().0.success());
    let messages = home.run(&["history", "show", "last", "-o", "json"]).json();
    assert!(messages["messages"].to_string().contains("one\\ntwo"), "{messages}");
    let remembered = std::fs::read_to_string(home.path(".local/state/toolway/chat-history.txt")).unwrap();
    assert!(remembered.contains("/servers"), "{remembered}");
}

#[test]
fn without_a_terminal_each_line_is_a_message_and_writes_are_refused() {
    let home = sample(&json!([
        { "text": "Writing.", "calls": [{ "tool": "sample__write_memo", "arguments": { "text": "x" } }] },
        { "expect": [{ "contains": "requires approval", "error": true }], "text": "I may not." },
    ]));
    let ran = home.run_with_input(&CHAT, "write it\n/usage\n/exit\n");
    let said = ran.ok();
    assert!(said.contains("⊘ sample.write_memo text=x: refused"), "{said}");
    assert!(said.contains("allow it with `toolway") && said.contains("I may not.\n"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn without_a_model_it_says_what_it_looked_for_and_offers_a_script() {
    let home = Home::new();
    let mut chat = ChatScreen::start(&home, &["chat"], 80);
    chat.sees("no model is configured").sees("ANTHROPIC_API_KEY").sees("[Y/n]").types("y");
    chat.sees("Model demo, 1 server.").types("hello\r").sees("✓ sample.echo").sees("1/1").types("Ada\r");
    chat.sees("[y] send").types("y").sees("[y] once").types("y").sees("Write another message").sees("4 calls");
    chat.types("/exit\r");
    assert!(chat.end().0.success());
    let ran = home.run(&["chat"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.talk.contains("toolway chat --model scripted:demo"), "{ran:?}");
}

#[test]
fn a_configured_model_that_cannot_be_used_is_named() {
    let home = Home::new();
    let model = json!({ "vendor": "anthropic", "model": "m", "apiKey": "env:NO_SUCH_KEY" });
    home.configure(&json!({ "models": { "claude": model } }).to_string());
    let ran = home.run(&["chat"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.talk.contains("`claude`") && ran.talk.contains("`NO_SUCH_KEY`"), "{ran:?}");
}

#[test]
fn a_conversation_that_is_not_stored_is_not_offered_again() {
    let home = sample(&json!([{ "text": "Hello." }]));
    let ran = home.run_with_input(&[&CHAT[..], &["--no-store"]].concat(), "hello\n");
    let said = ran.ok();
    assert!(said.contains("Hello.") && !said.contains("--resume"), "{said}");
}

#[test]
fn an_output_for_programs_is_refused_with_the_command_that_has_it() {
    let home = sample(&json!([]));
    for format in ["json", "ndjson", "raw"] {
        let ran = home.run_with_input(&[&CHAT[..], &["-o", format]].concat(), "hello\n");
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.talk.contains("use `toolway run --output json`"), "{ran:?}");
    }
}
