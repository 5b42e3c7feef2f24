//! Limits of servers and clients as users meet them: commands, clients of the gateway, and `clients show`.

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY},
};

/// A home with the sample server as `shop`, with these limits, and these settings of clients.
fn home(limits: &Value, clients: &Value) -> Home {
    let home = Home::new();
    configure(&home, limits, clients);
    home
}

fn configure(home: &Home, limits: &Value, clients: &Value) {
    let shop = json!({ "command": TOOLWAY, "args": ["sample"], "limits": limits });
    let config = json!({ "mcpServers": { "shop": shop }, "gateway": { "clients": clients } });
    home.configure(&config.to_string());
}

fn add_client(home: &Home, words: &[&str]) -> String {
    let words = [&["clients", "add"][..], words, &["-o", "raw"]].concat();
    home.run(&words).ok().trim().to_owned()
}

fn echo(serving: &Serving, key: &str) -> Answer {
    Answer::of(serving.call_as(key, "tools/call", json!({ "name": "shop__echo", "arguments": { "text": "x" } })))
}

/// The JSON of an answer, also of one that is a stream.
fn message(answer: &Answer) -> Value {
    let line = answer.body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer.body);
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// A request in a session of revision 2025-11-25, or the one that begins it.
fn in_session(serving: &Serving, key: &str, session: Option<&str>, request: &Value) -> Answer {
    let bearer = format!("Bearer {key}");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    if let Some(session) = session {
        headers.extend([("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")]);
    }
    Answer::of(serving.send("POST", "/mcp", &headers, &request.to_string()))
}

#[test]
fn calls_of_a_day_are_counted_over_processes_and_a_refused_command_exits_with_7() {
    let home = home(&json!({ "callsPerDay": 2, "tools": { "add": { "callsPerDay": 1 } } }), &json!({}));
    let add = || home.run(&["call", "shop.add", "a=1", "b=2", "-o", "json"]);
    add().ok();
    let problem = add().failed(7, "limit_exceeded");
    assert_eq!(problem["outcome"], json!("not-sent"), "{problem}");
    let said = problem["message"].as_str().unwrap();
    assert!(
        said.starts_with("limit `callsPerDay` of tools `add` of server `shop`: its call per day (UTC) is used"),
        "{said}"
    );
    home.run(&["call", "shop.echo", "text=x"]).ok();
    home.run(&["call", "shop.echo", "text=x"]).failed(7, "limit_exceeded");
    let states = home.run(&["calls", "list", "-o", "json"]).json();
    let states: Vec<_> = states.as_array().unwrap().iter().map(|call| call["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["refused", "succeeded", "refused", "succeeded"]);
}

#[test]
fn a_client_over_its_limit_is_told_which_and_when_to_try_again_in_both_eras() {
    let limits = json!({ "limits": { "callsPerMinute": 1 } });
    let home = home(&json!({}), &json!({ "editor": limits.clone(), "older": limits }));
    let editor = add_client(&home, &["editor"]);
    let older = add_client(&home, &["older"]);
    let serving = Serving::start(&home, &[]);
    serving.settled(&editor, "shop", "ready");
    assert!(echo(&serving, &editor).body.contains("\"x\""));
    let refused = echo(&serving, &editor);
    let told = message(&refused)["error"].clone();

    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "story", "version": "1" },
    } });
    let begun = in_session(&serving, &older, None, &initialize);
    let header = |answer: &Answer, name: &str| {
        let line = answer.head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned));
        line.map(|value| value.trim().to_owned())
    };
    let session = header(&begun, "mcp-session-id:").unwrap();
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                       "params": { "name": "shop__echo", "arguments": { "text": "x" } } });
    assert!(in_session(&serving, &older, Some(&session), &call).body.contains("\"x\""));
    let refused_older = in_session(&serving, &older, Some(&session), &call);
    let told_older = message(&refused_older)["error"].clone();

    for (answer, told, client) in [(&refused, &told, "editor"), (&refused_older, &told_older, "older")] {
        assert_eq!(answer.status, 200, "a client written by others reads the error: {answer:?}");
        let seconds: u64 = header(answer, "retry-after:").unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        let said = told["message"].as_str().unwrap();
        assert!(
            said.starts_with(&format!("limit `callsPerMinute` of client `{client}`: its call per minute is used")),
            "{said}"
        );
        assert!(said.ends_with("; not sent"), "{said}");
        let data = &told["data"];
        let facts = json!([data["code"], data["limit"], data["max"], data["client"], data["outcome"]]);
        assert_eq!(facts, json!(["limit_exceeded", "callsPerMinute", 1, client, "not-sent"]), "{data}");
        assert!(data["retryAfterMs"].as_u64().is_some_and(|wait| 0 < wait && wait <= 60_000), "{data}");
        assert!(data["retryAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{data}");
    }
}

