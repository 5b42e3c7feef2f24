//! Policy, records and `run`, from the command line to the database and back.

use serde_json::json;

use crate::{home::Home, stdio_client::StdioClient};

/// A home with the sample server and a rule.
fn home() -> Home {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_toolway");
    let rule = json!({ "match": { "arguments": { "/text": "*secret*" } }, "then": "deny", "reason": "no secrets" });
    let config = json!({
        "mcpServers": { "shop": { "command": program, "args": ["sample"] } },
        "policy": { "rules": [rule] },
    });
    home.configure(&config.to_string());
    home
}

/// What a failed command prints for a user.
fn refused(home: &Home, words: &[&str], code: i32) -> String {
    let ran = home.run(words);
    assert_eq!(ran.code, code, "{ran:?}");
    ran.talk
}

#[test]
fn a_call_is_in_the_list_with_its_contract() {
    let home = home();
    home.run(&["call", "shop.add", "a=2", "b=3"]).ok();
    let calls = home.run(&["calls", "list", "-o", "json"]).json();
    let call = &calls[0];
    assert_eq!(
        (&call["caller"], &call["surface"], &call["server"]),
        (&json!("terminal"), &json!("call"), &json!("shop"))
    );
    assert_eq!(
        (&call["tool"], &call["kind"], &call["state"]),
        (&json!("shop__add"), &json!("tool"), &json!("succeeded"))
    );
    assert_eq!(call["rule"], json!("default of `call`: allow"));
    assert!(call["durationMs"].is_number() && call["startedAt"].as_str().unwrap().ends_with('Z'));
    let shown = home.run(&["calls", "show", call["id"].as_str().unwrap(), "-o", "json"]).json();
    assert_eq!(shown["arguments"], json!({ "a": 2, "b": 3 }));
    assert_eq!(shown["result"]["structuredContent"]["sum"], json!(5.0));
}

#[test]
fn a_rule_refuses_by_argument_and_the_refusal_is_recorded() {
    let home = home();
    let error = refused(&home, &["call", "shop.write_memo", "text=my secret"], 7);
    assert!(error.contains("denied by policy (rule at") && error.contains("no secrets"), "{error}");
    let calls = home.run(&["calls", "list", "--state", "refused", "-o", "json"]).json();
    assert_eq!(calls.as_array().unwrap().len(), 1);
    let decisions = home.run(&["audit", "query", "--kind", "decision", "-o", "json"]).json();
    assert_eq!(decisions[0]["details"]["decision"], json!("deny"));
    home.run(&["audit", "verify"]).ok();
}

#[test]
fn policy_explains_what_it_would_decide() {
    let home = home();
    let explain = |caller: &str, tool: &str, argument: &str| {
        home.run(&["policy", "explain", "--caller", caller, tool, argument, "-o", "json"]).json()
    };
    assert_eq!(explain("agent", "shop.echo", "text=hi")["decision"], json!("allow"));
    let write = explain("agent", "shop.write_memo", "text=hi");
    assert_eq!((&write["decision"], &write["trust"]), (&json!("ask"), &json!("read")));
    let denied = explain("terminal", "shop.write_memo", "text=secret");
    assert_eq!((&denied["decision"], &denied["line"]), (&json!("deny"), &json!(1)));
}

#[test]
fn without_a_store_nothing_is_written() {
    let home = home();
    home.run(&["call", "shop.add", "1", "2", "--no-store"]).ok();
    assert_eq!(home.run(&["calls", "list", "-o", "json"]).json(), json!([]));
}

#[test]
fn a_changed_audit_entry_is_found() {
    let home = home();
    for _ in 0..3 {
        home.run(&["call", "shop.add", "1", "2"]).ok();
    }
    let database = rusqlite::Connection::open(home.path(".local/state/toolway/toolway.db")).unwrap();
    let entries: i64 = database.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap();
    assert!(entries > 3, "three calls, and their connections");
    assert!(home.run(&["audit", "verify", "-o", "human"]).ok().contains(&format!("{entries} entries")));
    database.execute("UPDATE audit SET caller = 'client:other' WHERE seq = 2", []).unwrap();
    assert!(refused(&home, &["audit", "verify"], 8).contains("entry 2"), "the first broken one is named");
}

