//! The inbox of a running gateway, over its private socket.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    console,
    gateway::{Answer, Serving},
    home::{Home, Running, TOOLWAY, odd},
};

/// Longest wait for an item.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home whose gateway asks before each call of a tool.
fn home() -> Home {
    let home = Home::new();
    let config = json!({
        "mcpServers": { "shop": { "command": TOOLWAY, "args": ["sample"] } },
        "policy": { "rules": [{ "match": { "server": "shop" }, "then": "ask", "reason": "money is involved" }] },
    });
    home.configure(&config.to_string());
    home
}

/// Calls `add` through the gateway; the response is read by the returned thread.
fn call(serving: &Serving) -> thread::JoinHandle<Answer> {
    let stream = serving.call("tools/call", json!({ "name": "shop__add", "arguments": { "a": 2, "b": 3 } }));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    thread::spawn(move || Answer::of(stream))
}

/// Waits until this many items wait; returns them.
fn waiting(home: &Home, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let items = home.run(&["inbox", "list", "-o", "json"]).json();
        if items.as_array().unwrap().len() == count {
            return items.as_array().unwrap().clone();
        }
        assert!(began.elapsed() < PATIENCE, "{items}");
    }
}

fn id(item: &Value) -> &str {
    item["id"].as_str().unwrap()
}

#[test]
fn a_call_of_a_client_waits_for_an_approval_over_the_socket() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let called = call(&serving);
    let items = waiting(&home, 1);
    let item = &items[0];
    assert_eq!((&item["kind"], &item["server"]), (&json!("approval"), &json!("shop")), "{item}");
    assert!(item["caller"].as_str().unwrap().starts_with("client"), "{item}");
    assert!(item["callId"].is_string() && item["expiresAt"].as_str().unwrap().ends_with('Z'), "{item}");
    assert_eq!(
        item["approval"]["rows"][0],
        json!({ "argument": "a", "label": "a", "value": "2", "important": false }),
        "{item}"
    );
    assert_eq!((&item["approval"]["line"], &item["approval"]["reason"]), (&json!(1), &json!("money is involved")));
    // The beginning of an id is enough.
    let shown = home.run(&["inbox", "show", &id(item)[..20], "-o", "human"]);
    assert!(shown.ok().contains("  b: 3") && shown.ok().contains("toolway.json:1: money is involved"), "{shown:?}");

    assert_eq!(home.run(&["inbox", "answer", id(item), "-o", "human"]).ok(), "Approved once.\n");
    assert!(called.join().unwrap().body.contains("\"sum\":5"));
    let record = home.run(&["calls", "show", item["callId"].as_str().unwrap(), "-o", "json"]).json();
    assert_eq!((&record["approvedBy"], &record["state"]), (&json!("inbox"), &json!("succeeded")), "{record}");
    let metrics = serving.get("/metrics", serving.key()).body;
    assert!(metrics.contains("toolway_approvals_total{answer=\"approved\"} 1\n"), "{metrics}");
    let error = home.run(&["inbox", "answer", id(item)]).failed(2, "not_waiting");
    assert!(error["message"].as_str().unwrap().contains("answered elsewhere"), "{error}");
}

