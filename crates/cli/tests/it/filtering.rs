//! Excluded items are refused with exit code 7, with file and line, and without starting the server.

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
    assert!(message.starts_with(&format!("{what} of server `sample` is excluded by `{key}` in ")), "{message}");
    assert!(message.ends_with(&format!("toolway.json:{line}")), "{message}");
}

#[test]
fn excluded_tool_is_refused_however_it_is_selected() {
    let home = home("      \"excludeTools\": [\"write*\"]");
    let params = r#"{"name":"write_memo","arguments":{"text":"x"}}"#;
    for words in [
        &["call", "sample.write_memo", "text=x"][..],
        &["call", "sample__write_memo", "text=x"],
        &["@sample", "call", "write_memo", "--dry-run", "text=x"],
        &["rpc", "sample", "tools/call", params],
        &["tools", "sample", "write_memo"],
    ] {
        left_out(&home.run(words).failed(7, "filtered_out"), "tool `write_memo`", "excludeTools", 5);
    }
    let names = home.run(&["tools", "sample", "-o", "raw"]);
    assert_eq!(names.ok(), "echo\nadd\ncount\npicture\ngreet\nfail\n");
    home.run(&["call", "sample.none"]).failed(2, "unknown_tool");
    assert_eq!(home.run(&["call", "sample.echo", "hi", "-o", "human"]).ok(), "hi\n");
}

#[test]
fn items_not_included_and_disabled_kinds_are_refused() {
    let home =
        home("      \"includeTools\": [\"echo\"],\n      \"excludePrompts\": [\"*\"],\n      \"resources\": false");
    let run = |words: &[&str]| home.run(words).failed(7, "filtered_out");
    left_out(&run(&["call", "sample.add", "1", "2"]), "tool `add`", "includeTools", 5);
    left_out(&run(&["prompts", "get", "sample.introduce", "Ada"]), "prompt `introduce`", "excludePrompts", 6);
    left_out(&run(&["resources", "read", "sample", "memo://today"]), "resource `memo://today`", "resources", 7);
    let listed = home.run(&["resources", "sample"]);
    assert_eq!(listed.json()["resources"].as_array().unwrap().len(), 0);
    assert!(
        listed.talk.starts_with("toolway: server `sample`: every resource is excluded by `resources` in "),
        "{listed:?}"
    );
}

#[test]
fn refused_item_does_not_start_the_server() {
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
