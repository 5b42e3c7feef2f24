//! Assistants: a model, servers, tools, approval and budgets under one name.

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    configuring::run_in,
    home::{Home, Ran, TOOLWAY, odd},
    project_servers::accept,
    terminal_tasks,
};

/// A home with the sample server under two names, these assistants, and a script.
fn home(assistants: &Value, turns: &Value) -> Home {
    let home = Home::new();
    configure(&home, assistants, &json!({}));
    script(&home, turns);
    home
}

fn configure(home: &Home, assistants: &Value, policy: &Value) {
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    let servers = json!({ "sample": server, "other": server });
    home.configure(&json!({ "mcpServers": servers, "assistants": assistants, "policy": policy }).to_string());
}

fn script(home: &Home, turns: &Value) {
    home.write("script.json", &json!({ "turns": turns }).to_string());
}

/// Continues the last conversation with a model that writes a memo, and types this. `file` is a script of its own: one that the
/// conversation had goes on after its last turn.
fn resume(home: &Home, file: &str, words: &[&str], typed: &str) -> Ran {
    home.write(file, &json!({ "turns": calling("sample__write_memo") }).to_string());
    let model = format!("scripted:{file}");
    let words = [&["chat", "--model", &model, "--resume", "last", "-o", "human"], words].concat();
    home.run_with_input(&words, typed)
}

fn run(home: &Home, words: &[&str]) -> Ran {
    home.run(&[&["run", "do it", "--model", "scripted:script.json", "--assistant", "helper"], words].concat())
}

/// A model that calls this tool.
fn calling(tool: &str) -> Value {
    let arguments = if tool.ends_with("add") { json!({ "a": 2, "b": 3 }) } else { json!({ "text": "milk" }) };
    json!([{ "calls": [{ "tool": tool, "arguments": arguments }] }, { "text": "Done." }])
}