#[test]
fn run_refuses_what_no_user_approves_and_a_mode_allows_it() {
    let home = home();
    let script = json!({ "turns": [
        { "text": "Adding.", "calls": [
            { "tool": "shop__add", "arguments": { "a": 2, "b": 3 } },
            { "tool": "shop__write_memo", "arguments": { "text": "x" } } ] },
        { "expect": [{ "contains": "5" }], "text": "The sum is {{result}}." },
    ] });
    std::fs::write(home.path("script.json"), script.to_string()).unwrap();
    let model = format!("scripted:{}", home.path("script.json").display());
    assert!(refused(&home, &["run", "add", "--model", &model], 7).contains("no user can approve"));

    let answer = home.run(&["run", "add", "--model", &model, "--mode", "allow", "-o", "json"]).json();
    assert_eq!(answer["result"], json!("The sum is {\"sum\":5.0}."));
    assert_eq!((&answer["stopReason"], &answer["turns"]), (&json!("done"), &json!(2)));
    let id = answer["toolCalls"][0]["callId"].as_str().unwrap();
    let call = home.run(&["calls", "show", id, "-o", "json"]).json();
    assert_eq!((&call["surface"], &call["caller"]), (&json!("run"), &json!("agent")));
    assert_eq!(call["conversation"], answer["conversationId"]);
}

#[test]
fn run_says_what_is_missing_without_a_model() {
    let home = home();
    let error = refused(&home, &["run", "hello"], 2);
    assert!(error.contains("no model is configured") && error.contains("scripted:FILE"), "{error}");
}

#[test]
fn serve_removes_old_records_when_it_starts_and_logs_it() {
    let home = home();
    home.run(&["call", "shop.add", "1", "2"]).ok();
    assert_eq!(home.run(&["calls", "list", "-o", "json"]).json().as_array().unwrap().len(), 1);
    let program = env!("CARGO_BIN_EXE_toolway");
    let servers = json!({ "shop": { "command": program, "args": ["sample"] } });
    home.configure(
        &json!({ "mcpServers": servers, "store": { "maxAge": "1ms", "audit": { "maxAge": "1ms" } } }).to_string(),
    );
    let command = home.command(&["serve", "--stdio", "--log-level", "info"]);
    let client = StdioClient::of(&home, command, json!({}));
    let began = std::time::Instant::now();
    while !std::fs::read_to_string(home.path("serve.log")).unwrap().contains("retention removed old records") {
        assert!(began.elapsed().as_secs() < 60, "{}", std::fs::read_to_string(home.path("serve.log")).unwrap());
        std::thread::yield_now();
    }
    client.leave();
    assert_eq!(home.run(&["calls", "list", "-o", "json"]).json(), json!([]));
    assert!(home.run(&["audit", "verify", "-o", "json"]).json()["checkpoint"].as_i64().unwrap() > 0);
}

#[test]
fn a_call_that_ends_before_sending_has_a_record_in_every_command() {
    let home = home();
    let config = json!({ "mcpServers": {
        "shop": { "command": env!("CARGO_BIN_EXE_toolway"), "args": ["sample"] },
        "gone": { "command": "/nonexistent/server" },
    } });
    home.configure(&config.to_string());
    let commands: [&[&str]; 6] = [
        &["call", "shop.add", "a=two", "b=3"],
        &["call", "shop.none"],
        &["call", "gone.any"],
        &["prompts", "get", "shop.none"],
        &["resources", "read", "gone", "memo://today"],
        &["rpc", "gone", "tools/list"],
    ];
    for words in commands {
        let before = home.run(&["calls", "list", "-o", "json"]).json().as_array().unwrap().len();
        let ran = home.run(&[words, &["-o", "json"]].concat());
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.talk.contains(r#""outcome":"not-sent""#), "{ran:?}");
        let calls = home.run(&["calls", "list", "-o", "json"]).json();
        assert_eq!(calls.as_array().unwrap().len(), before + 1, "{words:?}");
        assert_eq!(calls[0]["outcome"], json!("not-sent"), "{words:?}");
    }
    home.run(&["call", "shop.add", "a=2", "b=3"]).ok();
    assert_eq!(home.run(&["calls", "show", "last", "-o", "json"]).json()["outcome"], json!("answered"));
}
