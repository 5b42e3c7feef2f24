//! What an entry leaves out is refused: with exit code 7, the file and the line, and nothing started for it.

use serde_json::Value;

use crate::home::{Home, TOOLWAY, odd};

/// The sample server with these further lines in its entry.
fn home(lines: &str) -> Home {
    let home = Home::new();
    home.configure(&format!(
        "{{\n  \"mcpServers\": {{\n    \"sample\": {{\n      \"command\": \"{TOOLWAY}\", \"args\": [\"sample\"],\n{lines}\n    }}\n  }}\n}}"
    ));
    home
}

fn left_out(error: &Value, what: &str, key: &str, line: usize) {
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("{what} of `sample` is left out by `{key}` in ")), "{message}");
    assert!(message.ends_with(&format!("toolway.json:{line}.")), "{message}");
}

#[test]
fn an_excluded_tool_is_refused_however_it_is_asked_for() {
    let home = home("      \"excludeTools\": [\"write*\"]");
    let params = r#"{"name":"write_memo","arguments":{"text":"x"}}"#;
    for words in [
        &["call", "sample.write_memo", "text=x"][..],
        &["call", "sample__write_memo", "text=x"],
        &["@sample", "call", "write_memo", "--dry-run", "text=x"],
        &["rpc", "sample", "tools/call", params],
        &["tools", "sample", "write_memo"],
    ] {
        left_out(&home.run(words).failed(7, "filtered_out"), "Tool `write_memo`", "excludeTools", 5);
    }
    let names = home.run(&["tools", "sample", "-o", "raw"]);
    assert_eq!(names.ok(), "echo\nadd\ncount\npicture\ngreet\nfail\n");
    home.run(&["call", "sample.none"]).failed(2, "unknown_tool");
    assert_eq!(home.run(&["call", "sample.echo", "hi", "-o", "human"]).ok(), "hi\n");
}

#[test]
fn what_is_not_included_and_what_is_switched_off_is_refused_too() {
    let home =
        home("      \"includeTools\": [\"echo\"],\n      \"excludePrompts\": [\"*\"],\n      \"resources\": false");
    let run = |words: &[&str]| home.run(words).failed(7, "filtered_out");
    left_out(&run(&["call", "sample.add", "1", "2"]), "Tool `add`", "includeTools", 5);
    left_out(&run(&["prompts", "get", "sample.introduce", "Ada"]), "Prompt `introduce`", "excludePrompts", 6);
    left_out(&run(&["resources", "read", "sample", "memo://today"]), "Resource `memo://today`", "resources", 7);
    let listed = home.run(&["resources", "sample"]);
    assert_eq!(listed.json()["resources"].as_array().unwrap().len(), 0);
    assert!(listed.talk.starts_with("toolway: no resource of `sample` is offered: `resources` in "), "{listed:?}");
}

#[test]
fn nothing_is_started_for_what_is_refused() {
    let home = Home::new();
    let record = home.path("record");
    let words: Vec<String> = odd("cut").split(' ').map(str::to_owned).collect();
    home.configure(&format!(
        r#"{{"mcpServers":{{"odd":{{"command":"{}","args":["{}","{}"],"excludeTools":["odd"]}}}}}}"#,
        words[0],
        words[1],
        record.display()
    ));
    let refused = home.run(&["call", "odd.odd", "-v"]);
    refused.failed(7, "filtered_out");
    assert!(refused.talk.starts_with("= tool `odd` of `odd`: refused, "), "{}", refused.talk);
    assert!(!record.exists());
    home.run(&["tools", "odd"]).ok();
    assert!(record.exists());
}
