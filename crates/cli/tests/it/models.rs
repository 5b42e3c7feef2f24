//! Models of vendors and of Ollama, through the program.

use serde_json::json;
use tokio::runtime::Runtime;
use toolway_testkit::vendor::{MockVendor, OLLAMA_MODEL, Reply, VendorKind};

use crate::home::{Home, Ran, TOOLWAY};

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
        let ran = run(&home, &["run", "--mode", "full", "--output", "json", "Add 2 and 3."]);
        assert_eq!(ran.code, 0, "{kind:?}: {ran:?}");
        let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&answer["result"], &answer["turns"]), (&json!("The sum is 5."), &json!(2)), "{kind:?}: {answer}");
        let second = vendor.requests().remove(1);
        assert!(String::from_utf8_lossy(second.body()).contains("sum"), "{kind:?}: the result reached the model");
    }
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
