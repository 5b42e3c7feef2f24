//! Tools that their server runs as tasks, from `call` and `run`, without a flag.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    home::{Home, odd},
    terminal::Terminal,
};

/// Longest time of a command after its last key.
const PATIENCE: Duration = Duration::from_secs(60);
/// Both eras: tasks with a session are awaited, tasks without one are polled.
pub(crate) const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// A home with a server `jobs` whose tools run as tasks.
pub(crate) fn home(era: &str) -> Home {
    let home = Home::new();
    let here = std::env::current_exe().unwrap();
    let program = here.ancestors().nth(2).unwrap().join("conformance-server");
    assert!(program.exists(), "{} is missing: run ./test, which builds it", program.display());
    let server = json!({ "command": program, "args": ["--era", era, "--stdio"] });
    home.configure(&json!({ "mcpServers": { "jobs": server } }).to_string());
    home
}

#[test]
fn a_task_is_followed_to_its_result_with_one_record() {
    for era in ERAS {
        let home = home(era);
        let mut terminal = Terminal::start(home.command(&["call", "jobs.long_job", "seconds=3"]));
        terminal.answers("mixing the paint", "");
        let (status, shown) = terminal.end(PATIENCE);
        assert!(status.success(), "{era}: {shown}");
        assert!(shown.contains("Computed for 3 seconds."), "{era}: {shown}");
        let calls = home.run(&["calls", "list", "-o", "json"]).json();
        assert_eq!(calls.as_array().unwrap().len(), 1, "{era}: {calls}");
        assert_eq!(calls[0]["state"], json!("succeeded"), "{era}: {calls}");
        assert!(3_000.0 <= calls[0]["durationMs"].as_f64().unwrap(), "{era}: {calls}");
        assert_eq!(calls[0]["taskStatus"], json!("completed"), "{era}: {calls}");
        let tasks = home.run(&["tasks", "jobs", "-o", "json"]).json();
        assert_eq!(tasks[0]["id"], calls[0]["taskId"], "{era}: {tasks}");
        assert_eq!(tasks[0]["message"], json!("mixing the paint"), "{era}: {tasks}");
        assert_eq!(home.run(&["tasks", "others", "-o", "json"]).json(), json!([]), "{era}");
    }
}

#[test]
fn a_task_that_fails_is_a_tool_error() {
    for era in ERAS {
        let home = home(era);
        let ran = home.run(&["call", "jobs.failing_job", "-o", "human"]);
        assert_eq!((ran.code, ran.out.as_str()), (5, "The job failed.\n"), "{era}: {ran:?}");
        let ran = home.run(&["call", "jobs.protocol_error_job", "-o", "human"]);
        assert_eq!(ran.code, 8, "{era}: {ran:?}");
        let tasks = home.run(&["tasks", "-o", "json"]).json();
        let statuses: Vec<&Value> = tasks.as_array().unwrap().iter().map(|task| &task["status"]).collect();
        assert_eq!(statuses, ["failed", "completed"], "{era}: {tasks}");
        let calls = home.run(&["calls", "list", "-o", "json"]).json();
        assert_eq!(calls[1]["state"], json!("tool-error"), "{era}: {calls}");
    }
}

#[test]
fn requests_before_and_in_the_middle_of_a_task_are_answered() {
    for era in ERAS {
        let home = home(era);
        let ran = home.run(&["call", "jobs.test_tool_with_task", "--answer", "name=Ada", "-o", "human"]);
        assert_eq!(ran.ok(), "Hello, Ada!\n", "{era}");
        let mut terminal = Terminal::start(home.command(&["call", "jobs.confirm_delete", "filename=a.txt"]));
        terminal.answers("Delete a.txt?", "").answers("1/1", "yes\r").answers("[y] send", "y");
        let (status, shown) = terminal.end(PATIENCE);
        assert!(status.success() && shown.contains("a.txt: "), "{era}: {shown}");
    }
}

#[test]
fn result_is_requested_only_when_the_task_has_ended() {
    // As FastMCP 3.4 and 2.14 do.
    for server in ["unready-task", "unready-task:early"] {
        let ran = Home::new().run(&["call", "--stdio", &odd(server), "--era", "legacy", "odd", "-o", "human"]);
        assert_eq!(ran.ok(), "done at last\n", "{server}: {ran:?}");
    }
}

#[test]
fn ctrl_c_cancels_the_task_at_its_server() {
    for era in ERAS {
        let home = home(era);
        let terminal = Terminal::start(home.command(&["call", "jobs.long_job", "seconds=600", "-v"]));
        terminal.until("mixing the paint");
        terminal.interrupts();
        let (status, shown) = terminal.end(PATIENCE);
        assert_eq!(status.code(), Some(130), "{era}: {shown}");
        assert!(shown.contains("\"method\":\"tasks/cancel\""), "{era}: {shown}");
        assert_eq!(home.run(&["calls", "list", "-o", "json"]).json()[0]["state"], json!("cancelled"), "{era}");
        assert_eq!(home.run(&["tasks", "-o", "json"]).json()[0]["status"], json!("cancelled"), "{era}");
    }
}

#[test]
fn a_model_waits_for_a_task_where_the_background_is_off() {
    for era in ERAS {
        let home = home(era);
        let file = home.path(".config/toolway/toolway.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        config["mcpServers"]["jobs"]["tasks"] = json!({ "background": false });
        home.configure(&config.to_string());
        let call = json!({ "tool": "jobs__long_job", "arguments": { "seconds": 1 } });
        let script = json!({ "turns": [
            { "calls": [call] },
            { "expect": [{ "contains": "Computed for 1 seconds." }], "text": "Done." },
        ] });
        let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
        let answer = home.run(&["run", "paint", "--model", &model, "--mode", "allow", "-o", "json"]).json();
        assert_eq!(answer["result"], json!("Done."), "{era}: {answer}");
    }
}

#[test]
fn a_model_gets_the_result_of_a_task() {
    for era in ERAS {
        let home = home(era);
        let call = json!({ "tool": "jobs__long_job", "arguments": { "seconds": 1 } });
        let script = json!({ "turns": [
            { "calls": [call] },
            { "expect": [{ "contains": "started, id " }], "text": "It works on it." },
            { "heard": ["has completed. This message is not from the user.", "\n| Computed for 1 seconds.\n"], "text": "Done." },
        ] });
        let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
        let ran = home.run(&["run", "paint", "--model", &model, "--mode", "allow", "-o", "json"]);
        let answer = ran.json();
        assert_eq!(answer["result"], json!("Done."), "{era}: {answer}");
        assert_eq!(answer["toolCalls"][0]["state"], json!("running"), "{era}: {answer}");
        assert!(ran.talk.contains("of jobs__long_job has completed"), "{era}: {ran:?}");
        let tasks = home.run(&["tasks", "-o", "json"]).json();
        assert_eq!(tasks[0]["status"], json!("completed"), "{era}: {tasks}");
        let calls = home.run(&["calls", "list", "-o", "json"]).json();
        assert_eq!(calls[0]["state"], json!("succeeded"), "{era}: {calls}");
    }
}
