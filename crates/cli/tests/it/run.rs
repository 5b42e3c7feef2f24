//! `toolway run`: a model without a user, for scripts.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};

use crate::home::{Home, Ran};

fn run(home: &Home, words: &[&str]) -> Ran {
    home.run(&[&["run", "--model", "scripted:script.json"], words].concat())
}

fn answer(text: &str) -> Value {
    json!([{ "text": text }])
}

#[test]
fn the_prompt_comes_from_the_command_line_a_file_or_standard_input() {
    let home = Home::with_script(&answer("Done."));
    home.write("task.md", "from a file");
    assert_eq!(run(&home, &["on the line", "-o", "text"]).ok(), "Done.\n");
    run(&home, &["--file", "task.md"]).ok();
    home.run_with_input(&["run", "--model", "scripted:script.json", "-"], "from standard input").ok();
    let titles = home.run(&["history", "list"]).json();
    let titles: Vec<&Value> = titles.as_array().unwrap().iter().map(|head| &head["title"]).collect();
    assert_eq!(titles, ["from standard input", "from a file", "on the line"]);
    assert_eq!(run(&home, &["--file", "nothing.md"]).failed(2, "arguments")["exit"], 2);
    run(&home, &["  "]).failed(2, "arguments");
}

#[test]
fn the_result_is_one_object_with_calls_that_lead_to_their_records() {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } }, { "tool": "sample__fail" }] },
        { "text": "Five." },
    ]));
    let result = run(&home, &["add"]).json();
    assert_eq!(
        (&result["result"], &result["stopReason"], &result["turns"]),
        (&json!("Five."), &json!("done"), &json!(2))
    );
    assert_eq!(result["usage"]["inputTokens"], 0, "{result}");
    let calls = result["toolCalls"].as_array().unwrap();
    assert_eq!((&calls[0]["name"], &calls[0]["state"]), (&json!("sample__add"), &json!("succeeded")));
    assert_eq!(calls[1]["state"], "tool-error");
    let record = home.run(&["calls", "show", calls[0]["callId"].as_str().unwrap()]).json();
    assert_eq!((&record["surface"], &record["conversation"]), (&json!("run"), &result["conversationId"]));
}

#[test]
fn a_stream_has_an_object_per_event_and_the_result_last() {
    let home = Home::with_script(&json!([
        { "text": "Adding now.", "calls": [{ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } }] },
        { "text": "Five." },
    ]));
    let ran = run(&home, &["add", "--output", "stream-json"]);
    let lines: Vec<Value> = ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "text", "usage", "toolCall", "toolResult", "text", "usage", "result"], "{lines:?}");
    assert_eq!(lines[3]["callId"], lines[4]["callId"]);
    assert!(lines[4]["content"][0]["text"].as_str().unwrap().contains('5'), "{}", lines[4]);
    assert_eq!(lines.last().unwrap()["result"], "Five.");
}

#[test]
fn a_dry_run_shows_model_servers_and_tools_and_asks_nothing() {
    let home = Home::with_script(&json!([]));
    let shown = run(&home, &["anything", "--dry-run"]).json();
    assert_eq!(shown["model"], "script.json");
    assert_eq!(shown["servers"], json!([{ "name": "sample", "state": "ready" }]));
    assert!(shown["tools"].as_array().unwrap().contains(&json!("sample__echo")), "{shown}");
    let shown = run(&home, &["anything", "--dry-run", "-o", "human"]);
    assert!(shown.ok().starts_with("model: script.json\nservers: sample (ready)\ntools: "), "{shown:?}");
    assert_eq!(home.run(&["history", "list"]).json(), json!([]), "nothing was asked");
}

