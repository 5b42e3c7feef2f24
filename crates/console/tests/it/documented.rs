//! `docs/reference/console-api.md`: its examples have the members that the API answers with, all routes are on it, and so is
//! what the pages read.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Value, json};
use toolway_console::ConsoleOptions;
use toolway_host::policy::{Stance, Surface};
use toolway_testkit::fixture_server::{Behaviour, FixtureServer};

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
const OF_OTHERS: [&str; 8] =
    ["entry", "inputSchema", "annotations", "arguments", "result", "scope", "fields", "structured"];

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
    assert_same("conversations", &example("conversations"), &browser.json("/api/v1/conversations").await);
}

/// An item that waits, once there is one.
async fn item(browser: &Browser) -> Value {
    let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
    items[0].clone()
}

#[tokio::test]
async fn an_approval_and_its_call_have_the_members_of_the_examples() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = Stage::with(&[("files", &files)], ConsoleOptions::default(), |mut builder| {
        builder.options.stance = Stance::Ask;
        builder
    })
    .await;
    let browser = stage.browser().await;
    let answering = async {
        let item = item(&browser).await;
        assert_same("item", &example("item"), &item);
        let proposal = &item["approval"]["proposal"];
        assert_same("proposal", &example("item")["approval"]["proposal"]["arguments"], &proposal["arguments"]);
        let path = format!("/api/v1/inbox/{}/answer", item["id"].as_str().unwrap());
        assert_eq!(browser.post(&path, &json!({ "answer": "once" })).await.status, 200);
        item["callId"].as_str().unwrap().to_owned()
    };
    let calling = stage.host.call_with("files__write", Some(json!({ "path": "a.txt" })));
    let (_, call) = tokio::join!(calling, answering);
    let call = browser.until(&format!("/api/v1/calls/{call}"), |call| call["state"] == "succeeded").await;
    assert_same("call", &example("call"), &call);
}

#[tokio::test]
async fn a_form_has_the_members_of_the_example() {
    let people = FixtureServer::new("people").tool_that("greet", "", Behaviour::Greet);
    let stage = Stage::new(&[("people", &people)]).await;
    let browser = stage.browser().await;
    let mut request = stage.host.request("people__greet", None);
    request.surface = Surface::Console;
    let answering = async {
        let item = item(&browser).await;
        assert_same("item-form", &example("item-form"), &item);
        let field = keys(&item["form"]["fields"][0]);
        assert!(keys(&example("item-form")["form"]["fields"][0]).is_subset(&field), "{field:?}");
        let limits =
            ["format", "minLength", "maxLength", "pattern", "minimum", "maximum", "minItems", "maxItems", "options"];
        assert!(limits.iter().all(|limit| page().contains(&format!("`{limit}`"))));
        let path = format!("/api/v1/inbox/{}/answer", item["id"].as_str().unwrap());
        assert_eq!(browser.post(&path, &json!({ "action": "decline" })).await.status, 200);
    };
    drop(tokio::join!(stage.host.call_of(request), answering));
}

/// The source files below a folder.
fn sources(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| if path.is_dir() { sources(path) } else { vec![fs::read_to_string(path).unwrap()] };
    entries.flat_map(read).collect()
}

#[test]
fn every_code_of_an_error_is_on_the_page() {
    let page = page();
    let sources = sources(root().join("crates/console/src"));
    let after_status = |part: &str| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '_');
        rest.strip_prefix(", \"").map(|rest| rest.split('"').next().unwrap().to_owned())
    };
    let is_code = |text: &String| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let codes: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| source.split("StatusCode::").skip(1).filter_map(after_status))
        .filter(is_code)
        .collect();
    assert!(15 < codes.len(), "{codes:?}");
    for code in codes {
        assert!(page.contains(&format!("`{code}`")), "{code}");
    }
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

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// An example, or a part of one; `items` has the members of all kinds of items.
fn part(name: &str) -> Value {
    if name == "items" {
        let kinds = ["item", "item-form", "item-url", "item-sampling", "item-sign-in", "item-outcome"];
        return kinds.iter().flat_map(|kind| example(kind).as_object().unwrap().clone()).collect();
    }
    let mut parts = name.split('.');
    let whole = example(parts.next().unwrap());
    parts.fold(whole, |value, key| value.get(0).unwrap_or(&value)[key].clone())
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
        ("import.js", "server", "import.servers"),
        ("import.js", "found", "import"),
        ("entry-form.js", "planned", "plan"),
        ("server-form.js", "planned", "plan"),
        ("assistants.js", "assistant", "assistants"),
        ("server-form.js", "parsed", "parsed"),
        ("tools.js", "tool", "tool"),
        ("run-panel.js", "run", "run"),
        ("resources.js", "answer", "resources"),
        ("prompts.js", "prompt", "prompts"),
        ("chat.js", "conversation", "conversation"),
        ("calls.js", "call", "call"),
        ("item.js", "item", "items"),
        ("inbox.js", "item", "items"),
        ("questions.js", "item", "items"),
        ("news.js", "item", "items"),
        ("approval.js", "approval", "item.approval"),
        ("argument-rows.js", "row", "item.approval.rows"),
        ("coverage.js", "proposal", "item.approval.proposal"),
        ("sampling.js", "sampling", "item-sampling.sampling"),
        ("form.js", "field", "item-form.form.fields"),
    ] {
        let example = part(name);
        let example = example.get(0).cloned().unwrap_or(example);
        // One prompt of the list.
        let example = if variable == "prompt" { example["prompts"][0].clone() } else { example };
        let mut known = keys(&example);
        // What is said of them in words.
        known.extend(match file {
            "form.js" => strings(&["format", "minLength", "maxLength", "minimum", "maximum", "options"]),
            "argument-rows.js" => strings(&["hidden", "bytes", "sha256"]),
            "calls.js" => strings(&["truncated"]),
            _ => Vec::new(),
        });
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
