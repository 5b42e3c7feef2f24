//! `docs/reference/console-api.md`: its examples have the members that the API answers with, all routes are on it, and so is
//! what the pages read.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Value, json};
use toolway_testkit::fixture_server::FixtureServer;

use crate::stage::{Browser, Stage};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/reference/console-api.md")).unwrap()
}

/// The example of this name.
fn example(name: &str) -> Value {
    let page = page();
    let block = page.split(&format!("```json {name}\n")).nth(1).unwrap_or_else(|| panic!("no example `{name}`"));
    serde_json::from_str(block.split("```").next().unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap_or_else(|| panic!("an object: {value}")).keys().cloned().collect()
}

/// Members whose own members are those of others, or are not always there.
const OF_OTHERS: [&str; 6] = ["entry", "inputSchema", "annotations", "arguments", "fields", "structured"];

/// Both have the same members, in objects of lists too, where both have some.
fn assert_same(name: &str, documented: &Value, answered: &Value) {
    match (documented, answered) {
        (Value::Array(documented), Value::Array(answered)) => {
            if let (Some(documented), Some(answered)) = (documented.first(), answered.first()) {
                assert_same(name, documented, answered);
            }
        }
        (Value::Object(inner), Value::Object(_)) => {
            assert_eq!(keys(documented), keys(answered), "{name}");
            for (key, value) in inner.iter().filter(|(key, _)| !OF_OTHERS.contains(&key.as_str())) {
                assert_same(&format!("{name}.{key}"), value, &answered[key]);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn examples_have_the_members_of_the_answers() {
    let files = FixtureServer::new("files").tool("read", "Reads a file.");
    let stage = Stage::new(&[("files", &files)]).await;
    drop(stage.host.call("files__read").await);
    let browser = stage.browser().await;
    for (name, path) in [
        ("session", "/api/v1/session"),
        ("server", "/api/v1/servers/files"),
        ("entry", "/api/v1/servers/files/entry"),
        ("import", "/api/v1/import"),
        ("plan", "/api/v1/servers/files/removal"),
        ("calls", "/api/v1/calls"),
        ("tools", "/api/v1/tools"),
        ("tool", "/api/v1/tools/files/read"),
        ("resources", "/api/v1/resources"),
        ("prompts", "/api/v1/prompts"),
        ("tasks", "/api/v1/tasks"),
    ] {
        assert_same(name, &example(name), &browser.json(path).await);
    }
    let draft = json!({ "name": "librarian", "entry": { "approval": "auto" } });
    for (name, path, body) in [
        ("plan", "/api/v1/assistants/plan", draft.clone()),
        ("saved", "/api/v1/assistants", json!({ "draft": draft })),
        ("error", "/api/v1/assistants/plan", json!({ "name": "librarian", "entry": { "approval": "never" } })),
    ] {
        let answered = browser.post(path, &body).await.json();
        assert_eq!(keys(&example(name)), keys(&answered), "{name}");
    }
    for (name, path) in [
        ("assistants", "/api/v1/assistants"),
        ("assistant", "/api/v1/assistants/librarian/entry"),
        ("plan", "/api/v1/assistants/librarian/removal"),
    ] {
        assert_same(name, &example(name), &browser.json(path).await);
    }
    let draft = json!({ "name": "new", "entry": { "command": "run-me" } });
    let agreed = json!({ "draft": draft, "consent": true });
    for (name, path, body) in [
        ("parsed", "/api/v1/servers/parse", json!({ "text": "run-me" })),
        ("plan", "/api/v1/servers/plan", draft),
        ("test", "/api/v1/servers/test", agreed.clone()),
        ("saved", "/api/v1/servers", agreed),
        ("error", "/api/v1/servers/plan", json!({ "name": "x", "entry": { "command": "" } })),
    ] {
        let answered = browser.post(path, &body).await.json();
        assert_eq!(keys(&example(name)), keys(&answered), "{name}");
    }
    let wanted = json!({ "of": "prompt", "server": "files", "name": "hello", "argument": "who", "value": "" });
    assert_same("completion", &example("completion"), &browser.post("/api/v1/complete", &wanted).await.json());
    let wanted = json!({ "kind": "tool", "server": "files", "name": "read" });
    let id = browser.post("/api/v1/runs", &wanted).await.json()["id"].as_str().unwrap().to_owned();
    let run = browser.until(&format!("/api/v1/runs/{id}"), |run| run["state"] != "running").await;
    assert_same("run", &example("run"), &run);
    chat_examples(&stage, &browser).await;
    let list = browser.json("/api/v1/servers").await;
    assert!(keys(&list[0]).is_subset(&keys(&example("server"))));
}

async fn chat_examples(stage: &Stage, browser: &Browser) {
    stage.script("script", &json!([{ "text": "Done." }]));
    let id = browser.post("/api/v1/chat/draft", &json!({})).await.json()["conversation"].as_str().unwrap().to_owned();
    let file = browser.post_text(&format!("/api/v1/chat/{id}/upload?name=notes.txt"), "a text").await.json();
    assert_same("attached", &example("attached"), &file);
    let mut events = browser.events(None).await;
    let said = json!({ "conversation": id, "text": "write it", "attachments": [file["id"]] });
    assert_same("said", &example("said"), &browser.post("/api/v1/chat", &said).await.json());
    events.chat("end").await;
    let shown = browser.json(&format!("/api/v1/conversations/{id}")).await;
    assert_same("conversation", &example("conversation"), &shown);
    let known: BTreeSet<String> =
        example("conversation")["messages"].as_array().unwrap().iter().flat_map(keys).collect();
    assert!(shown["messages"].as_array().unwrap().iter().all(|message| keys(message).is_subset(&known)));
    let context = browser.json(&format!("/api/v1/conversations/{id}/context?model=script")).await;
    assert_same("context", &example("context"), &context);
}

#[test]
fn every_route_is_on_the_page() {
    let page = page();
    let api = fs::read_to_string(root().join("crates/console/src/api.rs")).unwrap();
    let routes: Vec<&str> = api.lines().map(str::trim).filter(|line| line.starts_with("[\"")).collect();
    assert!(20 < routes.len(), "{routes:?}");
    for route in routes {
        let pattern = route.split("] =>").next().unwrap().trim_start_matches('[');
        let words = pattern.split(", ").filter(|word| word.starts_with('"')).map(|word| word.trim_matches('"'));
        for word in words {
            assert!(page.contains(&format!("/{word}")) || page.contains(&format!("`{word}`")), "{route}");
        }
    }
}

#[test]
fn pages_read_only_what_is_on_the_page() {
    for (file, variable, name) in [
        ("servers.js", "server", "server"),
        ("server-parts.js", "server", "server"),
        ("sign-in.js", "server", "server"),
        ("tested.js", "answer", "test"),
        ("tasks.js", "task", "tasks"),
        ("task-line.js", "task", "tasks"),
        ("import.js", "server", "import"),
        ("entry-form.js", "planned", "plan"),
        ("server-form.js", "planned", "plan"),
        ("assistants.js", "assistant", "assistants"),
        ("server-form.js", "parsed", "parsed"),
        ("tools.js", "tool", "tool"),
        ("run-panel.js", "run", "run"),
        ("resources.js", "answer", "resources"),
        ("prompts.js", "prompt", "prompts"),
        ("chat.js", "conversation", "conversation"),
    ] {
        let example = example(name);
        let example = example.get(0).cloned().unwrap_or(example);
        // One prompt of the list.
        let example = if variable == "prompt" { example["prompts"][0].clone() } else { example };
        let mut known = keys(&example);
        // A row of the list can be a tool that policy hides.
        if file == "tools.js" {
            known.extend(keys(&self::example("tools")["hidden"][0]));
        }
        let source = fs::read_to_string(root().join("crates/console/web").join(file)).unwrap();
        let parts: Vec<&str> = source.split(&format!("{variable}.")).collect();
        for pair in parts.windows(2) {
            // Not the end of a longer name, nor a file name.
            if pair[0].ends_with(|c: char| c.is_alphanumeric() || "_.-/\"".contains(c)) && !pair[0].ends_with("...") {
                continue;
            }
            let word: String = pair[1].chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            // The end of a sentence.
            if word.is_empty() {
                continue;
            }
            assert!(known.contains(&word), "{file} reads `{variable}.{word}`, which is not in the example `{name}`");
        }
    }
}
