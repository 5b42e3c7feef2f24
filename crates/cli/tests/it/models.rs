//! Models of vendors and of Ollama, through the program.

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;
use toolway_testkit::vendor::{MockVendor, OLLAMA_MODEL, Reply, VendorKind};

use crate::{
    home::{Home, Ran, TOOLWAY},
    terminal::Terminal,
};

fn vendor(kind: VendorKind, replies: Vec<Reply>) -> (Runtime, MockVendor) {
    let runtime = Runtime::new().unwrap();
    let vendor = runtime.block_on(MockVendor::start(kind, replies)).unwrap();
    (runtime, vendor)
}

/// A home with the sample server and a model of the vendor.
fn home(vendor: &MockVendor) -> Home {
    let home = Home::new();
    let model = json!({
        "vendor": vendor.kind().as_str(), "model": "mock", "baseUrl": vendor.base_url(), "apiKey": "env:KEY",
    });
    let servers = json!({ "sample": { "command": TOOLWAY, "args": ["sample"] } });
    home.configure(&json!({ "mcpServers": servers, "models": { "mock": model } }).to_string());
    home
}

fn run(home: &Home, words: &[&str]) -> Ran {
    home.run_with(words, &[("KEY", "sk-cli-test-0123456789")], "")
}

#[test]
fn a_model_of_every_vendor_calls_a_tool_and_answers() {
    for kind in VendorKind::ALL {
        let call = Reply::text("Adding.").call("call_1", "sample__add", json!({ "a": 2, "b": 3 }));
        let (_runtime, vendor) = vendor(kind, vec![call, Reply::text("The sum is 5.")]);
        let home = home(&vendor);
        let ran = run(&home, &["run", "--mode", "allow", "--output", "json", "Add 2 and 3."]);
        assert_eq!(ran.code, 0, "{kind:?}: {ran:?}");
        let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&answer["result"], &answer["turns"]), (&json!("The sum is 5."), &json!(2)), "{kind:?}: {answer}");
        let second = vendor.requests().remove(1);
        assert!(String::from_utf8_lossy(second.body()).contains("sum"), "{kind:?}: the result reached the model");
    }
}

