//! The policy of a project's file: it only makes the user's stricter.

use serde_json::{Value, json};

use crate::{
    configuring::run_in,
    home::{Home, Ran},
};

/// A model that writes a memo through the user's own server, and a clone with this `toolway.json`.
fn clone_with(project: &str) -> Home {
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "sample__write_memo", "arguments": { "text": "x" } }] },
        { "text": "Done." },
    ]));
    home.write("clone/toolway.json", project);
    home
}

fn run(home: &Home, words: &[&str]) -> Ran {
    let model = format!("scripted:{}", home.path("script.json").display());
    run_in(home, "clone", &[&["run", "write", "--model", &model], words].concat())
}

#[test]
fn a_cloned_repository_approves_nothing() {
    let allows_agents = r#"{"policy":{"rules":[{"match":{"caller":"agent"},"then":"allow"}]}}"#;
    let allows_all =
        "{\"policy\": {\"rules\": [\n{\"match\": {\"tool\": \"x\"}, \"then\": \"deny\"},\n{\"then\": \"allow\"}]}}";
    let mode = r#"{"policy":{"mode":"allow"}}"#;
    let trust = r#"{"mcpServers":{"sample":{"trust":"full"}}}"#;
    for (project, place) in [
        (allows_agents, "toolway.json:1: the project file is not used: a rule of a project file may not say `allow`"),
        (allows_all, "toolway.json:3: the project file is not used: a rule of a project file may not say `allow`"),
        (mode, "toolway.json:1: the project file is not used: `policy.mode` is not allowed"),
        (trust, "toolway.json:1: `sample` is not used"),
    ] {
        let home = clone_with(project);
        for words in [&[][..], &["--mode", "interactive"], &["--mode", "ask"], &["--mode", "writes"]] {
            let ran = run(&home, words);
            ran.failed(7, "no_approver");
            assert!(ran.talk.contains(place), "{project} {words:?}: {ran:?}");
        }
        run_in(&home, "clone", &["config", "check"]).failed(2, "config");
        let calls = home.run(&["calls", "list"]).json();
        assert!(calls.as_array().unwrap().iter().all(|call| call["state"] == "refused"), "{calls}");
    }
}

#[test]
fn a_project_makes_the_decision_stricter_and_explain_shows_both_files() {
    let home = clone_with(r#"{"policy":{"rules":[{"match":{"tool":"write_*"},"then":"deny","reason":"not here"}]}}"#);
    run(&home, &["--mode", "allow"]);
    assert_eq!(home.run(&["calls", "list"]).json()[0]["state"], "refused");
    let explain = |words: &[&str]| -> Value {
        run_in(&home, "clone", &[&["policy", "explain", "sample.write_memo", "text=x"], words].concat()).json()
    };
    let said = explain(&["--mode", "allow"]);
    assert_eq!(
        (&said["decision"], &said["reason"]),
        (&json!("deny"), &json!("the project's file says \"not here\"")),
        "{said}"
    );
    assert_eq!((&said["user"]["decision"], &said["user"]["rule"]), (&json!("allow"), &json!("mode `allow`")), "{said}");
    assert_eq!((&said["project"]["decision"], &said["project"]["line"]), (&json!("deny"), &json!(1)), "{said}");
    assert_eq!(said["mode"], "allow");
    let human =
        run_in(&home, "clone", &["policy", "explain", "sample.add", "a=1", "b=2", "--mode", "ask", "-o", "human"]);
    assert_eq!(
        human.ok(),
        "ask: mode `ask`\nyour file: no rule matches; mode `ask`\nproject's file: no rule matches\nmode: ask\n\
         trust of `sample`: read (tools annotated read-only pass `writes`)\n\
         trust level: server-trusted; risk: medium\n"
    );
}
