//! Tasks in commands and conversations: what is sent to the server, the model's own tools, self-started turns, and a
//! conversation that goes on after `kill -9`.

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    gateway::Serving,
    home::{Home, odd},
    task_crashes::{HttpServer, until},
    terminal_tasks::{ERAS, home},
};

const CHAT: [&str; 5] = ["chat", "--model", "scripted:script.json", "--mode", "allow"];

fn long_job(seconds: u32) -> Value {
    json!({ "tool": "jobs__long_job", "arguments": { "seconds": seconds } })
}

/// Duration of the last call in seconds.
fn duration(home: &Home) -> f64 {
    home.run(&["calls", "list", "-o", "json"]).json()[0]["durationMs"].as_f64().unwrap() / 1_000.0
}

#[test]
fn the_time_to_keep_a_task_is_sent_to_its_server() {
    let home = home(ERAS[0]);
    let ran = home.run(&["call", "jobs.long_job", "seconds=1", "--task-ttl", "90", "-v", "-o", "human"]);
    assert!(ran.ok().contains("Computed for 1 seconds."), "{ran:?}");
    assert!(ran.talk.contains(r#""task":{"ttl":90000}"#), "{ran:?}");
}

#[test]
fn tasks_that_a_server_keeps_are_listed() {
    let server = HttpServer::conformance(ERAS[0]);
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "jobs": server.entry() } }).to_string());
    // The session that has the tasks belongs to the gateway.
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "jobs", "ready");
    assert_eq!(home.run(&["tasks", "list", "--remote", "jobs", "-o", "json"]).json(), json!([]));
    home.run(&["call", "jobs.long_job", "seconds=600", "--detach", "-o", "human"]).ok();
    let listed = home.run(&["tasks", "list", "--remote", "jobs", "-o", "json"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["status"]), (1, &json!("working")), "{listed}");
    serving.stop();
    // Servers without sessions have no list.
    let modern = HttpServer::conformance(ERAS[1]);
    home.configure(&json!({ "mcpServers": { "jobs": modern.entry() } }).to_string());
    let ran = home.run(&["tasks", "list", "--remote", "jobs", "-o", "human"]);
    assert!(ran.code != 0 && ran.talk.contains("does not list its tasks"), "{ran:?}");
}

#[test]
fn the_poll_interval_of_a_server_counts_within_bounds() {
    // Three reads: a quarter of a second after the call, then at the interval. Without one, five seconds lie between two.
    for server in ["unready-task", "unready-task:fast"] {
        let home = Home::new();
        let ran = home.run(&["call", "--stdio", &odd(server), "--era", "legacy", "odd", "-o", "human"]);
        assert_eq!(ran.ok(), "done at last\n", "{server}: {ran:?}");
        assert!((2.0..8.0).contains(&duration(&home)), "{server}: {}", duration(&home));
    }
}

#[test]
fn a_model_looks_at_its_task_and_cancels_it() {
    for era in ERAS {
        let home = home(era);
        let of_task = |tool: &str| json!({ "calls": [{ "tool": tool, "arguments": { "id": "{{task}}" } }] });
        let script = json!({ "turns": [
            { "calls": [long_job(600)] },
            of_task("task_status"),
            { "expect": [{ "contains": "of `jobs__long_job` is working" }], "calls": [{ "tool": "task_cancel", "arguments": { "id": "{{task}}" } }] },
            { "expect": [{ "contains": "is being cancelled" }], "calls": [{ "tool": "task_status", "arguments": { "id": "0190" } }] },
            { "expect": [{ "contains": "unknown task `0190`", "error": true }], "text": "Stopped it." },
        ] });
        let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
        let ran = home.run(&["run", "paint", "--model", &model, "--mode", "allow", "-o", "json"]);
        assert_eq!(ran.json()["result"], json!("Stopped it."), "{era}: {ran:?}");
        let tasks = home.run(&["tasks", "-o", "json"]).json();
        assert_eq!(tasks[0]["status"], json!("cancelled"), "{era}: {tasks}");
    }
}

#[test]
fn a_conversation_starts_at_most_three_turns_by_itself() {
    let home = home(ERAS[1]);
    let begin = || json!({ "heard": ["Computed for 1 seconds."], "calls": [long_job(1)] });
    let said = |text: &str| json!({ "expect": [{ "contains": "started, id " }], "text": text });
    let script = json!({ "turns": [
        { "calls": [long_job(1)] }, said("Zero."),
        begin(), said("One."),
        begin(), said("Two."),
        begin(), said("Three."),
        // The fourth end waits for the user.
        { "heard": ["go on", "Computed for 1 seconds."], "text": "Four." },
    ] });
    home.write("script.json", &script.to_string());
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    chat.prompts(1).types("paint\r").sees("Zero.").sees("One.").sees("Two.").sees("Three.");
    until(|| {
        let tasks = home.run(&["tasks", "-o", "json"]).json();
        tasks.as_array().unwrap().iter().all(|task| task["status"] == json!("completed")).then_some(())
    });
    assert!(!chat.text().contains("Four."), "{}", chat.text());
    chat.types("go on\r").sees("Four.").types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(home.run(&["tasks", "-o", "json"]).json().as_array().unwrap().len(), 4);
}