#[test]
fn of_key_and_configuration_the_stricter_one_counts_and_a_reload_applies_it() {
    let bounded = json!({ "editor": { "servers": ["shop"], "tools": ["shop.e*", "shop.add"] } });
    let home = home(&json!({}), &bounded);
    let editor = add_client(&home, &["editor", "--tools", "shop.echo,shop.write_memo"]);
    let serving = Serving::start(&home, &[]);
    serving.settled(&editor, "shop", "ready");
    let tools = || {
        let listed = message(&Answer::of(serving.call_as(&editor, "tools/list", json!({}))));
        let names = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
        names.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let call =
        |tool: &str| Answer::of(serving.call_as(&editor, "tools/call", json!({ "name": tool, "arguments": {} })));
    assert_eq!(tools(), ["shop__echo"]);
    for hidden in ["shop__add", "shop__write_memo"] {
        assert!(call(hidden).body.contains("unknown tool"), "{hidden}");
    }
    configure(&home, &json!({}), &json!({ "editor": { "servers": ["other"] } }));
    home.run(&["config", "reload"]).ok();
    assert!(tools().is_empty() && call("shop__echo").body.contains("unknown"), "{:?}", tools());
    configure(&home, &json!({}), &json!({}));
    home.run(&["config", "reload"]).ok();
    assert_eq!(tools(), ["shop__echo", "shop__write_memo"], "what the key allows, and no more");
}

#[test]
fn a_client_is_shown_with_what_is_in_effect_where_it_comes_from_and_what_is_used() {
    let settings = json!({ "editor": {
        "servers": ["shop", "notes"], "mode": "writes", "approver": "inbox",
        "limits": { "callsPerDay": 5, "callsPerMinute": 1, "tools": { "shop.add": { "callsPerDay": 2 } } },
    } });
    let home = home(&json!({}), &settings);
    let editor = add_client(&home, &["editor", "--servers", "shop"]);
    {
        let serving = Serving::start(&home, &[]);
        serving.settled(&editor, "shop", "ready");
        assert!(echo(&serving, &editor).body.contains("\"x\""));
        let shown = home.run(&["clients", "show", "editor", "-o", "json"]).json();
        assert_eq!((&shown["limits"][0]["limit"], &shown["limits"][0]["used"]), (&json!("callsPerMinute"), &json!(1)));
    }
    let shown = home.run(&["clients", "show", "editor", "-o", "json"]).json();
    assert_eq!(shown["servers"]["value"], json!(["shop"]), "{shown}");
    let origin = shown["servers"]["origin"].as_str().unwrap();
    assert!(origin.starts_with("key file, ") && origin.contains("toolway.json:1"), "{origin}");
    assert_eq!((&shown["tools"]["value"], &shown["tools"]["origin"]), (&Value::Null, &json!("default")));
    assert_eq!((&shown["mode"]["value"], &shown["approver"]["value"]), (&json!("writes"), &json!("inbox")));
    let used: Vec<_> = shown["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| json!([limit["tools"], limit["limit"], limit["max"], limit["used"]]))
        .collect();
    assert_eq!(
        used,
        [
            json!([null, "callsPerMinute", 1, null]),
            json!([null, "callsPerDay", 5, 1]),
            json!(["shop.add", "callsPerDay", 2, 0]),
        ],
        "without a gateway, the store knows the day"
    );
    let human = home.run(&["clients", "show", "editor", "-o", "human"]);
    for line in
        ["servers        shop (key file and ", "approver       inbox (", "limit          callsPerDay: 5, 1 used"]
    {
        assert!(human.ok().contains(line), "{line}: {human:?}");
    }
    home.run(&["clients", "show", "nemo"]).failed(2, "clients");
    home.run(&["clients", "revoke", "editor"]).ok();
    let keyless = home.run(&["clients", "show", "editor", "-o", "human"]);
    assert!(keyless.ok().contains("callsPerDay: 5"), "{keyless:?}");
    assert!(keyless.talk.contains("add one with `toolway clients add editor`"), "{keyless:?}");
}

#[test]
fn limits_of_a_server_are_shown_and_a_wrong_one_is_an_error_with_its_line() {
    let home = home(&json!({ "concurrent": 2, "bytesPerCall": "1KB" }), &json!({}));
    let shown = home.run(&["servers", "show", "shop", "-o", "json"]).json();
    assert_eq!(shown["config"]["limits"], json!({ "concurrent": 2, "bytesPerCall": 1024 }), "{shown}");
    let found = home.run(&["doctor", "-o", "json"]).json();
    assert_eq!(found["servers"][0]["limits"]["concurrent"], json!(2), "{found}");
    let large = format!("text={}", "x".repeat(2_000));
    let problem = home.run(&["call", "shop.echo", &large, "-o", "json"]).failed(7, "limit_exceeded");
    assert!(problem["message"].as_str().unwrap().contains("`bytesPerCall` of server `shop`"), "{problem}");
    configure(&home, &json!({ "callsPerMinut": 2 }), &json!({}));
    let said = home.run(&["config", "check"]);
    assert!(format!("{said:?}").contains("did you mean `callsPerMinute`"), "{said:?}");
}