#[test]
fn an_answer_is_checked_against_a_schema() {
    let home = Home::with_script(&answer("```json\n{\"size\": 3}\n```"));
    home.write(
        "schema.json",
        r#"{"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}"#,
    );
    let result = run(&home, &["measure", "--schema", "schema.json"]).json();
    assert_eq!(result["structured"], json!({ "size": 3 }));
    home.write("script.json", &json!({ "turns": answer("{\"size\": \"large\"}") }).to_string());
    let problem = run(&home, &["measure", "--schema", "schema.json"]).failed(8, "schema");
    let message = problem["message"].as_str().unwrap();
    assert!(message.ends_with("\"large\" is not of type \"integer\" (at `/size`)"), "{problem}");
    let corrected = json!([{ "text": "It is large." }, { "text": "{\"size\": 4}" }]);
    home.write("script.json", &json!({ "turns": corrected }).to_string());
    let result = run(&home, &["measure", "--schema", "schema.json"]).json();
    assert_eq!((&result["structured"], &result["turns"]), (&json!({ "size": 4 }), &json!(2)));
    home.write("invalid.json", r#"{"type": "number of apples"}"#);
    run(&home, &["measure", "--schema", "invalid.json"]).failed(2, "arguments");
    home.write("script.json", &json!({ "turns": answer("It is large.") }).to_string());
    run(&home, &["measure", "--schema", "schema.json"]).failed(8, "schema");
}

#[test]
fn a_call_that_needs_approval_is_refused_with_the_command_that_would_allow_it() {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "sample__write_memo", "arguments": { "text": "x" } }] },
        { "expect": [{ "error": true }], "text": "I may not." },
    ]));
    let ran = run(&home, &["write"]);
    let problem = ran.failed(7, "no_approver");
    let command = problem["hint"].as_str().unwrap().strip_prefix("allow it with: toolway ").unwrap();
    assert!(ran.out.contains("I may not."), "the answer is still printed: {}", ran.out);
    home.run(&command.split(' ').collect::<Vec<_>>()).ok();
    home.write(
        "script.json",
        &json!({ "turns": [
        { "calls": [{ "tool": "sample__write_memo", "arguments": { "text": "x" } }] },
        { "expect": [{ "error": false }], "text": "Written." },
    ] })
        .to_string(),
    );
    assert_eq!(run(&home, &["write"]).json()["result"], "Written.");
}

#[test]
fn a_new_host_is_refused_unless_the_prompt_or_an_option_names_it() {
    let call = json!({ "tool": "sample__echo", "arguments": { "text": "https://api.example/x?d=1" } });
    let home = Home::with_script(&json!([{ "calls": [call] }, { "text": "Done." }]));
    let refused = run(&home, &["go"]);
    assert!(refused.talk.contains("--allow-host api.example"), "{}", refused.talk);
    refused.failed(7, "no_approver");
    run(&home, &["go", "--allow-host", "*.other.example"]).failed(7, "no_approver");
    run(&home, &["read https://api.example/x"]).failed(7, "no_approver");
    for words in [["go", "--allow-host", "API.example"], ["go", "--allow-host", "*.example"]] {
        assert_eq!(run(&home, &words).json()["result"], "Done.");
    }
    assert_eq!(run(&home, &["read https://api.example/x?d=1."]).json()["result"], "Done.");
    run(&home, &["go", "--allow-host", "https://api.example/"]).failed(2, "usage");
    let explain = |text: &str| home.run(&["policy", "explain", "sample.echo", text, "-o", "json"]).json();
    let explained = explain("text=https://api.example/x");
    assert_eq!(explained["decision"], "ask");
    assert_eq!(explained["hosts"], json!([{ "host": "api.example", "argument": "/text", "status": "new" }]));
    assert_eq!(explain("text=hello")["hosts"], json!([]));
}

