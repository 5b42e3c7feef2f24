//! Forms and URLs in `run` and `call` without a user: given answers, and the inbox of a running gateway (`--wait`).

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, Ran, Running, TOOLWAY, odd, root},
};

/// Longest wait for an item.
const PATIENCE: Duration = Duration::from_secs(60);
const RUN: [&str; 4] = ["run", "--model", "scripted:script.json", "go"];

/// The form that the server of these stories sends.
fn form() -> Value {
    let fields = json!({ "name": { "type": "string", "minLength": 2 }, "age": { "type": "integer" } });
    json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": fields, "required": ["name"] } })
}

/// A home with a server that sends what it is called with as an elicitation, and a model that calls it with `params`.
fn home(params: &Value) -> Home {
    home_with(params, json!({}))
}

fn home_with(params: &Value, settings: Value) -> Home {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "asking__odd", "arguments": params }] },
        { "text": "Done." },
    ]));
    let command = odd("elicits");
    let (program, argument) = command.split_once(' ').unwrap();
    let mut config = settings;
    config["mcpServers"] = json!({ "asking": { "command": program, "args": [argument], "trust": "full" } });
    home.configure(&config.to_string());
    home
}

/// What the server received in the run, which is the result of its call.
fn received(home: &Home, ran: &Ran) -> Value {
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    let call = result["toolCalls"][0]["callId"].as_str().unwrap().to_owned();
    let record = home.run(&["calls", "show", &call, "-o", "json"]).json();
    serde_json::from_str(record["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn start(home: &Home, words: &[&str]) -> Running {
    Running::start(home.command(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Waits until this many items wait; returns them.
pub(crate) fn waiting(home: &Home, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let items = home.run(&["inbox", "list", "-o", "json"]).json();
        let items = items.as_array().unwrap().clone();
        if items.len() == count {
            return items;
        }
        assert!(began.elapsed() < PATIENCE, "{items:?}");
    }
}

#[test]
fn a_run_answers_forms_from_its_command_line() {
    let home = home(&form());
    let run = |words: &[&str]| home.run(&[&RUN[..], words].concat());
    let ran = run(&["--answer", "name=Ada", "--answer", "age=36"]);
    ran.ok();
    assert_eq!(received(&home, &ran), json!({ "action": "accept", "content": { "name": "Ada", "age": 36 } }));
    let ran = run(&["--decline"]);
    ran.ok();
    assert_eq!(received(&home, &ran), json!({ "action": "decline" }));
    let ran = run(&[]);
    ran.ok();
    assert_eq!(received(&home, &ran)["code"], -32601, "nothing was declared");
}

#[test]
fn an_answer_for_another_form_cancels_in_every_mode_and_says_so() {
    let home = home(&form());
    for mode in ["writes", "allow"] {
        let ran = home.run(&[&RUN[..], &["--mode", mode, "--answer", "colour=red"]].concat());
        assert_eq!(ran.code, 6, "{ran:?}");
        assert_eq!(received(&home, &ran), json!({ "action": "cancel" }), "{mode}");
        let said: Value = serde_json::from_str(ran.talk.lines().last().unwrap()).unwrap();
        assert_eq!(said["error"]["code"], "input_required", "{said}");
        assert!(said.to_string().contains("`colour`: the form has no such field"), "{said}");
    }
    // The mode alone does not tell the server that it can ask.
    let ran = home.run(&[&RUN[..], &["--mode", "allow"]].concat());
    assert_eq!(received(&home, &ran)["code"], -32601, "{ran:?}");
}

#[test]
fn waiting_needs_a_running_gateway_and_says_what_to_start() {
    let home = home(&form());
    for words in [&["run", "--model", "scripted:script.json", "go"][..], &["call", "asking.odd", "{}"]] {
        let error = home.run(&[words, &["--wait"]].concat()).failed(2, "no_gateway");
        assert!(error.to_string().contains("toolway serve"), "{error}");
    }
}

#[test]
fn a_form_of_a_run_is_answered_over_the_inbox_of_the_gateway() {
    let home = home(&form());
    let serving = Serving::start(&home, &[]);
    let running = start(&home, &[&RUN[..], &["--wait"]].concat());
    let item = &waiting(&home, 1)[0];
    let expected = (&json!("form"), &json!("asking"), &json!("agent"), &json!("run"));
    assert_eq!((&item["kind"], &item["server"], &item["caller"], &item["surface"]), expected, "{item}");
    let name = &item["form"]["fields"][1];
    assert_eq!((&name["name"], &name["required"], &name["minLength"]), (&json!("name"), &json!(true), &json!(2)));
    // A client of the gateway does not see it.
    assert_eq!(serving.get("/requests", serving.key()).json()["requests"], json!([]));
    let id = item["id"].as_str().unwrap();
    home.run(&["inbox", "answer", id, "name=A"]).failed(2, "invalid_answer");
    home.run(&["inbox", "answer", id, "name=Ada"]).ok();
    let ran = running.output();
    ran.ok();
    assert!(ran.talk.contains(&format!("toolway inbox answer {}", &id[id.len() - 8..])), "{ran:?}");
    assert_eq!(received(&home, &ran), json!({ "action": "accept", "content": { "name": "Ada" } }));
    assert_eq!(item["callId"], serde_json::from_str::<Value>(&ran.out).unwrap()["toolCalls"][0]["callId"]);
}

#[test]
fn a_url_of_a_call_is_declined_over_the_inbox_and_ends_with_its_command() {
    let params = json!({ "mode": "url", "message": "Look", "elicitationId": "1", "url": "https://a.example/x" });
    let home = home(&params);
    let _serving = Serving::start(&home, &[]);
    let call = || start(&home, &["call", "asking.odd", "--args", &params.to_string(), "--wait", "-o", "json"]);
    let calling = call();
    let item = &waiting(&home, 1)[0];
    assert_eq!((&item["kind"], &item["caller"]), (&json!("url"), &json!("terminal")), "{item}");
    home.run(&["inbox", "decline", item["id"].as_str().unwrap()]).ok();
    assert!(calling.output().ok().contains(r#"\"action\":\"decline\""#));
    // A command that is killed takes its item along.
    let calling = call();
    waiting(&home, 1);
    drop(calling);
    waiting(&home, 0);
}

#[test]
fn the_setting_waits_where_a_gateway_runs_and_changes_nothing_elsewhere() {
    let home = home_with(&form(), json!({ "inbox": { "wait": true } }));
    let ran = home.run(&RUN);
    assert_eq!(received(&home, &ran)["code"], -32601, "no gateway runs: {ran:?}");
    let _serving = Serving::start(&home, &[]);
    let running = start(&home, &RUN);
    let item = &waiting(&home, 1)[0];
    home.run(&["inbox", "decline", item["id"].as_str().unwrap(), "--cancel"]).ok();
    assert_eq!(received(&home, &running.output()), json!({ "action": "cancel" }));
}

#[test]
fn approvals_of_a_run_are_not_left_to_the_inbox() {
    let home = Home::with_script(&json!([{ "calls": [{ "tool": "shop__add", "arguments": { "a": 1, "b": 2 } }] },
        { "text": "Done." }]));
    let config = json!({
        "mcpServers": { "shop": { "command": TOOLWAY, "args": ["sample"] } },
        "policy": { "rules": [{ "match": { "server": "shop" }, "then": "ask" }] },
    });
    home.configure(&config.to_string());
    let _serving = Serving::start(&home, &[]);
    let ran = home.run(&[&RUN[..], &["--wait"]].concat());
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.talk.contains("no user can approve it"), "{ran:?}");
    waiting(&home, 0);
}

/// A server on the TypeScript SDK that refuses its call until the file `done` of the home exists.
fn url_server(home: &Home) -> String {
    let node = root().join(".interop/node_modules/.bin/node");
    assert!(node.exists(), "{} is missing: run ./test, which installs it", node.display());
    let script = root().join("tests/interop/servers/url_typescript.mjs");
    format!("{} {} {}", node.display(), script.display(), home.path("done").display())
}

#[test]
fn a_refused_call_is_sent_again_when_its_server_announces_that_the_url_is_completed() {
    let home = Home::new();
    let server = url_server(&home);
    let call = ["call", "--stdio", &server, "connect", "-o", "human"];
    let _serving = Serving::start(&home, &[]);
    let mut calling = start(&home, &[&call[..], &["--wait"]].concat());
    let item = &waiting(&home, 1)[0];
    assert_eq!((&item["kind"], &item["url"]), (&json!("url"), &json!("https://account.example/connect")), "{item}");
    home.run(&["inbox", "answer", item["id"].as_str().unwrap()]).ok();
    waiting(&home, 0);
    assert!(calling.try_wait().unwrap().is_none(), "it waits for the announcement");
    home.write("done", "");
    let began = Instant::now();
    assert_eq!(calling.output().ok(), "connected in call 2\n");
    assert!(began.elapsed() < Duration::from_secs(20), "not because the wait was over");
    // One record, of the call that the user made.
    assert_eq!(home.run(&["calls", "list", "-o", "json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn a_refused_call_ends_with_its_refusal_if_the_url_is_declined() {
    let home = Home::new();
    let server = url_server(&home);
    let ran = home.run(&["call", "--stdio", &server, "connect", "--decline"]);
    assert!(ran.code != 0 && ran.talk.contains("-32042"), "{ran:?}");
}

#[test]
fn a_url_that_a_stateless_server_repeats_while_it_waits_is_asked_about_once() {
    let params = json!({ "mode": "url", "message": "Look", "url": "https://a.example/x" });
    let home = home(&params);
    let server = odd("awaits-url");
    let _serving = Serving::start(&home, &[]);
    let words = ["call", "--stdio", &server, "odd", "--args", &params.to_string(), "--wait", "-o", "human"];
    let calling = start(&home, &words);
    let item = &waiting(&home, 1)[0];
    home.run(&["inbox", "answer", item["id"].as_str().unwrap()]).ok();
    let ran = calling.output();
    assert_eq!(ran.ok(), "asked twice, then {\"action\":\"accept\"}\n");
    assert_eq!(ran.talk.matches("waiting for an answer").count(), 1, "{ran:?}");
}

#[test]
fn server_everything_requires_one_url_and_then_asks_for_another() {
    let home = Home::new();
    let peers = root().join(".interop/node_modules/.bin");
    let [node, script] = ["node", "mcp-server-everything"].map(|name| peers.join(name));
    assert!(script.exists(), "{} is missing: run ./test, which installs it", script.display());
    let server = format!("{} {} stdio", node.display(), script.display());
    let arguments = json!({ "url": "https://a.example/x", "message": "Look", "errorPath": true }).to_string();
    let _serving = Serving::start(&home, &[]);
    let words = ["--args", &arguments, "--wait", "-o", "human"];
    let calling = start(&home, &[&["call", "--stdio", &server, "trigger-url-elicitation"], &words[..]].concat());
    // It announces nothing about the first: the call is sent again half a minute after the answer.
    for url in ["https://modelcontextprotocol.io", "https://a.example/x"] {
        let item = &waiting(&home, 1)[0];
        assert_eq!(item["url"].as_str().unwrap().trim_end_matches('/'), url, "{item}");
        home.run(&["inbox", "answer", item["id"].as_str().unwrap()]).ok();
        waiting(&home, 0);
    }
    assert!(calling.output().ok().contains("User completed the URL elicitation flow."));
    assert_eq!(home.run(&["calls", "list", "-o", "json"]).json().as_array().unwrap().len(), 1);
}
