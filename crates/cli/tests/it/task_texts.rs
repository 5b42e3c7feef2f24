//! What clients and models read about the end of a task: not what the operator reads.

use serde_json::json;

use crate::{
    gateway::Serving,
    home::{Home, odd},
    task_crashes::{SessionClient, until},
};

/// What the server writes to stderr when it ends in the middle of its task.
const SECRET: &str = "/home/ada/.netrc";

/// A home with a server `jobs` that ends in the middle of its tasks.
fn home() -> Home {
    let home = Home::new();
    let words = odd("dying-task");
    let mut words = words.split(' ');
    let server = json!({ "command": words.next(), "args": words.collect::<Vec<_>>() });
    home.configure(&json!({ "mcpServers": { "jobs": server } }).to_string());
    home
}

#[test]
fn a_model_is_not_told_what_a_lost_task_wrote_to_stderr() {
    let home = home();
    let script = json!({ "turns": [
        { "calls": [{ "tool": "jobs__odd", "arguments": {} }] },
        { "expect": [{ "contains": "started, id " }], "text": "It works on it." },
        { "heard": ["is lost: whether it had an effect is not known"], "text": "Lost." },
    ] });
    let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
    let ran = home.run(&["run", "paint", "--model", &model, "--mode", "allow", "-o", "json"]);
    assert_eq!(ran.json()["result"], json!("Lost."), "{ran:?}");
    let messages = home.run(&["history", "show", "last", "-o", "json"]).json().to_string();
    assert!(messages.contains("is lost") && !messages.contains(SECRET), "{messages}");
    let tasks = home.run(&["tasks", "-o", "json"]).json();
    assert_eq!(tasks[0]["status"], json!("lost"), "{tasks}");
    assert!(!tasks.to_string().contains(SECRET), "models read this text too: {tasks}");
}

#[test]
fn a_client_is_not_told_what_a_stored_task_wrote_to_stderr() {
    let home = home();
    let key = home.run(&["clients", "add", "ada", "-o", "json"]).json()["key"].as_str().unwrap().to_owned();
    let serving = Serving::start(&home, &[]);
    serving.settled(&key, "jobs", "ready");
    let client = SessionClient::connect(&serving, &key);
    let params = json!({ "name": "jobs__odd", "arguments": {}, "task": { "ttl": 600_000 } });
    let begun = client.request("tools/call", &params);
    let id = begun["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}"));
    let ended = || home.run(&["tasks", "-o", "json"]).json()[0]["status"] == json!("lost");
    until(|| ended().then_some(()));
    drop(serving);
    let again = Serving::start(&home, &[]);
    let client = SessionClient::connect(&again, &key);
    for method in ["tasks/get", "tasks/result", "tasks/list"] {
        let answer = client.request(method, &json!({ "taskId": id })).to_string();
        assert!(!answer.contains(SECRET), "{method}: {answer}");
        assert!(method == "tasks/list" || answer.contains("the connection to the server ended"), "{method}: {answer}");
    }
}
