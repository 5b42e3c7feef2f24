//! Sampling of servers on other SDKs: one that runs its own loop with tools, one of 2026-07-28 that asks with its result.

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, root},
    sampling::{run_client, sdk_clients},
};

fn peer(program: &str, script: &str) -> Value {
    let program = root().join(".interop").join(program);
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    json!({ "command": program, "args": [root().join("tests/interop/servers").join(script)] })
}

/// A home with both servers. The model calls a tool of the first, and names a colour for the second.
fn home() -> Home {
    let home = Home::new();
    let calls = json!([{ "tool": "add", "arguments": { "a": 2, "b": 3 } }]);
    let turns = json!([{ "calls": calls }, { "expect": [{ "contains": "5" }], "text": "It is 5." }]);
    let adds = home.write("adds.json", &json!({ "turns": turns }).to_string());
    let paints = home.write("paints.json", &json!({ "turns": vec![json!({ "text": "Blue." }); 9] }).to_string());
    let mut loops = peer("node_modules/.bin/node", "looping_typescript.mjs");
    loops["sampling"] = json!({ "model": "adds" });
    let mut asks = peer("venv/bin/python", "asking_fastmcp.py");
    asks["sampling"] = json!({ "model": "paints" });
    asks["era"] = json!("modern");
    home.configure(
        &json!({
            "models": {
                "adds": { "vendor": "scripted", "model": adds },
                "paints": { "vendor": "scripted", "model": paints },
            },
            "sampling": { "allow": "always" },
            "mcpServers": { "loops": loops, "asks": asks },
        })
        .to_string(),
    );
    home
}

const SOLVED: &str = "endTurn after add(2, 3): It is 5.";

#[test]
fn server_runs_its_own_loop_with_our_model() {
    let home = home();
    assert_eq!(home.run(&["call", "loops.solve", "-o", "human"]).ok(), format!("{SOLVED}\n"));
    let shown = home.run(&["calls", "show", "last", "-o", "json"]).json();
    let sampled = shown["sampling"].as_array().unwrap();
    assert_eq!(sampled.len(), 2, "{shown}");
    assert!(sampled.iter().all(|one| one["model"] == "adds" && one["outcome"] == "answered"), "{shown}");
    let audit = home.run(&["audit", "query", "--kind", "sampling", "-o", "json"]).json();
    let reasons: Vec<&Value> = audit.as_array().unwrap().iter().map(|entry| &entry["details"]["stopReason"]).collect();
    assert_eq!(reasons, [&json!("endTurn"), &json!("toolUse")], "{audit}");
}

#[test]
fn stateless_server_that_asks_with_its_result_is_answered_by_our_model() {
    let home = home();
    let call = ["call", "asks.model_by_result", "-o", "human"];
    assert_eq!(home.run(&call).ok(), "paints said Blue.\n");
    let shown = home.run(&["calls", "show", "last", "-o", "json"]).json();
    assert_eq!(shown["sampling"][0]["outcome"], "answered", "{shown}");
    let config = home.path(".config/toolway/toolway.json");
    let text = std::fs::read_to_string(&config).unwrap().replace(r#""allow":"always""#, r#""allow":"never""#);
    home.configure(&text);
    let refused = home.run(&call);
    assert_ne!(refused.code, 0, "{refused:?}");
}

#[test]
fn gateway_answers_both_for_clients_without_sampling() {
    let home = home();
    let key = home.run(&["clients", "add", "editor", "-o", "raw"]).ok().trim().to_owned();
    for (client, mode) in sdk_clients() {
        // The script of the loop is told once.
        let serving = Serving::start(&home, &[]);
        serving.settled(&key, "loops", "ready");
        serving.settled(&key, "asks", "ready");
        for (tool, expected) in [("loops__solve", SOLVED), ("asks__model_by_result", "paints said Blue.")] {
            let url = format!("http://{}/mcp", serving.authority);
            let plan = json!({ "url": url, "key": key, "declares": false, "mode": mode, "call": [tool, {}] });
            let did = run_client(&home, &client, &plan).json();
            assert_eq!(did["said"], expected, "{mode}: {did}");
        }
        serving.stop();
    }
}

#[test]
fn server_uses_no_more_than_the_budget_of_a_run_in_one_call() {
    let asks = json!({ "calls": [{ "tool": "loops__solve" }] });
    // Its first turn leaves less of the second budget than the two requests of the server use.
    for (budget, code, is_refused) in [("100000", 0, false), ("300", 5, true)] {
        let home = home();
        let turns = json!({ "turns": [asks, { "text": "It is solved." }] });
        let model = format!("scripted:{}", home.write("run.json", &turns.to_string()).display());
        let ran = home.run(&["run", "Solve", "--model", &model, "--mode", "allow", "--max-tokens", budget]);
        assert_eq!(ran.code, code, "{ran:?}");
        let shown = home.run(&["calls", "show", "last", "-o", "json"]).json();
        let requests = shown["sampling"].as_array().unwrap().len();
        let is_said = shown["result"].to_string().contains("the tokens of the conversation's budget are used up");
        assert_eq!((requests < 2, is_said), (is_refused, is_refused), "{shown}");
    }
}
