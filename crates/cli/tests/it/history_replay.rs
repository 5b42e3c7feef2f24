//! `toolway history replay`: requests rebuilt from what is stored, offline.

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};

use crate::home::{Home, Ran, TOOLWAY};

const TOKEN: &str = "tok/3n-7f\"9a41";

/// A home with one conversation: a call that says a secret of its server, and a second message after a resumption.
fn home(bodies: &str) -> Home {
    let home = Home::with_script(&json!([
        { "text": "Reading.", "calls": [{ "tool": "shop__echo", "arguments": { "text": format!("it is {TOKEN}") } }] },
        { "text": "Done." },
    ]));
    let shop = json!({ "command": TOOLWAY, "args": ["sample"], "env": { "API_TOKEN": TOKEN }, "trust": "full" });
    home.configure(&json!({ "mcpServers": { "shop": shop }, "store": { "bodies": bodies } }).to_string());
    home.run(&["run", "say it", "--model", "scripted:script.json", "--mode", "full"]).ok();
    home.write("next.json", &json!({ "turns": [{ "text": "Welcome back." }] }).to_string());
    let next = ["chat", "--model", "scripted:next.json", "--resume", "last"];
    home.run_with_input(&next, "go on\n").ok();
    home
}

fn database(home: &Home) -> Connection {
    Connection::open(home.path(".local/state/toolway/toolway.db")).unwrap()
}

/// A server that leaves a file if it is started.
fn with_trap(home: &Home) {
    let trap = json!({ "command": "touch", "args": [home.path("started")] });
    home.configure(&json!({ "mcpServers": { "shop": trap }, "models": { "m": { "vendor": "openai", "baseUrl": "http://127.0.0.1:1", "model": "m" } } }).to_string());
}

fn states(ran: &Ran) -> Vec<String> {
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    let requests = value["requests"].as_array().unwrap();
    requests.iter().map(|request| request["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_conversation_is_replayed_offline_and_no_server_is_started() {
    let home = home("redacted");
    with_trap(&home);
    let replayed = home.run(&["history", "replay", "last", "-o", "json"]);
    let value = replayed.json();
    assert_eq!((states(&replayed), &value["identical"]), (vec!["identical".to_owned(); 3], &json!(true)), "{value:#}");
    // The call and its result are stored without the secret, and so is the request that had them.
    let redacted: Vec<&Value> =
        value["requests"].as_array().unwrap().iter().map(|request| &request["redacted"]).collect();
    assert_eq!(redacted, [&json!(false), &json!(true), &json!(false)]);
    let shown = home.run(&["history", "replay", "last", "-o", "human"]);
    assert!(shown.ok().contains("3 requests are byte-identical to what was sent."), "{}", shown.out);
    assert!(!home.path("started").exists(), "a server was started");
    let notes: String = database(&home)
        .prepare("SELECT body FROM conversation_notes")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for part in ["3n-7f", "9a41"] {
        assert!(!notes.contains(part), "a secret is stored: {notes}");
    }
    // With the conversation, everything that was kept of it goes.
    home.run(&["history", "delete", value["id"].as_str().unwrap()]).ok();
    let left: i64 = database(&home).query_row("SELECT count(*) FROM conversation_notes", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn the_first_difference_is_shown_escaped_and_the_exit_code_says_so() {
    let home = home("full");
    home.run(&["history", "replay", "last"]).ok();
    let changed = "UPDATE messages SET body = replace(body, 'Reading.', 'Read\u{202e}ing!') WHERE seq = 1";
    assert_eq!(database(&home).execute(changed, []).unwrap(), 1);
    let replayed = home.run(&["history", "replay", "last", "-o", "json"]);
    replayed.failed(1, "replay_different");
    assert_eq!(states(&replayed), ["identical", "different", "different"]);
    let shown = home.run(&["history", "replay", "last", "-o", "human"]);
    let text = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Request 2 differs at `/messages/1/parts/0/text`, byte "), "{text}");
    assert!(text.contains("Reading.") && text.contains("Read\\u{202e}ing!"), "{text}");
    assert!(!shown.out.contains('\u{202e}'), "{text}");
}

#[test]
fn without_bodies_nothing_is_kept_and_a_replay_says_why() {
    let home = home("none");
    let replayed = home.run(&["history", "replay", "last", "-o", "json"]);
    let error = replayed.failed(1, "replay_incomplete");
    assert!(error.to_string().contains("`store.bodies` was `none`"), "{error}");
    let count = "SELECT count(*) FROM conversation_notes WHERE name LIKE 'replay/%'";
    let kept: i64 = database(&home).query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1, "only the reason");
    home.run(&["history", "replay", "nonsense"]).failed(2, "unknown_conversation");
}

#[test]
fn the_request_that_reached_a_vendor_is_the_one_that_is_rebuilt() {
    let runtime = Runtime::new().unwrap();
    let home = Home::new();
    for kind in VendorKind::ALL {
        let call = Reply::new().say("Adding.").call("c1", "shop__add", json!({ "a": 1, "b": 2 }));
        let vendor = runtime.block_on(MockVendor::start(kind, vec![call, Reply::text("Three.")])).unwrap();
        let model =
            json!({ "vendor": kind.as_str(), "model": "m-1", "baseUrl": vendor.base_url(), "apiKey": "sk-secret-key" });
        let shop = json!({ "command": TOOLWAY, "args": ["sample"], "trust": "full" });
        home.configure(&json!({ "mcpServers": { "shop": shop }, "models": { "m": model } }).to_string());
        home.run(&["run", "add", "--model", "m"]).ok();
        let value = home.run(&["history", "replay", "last", "-o", "json"]).json();
        let sent: Vec<usize> = vendor.requests().iter().map(|request| request.body().len()).collect();
        let rebuilt = value["requests"].as_array().unwrap().iter();
        let rebuilt: Vec<usize> =
            rebuilt.map(|request| usize::try_from(request["bytes"].as_u64().unwrap()).unwrap()).collect();
        assert_eq!((rebuilt, &value["identical"]), (sent, &json!(true)), "{kind:?}: {value:#}");
    }
    let size = "SELECT count(*) FROM conversation_notes WHERE instr(body, 'sk-secret-key')";
    let keys: i64 = database(&home).query_row(size, [], |row| row.get(0)).unwrap();
    assert_eq!(keys, 0);
}

#[test]
fn a_conversation_that_was_killed_is_replayed_as_far_as_it_came() {
    use crate::chat_screen::ChatScreen;
    let words: Vec<String> = (0..500).map(|word| format!("w{word}")).collect();
    let home = Home::with_script(&json!([{ "text": "First." }, { "text": words.join(" "), "delayMs": 50 }]));
    let mut chat = ChatScreen::start(&home, &["chat", "--model", "scripted:script.json"], 80);
    chat.prompts(1).types("one\r").sees("First.").sees("tokens in").prompts(2).types("two\r").sees("w3");
    chat.kills();
    let value = home.run(&["history", "replay", "last", "-o", "json"]).json();
    assert_eq!((value["requests"].as_array().unwrap().len(), &value["identical"]), (1, &json!(true)), "{value:#}");
}
