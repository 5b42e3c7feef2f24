//! `kill -9` while jobs run as tasks, at any moment: before the server has said that it is a task, and after. The server
//! writes what it does: nothing is done twice under one key, and what is recorded as not sent did not happen.
//!
//! Three rounds of each kind; fifty with `TOOLWAY_TEST_LONG=1`. `TOOLWAY_CHAOS_SEED` repeats the moments of an earlier run.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    home::Home,
    stdio_client::StdioClient,
    task_crashes::{Moments, rounds, until},
    witnessed_jobs::{Transport, WitnessedJobs, quietly},
};

/// The eras with and without sessions.
const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];
/// Seconds that a job takes.
const JOB: f64 = 0.3;
/// Jobs of one round at a gateway.
const JOBS: usize = 4;
/// Longest time until a kill.
const LONGEST: Duration = Duration::from_millis(600);

/// Kills a command with a key at any moment and repeats it.
fn command_story(transport: Transport, era: &str) {
    let jobs = WitnessedJobs::new(transport, era);
    let seconds = format!("seconds={JOB}");
    let mut moments = Moments::new();
    for round in 0..rounds() {
        let name = round.to_string();
        let label = format!("label={name}");
        let words = ["call", "jobs.long_job", &label, &seconds, "--idempotency-key", &name, "-o", "human"];
        let command = quietly(&mut jobs.home.command(&words));
        thread::sleep(moments.next(LONGEST));
        drop(command);
        // The next process closes what the killed one left open.
        jobs.assert_records_are_true();
        let again = jobs.home.run(&words);
        match again.code {
            0 => jobs.assert_done_once(&name),
            _ => assert!(again.talk.contains("outcome is unknown") || again.talk.contains(" is lost"), "{again:?}"),
        }
        let once_more = jobs.home.run(&words);
        assert_eq!((once_more.code, &once_more.out), (again.code, &again.out), "{once_more:?}");
        assert!(jobs.starts(&name) <= 1, "{name}");
    }
    jobs.assert_records_are_true();
}

#[test]
fn a_job_over_http_whose_command_is_killed_at_any_moment_is_started_once() {
    for era in ERAS {
        command_story(Transport::Http, era);
    }
}

#[test]
fn a_job_over_stdio_whose_command_is_killed_at_any_moment_is_started_once() {
    for era in ERAS {
        command_story(Transport::Stdio, era);
    }
}

fn params(label: &str) -> Value {
    let arguments = json!({ "label": label, "seconds": JOB });
    let meta = json!({ "toolway/idempotencyKey": label });
    json!({ "name": "jobs__long_job", "arguments": arguments, "task": { "ttl": 600_000 }, "_meta": meta })
}

/// One round: jobs as tasks of the gateway's client, a kill at a random moment, and every call again under its key.
fn kill_gateway_and_repeat(jobs: &WitnessedJobs, round: usize, moments: &mut Moments) {
    let mut gateway = StdioClient::start(&jobs.home);
    let labels: Vec<String> = (0..JOBS).map(|number| format!("{round}-{number}")).collect();
    for label in &labels {
        gateway.send("tools/call", params(label));
    }
    thread::sleep(moments.next(LONGEST * 2));
    gateway.kill();
    let mut gateway = StdioClient::start(&jobs.home);
    for label in &labels {
        let begun = gateway.request("tools/call", params(label));
        // What is known of the first call is answered at once.
        let ended = match begun["result"]["task"]["taskId"].as_str() {
            Some(task) => gateway.request("tasks/result", json!({ "taskId": task })),
            None => begun,
        };
        let result = &ended["result"];
        if result["content"][0]["text"] == json!(format!("Computed for {JOB} seconds.")) {
            jobs.assert_done_once(label);
        } else {
            let outcome = &result["_meta"]["toolway/outcome"];
            assert_eq!(*outcome, json!("unknown"), "{label}: {ended}");
        }
    }
    gateway.leave();
}

fn gateway_story(transport: Transport, era: &str) {
    let jobs = WitnessedJobs::new(transport, era);
    let mut moments = Moments::new();
    for round in 0..rounds() {
        kill_gateway_and_repeat(&jobs, round, &mut moments);
    }
    jobs.assert_records_are_true();
}

#[test]
fn jobs_over_http_whose_gateway_is_killed_at_any_moment_are_started_once() {
    for era in ERAS {
        gateway_story(Transport::Http, era);
    }
}

#[test]
fn jobs_over_stdio_whose_gateway_is_killed_at_any_moment_are_started_once() {
    for era in ERAS {
        gateway_story(Transport::Stdio, era);
    }
}

const ALLOWED: [&str; 4] = ["--model", "scripted:script.json", "--mode", "allow"];

/// A model that starts one job, and says the same of everything else.
fn starting_a_job(transport: Transport, era: &str) -> WitnessedJobs {
    let jobs = WitnessedJobs::new(transport, era);
    let call = json!({ "tool": "jobs__long_job", "arguments": { "label": "paint", "seconds": JOB * 4.0 } });
    let turns = json!([{ "calls": [call] }, { "text": "I wait." }, { "text": "I wait." }, { "text": "I wait." }]);
    jobs.home.write("script.json", &json!({ "turns": turns }).to_string());
    jobs.home.write("next.json", &json!({ "turns": vec![json!({ "text": "I see." }); 4] }).to_string());
    jobs
}

fn tasks(home: &Home) -> Vec<Value> {
    home.run(&["tasks", "-o", "json"]).json().as_array().unwrap().clone()
}

/// Resumes the conversation: it gets the end of its task once, and the job is not started again.
fn resume(jobs: &WitnessedJobs, transport: Transport) {
    let words = ["chat", "--resume", "last", "--model", "scripted:next.json", "--mode", "allow"];
    let mut chat = ChatScreen::start(&jobs.home, &words, 100);
    let end = match transport {
        Transport::Http => "Computed for 1.2 seconds.",
        Transport::Stdio => "is lost: whether it had an effect is not known",
    };
    // What the model is told if the process ended before it had stored that the call is a task.
    let unstored = "the call was interrupted; outcome unknown";
    let history = || jobs.home.run(&["history", "show", "last", "-o", "json"]).out;
    until(|| [end, unstored].iter().any(|told| history().contains(told)).then_some(()));
    until(|| tasks(&jobs.home).iter().all(|task| task["status"] != json!("working")).then_some(()));
    chat.sees("I see.").types("/exit\r");
    assert!(chat.end().0.success());
    let stored = jobs.home.run(&["history", "show", "last", "-o", "json"]).json();
    let told = stored["messages"].as_array().unwrap().iter().filter(|message| message.to_string().contains(end));
    assert!(told.count() <= 1, "{stored}");
    match transport {
        Transport::Http => jobs.assert_done_once("paint"),
        Transport::Stdio => assert_eq!(jobs.starts("paint"), 1),
    }
    assert_eq!(tasks(&jobs.home).len(), 1);
    jobs.assert_records_are_true();
}

#[test]
fn a_chat_that_is_killed_with_an_open_task_gets_its_end_and_does_not_start_it_again() {
    let mut moments = Moments::new();
    for round in 0..rounds() {
        let transport = [Transport::Http, Transport::Stdio][round % 2];
        let jobs = starting_a_job(transport, ERAS[round / 2 % 2]);
        let mut chat = ChatScreen::start(&jobs.home, &[&["chat"], &ALLOWED[..]].concat(), 100);
        chat.prompts(1).types("paint\r").sees("runs in the background");
        thread::sleep(moments.next(LONGEST));
        chat.kills();
        resume(&jobs, transport);
    }
}