fn states(home: &Home) -> Vec<String> {
    let calls = home.run(&["calls", "list", "-o", "json"]).json();
    calls.as_array().unwrap().iter().map(|call| call["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_trusted_tool_runs_and_another_write_is_refused_with_the_command_that_trusts_it() {
    let assistant = json!({ "helper": { "approval": "trusted-only", "servers": ["sample"] } });
    let home = home(&assistant, &calling("sample__write_memo"));
    let problem = run(&home, &[]).failed(7, "no_approver");
    let command = problem["hint"].as_str().unwrap().strip_prefix("allow it with: toolway ").unwrap().to_owned();
    assert_eq!(command, "assistants set helper --trust-tool sample.write_memo");
    home.run(&command.split(' ').collect::<Vec<_>>()).ok();
    let result = run(&home, &[]).json();
    assert_eq!((&result["result"], &result["assistant"]), (&json!("Done."), &json!("helper")));
    // Reading alone is not enough.
    script(&home, &calling("sample__add"));
    run(&home, &[]).failed(7, "no_approver");
    assert_eq!(states(&home), ["refused", "succeeded", "refused"]);
}

#[test]
fn an_approval_is_never_looser_than_mode_and_rules_and_no_option_makes_it_looser() {
    let auto = json!({ "helper": { "approval": "auto" } });
    let home = home(&auto, &calling("sample__write_memo"));
    assert_eq!(run(&home, &[]).json()["result"], "Done.");
    run(&home, &["--mode", "writes"]).failed(7, "no_approver");
    run(&home, &["--mode", "ask"]).failed(7, "no_approver");
    configure(&home, &auto, &json!({ "mode": "writes" }));
    run(&home, &[]).failed(7, "no_approver");
    configure(&home, &auto, &json!({ "rules": [{ "match": { "tool": "write_*" }, "then": "deny" }] }));
    run(&home, &[]);
    configure(&home, &json!({ "helper": {} }), &json!({ "mode": "allow", "rules": [{ "then": "allow" }] }));
    let ran = run(&home, &["--mode", "allow"]);
    ran.failed(7, "no_approver");
    assert!(ran.talk.contains("mode `allow` is looser than approval `always-ask` of assistant `helper`"), "{ran:?}");
    assert_eq!(states(&home), ["refused", "refused", "refused", "refused", "refused", "succeeded"]);
}

#[test]
fn only_the_servers_and_tools_of_the_assistant_are_started_offered_and_callable() {
    let narrow =
        json!({ "servers": ["sample"], "tools": ["sample.add", "sample.ech*", "other.*"], "approval": "auto" });
    let home = home(&json!({ "helper": narrow }), &calling("other__add"));
    let shown = run(&home, &["--dry-run"]).json();
    assert_eq!(shown["servers"], json!([{ "name": "sample", "state": "ready" }]));
    let tools: Vec<&str> = shown["tools"].as_array().unwrap().iter().map(|tool| tool.as_str().unwrap()).collect();
    let of_servers: Vec<&&str> = tools.iter().filter(|tool| tool.contains("__")).collect();
    assert_eq!(of_servers, [&"sample__add", &"sample__echo"]);
    // Names that the model invents.
    for tool in ["other__add", "sample__write_memo", "sample__count"] {
        script(&home, &calling(tool));
        let result = run(&home, &[]).json();
        assert_eq!(result["toolCalls"][0]["state"], "failed", "{tool}: {result}");
    }
    let read = json!({ "server_id": "other", "uri": "note://a" });
    script(
        &home,
        &json!([{ "calls": [{ "tool": "mcp_read_resource", "arguments": read }] }, { "text": "{{result}}" }]),
    );
    let result = run(&home, &[]).json();
    assert!(result["result"].as_str().unwrap().contains("unknown server `other`"), "{result}");
    assert!(states(&home).iter().all(|state| state != "succeeded"));
    let outside = run(&home, &["--servers", "other"]).failed(2, "arguments");
    assert_eq!(outside["message"], "server `other` is not one of assistant `helper`");
    run(&home, &["--stdio", "true"]).failed(2, "arguments");
    assert_eq!(run(&home, &["--servers", "sample", "--dry-run"]).json()["servers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_wrong_name_is_refused_with_the_right_one() {
    let assistants = json!({
        "helper": { "servers": ["smaple"], "approval": "auto" },
        "modeller": { "model": "locl", "servers": [] },
    });
    let home = home(&assistants, &calling("sample__add"));
    let problem = run(&home, &[]).failed(2, "unknown_server");
    assert_eq!(problem["message"], "assistant `helper`: unknown server `smaple`; did you mean `sample`?");
    let unknown = home.run(&["run", "x", "--assistant", "helpr"]).failed(2, "unknown_assistant");
    assert_eq!(unknown["message"], "unknown assistant `helpr`; did you mean `helper`?");
    home.run(&["run", "x", "--assistant", "modeller"]).failed(2, "model");
    let ran = home.run(&["chat", "--assistant", "other", "-o", "human"]);
    assert!(ran.code == 2 && ran.talk.contains("unknown assistant `other`"), "{ran:?}");
}

#[test]
fn resources_of_an_assistant_stand_before_the_first_message_of_run_and_chat_and_are_not_attached_again() {
    let values = |resource: &str| json!({ "helper": { "approval": "auto", "resources": [resource] } });
    let home = home(&values("sample.memo://today"), &json!([{ "text": "Bread." }]));
    let shown = home.run(&["assistants", "show", "helper", "-o", "human"]);
    assert!(shown.ok().contains("resources: sample.memo://today"), "{shown:?}");
    let roles = || {
        let shown = home.run(&["history", "show", "last", "-o", "json"]).json();
        let roles = shown["messages"].as_array().unwrap().iter().map(|message| message["role"].clone());
        json!(roles.collect::<Vec<_>>())
    };
    let ran = run(&home, &["-o", "human"]);
    assert!(ran.talk.contains("toolway: attached resource `memo://today` (about "), "{ran:?}");
    assert_eq!(roles(), json!(["attachment", "user", "assistant"]));
    assert_eq!(states(&home), ["succeeded"]);

    let chat = ["chat", "--model", "scripted:script.json", "--assistant", "helper", "-o", "human"];
    let ran = home.run_with_input(&chat, "hello\n");
    assert!(ran.ok().contains("attached resource `memo://today` of `sample` (about "), "{ran:?}");
    assert_eq!(roles(), json!(["attachment", "user", "assistant"]));
    let ran = resume(&home, "again.json", &[], "go on\n");
    assert!(!ran.ok().contains("attached resource"), "{ran:?}");
    let count = roles().as_array().unwrap().iter().filter(|role| **role == "attachment").count();
    assert_eq!(count, 1);

    configure(&home, &values("memo://gone"), &json!({}));
    let problem = run(&home, &[]).failed(2, "unknown_name");
    assert!(problem["message"].as_str().unwrap().starts_with("assistant `helper`: "), "{problem}");
    let ran = home.run_with_input(&chat, "hello\n");
    assert!(ran.ok().contains("resource `memo://gone` of assistant `helper` is not attached: "), "{ran:?}");
    assert!(ran.ok().contains("Bread."), "{ran:?}");
}

#[test]
fn budgets_are_those_of_the_assistant_and_an_option_only_makes_them_smaller() {
    let call = json!({ "calls": [{ "tool": "sample__add", "arguments": { "a": 1, "b": 1 } }] });
    let assistant = json!({ "helper": { "approval": "auto", "budgets": { "maxTurns": 2 } } });
    let home = home(&assistant, &json!([call, call, call, { "text": "Done." }]));
    let ran = run(&home, &["--max-turns", "50"]);
    let problem = ran.failed(5, "budget");
    assert!(problem["hint"].as_str().unwrap().contains("`budgets.maxTurns` of assistant `helper`"), "{problem}");
    assert!(ran.talk.contains("`--max-turns` is looser than `budgets.maxTurns`"), "{ran:?}");
    run(&home, &["--max-turns", "1"]).failed(5, "budget");
    let turns: Vec<u64> = [&["--max-turns", "9"][..], &["--max-turns", "1"]]
        .map(|words| serde_json::from_str::<Value>(&run(&home, words).out).unwrap()["turns"].as_u64().unwrap())
        .to_vec();
    assert_eq!(turns, [2, 1]);
}

#[test]
fn assistants_are_added_changed_and_removed_and_the_rest_of_the_file_stays() {
    let home = Home::with_sample();
    let file = ".config/toolway/toolway.json";
    let text = || std::fs::read_to_string(home.path(file)).unwrap();
    let before = text();
    let add = ["assistants", "add", "helper", "--servers", "sample", "--approval", "trusted-only", "--max-time", "10m"];
    let dry = home.run(&[&add[..], &["--dry-run"]].concat()).json();
    assert_eq!((&dry["changed"], text()), (&json!(false), before.clone()));
    assert_eq!(home.run(&add).json()["changed"], true);
    assert!(text().starts_with(before.split("\"mcpServers\"").next().unwrap()), "comments stay: {}", text());
    home.run(&add).failed(2, "exists");
    home.run(&["assistants", "set", "helper", "--trust-tool", "sample.add", "--trust-tool", "sample.echo"]).ok();
    home.run(&[
        "assistants",
        "set",
        "helper",
        "--trust-tool",
        "sample.add",
        "--system",
        "Be brief.",
        "--unset",
        "budgets.maxTime",
    ])
    .ok();
    let shown = home.run(&["assistants", "show", "helper"]).json();
    assert_eq!(shown["trustedTools"], json!(["sample.add", "sample.echo"]));
    assert_eq!((&shown["system"], &shown["approval"]), (&json!("Be brief."), &json!("trusted-only")), "{shown}");
    assert!(shown["source"]["line"].is_number(), "{shown}");
    assert_eq!(home.run(&["assistants"]).json().as_array().unwrap().len(), 1);
    for line in [&["chat", "--assistant", "h"][..], &["run", "--assistant", ""], &["assistants", "set", "he"]] {
        assert_eq!(home.run(&[&["__complete", "--"], line].concat()).out, "helper\n", "{line:?}");
    }
    for (words, code, said) in [
        (&["set", "helper", "--servers", "smaple"][..], "unknown_server", "did you mean `sample`?"),
        (&["set", "helper", "--trust-tool", "smaple.add"], "unknown_server", "did you mean `sample`?"),
        (&["set", "helper", "--model", "gpt"], "model", "unknown model `gpt`"),
        (&["set", "helper", "--unset", "budget"], "arguments", "unknown key `budget`"),
        (&["set", "helpr", "--unset", "model"], "unknown_assistant", "did you mean `helper`?"),
        (&["set", "helper"], "arguments", "nothing to change"),
        (&["add", "a b"], "config", "1 to 64 letters"),
        (&["set", "helper", "--max-turns", "0"], "config", "greater than zero"),
        (&["remove", "other"], "unknown_assistant", "unknown assistant `other`"),
    ] {
        let now = text();
        let problem = home.run(&[&["assistants"], words].concat()).failed(2, code);
        assert!(problem["message"].as_str().unwrap().contains(said), "{words:?}: {problem}");
        assert_eq!(text(), now, "{words:?} writes nothing");
    }
    home.run(&["assistants", "remove", "helper"]).ok();
    assert_eq!(home.run(&["assistants"]).json(), json!([]));
}

#[test]
fn a_project_defines_no_assistant_and_makes_none_looser() {
    let asking = json!({ "helper": { "approval": "trusted-only" } });
    for project in [
        json!({ "assistants": { "helper": { "approval": "auto" } } }),
        json!({ "assistants": { "helper": { "approval": "trusted-only", "trustedTools": ["sample.write_memo"] } } }),
        json!({ "assistants": { "mine": { "approval": "auto" } } }),
        json!({ "assistants": {} }),
    ] {
        let home = home(&asking, &calling("sample__write_memo"));
        home.write("clone/toolway.json", &project.to_string());
        let model = format!("scripted:{}", home.path("script.json").display());
        let in_clone =
            |assistant: &str| run_in(&home, "clone", &["run", "do it", "--model", &model, "--assistant", assistant]);
        let ran = in_clone("helper");
        ran.failed(7, "no_approver");
        assert!(ran.talk.contains("is not allowed: a project file may only add servers"), "{project}: {ran:?}");
        in_clone("mine").failed(2, "unknown_assistant");
        run_in(&home, "clone", &["config", "check"]).failed(2, "config");
        assert_eq!(states(&home), ["refused"], "{project}");
    }
}

/// A server of a project takes the name that the user's assistant trusts.
#[test]
fn a_server_of_a_project_is_not_trusted_by_its_name() {
    let home = Home::new();
    let trusting = json!({ "approval": "trusted-only", "trustedTools": ["files.*"] });
    home.configure(&json!({ "assistants": { "helper": trusting } }).to_string());
    script(&home, &calling("files__write_memo"));
    let server = json!({ "command": TOOLWAY, "args": ["sample"] });
    home.write("clone/toolway.json", &json!({ "mcpServers": { "files": server } }).to_string());
    accept(&home, "clone", "files").ok();
    let model = format!("scripted:{}", home.path("script.json").display());
    run_in(&home, "clone", &["run", "do it", "--model", &model, "--assistant", "helper"]).failed(7, "no_approver");
    assert_eq!(states(&home), ["refused"]);
}

#[test]
fn a_conversation_goes_on_with_the_values_it_began_with_and_the_stricter_approval() {
    let began = json!({ "approval": "auto", "servers": ["sample"], "system": "Be brief." });
    let home = home(&json!({ "helper": began }), &calling("sample__write_memo"));
    assert_eq!(run(&home, &[]).json()["result"], "Done.");
    let shown = home.run(&["history", "show", "last"]).json();
    assert_eq!((&shown["assistant"]["name"], &shown["assistant"]["values"]), (&json!("helper"), &began));
    let human = home.run(&["history", "show", "last", "-o", "human"]);
    assert!(human.ok().contains("assistant helper") && human.ok().contains("approval: auto"), "{human:?}");

    let changed = json!({ "helper": { "approval": "trusted-only", "servers": ["sample", "other"] } });
    configure(&home, &changed, &json!({}));
    let ran = resume(&home, "first.json", &[], "go on\n/assistant\n");
    let said = format!("{}{}", ran.ok(), ran.talk);
    assert!(said.contains("assistant `helper` has changed since; started with"), "{said}");
    assert!(said.contains("use `--assistant helper` to take the new values"), "{said}");
    assert!(said.contains("1 server") && said.contains("approval trusted-only"), "{said}");
    assert!(said.contains("⊘ sample.write_memo"), "the stricter approval counts: {said}");
    let ran = resume(&home, "second.json", &["--assistant", "helper"], "go on\n");
    assert!(!ran.talk.contains("has changed") && ran.ok().contains("2 servers"), "{ran:?}");
    let shown = home.run(&["history", "show", "last"]).json();
    assert_eq!(shown["assistant"]["values"]["approval"], "trusted-only");

    configure(&home, &json!({}), &json!({}));
    let ran = resume(&home, "third.json", &[], "go on\n");
    assert!(ran.talk.contains("assistant `helper` is no longer configured"), "{ran:?}");
    assert_eq!(states(&home), ["refused", "refused", "refused", "succeeded"]);
}

#[test]
fn an_edited_note_in_the_store_allows_nothing() {
    let home = home(&json!({ "helper": { "approval": "always-ask" } }), &json!([{ "text": "Hello." }]));
    run(&home, &[]).ok();
    let store = home.path(".local/state/toolway/toolway.db");
    let edit = |body: &str| {
        let connection = rusqlite::Connection::open(&store).unwrap();
        let sql = "UPDATE conversation_notes SET body = ?1 WHERE name = 'assistant'";
        assert_eq!(connection.execute(sql, [body]).unwrap(), 1);
    };
    for (file, note) in [
        ("0.json", json!({ "name": "helper", "values": { "approval": "auto" } })),
        ("1.json", json!({ "name": "gone", "values": { "approval": "auto" } })),
        ("2.json", json!({ "name": "gone", "values": { "approval": "trusted-only", "trustedTools": ["*.*"] } })),
    ] {
        edit(&note.to_string());
        let ran = resume(&home, file, &[], "go on\n");
        assert!(ran.ok().contains("⊘ sample.write_memo"), "{note}: {ran:?}");
    }
    for note in ["{}", "", r#"{"name": "helper", "values": {"approval": "allow"}}"#] {
        edit(note);
        let ran = resume(&home, "3.json", &[], "go on\n");
        assert_eq!(ran.code, 2, "{note}: {ran:?}");
        assert!(ran.talk.contains("the assistant of the conversation cannot be read"), "{note}: {ran:?}");
    }
    assert_eq!(states(&home), ["refused", "refused", "refused"]);
}

#[test]
fn tasks_of_an_assistant_are_awaited_and_polled_as_it_says() {
    let jobs = terminal_tasks::home(terminal_tasks::ERAS[1]);
    jobs.run(&["assistants", "add", "helper", "--approval", "auto", "--background", "false"]).ok();
    let call = json!({ "tool": "jobs__long_job", "arguments": { "seconds": 1 } });
    script(
        &jobs,
        &json!([{ "calls": [call] }, { "expect": [{ "contains": "Computed for 1 seconds." }], "text": "Done." }]),
    );
    assert_eq!(run(&jobs, &[]).json()["result"], "Done.");

    let home = Home::new();
    let odd = odd("unready-task:silent");
    let (program, what) = odd.split_once(' ').unwrap();
    let server = json!({ "command": program, "args": [what], "era": "legacy" });
    let assistants =
        json!({ "helper": { "approval": "auto", "tasks": { "pollInterval": "1s" } }, "plain": { "approval": "auto" } });
    home.configure(&json!({ "mcpServers": { "odd": server }, "assistants": assistants }).to_string());
    script(&home, &json!([{ "calls": [{ "tool": "odd__odd" }] }, { "text": "Begun." }, { "text": "Done." }]));
    let polled_in = |name: &str| {
        let words = ["run", "do it", "--model", "scripted:script.json", "--assistant", name];
        assert_eq!(home.run(&words).json()["result"], "Done.", "{name}");
        home.run(&["calls", "list", "-o", "json"]).json()[0]["durationMs"].as_f64().unwrap() / 1_000.0
    };
    // Without an interval of the server or the assistant, five seconds lie between the second and the third look.
    let own = polled_in("helper");
    let usual = polled_in("plain");
    assert!(own + 2.0 < usual, "{own} s and {usual} s");
}

#[test]
fn a_chat_with_an_assistant_of_each_approval_asks_as_it_says() {
    let assistants = json!({
        "asker": { "servers": ["sample"], "description": "Asks about all." },
        "truster": { "servers": ["sample"], "approval": "trusted-only", "trustedTools": ["sample.write_memo"] },
        "doer": { "servers": ["sample"], "approval": "auto", "budgets": { "maxToolCalls": 7 } },
    });
    let add = json!({ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } });
    let write = json!({ "tool": "sample__write_memo", "arguments": { "text": "milk" } });
    let home = home(
        &assistants,
        &json!([
            { "text": "First.", "calls": [add] }, { "text": "Second.", "calls": [write] }, { "text": "Done." },
        ]),
    );
    let chat = |name: &str| {
        let words = ["chat", "--model", "scripted:script.json", "--assistant", name];
        ChatScreen::start(&home, &words, 100)
    };
    let mut asker = chat("asker");
    asker.sees("Assistant asker, approval always-ask.").prompts(1).types("go\r");
    asker.sees_times("[y] once", 1).types("y").sees("✓ sample.add");
    asker.sees_times("[y] once", 2).types("n").sees("eason").types("no\r").sees("⊘ sample.write_memo").sees("Done.");
    asker.prompts(2).types("/help\r").sees("/assistant").prompts(3).types("/assistant\r").sees("Asks about all.");
    asker.prompts(4).types("/mode allow\r").sees("is looser than approval `always-ask`").types("/exit\r");
    assert!(asker.end().0.success());

    let mut truster = chat("truster");
    truster.prompts(1).types("go\r").sees_times("[y] once", 1).types("y").sees("✓ sample.add");
    truster.sees("✓ sample.write_memo").sees("Done.").prompts(2).types("/resume last\r");
    truster.types("/exit\r");
    assert!(truster.end().0.success());

    let mut doer = chat("doer");
    doer.prompts(1).types("go\r").sees("✓ sample.add").sees("✓ sample.write_memo").sees("Done.").prompts(2);
    assert!(!doer.text().contains("[y] once"), "{}", doer.text());
    doer.types("/assistant\r").sees("budgets.maxToolCalls: 7").types("/exit\r");
    assert!(doer.end().0.success());
}