#[test]
fn an_answer_frees_single_arguments_and_keeps_the_digits_of_others() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let (url, bearer) =
        (serving.said["listening"].as_str().unwrap(), format!("Authorization: Bearer {}", serving.key()));
    // JSON in between would make `1` of it.
    let add = |first: &str| {
        let arguments = format!(r#"{{"a":{first},"b":1.00000000000000000001}}"#);
        let words = ["call", "--url", url, "--header", &bearer, "shop__add", &arguments];
        Running::start(home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let called = add("2");
    let item = &waiting(&home, 1)[0];
    let answer =
        |cover: &str| home.run(&["inbox", "answer", id(item), "--for", "always", "--cover", cover, "-o", "human"]);
    let refused = answer("b=folder");
    assert!(refused.code == 2 && refused.talk.contains("choose one of `same`, `any`"), "{refused:?}");
    let answered = answer("b=same");
    assert_eq!(answered.ok(), "Approved and saved.\nIt covers: b = 1.00000000000000000001, any a\n");
    assert_eq!(called.output().json()["structuredContent"]["sum"], json!(3.0));
    assert_eq!(add("7").output().json()["structuredContent"]["sum"], json!(8.0), "it is covered");
}

#[test]
fn hidden_characters_are_shown_and_approved_only_with_a_flag() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let values = [
        ("ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}", r"ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}"),
        ("ls\u{1b}P; rm -rf x;\u{1b}\\", r"ls\u{1b}P; rm -rf x;\u{1b}\"),
        ("ls\u{9b};rm -rf x;m", r"ls\u{9b};rm -rf x;m"),
        ("rm -rf x\rls", r"rm -rf x\u{d}ls"),
        ("rm\u{8}\u{8}ls", r"rm\u{8}\u{8}ls"),
        ("a\u{202e}txt.exe", r"a\u{202e}txt.exe"),
        ("go\u{e0072}\u{e006d}", r"go\u{e0072}\u{e006d}"),
        ("r\u{200d}m\u{ad}", r"r\u{200d}m\u{ad}"),
    ];
    for (value, visible) in values {
        let stream = serving.call("tools/call", json!({ "name": "shop__echo", "arguments": { "text": value } }));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let called = thread::spawn(move || Answer::of(stream));
        let item = &waiting(&home, 1)[0];
        let shown = home.run(&["inbox", "show", id(item), "-o", "human"]);
        assert!(shown.ok().contains(&format!("  text: {visible}\n")), "{shown:?}");
        assert!(shown.ok().contains("! argument `text` contains hidden characters"), "{shown:?}");
        assert!(!shown.ok().contains(|letter: char| letter.is_control() && letter != '\n'), "{shown:?}");
        home.run(&["inbox", "answer", id(item)]).failed(2, "hidden_characters");
        home.run(&["inbox", "answer", id(item), "--allow-hidden"]).ok();
        assert!(!called.join().unwrap().body.contains("declined"));
    }
}

#[test]
fn a_declined_call_is_refused_with_the_reason_and_never_is_saved() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let called = call(&serving);
    let item = &waiting(&home, 1)[0];
    home.run(&["inbox", "decline", id(item), "--reason", "not today"]).ok();
    assert!(called.join().unwrap().body.contains("not today"));

    let called = call(&serving);
    let item = &waiting(&home, 1)[0];
    home.run(&["inbox", "decline", id(item), "--never"]).ok();
    called.join().unwrap();
    let refused = call(&serving).join().unwrap();
    assert!(refused.body.contains("denied"), "{refused:?}");
    assert_eq!(home.run(&["trust", "list", "-o", "json"]).json()[0]["effect"], json!("deny"));
}

#[test]
fn a_waiting_item_blocks_only_its_own_call_and_follow_prints_each() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let mut following = Running::start(home.command(&["inbox", "follow", "-o", "ndjson"]).stdout(Stdio::piped()));
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let first = call(&serving);
    let item = next();
    let second = call(&serving);
    let other = next();
    assert_ne!(id(&item), id(&other));
    home.run(&["inbox", "answer", id(&other)]).ok();
    assert!(second.join().unwrap().body.contains("\"sum\":5"));
    assert_eq!(waiting(&home, 1)[0]["id"], item["id"]);
    home.run(&["inbox", "answer", id(&item), "--for", "always"]).ok();
    assert!(first.join().unwrap().body.contains("\"sum\":5"));
    assert!(call(&serving).join().unwrap().body.contains("\"sum\":5"), "it is approved for later calls");
    following.kill().unwrap();
    following.wait().unwrap();
}

/// Sends a message of a client with a session; returns the session and the body.
fn in_session(serving: &Serving, session: Option<&str>, message: &Value) -> (Option<String>, String) {
    let bearer = format!("Bearer {}", serving.key());
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    if let Some(session) = session {
        headers.extend([("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")]);
    }
    let stream = serving.send("POST", "/mcp", &headers, &message.to_string());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let answer = Answer::of(stream);
    let session = answer.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    (session.map(str::to_owned), answer.body)
}