#[test]
fn a_resumed_conversation_gets_the_result_of_a_task_that_went_on_without_it() {
    for era in ERAS {
        let server = HttpServer::conformance(era);
        let home = Home::new();
        home.configure(&json!({ "mcpServers": { "jobs": server.entry() } }).to_string());
        let script = json!({ "turns": [
            { "calls": [long_job(4)] },
            { "expect": [{ "contains": "started, id " }], "text": "It has begun." },
            { "heard": ["has completed", "\n| Computed for 4 seconds.\n"], "text": "All is painted." },
        ] });
        home.write("script.json", &script.to_string());
        let mut chat = ChatScreen::start(&home, &CHAT, 100);
        chat.prompts(1).types("paint\r").sees("It has begun.").sees("working: mixing the paint");
        chat.kills();
        let words: Vec<&str> = CHAT.into_iter().chain(["--resume", "last"]).collect();
        let mut chat = ChatScreen::start(&home, &words, 100);
        chat.sees("All is painted.").types("/exit\r");
        assert!(chat.end().0.success(), "{era}");
        assert_eq!(home.run(&["tasks", "-o", "json"]).json()[0]["status"], json!("completed"), "{era}");
        let calls = home.run(&["calls", "list", "-o", "json"]).json();
        assert_eq!(calls[0]["state"], json!("succeeded"), "{era}: {calls}");
    }
}

#[test]
fn a_resumed_conversation_gets_the_result_of_a_task_that_the_gateway_follows() {
    let server = HttpServer::conformance(ERAS[1]);
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "jobs": server.entry() } }).to_string());
    let script = json!({ "turns": [
        { "calls": [long_job(8)] },
        { "expect": [{ "contains": "started, id " }], "text": "It has begun." },
        { "heard": ["has completed", "\n| Computed for 8 seconds.\n"], "text": "All is painted." },
    ] });
    home.write("script.json", &script.to_string());
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    chat.prompts(1).types("paint\r").sees("It has begun.").sees("working: mixing the paint");
    chat.kills();
    let serving = Serving::start(&home, &[]);
    until(|| home.run(&["tasks", "show", "last", "-o", "human"]).ok().contains("followed      yes").then_some(()));
    let words: Vec<&str> = CHAT.into_iter().chain(["--resume", "last"]).collect();
    let mut chat = ChatScreen::start(&home, &words, 100);
    // The line above the prompt, as of a task of its own.
    chat.sees("working: mixing the paint").sees("All is painted.").types("/tasks\r");
    chat.sees("No tasks run in this conversation.").types("/exit\r");
    assert!(chat.end().0.success());
    let stored = home.run(&["history", "show", "last", "-o", "json"]).json();
    let messages = stored["messages"].as_array().unwrap();
    assert_eq!(messages.iter().filter(|one| one["role"] == "user").count(), 2, "told once: {stored}");
    serving.stop();
}

/// The gateway has sessions of its own: a task that runs in that of a command is unknown there, and not lost.
#[test]
fn a_task_in_the_session_of_a_chat_is_left_to_the_next_one_while_a_gateway_runs() {
    let server = HttpServer::everything();
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "every": server.entry() } }).to_string());
    let research = json!({ "tool": "every__simulate-research-query", "arguments": { "topic": "paint" } });
    let script = json!({ "turns": [
        { "calls": [research] },
        { "expect": [{ "contains": "started, id " }], "text": "It looks." },
        { "heard": ["has completed", "# Research Report: paint"], "text": "It is known." },
    ] });
    home.write("script.json", &script.to_string());
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    chat.prompts(1).types("look into paint\r").sees("It looks.");
    chat.kills();
    let log = home.path("serve.log");
    let serving = Serving::start(&home, &["--log-file", log.to_str().unwrap()]);
    let has_looked = |said: String| said.contains("it is left to the next one that shares its session").then_some(());
    until(|| std::fs::read_to_string(&log).ok().and_then(has_looked));
    let words: Vec<&str> = CHAT.into_iter().chain(["--resume", "last"]).collect();
    let mut chat = ChatScreen::start(&home, &words, 100);
    chat.sees("It is known.").types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(home.run(&["tasks", "-o", "json"]).json()[0]["status"], json!("completed"));
    serving.stop();
}

#[test]
fn a_form_in_the_middle_of_a_detached_task_waits_in_the_inbox() {
    let program = crate::home::root().join(".interop/node_modules/.bin/mcp-server-everything");
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "every": { "command": program, "args": ["stdio"] } } }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "every", "ready");
    let words = ["call", "every.simulate-research-query", "topic=python", "ambiguous=true", "--detach", "-o", "raw"];
    let id = home.run(&words).ok().trim().to_owned();
    let item = crate::left_to_inbox::waiting(&home, 1).remove(0);
    let task = || home.run(&["tasks", "show", &id, "-o", "json"]).json();
    until(|| (task()["status"] == json!("input-required")).then_some(()));
    let kinds = item["fields"][0]["options"].clone();
    home.run(&["inbox", "answer", item["id"].as_str().unwrap(), "interpretation=snake"]).ok();
    let result = home.run(&["tasks", "wait", &id, "-o", "human"]);
    assert!(result.ok().contains("Clarification**: snake"), "{result:?} {kinds}");
    serving.stop();
}
