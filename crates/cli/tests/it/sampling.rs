//! Sampling: a server asks a model, as far as the configuration allows; told with the public `server-everything`.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    chat_screen::ChatScreen,
    gateway::Serving,
    home::{Home, Ran, root},
    interop_clients::built,
    terminal::Terminal,
};

const PATIENCE: Duration = Duration::from_secs(60);
const CALL: [&str; 4] = ["call", "every", "trigger-sampling-request", "prompt=Name a colour"];

/// A home with the server, a model that answers once, and these settings at the top and in the server's entry.
fn home(top: &Value, server: &Value) -> Home {
    let program = root().join(".interop/node_modules/.bin/mcp-server-everything");
    assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
    let home = Home::new();
    let script =
        home.write("script.json", &json!({ "turns": vec![json!({ "text": "Blue, as always." }); 20] }).to_string());
    home.configure(
        &json!({
            "models": { "small": { "vendor": "scripted", "model": script } },
            "sampling": top,
            "mcpServers": { "every": { "command": program, "args": ["stdio"], "sampling": server } },
        })
        .to_string(),
    );
    home
}

fn call(top: &Value, server: &Value) -> Ran {
    home(top, server).run(&CALL)
}

#[test]
fn model_answers_where_every_level_allows_it() {
    let answered = call(&json!({ "allow": "always", "maxTokens": 50 }), &json!(true));
    assert!(answered.ok().contains("Blue, as always."), "{answered:?}");
    assert!(call(&json!({ "allow": "always" }), &json!({ "allow": "always" })).ok().contains("Blue"));
    // The server sees the tool only if it was told that it can ask.
    for (top, server) in [
        (json!({}), json!(true)),
        (json!({ "allow": "never" }), json!({ "allow": "always" })),
        (json!({ "allow": "always" }), json!(false)),
        (json!({ "allow": "always" }), json!({ "allow": "never" })),
    ] {
        let refused = call(&top, &server);
        assert_eq!(refused.code, 2, "{top} {server}: {refused:?}");
    }
    // Without a terminal the tool is listed, and the call says what it needs.
    let home = home(&json!({ "allow": "ask" }), &json!({ "allow": "always" }));
    assert!(home.run(&["tools", "every", "-o", "raw"]).ok().contains("trigger-sampling-request"));
    assert_eq!(home.run(&CALL).code, 6);
}