#[test]
fn budgets_and_loops_end_a_run() {
    let count = |number: u32| json!({ "calls": [{ "tool": "sample__add", "arguments": { "a": number, "b": 1 } }] });
    let home = Home::with_script(&(0..20).map(count).collect());
    for (words, reason) in [(["--max-turns", "2"], "max_turns"), (["--max-tool-calls", "3"], "max_tool_calls")] {
        let ran = run(&home, &[&["count"], &words[..]].concat());
        let problem = ran.failed(5, "budget");
        assert!(problem["message"].as_str().unwrap().ends_with(reason), "{ran:?}");
        assert!(problem["hint"].as_str().unwrap().contains(words[0]), "{ran:?}");
    }
    home.write("script.json", &json!({ "turns": vec![count(1); 20] }).to_string());
    let problem = run(&home, &["count"]).failed(5, "budget");
    assert!(problem["message"].as_str().unwrap().ends_with("loop"), "{problem}");
    let pause = json!([{ "calls": [{ "tool": "sample__count", "arguments": { "to": 1000, "pause": 1000 } }] }]);
    home.write("script.json", &json!({ "turns": pause }).to_string());
    let problem = run(&home, &["count", "--max-time", "2s"]).failed(5, "budget");
    assert!(problem["message"].as_str().unwrap().ends_with("max_time"), "{problem}");
}

#[test]
fn an_answer_cut_at_the_output_limit_is_shown_but_does_not_count_as_done() {
    let home = Home::with_script(&json!([]));
    let runtime = Runtime::new().unwrap();
    let replies = vec![Reply::text("half of it").stop(toolway_testkit::vendor::Stop::Length)];
    let vendor = runtime.block_on(MockVendor::start(VendorKind::Anthropic, replies)).unwrap();
    let model = json!({ "vendor": "anthropic", "model": "m", "baseUrl": vendor.base_url(), "apiKey": "x" });
    home.configure(&json!({ "models": { "mock": model } }).to_string());
    let ran = home.run(&["run", "hello", "-o", "human"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, "half of it\n"), "{ran:?}");
    assert!(ran.talk.contains("reached its limit of output tokens"), "{ran:?}");
}

#[test]
fn a_refused_key_and_an_unreachable_vendor_have_their_own_exit_codes() {
    let home = Home::with_script(&json!([]));
    let runtime = Runtime::new().unwrap();
    let replies = vec![Reply::refusal(401, "no such key")];
    let vendor = runtime.block_on(MockVendor::start(VendorKind::Anthropic, replies)).unwrap();
    let models = |url: &str| json!({ "models": { "mock": { "vendor": "anthropic", "model": "m", "baseUrl": url, "apiKey": "x" } } });
    home.configure(&models(&vendor.base_url()).to_string());
    home.run(&["run", "hello"]).failed(3, "model");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    home.configure(&models(&format!("http://{closed}")).to_string());
    let problem = home.run(&["run", "hello"]).failed(4, "model");
    assert!(problem["message"].as_str().unwrap().contains("cannot reach"), "{problem}");
}

#[test]
fn numbers_of_a_model_reach_the_server_and_the_records_digit_by_digit() {
    let text = r#"{"text":"x","n":123456789012345678901234567890,"e":1e400,"z":-0,"n":1}"#;
    let home = Home::with_script(&json!([]));
    let script =
        format!(r#"{{"turns":[{{"calls":[{{"tool":"sample__echo","arguments":{text}}}]}},{{"text":"Done."}}]}}"#);
    home.write("script.json", &script);
    let ran = run(&home, &["echo", "-o", "ndjson"]);
    let called = ran.ok().lines().find(|line| line.contains("\"toolCall\"")).unwrap();
    assert!(called.contains(text), "{called}");
    let result: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let id = result["toolCalls"][0]["callId"].as_str().unwrap();
    let record = home.run(&["calls", "show", id]);
    assert!(record.ok().contains(text), "{record:?}");
    let conversation = home.run(&["history", "show", result["conversationId"].as_str().unwrap()]);
    assert!(conversation.ok().contains(text), "{conversation:?}");
}

#[test]
fn a_model_learns_that_its_arguments_are_invalid_and_corrects_them() {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "sample__add", "arguments": { "a": "two", "b": 3 } }] },
        { "expect": [{ "error": true, "contains": "argument `a`: \"two\" is not of type \"number\"" }],
          "calls": [{ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } }] },
        { "expect": [{ "error": false }], "text": "Five." },
    ]));
    let result = run(&home, &["add"]).json();
    let states: Vec<&Value> = result["toolCalls"].as_array().unwrap().iter().map(|call| &call["state"]).collect();
    assert_eq!(states, ["refused", "succeeded"], "{result}");
}
