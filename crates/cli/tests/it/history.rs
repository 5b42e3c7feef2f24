//! `toolway history`: stored conversations.

use serde_json::{Value, json};

use crate::home::{Home, TOOLWAY};

/// A home with two conversations.
fn home() -> Home {
    let home = Home::new();
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    home.configure(&json!({ "mcpServers": { "sample": server } }).to_string());
    home.write("milk.json", r#"{"turns": [{"text": "Milk is *white*."}]}"#);
    let calls =
        r#"{"turns": [{"calls": [{"tool": "sample__echo", "arguments": {"text": "brown"}}]}, {"text": "Bread."}]}"#;
    home.write("bread.json", calls);
    home.run(&["run", "what about milk?", "--model", "scripted:milk.json"]).ok();
    home.run(&["run", "what about bread?", "--model", "scripted:bread.json"]).ok();
    home
}

#[test]
fn conversations_are_listed_shown_found_exported_and_deleted() {
    let home = home();
    let list = home.run(&["history", "list"]).json();
    let titles: Vec<&Value> = list.as_array().unwrap().iter().map(|head| &head["title"]).collect();
    assert_eq!(titles, ["what about bread?", "what about milk?"], "newest first");
    assert_eq!((&list[0]["surface"], &list[0]["model"]), (&json!("run"), &json!("bread.json")));
    assert!(list[0]["updatedAt"].as_str().unwrap().ends_with('Z'), "{list}");
    let shown = home.run(&["history", "show", "last"]).json();
    let roles: Vec<&Value> = shown["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let found = home.run(&["history", "search", "WHITE"]).json();
    assert_eq!((found.as_array().unwrap().len(), &found[0]["match"]["role"]), (1, &json!("assistant")), "{found}");
    let milk = found[0]["id"].as_str().unwrap().to_owned();
    let page = home.run(&["history", "export", &milk, "-o", "human"]);
    assert!(page.ok().starts_with("# what about milk?\n") && page.out.contains("\n## assistant\n\nMilk is *white*."));
    home.run(&["history", "delete", &milk]).ok();
    assert_eq!(home.run(&["history", "list"]).json().as_array().unwrap().len(), 1);
    home.run(&["history", "show", &milk]).failed(2, "unknown_conversation");
}

#[test]
fn without_conversations_lists_are_empty() {
    let home = Home::new();
    assert_eq!(home.run(&["history", "list"]).json(), json!([]));
    assert_eq!(home.run(&["history", "search", "x"]).json(), json!([]));
    home.run(&["history", "show", "last"]).failed(2, "unknown_conversation");
}