#[test]
fn person_sees_the_request_and_decides() {
    let home = home(&json!({ "allow": "ask" }), &json!(true));
    let start = || {
        let mut command = home.command(&CALL);
        command.env("NO_COLOR", "1");
        Terminal::start_with(command, 100)
    };
    let mut terminal = start();
    terminal.answers("[y] let the model answer once", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    for part in ["`every` asks the model `small`, for at most 100 tokens:", "Name a colour", "Blue, as always."] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let mut terminal = start();
    terminal.answers("[y] let the model answer once", "n");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(!status.success() && !shown.contains("Blue"), "{status}: {shown}");
}

#[test]
fn run_answers_with_the_model_that_sampling_names() {
    let home = home(&json!({ "allow": "ask", "model": "small" }), &json!(true));
    let call = json!({ "tool": "every__trigger-sampling-request", "arguments": { "prompt": "Name a colour" } });
    let turns = json!([{ "calls": [call] }, { "text": "It said: {{result}}" }]);
    let script = home.write("run.json", &json!({ "turns": turns }).to_string());
    let run = |mode| {
        let model = format!("scripted:{}", script.display());
        home.run(&["run", "Ask for a colour", "--model", &model, "--mode", mode, "-o", "json"])
    };
    assert!(run("allow").ok().contains("Blue, as always."));
    let refused = run("writes");
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(!refused.out.contains("Blue"), "{refused:?}");
}

/// The model that a chat was begun with, then another one.
#[test]
fn model_with_which_a_chat_goes_on_answers_its_servers() {
    let home = home(&json!({ "allow": "always" }), &json!(true));
    let file = home.path(".config/toolway/toolway.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let call = json!({ "tool": "every__trigger-sampling-request", "arguments": { "prompt": "Who are you?" } });
    for name in ["one", "two"] {
        let turns = json!([
            { "calls": [call] },
            { "text": format!("I am {name}.") },
            { "expect": [{ "contains": format!("I am {name}.") }], "text": format!("It was {name}.") },
        ]);
        let script = home.write(&format!("{name}.json"), &json!({ "turns": turns }).to_string());
        config["models"][name] = json!({ "vendor": "scripted", "model": script });
    }
    home.configure(&config.to_string());
    let mut chat = ChatScreen::start(&home, &["chat", "--model", "one", "--mode", "allow"], 100);
    chat.prompts(1).types("go\r").sees("It was one.").types("/model two\r").prompts(3);
    chat.types("go\r").sees("It was two.").types("/exit\r");
    assert!(chat.end().0.success());
    let audit = home.run(&["audit", "query", "--kind", "sampling", "-o", "json"]).json();
    let models: Vec<_> = audit.as_array().unwrap().iter().map(|entry| &entry["details"]["model"]).collect();
    assert_eq!(models, ["two", "one"], "{audit}");
    assert!(audit.to_string().contains("the model of the conversation"), "{audit}");
}

#[test]
fn quota_refuses_with_its_name_and_when_it_ends() {
    let home = home(&json!({ "allow": "always", "requestsPerHour": 1 }), &json!({ "tokensPerDay": 1_000 }));
    assert!(home.run(&CALL).ok().contains("Blue"));
    let refused = home.run(&CALL);
    assert_ne!(refused.code, 0);
    let said = format!("{refused:?}");
    assert!(said.contains("`sampling.requestsPerHour` is 1, and there is room for this request from 20"), "{said}");
}

#[test]
fn request_whose_own_words_pass_the_quota_is_refused_before_the_model_gets_it() {
    let home = home(&json!({ "allow": "always", "tokensPerDay": 1_000 }), &json!(true));
    let long = format!("prompt={}", "word ".repeat(1_000));
    let refused = home.run(&["call", "every", "trigger-sampling-request", &long]);
    assert_ne!(refused.code, 0);
    let said = format!("{refused:?}");
    assert!(said.contains("`sampling.tokensPerDay` is 1000, which is less than this request may use"), "{said}");
    assert!(home.run(&CALL).ok().contains("Blue"), "nothing was used");
}

#[test]
fn always_for_this_server_is_saved_and_can_be_removed() {
    let home = home(&json!({ "allow": "ask", "tokensPerDay": 10_000 }), &json!(true));
    let start = || {
        let mut command = home.command(&CALL);
        command.env("NO_COLOR", "1");
        Terminal::start_with(command, 100)
    };
    let mut terminal = start();
    terminal.answers("[a] always for this server", "a");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success() && shown.contains("left after this: 9863 tokens today in all"), "{shown}");
    let (status, shown) = start().end(PATIENCE);
    assert!(status.success() && shown.contains("Blue") && !shown.contains("always for"), "{shown}");
    let saved = home.run(&["trust", "list", "-o", "json"]).json();
    assert_eq!(saved[0]["tool"], json!("sampling/createMessage"), "{saved}");
    home.run(&["trust", "remove", saved[0]["id"].as_str().unwrap()]).ok();
    let mut terminal = start();
    terminal.answers("[a] always for this server", "n");
    assert!(!terminal.end(PATIENCE).0.success());
}

#[test]
fn answer_is_shown_before_the_server_gets_it() {
    let home = home(&json!({ "allow": "always", "review": true }), &json!(true));
    for answer in ["y", "n"] {
        let mut command = home.command(&CALL);
        command.env("NO_COLOR", "1");
        let mut terminal = Terminal::start_with(command, 100);
        terminal.answers("[y] send this answer to the server", answer);
        let (status, shown) = terminal.end(PATIENCE);
        assert!(shown.contains("The model `small` answers `every`:") && shown.contains("Blue"), "{shown}");
        assert_eq!(status.success(), answer == "y", "{shown}");
    }
}

/// A gateway with the server, and clients with keys.
struct Gateway {
    home: Home,
    serving: Serving,
    editor: String,
    quiet: String,
}

impl Gateway {
    fn start(top: &Value, server: &Value) -> Self {
        let home = home(top, server);
        let add = |name| home.run(&["clients", "add", name, "-o", "raw"]).ok().trim().to_owned();
        let editor = add("editor");
        let quiet = add("quiet");
        let file = home.path(".config/toolway/toolway.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        config["gateway"] = json!({ "clients": { "quiet": { "sampling": { "allow": "never" } } } });
        home.configure(&config.to_string());
        let serving = Serving::start(&home, &[]);
        serving.settled(&editor, "every", "ready");
        Self { home, serving, editor, quiet }
    }

    fn plan(&self, key: &str, declares: bool, mode: &str) -> Value {
        let url = format!("http://{}/mcp", self.serving.authority);
        let call = json!(["every__trigger-sampling-request", { "prompt": "hello", "maxTokens": 50 }]);
        json!({ "url": url, "key": key, "declares": declares, "mode": mode, "call": call })
    }

    fn client(&self, client: &[PathBuf; 2], plan: &Value) -> Value {
        run_client(&self.home, client, plan).json()
    }
}

/// Runs a client of others with this plan.
pub(crate) fn run_client(home: &Home, client: &[PathBuf; 2], plan: &Value) -> Ran {
    let around = home.command(&[]);
    let mut command = Command::new(&client[0]);
    command.arg(&client[1]).arg(plan.to_string()).env_clear().current_dir(home.path("")).stdin(Stdio::null());
    command.envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(&command.output().unwrap())
}

/// The SDK clients of others, with their modes.
pub(crate) fn sdk_clients() -> Vec<([PathBuf; 2], &'static str)> {
    let script = |name: &str| root().join("tests/interop/clients").join(name);
    let typescript = [root().join(".interop/node_modules/.bin/node"), script("answering_typescript.mjs")];
    let python = [root().join(".interop/venv/bin/python"), script("answering_python.py")];
    vec![(typescript, "legacy"), (python.clone(), "legacy"), (python, "auto")]
}

fn said(did: &Value) -> &str {
    did["said"].as_str().unwrap()
}

#[test]
fn gateway_relays_to_clients_that_declare_sampling_and_answers_for_others() {
    let gateway = Gateway::start(&json!({ "allow": "always" }), &json!(true));
    for (client, mode) in sdk_clients() {
        let relayed = gateway.client(&client, &gateway.plan(&gateway.editor, true, mode));
        assert!(said(&relayed).contains("heard"), "{mode}: {relayed}");
        let ours = gateway.client(&client, &gateway.plan(&gateway.editor, false, mode));
        assert!(said(&ours).contains("Blue, as always."), "{mode}: {ours}");
        // An explicit `never` stops the relay, too.
        for declares in [true, false] {
            let refused = gateway.client(&client, &gateway.plan(&gateway.quiet, declares, mode));
            let is_listed = refused["tools"].as_array().unwrap().contains(&json!("every__trigger-sampling-request"));
            assert!(!is_listed && !said(&refused).contains("heard") && !said(&refused).contains("Blue"), "{refused}");
        }
    }
    let calls = gateway.home.run(&["calls", "list", "-o", "json"]).json();
    let call = calls.as_array().unwrap().iter().find(|call| call["caller"] == "client:editor").unwrap();
    let shown = gateway.home.run(&["calls", "show", call["id"].as_str().unwrap(), "-o", "json"]).json();
    assert_eq!(
        (&shown["sampling"][0]["model"], &shown["sampling"][0]["outcome"]),
        (&json!("small"), &json!("answered"))
    );
    let audit = gateway.home.run(&["audit", "query", "--kind", "sampling", "-o", "json"]).json();
    assert_eq!(audit.as_array().unwrap().len(), 3, "only ours: {audit}");
    assert_eq!(audit[0]["details"]["model"], json!("small"), "{audit}");
    let group = gateway.home.run(&["audit", "query", "--group", "sampling_request", "-o", "json"]).json();
    // Six requests, and three times how our model came to answer.
    assert_eq!(group.as_array().unwrap().len(), 9, "{group}");
    gateway.serving.stop();
}

#[test]
fn gateway_without_permission_tells_the_server_nothing_of_our_model() {
    let gateway = Gateway::start(&json!({}), &json!(true));
    let (client, mode) = &sdk_clients()[1];
    let none = gateway.client(client, &gateway.plan(&gateway.editor, false, mode));
    assert!(!none["tools"].as_array().unwrap().contains(&json!("every__trigger-sampling-request")), "{none}");
    let relayed = gateway.client(client, &gateway.plan(&gateway.editor, true, mode));
    assert!(said(&relayed).contains("heard"), "none set does not stop a relay: {relayed}");
    gateway.serving.stop();
}

#[test]
fn request_of_a_gateway_client_waits_in_the_inbox_with_everything_that_the_model_gets() {
    let top = json!({ "allow": "ask", "requestsPerHour": 5, "tokensPerDay": 1000 });
    let gateway = Gateway::start(&top, &json!(true));
    let (client, mode) = &sdk_clients()[1];
    for (answer, expected) in [("answer", "Blue"), ("decline", "declined")] {
        let did = thread::scope(|scope| {
            let calling = scope.spawn(|| gateway.client(client, &gateway.plan(&gateway.editor, false, mode)));
            let began = Instant::now();
            let item = loop {
                let items = gateway.home.run(&["inbox", "list", "-o", "json"]).json();
                match items.as_array().unwrap().first() {
                    Some(item) => break item.clone(),
                    None => assert!(began.elapsed() < PATIENCE, "nothing waits"),
                }
            };
            let sampling = &item["sampling"];
            assert_eq!((&item["kind"], &sampling["model"]), (&json!("sampling"), &json!("small")), "{item}");
            assert_eq!(sampling["maxTokens"], json!(50), "{item}");
            assert!(sampling["messages"][0]["text"].as_str().unwrap().contains("hello"), "{item}");
            assert!(sampling["quota"][0]["text"].as_str().unwrap().contains("tokens today in all"), "{item}");
            let id = item["id"].as_str().unwrap();
            let shown = gateway.home.run(&["inbox", "show", id, "-o", "human"]);
            assert!(
                shown.ok().contains("hello") && shown.ok().contains("model: small, the default model"),
                "{shown:?}"
            );
            gateway.home.run(&["inbox", "answer", id, "--for", "conversation"]).failed(2, "arguments");
            gateway.home.run(&["inbox", answer, id]).ok();
            calling.join().unwrap()
        });
        assert!(said(&did).contains(expected), "{answer}: {did}");
    }
    gateway.serving.stop();
}

#[test]
fn run_ends_with_7_where_a_server_asks_a_model_that_no_user_can_approve() {
    let home = Home::new();
    let call = json!({ "tool": "asks__test_sampling", "arguments": { "prompt": "hello" } });
    let turns = json!([{ "calls": [call] }, { "text": "It said: {{result}}" }]);
    let script = home.write("run.json", &json!({ "turns": turns }).to_string());
    let small = home.write("small.json", &json!({ "turns": [{ "text": "Blue, as always." }] }).to_string());
    let server = json!({ "command": built("conformance-server"), "args": ["--era", "2025-11-25", "--stdio"] });
    let configure = |allow: &str| {
        home.configure(
            &json!({
                "models": { "small": { "vendor": "scripted", "model": small } },
                "sampling": { "allow": allow, "model": "small", "maxTokens": 1_000_000 },
                "mcpServers": { "asks": server },
                "policy": { "rules": [{ "match": { "tool": "test_sampling" }, "then": "allow" }] },
            })
            .to_string(),
        );
    };
    let run = |words: &[&str]| {
        let model = format!("scripted:{}", script.display());
        home.run(&[&["run", "Ask", "--model", &model, "-o", "json"], words].concat())
    };
    configure("ask");
    let refused = run(&["--mode", "writes"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(run(&["--mode", "allow"]).ok().contains("Blue"));
    configure("always");
    assert!(run(&["--mode", "writes"]).ok().contains("Blue"));
}

#[test]
fn tokens_of_sampling_count_in_the_budget_of_a_run() {
    let top = json!({ "allow": "always", "model": "small", "maxTokens": 1_000_000 });
    let home = home(&top, &json!(true));
    let call = |most: u32| {
        let arguments = json!({ "prompt": "Name a colour", "maxTokens": most });
        let call = json!({ "tool": "every__trigger-sampling-request", "arguments": arguments });
        let turns = json!([{ "calls": [call] }, { "text": "It said: {{result}}" }]);
        let script = home.write("run.json", &json!({ "turns": turns }).to_string());
        let model = format!("scripted:{}", script.display());
        let words = ["run", "Ask", "--model", &model, "--mode", "allow", "--max-tokens", "200000", "-o", "json"];
        home.run(&words)
    };
    assert!(call(100).ok().contains("Blue"));
    let stopped = call(900_000);
    assert_eq!(stopped.code, 5, "{stopped:?}");
    assert!(format!("{stopped:?}").contains("max_tokens"), "{stopped:?}");
}

#[test]
fn hidden_characters_are_shown_and_take_two_steps() {
    let home = home(&json!({ "allow": "ask" }), &json!(true));
    for (second, is_answered) in [("n", false), ("y", true)] {
        let mut command = home.command(&["call", "every", "trigger-sampling-request", "prompt=Name\u{202e} a colour"]);
        command.env("NO_COLOR", "1");
        let mut terminal = Terminal::start_with(command, 100);
        terminal.answers("[y] let the model answer once", "y");
        terminal.answers("[y] yes, also with hidden characters", second);
        let (status, shown) = terminal.end(PATIENCE);
        assert!(shown.contains("202e"), "{shown}");
        assert_eq!((status.success(), shown.contains("Blue")), (is_answered, is_answered), "{shown}");
    }
}

#[test]
fn approval_does_not_outlive_a_configuration_that_says_never() {
    let gateway = Gateway::start(&json!({ "allow": "ask" }), &json!(true));
    let (client, mode) = &sdk_clients()[1];
    let did = thread::scope(|scope| {
        let calling = scope.spawn(|| gateway.client(client, &gateway.plan(&gateway.editor, false, mode)));
        let began = Instant::now();
        let id = loop {
            let items = gateway.home.run(&["inbox", "list", "-o", "json"]).json();
            match items.as_array().unwrap().first() {
                Some(item) => break item["id"].as_str().unwrap().to_owned(),
                None => assert!(began.elapsed() < PATIENCE, "nothing waits"),
            }
        };
        let file = gateway.home.path(".config/toolway/toolway.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        config["gateway"]["clients"]["editor"] = json!({ "sampling": { "allow": "never" } });
        gateway.home.configure(&config.to_string());
        gateway.home.run(&["config", "reload"]).ok();
        // The item may have ended with the connection of the server.
        drop(gateway.home.run(&["inbox", "answer", &id]));
        calling.join().unwrap()
    });
    assert!(!said(&did).contains("Blue"), "{did}");
    gateway.serving.stop();
}
