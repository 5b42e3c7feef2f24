//! Records at a terminal: lists fit its width and keep their headings, ids are short, and short ways to the last record.

use std::time::Duration;

use serde_json::json;

use crate::{
    home::{Home, TOOLWAY},
    terminal::Terminal,
};

/// A home with a run of three calls, one of which is refused.
fn home() -> Home {
    let home = Home::new();
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    home.configure(&json!({ "mcpServers": { "sample": server } }).to_string());
    let turns = json!([
        { "calls": [{ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } }, { "tool": "sample__fail" },
            { "tool": "sample__write_memo", "arguments": { "text": "a memo that may not be written" } }] },
        { "text": "An answer that is so long that it does not fit on one line of any terminal in this story." },
    ]);
    home.write("script.json", &json!({ "turns": turns }).to_string());
    let ran = home.run(&["run", "add, fail and write", "--model", "scripted:script.json"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    home
}

/// What a command shows at a terminal of this width, without colours.
fn shown(home: &Home, words: &[&str], columns: u16) -> String {
    let mut command = home.command(words);
    command.env("NO_COLOR", "1");
    let (_, shown) = Terminal::start_with(command, columns).end(Duration::from_secs(60));
    shown.replace("\r\n", "\n")
}

#[test]
fn lists_of_records_fit_wide_and_narrow_terminals_with_headings_and_short_ids() {
    let home = home();
    let call = home.run(&["calls", "list", "-o", "json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let conversation = home.run(&["history", "list", "-o", "json"]).json()[0]["id"].as_str().unwrap().to_owned();
    for columns in [80, 40] {
        for (words, text) in [
            (&["calls", "list"][..], &call[28..]),
            (&["calls", "stats"], "sample__add"),
            (&["calls", "show", "last"], "state         "),
            (&["history", "list"], &conversation[28..]),
            (&["history", "show", "last"], "    An answer"),
            (&["audit", "query"], "sample__write_memo"),
        ] {
            let shown = shown(&home, words, columns);
            assert!(shown.contains(text), "{words:?}: {shown}");
            let wide = shown.lines().find(|line| line.chars().count() > columns.into());
            assert_eq!(wide, None, "{words:?} at {columns}: {shown}");
            if words == ["calls", "list"] {
                let headings = ["STARTED", "STATE", "TIME", "CALLER", "CALL", "ID"];
                assert!(headings.iter().all(|heading| shown.contains(heading)) && shown.contains(" s ago"), "{shown}");
            }
        }
    }
}

#[test]
fn records_are_found_by_the_end_of_their_id_and_an_ambiguous_one_lists_them() {
    let home = home();
    let calls = home.run(&["calls", "list", "-o", "json"]).json();
    let id = calls[0]["id"].as_str().unwrap();
    assert_eq!(home.run(&["calls", "show", &id[28..], "-o", "json"]).json()["id"], *id);
    let conversation = home.run(&["history", "list", "-o", "raw"]).ok().trim().to_owned();
    assert_eq!(home.run(&["history", "show", &conversation[28..], "-o", "json"]).json()["id"], conversation);
    // The ids of calls of the same minute begin with the same digits.
    let error = home.run(&["calls", "show", &id[..4]]).failed(2, "unknown_call");
    let message = error["message"].as_str().unwrap();
    assert!(calls.as_array().unwrap().iter().all(|call| message.contains(call["id"].as_str().unwrap())), "{message}");
}

#[test]
fn a_call_is_shown_in_labelled_rows_with_indented_json() {
    let home = home();
    let calls = home.run(&["calls", "list", "-o", "json"]).json();
    let is_sum = |call: &&serde_json::Value| call["tool"] == "sample__add";
    let sum = calls.as_array().unwrap().iter().find(is_sum).unwrap();
    let shown = shown(&home, &["calls", "show", sum["id"].as_str().unwrap()], 80);
    for row in ["state         succeeded\n", "call          sample__add (tool)\n", "caller        agent (run)\n"] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    assert!(shown.contains("\n  {\n    \"a\": 2,\n    \"b\": 3\n  }\n"), "{shown}");
    assert!(shown.contains(" ago)\n"), "{shown}");
}

#[test]
fn other_programs_get_one_line_per_record() {
    let home = home();
    let list = home.run(&["calls", "list", "-o", "human"]);
    assert_eq!(list.ok().lines().count(), 4, "{}", list.out);
    assert!(list.out.starts_with("STARTED"), "{}", list.out);
    assert_eq!(home.run(&["calls", "list", "-o", "ndjson"]).ok().lines().count(), 3);
    assert_eq!(home.run(&["audit", "query", "--kind", "call", "-o", "ndjson"]).ok().lines().count(), 3);
    let last = home.run(&["calls", "show", "last", "-o", "json"]).json();
    assert_eq!(Some(last["id"].as_str().unwrap()), home.run(&["calls", "list", "-o", "raw"]).ok().lines().next());
    home.run(&["calls", "show", "nothing"]).failed(2, "unknown_call");
    for command in ["calls", "history", "trust", "models"] {
        assert_eq!(home.run(&[command]).ok(), home.run(&[command, "list"]).ok(), "{command} alone lists");
    }
}

#[test]
fn unknown_models_and_servers_are_reported_with_the_known_ones() {
    let home = home();
    let config = json!({
        "mcpServers": { "sample": { "command": TOOLWAY, "args": ["sample"] } },
        "models": { "script": { "vendor": "scripted", "model": "script.json" } },
    });
    home.configure(&config.to_string());
    let error = home.run(&["run", "x", "--model", "scirpt"]).failed(2, "model");
    assert_eq!(error["message"], "unknown model `scirpt`; did you mean `script`?");
    assert_eq!(error["hint"], "configured models: script");
    let error = home.run(&["run", "x", "--servers", "sampel"]).failed(2, "unknown_server");
    assert_eq!(error["message"], "unknown server `sampel`; did you mean `sample`?");
    assert_eq!(error["hint"], "configured servers: sample");
}

#[test]
fn a_sentence_of_ours_is_broken_between_words() {
    let home = home();
    let shown = shown(&home, &["run", "add, fail and write", "--model", "scripted:script.json"], 80);
    assert!(shown.contains("hint: allow it with: toolway policy allow sample.write_memo --caller agent\n"), "{shown}");
    assert!(shown.contains("requires approval") && !shown.contains("approva\n"), "{shown}");
}

#[test]
fn an_explanation_knows_saved_approvals() {
    let home = Home::new();
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    let rule = json!({ "match": { "tool": "write_memo" }, "then": "ask" });
    home.configure(&json!({ "mcpServers": { "sample": server }, "policy": { "rules": [rule] } }).to_string());
    let explain = |text: &str| {
        let words = ["policy", "explain", "--caller", "terminal", "sample.write_memo", text, "-o", "json"];
        home.run(&words).json()["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!(explain("text=/tmp/a"), "ask");
    let mut terminal = Terminal::start(home.command(&["call", "sample.write_memo", "text=/tmp/a"]));
    terminal.answers("[a] always", "a").answers("[n] back", "y");
    assert!(terminal.end(Duration::from_secs(60)).0.success());
    assert_eq!([explain("text=/tmp/a"), explain("text=/tmp/b")], ["allow", "ask"]);
    let of_agent = home.run(&["policy", "explain", "sample.write_memo", "text=/tmp/a"]).json();
    assert_eq!(of_agent["decision"], "ask", "of the agent");
    assert_eq!(of_agent["proposal"]["always"]["covers"], "text = \"/tmp/a\"", "{of_agent}");
    let run = ["policy", "explain", "--caller", "terminal", "--surface", "run", "sample.write_memo", "text=/tmp/a"];
    let unattended = home.run(&run).json();
    assert_eq!((&unattended["decision"], &unattended["saved"]["unattended"]), (&json!("ask"), &json!(false)));
}
