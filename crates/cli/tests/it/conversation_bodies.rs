//! Conversations obey `store.bodies`, and a model gets no secret of a server.

use serde_json::{Value, json};

use crate::home::{Home, TOOLWAY};

const TOKEN: &str = "tok/3n-7f\"9a41";

/// A home whose model lets the server say its token, spelt in JSON and in a URL.
fn home(bodies: &str, seen: &str) -> Home {
    let said = format!("{{\"t\":{}}} https://example.org/?t=tok%2F3n-7f%229a41", json!(TOKEN));
    let home = Home::with_script(&json!([
        { "calls": [{ "tool": "shop__echo", "arguments": { "text": said } }] },
        { "expect": [{ "contains": seen, "error": false }], "text": "Done." },
    ]));
    let shop = json!({ "command": TOOLWAY, "args": ["sample"], "env": { "API_TOKEN": TOKEN }, "trust": "full" });
    home.configure(&json!({ "mcpServers": { "shop": shop }, "store": { "bodies": bodies } }).to_string());
    home.run(&["run", "say it", "--model", "scripted:script.json", "--mode", "full"]).ok();
    home
}

/// The stored conversation, and what the database has of it.
fn stored(home: &Home) -> String {
    let exported = home.run(&["history", "export", "last", "-o", "json"]).json();
    let rows = rusqlite::Connection::open(home.path(".local/state/toolway/toolway.db")).unwrap();
    let mut statement = rows.prepare("SELECT text || body FROM messages").unwrap();
    let rows: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    format!("{exported} {}", rows.join(" "))
}

fn assert_no_token(text: &str) {
    for part in ["3n-7f", "9a41"] {
        assert!(!text.contains(part), "{text}");
    }
}

#[test]
fn a_model_and_a_stored_conversation_get_results_without_the_secrets_of_servers() {
    let home = home("redacted", "https://example.org/?t=[hidden]");
    let text = stored(&home);
    assert_no_token(&text);
    assert!(text.contains("[hidden]"), "{text}");
}

#[test]
fn without_bodies_a_conversation_has_placeholders_and_says_so_when_it_is_resumed() {
    let home = home("none", "[hidden]");
    let text = stored(&home);
    assert_no_token(&text);
    assert!(text.contains("result not kept") && !text.contains("example.org"), "{text}");
    home.write("next.json", &json!({ "turns": [{ "text": "Welcome back." }] }).to_string());
    let words = ["chat", "--model", "scripted:next.json", "--resume", "last"];
    let ran = home.run_with_input(&words, "go on\n");
    assert!(format!("{ran:?}").contains("Results of its calls were not kept"), "{ran:?}");
}

#[test]
fn with_full_bodies_a_conversation_is_kept_as_it_was_and_the_model_gets_no_secret() {
    let home = home("full", "https://example.org/?t=[hidden]");
    assert!(stored(&home).contains("tok%2F3n-7f%229a41"));
}

#[test]
fn the_log_of_a_database_that_replaces_a_corrupt_one_names_it() {
    let home = Home::with_sample();
    home.run(&["call", "sample.add", "a=1", "b=2"]);
    let database = home.path(".local/state/toolway/toolway.db");
    std::fs::remove_file(database.with_file_name("toolway.db-wal")).ok();
    std::fs::write(&database, "this is not a database ".repeat(100)).unwrap();
    home.run(&["call", "sample.add", "a=1", "b=2"]);
    let verified: Value = home.run(&["audit", "verify", "-o", "json"]).json();
    assert!(verified["replaces"].as_str().unwrap().contains("toolway.db.corrupt-"), "{verified}");
    let told = home.run(&["audit", "verify", "-o", "human"]).ok().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("this log replaces that of the corrupt database"), "{told}");
    let report = home.run(&["doctor", "-o", "json"]).json();
    assert!(0 < report["store"]["bytes"].as_u64().unwrap() && report["store"]["maxBytes"] == 2_u64 << 30, "{report}");
}