#[test]
fn a_dry_run_lists_exactly_the_tools_of_the_request() {
    let (_runtime, vendor) = vendor(VendorKind::OpenaiChat, vec![Reply::text("Done.")]);
    let home = home(&vendor);
    let listed = run(&home, &["run", "--dry-run", "--output", "json", "x"]).json();
    assert!(vendor.requests().is_empty(), "nothing was asked");
    run(&home, &["run", "--output", "json", "x"]).ok();
    let request: serde_json::Value = serde_json::from_slice(vendor.requests()[0].body()).unwrap();
    let sent: Vec<&serde_json::Value> =
        request["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(listed["tools"], json!(sent), "{listed}");
    assert!(sent.contains(&&json!("read_result")) && sent.contains(&&json!("sample__echo")), "{listed}");
}

/// The mock refuses a call without them, as DeepSeek, Kimi and Gemini do.
#[test]
fn a_turn_sends_the_reasoning_and_the_signature_of_a_call_back_and_another_model_gets_neither() {
    let call = Reply::new().reason("Two numbers.").call("call_1", "sample__add", json!({ "a": 2, "b": 3 }));
    let replies = vec![call.sign("EjQ/KMg="), Reply::text("The sum is 5.")];
    let (_runtime, vendor) = vendor(VendorKind::OpenaiChat, replies);
    let home = Home::new();
    let model = json!({ "vendor": "openai-chat", "model": "a", "baseUrl": vendor.base_url() });
    let servers = json!({ "sample": { "command": TOOLWAY, "args": ["sample"] } });
    home.configure(&json!({ "mcpServers": servers, "models": { "a": model } }).to_string());
    let ran = run(&home, &["run", "--model", "a", "--mode", "allow", "--output", "json", "Add 2 and 3."]);
    assert_eq!((ran.code, &ran.json()["result"]), (0, &json!("The sum is 5.")), "{ran:?}");
    let second = String::from_utf8(vendor.requests()[1].body().to_vec()).unwrap();
    assert!(second.contains(r#""reasoning_content":"Two numbers.""#), "{second}");
    assert!(second.contains(r#""extra_content":{"google":{"thought_signature":"EjQ/KMg="}}"#), "{second}");
    let (_runtime, other) = self::vendor(VendorKind::OpenaiChat, vec![Reply::text("Five.")]);
    let model = json!({ "vendor": "openai-chat", "model": "b", "baseUrl": other.base_url() });
    home.configure(&json!({ "models": { "b": model } }).to_string());
    let ran = home.run_with_input(&["chat", "--model", "b", "--resume", "last"], "And in words?\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    let third = String::from_utf8(other.requests()[0].body().to_vec()).unwrap();
    assert!(third.contains("call_1"), "the conversation goes on: {third}");
    assert!(!third.contains("reasoning_content") && !third.contains("extra_content"), "{third}");
}

#[test]
fn a_refused_key_and_a_failing_vendor_have_their_exit_codes_and_no_secret_is_shown() {
    for kind in VendorKind::ALL {
        let refusal = Reply::refusal(401, "no such key: sk-cli-test-0123456789");
        let (_runtime, vendor) = vendor(kind, vec![refusal]);
        let ran = run(&home(&vendor), &["models", "test", "mock"]);
        assert_eq!(ran.code, 3, "{kind:?}: {ran:?}");
        assert!(ran.talk.contains("no such key: [hidden]") && !ran.talk.contains("sk-cli"), "{}", ran.talk);
    }
}

#[test]
fn a_running_ollama_is_a_default_model() {
    let (_runtime, vendor) = vendor(VendorKind::OpenaiChat, vec![Reply::text("OK"), Reply::text("Done.")]);
    let home = Home::new();
    let host = [("OLLAMA_HOST", &*vendor.authority())];
    let listed = home.run_with(&["models", "list"], &host, "").out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let from = format!("Ollama at http://{}", vendor.authority());
    let expected = json!([{ "name": "ollama", "vendor": "openai-chat", "model": OLLAMA_MODEL, "from": from }]);
    assert_eq!(listed, expected);
    let tested = home.run_with(&["models", "test", "ollama"], &host, "");
    assert_eq!((tested.code, tested.out.trim()), (0, "ollama answered: OK"), "{tested:?}");
    let ran = home.run_with(&["run", "--output", "text", "Go."], &host, "");
    assert_eq!((ran.code, ran.out.trim()), (0, "Done."), "{ran:?}");
}

/// A home with an entry of the vendor that names no model.
fn home_without_model(vendor: &MockVendor) -> Home {
    let home = Home::new();
    let name = vendor.kind().as_str();
    let entry = json!({ "vendor": name, "baseUrl": vendor.base_url(), "apiKey": "env:KEY" });
    home.configure(&json!({ "models": { name: entry } }).to_string());
    home
}

#[test]
fn without_a_configured_model_the_newest_of_the_vendor_s_list_is_used_and_named() {
    for kind in VendorKind::ALL {
        let (_runtime, vendor) = vendor(kind, vec![Reply::text("Done.")]);
        let home = home_without_model(&vendor);
        let ran = run(&home, &["run", "--output", "text", "Go."]);
        assert_eq!((ran.code, ran.out.trim()), (0, "Done."), "{kind:?}: {ran:?}");
        let said = format!("model `{}`: using `{}`", kind.as_str(), kind.newest_model());
        assert!(ran.talk.contains(&said) && ran.talk.contains("toolway models set"), "{}", ran.talk);
        let request = vendor.requests().remove(1);
        let sent = format!("{}{}", request.path, String::from_utf8_lossy(request.body()));
        assert!(sent.contains(kind.newest_model()), "{kind:?}: {sent}");
        // The command of the hint, and no list is asked for any more.
        let set = run(&home, &["models", "set", kind.as_str(), "chosen-model"]);
        assert_eq!(set.code, 0, "{set:?}");
        run(&home, &["models", "test", kind.as_str()]);
        let request = vendor.requests().remove(2);
        assert_eq!(request.verb, "POST", "{kind:?}");
        let sent = format!("{}{}", request.path, String::from_utf8_lossy(request.body()));
        assert!(sent.contains("chosen-model"), "{kind:?}: {sent}");
    }
}

#[test]
fn at_a_terminal_the_newest_model_is_proposed_and_stored() {
    let (_runtime, vendor) = vendor(VendorKind::Anthropic, vec![Reply::text("OK")]);
    let home = home_without_model(&vendor);
    let command = || {
        let mut command = home.command(&["models", "test", "anthropic"]);
        command.env("KEY", "sk-cli-test-0123456789").env("TOOLWAY_OUTPUT", "human");
        command
    };
    let answered = |key: &str| {
        let mut terminal = Terminal::start(command());
        terminal.answers("[Y/n]", key);
        terminal.end(Duration::from_secs(60))
    };
    let (status, shown) = answered("n");
    assert!(status.code() == Some(2) && shown.contains("toolway models set anthropic MODEL"), "{shown}");
    let (status, shown) = answered("y");
    assert!(
        status.success() && shown.contains("`claude-mock-9`") && shown.contains("anthropic answered: OK"),
        "{shown}"
    );
    let listed: serde_json::Value = serde_json::from_str(&home.run(&["models", "list"]).out).unwrap();
    assert_eq!(listed[0]["model"], "claude-mock-9");
}

#[test]
fn a_vendor_without_a_list_is_an_error_with_the_command_that_sets_a_model() {
    let (_runtime, vendor) = vendor(VendorKind::Openai, Vec::new());
    let home = Home::new();
    let entry =
        json!({ "vendor": "openai", "baseUrl": format!("{}/elsewhere", vendor.base_url()), "apiKey": "env:KEY" });
    home.configure(&json!({ "models": { "mine": entry } }).to_string());
    let ran = run(&home, &["run", "Go."]);
    assert!(ran.code == 8 && ran.talk.contains("toolway models set mine MODEL"), "{ran:?}");
    assert_eq!(run(&home, &["models", "set", "other", "x"]).code, 2);
}

#[test]
fn a_key_in_the_environment_comes_before_ollama() {
    let (_runtime, vendor) = vendor(VendorKind::OpenaiChat, Vec::new());
    let variables = [("OLLAMA_HOST", &*vendor.authority()), ("GEMINI_API_KEY", "x")];
    let listed = Home::new().run_with(&["models", "list", "-o", "raw"], &variables, "").out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&json!("gemini"), &json!("ollama")));
}

#[test]
fn the_context_window_of_a_script_decides_whether_tools_are_searched_for() {
    let home = Home::new();
    let turns = json!([
        { "calls": [{ "tool": "search_tools", "arguments": { "query": "add numbers" } }] },
        { "expect": [{ "contains": "sample__add", "error": false }], "text": "Found." },
    ]);
    home.write("script.json", &json!({ "turns": turns }).to_string());
    let model = |window: u32| json!({ "vendor": "scripted", "model": "script.json", "contextWindow": window });
    let servers = json!({ "sample": { "command": TOOLWAY, "args": ["sample"] } });
    let models = json!({ "small": model(100), "large": model(200_000) });
    home.configure(&json!({ "mcpServers": servers, "models": models }).to_string());
    assert_eq!(home.run(&["run", "find it", "--model", "small"]).json()["result"], "Found.");
    let problem = home.run(&["run", "find it", "--model", "large"]).failed(8, "model");
    assert!(problem["message"].as_str().unwrap().contains("result 1"), "it has no search: {problem}");
}

/// Nothing is sent: the name does not exist, and the refusal comes before it is looked up.
#[test]
fn a_model_over_plain_http_on_another_machine_needs_to_be_allowed() {
    let home = Home::new();
    let refused = |url: &str, more: serde_json::Value| {
        let mut model = json!({ "vendor": "openai-chat", "model": "m", "baseUrl": url, "apiKey": "env:KEY" });
        model.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        home.configure(&json!({ "models": { "far": model } }).to_string());
        run(&home, &["models", "test", "far"])
    };
    for url in ["http://models.invalid/v1", "http://10.0.0.1/v1", "http://localhost.models.invalid/v1", "ftp://x/v1"] {
        let ran = refused(url, json!({}));
        assert_eq!(ran.code, 2, "{url}: {ran:?}");
        assert!(!ran.talk.contains("sk-cli"), "{}", ran.talk);
    }
    assert!(refused("http://models.invalid/v1", json!({})).talk.contains("allowInsecureHttp"));
    assert_eq!(refused("http://127.0.0.1:1/v1", json!({})).code, 4, "this machine needs no permission");
    assert_eq!(refused("http://models.invalid/v1", json!({ "allowInsecureHttp": true })).code, 4);
}