/// Begins a session; returns its id.
fn session(serving: &Serving) -> String {
    let info = json!({ "name": "story", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let session = in_session(serving, None, &begin).0.unwrap();
    in_session(serving, Some(&session), &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    session
}

#[test]
fn an_approval_for_the_session_of_a_client_holds_in_that_session_alone() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let (one, two) = (session(&serving), session(&serving));
    let add = |session: &str| {
        let params = json!({ "name": "shop__add", "arguments": { "a": 2, "b": 3 } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        in_session(&serving, Some(session), &call).1
    };
    thread::scope(|scope| {
        let called = scope.spawn(|| add(&one));
        let item = &waiting(&home, 1)[0];
        assert_eq!(item["session"], json!(true), "{item}");
        home.run(&["inbox", "answer", id(item), "--for", "conversation"]).ok();
        assert!(called.join().unwrap().contains("\"sum\":5"));
        assert!(add(&one).contains("\"sum\":5"), "the session is not asked about again");
        let other = scope.spawn(|| add(&two));
        home.run(&["inbox", "decline", id(&waiting(&home, 1)[0])]).ok();
        assert!(other.join().unwrap().contains("declined"));
    });
}

#[test]
fn an_approval_for_the_conversation_of_a_client_without_a_session_is_refused_with_a_reason() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let called = call(&serving);
    let item = &waiting(&home, 1)[0];
    let refused = home.run(&["inbox", "answer", id(item), "--for", "conversation"]);
    assert!(refused.code != 0 && refused.talk.contains("no conversation or session"), "{refused:?}");
    assert_eq!(waiting(&home, 1)[0]["id"], item["id"], "it still waits");
    home.run(&["inbox", "answer", id(item)]).ok();
    assert!(called.join().unwrap().body.contains("\"sum\":5"));
}

/// A gateway with a console, whose model calls a tool that asks for this.
fn elicited(params: &Value) -> (Home, Serving, console::Browser) {
    let home = Home::new();
    let command = odd("elicits");
    let (program, argument) = command.split_once(' ').unwrap();
    let turns = json!([
        { "calls": [{ "tool": "asking__odd", "arguments": params }] },
        { "text": "Done." },
    ]);
    let script = home.write("script.json", &json!({ "turns": turns }).to_string());
    let config = json!({
        "mcpServers": { "asking": { "command": program, "args": [argument], "trust": "full" } },
        "models": { "script": { "vendor": "scripted", "model": script } },
        "defaultModel": "script",
    });
    home.configure(&config.to_string());
    let (serving, browser) = console::serving(&home);
    browser.until("asking", "connected");
    let (status, reply) = browser.post("/api/v1/chat", &json!({ "text": "go" }));
    assert_eq!(status, 200, "{reply}");
    (home, serving, browser)
}

/// What the server received, which is the result of its call.
fn received(home: &Home, item: &Value) -> Value {
    let began = Instant::now();
    loop {
        let call = home.run(&["calls", "show", item["callId"].as_str().unwrap(), "-o", "json"]).json();
        if call["state"] == "succeeded" {
            return serde_json::from_str(call["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        }
        assert!(began.elapsed() < PATIENCE, "{call}");
    }
}

#[test]
fn a_form_is_answered_over_the_socket_with_valid_values_only() {
    let fields = json!({ "name": { "type": "string", "minLength": 2 }, "age": { "type": "integer" } });
    let schema = json!({ "type": "object", "required": ["name", "age"], "properties": fields });
    let (home, _serving, _browser) = elicited(&json!({ "message": "Who are you?", "requestedSchema": schema }));
    let item = &waiting(&home, 1)[0];
    assert_eq!((&item["kind"], &item["message"]), (&json!("form"), &json!("Who are you?")), "{item}");
    let shown = home.run(&["inbox", "show", id(item), "-o", "human"]);
    assert!(shown.ok().contains("  name (text, required)") && shown.ok().contains("  age (integer"), "{shown:?}");
    for (values, problem) in [(&["name=Ada"][..], "age"), (&["name=A", "age=3"], "name"), (&["no=1"], "no such field")]
    {
        let refused = home.run(&[&["inbox", "answer", id(item)], values].concat());
        assert!(refused.code != 0 && refused.talk.contains(problem), "{values:?} {refused:?}");
    }
    home.run(&["inbox", "answer", id(item), "name=Ada", "age=36"]).ok();
    assert_eq!(received(&home, item), json!({ "action": "accept", "content": { "name": "Ada", "age": 36 } }));
}

#[test]
fn a_url_is_accepted_declined_and_cancelled_over_the_socket() {
    let url = "https://login.example.com/start";
    for (words, action) in
        [(&["answer"][..], "accept"), (&["decline"], "decline"), (&["decline", "--cancel"], "cancel")]
    {
        let params = json!({ "mode": "url", "message": "Sign in", "elicitationId": "1", "url": url });
        let (home, _serving, _browser) = elicited(&params);
        let item = &waiting(&home, 1)[0];
        assert_eq!((&item["kind"], &item["url"]), (&json!("url"), &json!(url)), "{item}");
        let shown = home.run(&["inbox", "show", id(item), "-o", "human"]);
        assert!(shown.ok().contains("address: https://login.example.com/start"), "{shown:?}");
        home.run(&[&["inbox", words[0], id(item)], &words[1..]].concat()).ok();
        assert_eq!(received(&home, item)["action"], action);
    }
}

#[test]
fn a_server_cannot_use_the_inbox_of_its_own_gateway() {
    let home = home();
    // The server approves whatever waits, then says so in a file.
    let said = home.path("said");
    let (program, file) = (TOOLWAY, said.display());
    let script = format!("{program} inbox list >{file}.part 2>&1; mv {file}.part {file}; exec {program} sample\n");
    let script = home.write("server.sh", &script);
    let config = json!({ "mcpServers": { "shop": {
        "command": "sh", "args": [script], "env": { "HOME": home.path(""), "TOOLWAY_OUTPUT": "json" } } } });
    home.configure(&config.to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("a process of a server can only ask the gateway for its status"), "{said}");
    assert_eq!(waiting(&home, 0), Vec::<Value>::new(), "the user can");
}

#[test]
fn the_inbox_needs_a_running_gateway() {
    let home = home();
    for words in [&["inbox", "list"][..], &["inbox", "answer", "x"], &["inbox", "decline", "x"]] {
        home.run(words).failed(2, "no_gateway");
    }
}
