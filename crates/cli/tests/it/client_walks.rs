//! Clients of others at the gateway, which declare elicitation or roots or do not, with a server on FastMCP that asks. Sampling:
//! `sampling.rs`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, root},
    sampling::{run_client, sdk_clients},
};

/// A home with the server, these settings, and the keys of three clients.
struct Stage {
    home: Home,
    keys: [String; 3],
}

impl Stage {
    fn new(mut settings: Value) -> Self {
        let home = Home::new();
        let python = root().join(".interop/venv/bin/python");
        assert!(python.exists(), "{} is missing: run ./test, which installs it", python.display());
        let script = root().join("tests/interop/servers/asking_fastmcp.py");
        settings["mcpServers"] = json!({ "asking": { "command": python, "args": [script] } });
        home.configure(&settings.to_string());
        let keys =
            ["one", "two", "three"].map(|name| home.run(&["clients", "add", name, "-o", "raw"]).ok().trim().to_owned());
        Self { home, keys }
    }

    /// What each client gets from its tool; `declared` are members of its plan.
    fn said(&self, serving: &Serving, tools: [&str; 3], declared: &Value) -> Vec<String> {
        serving.settled(&self.keys[0], "asking", "ready");
        let said = sdk_clients().into_iter().zip(&self.keys).zip(tools).map(|(((client, mode), key), tool)| {
            let url = format!("http://{}/mcp", serving.authority);
            let mut plan = json!({ "url": url, "key": key, "mode": mode, "call": [format!("asking__{tool}"), {}] });
            let declared = declared.as_object().unwrap().clone();
            plan.as_object_mut().unwrap().extend(declared);
            let did = run_client(&self.home, &client, &plan).json();
            did["said"].as_str().unwrap().to_owned()
        });
        said.collect()
    }
}

#[test]
fn a_form_is_filled_in_by_the_client_that_declares_it_and_asked_of_no_other() {
    let stage = Stage::new(json!({}));
    let serving = Serving::start(&stage.home, &[]);
    // The third client has no session: the server asks with its result.
    let tools = ["pushed", "pushed", "by_result"];
    assert_eq!(stage.said(&serving, tools, &json!({ "form": { "name": "Ada" } })), ["hello Ada"; 3]);
    for said in stage.said(&serving, tools, &json!({})) {
        assert!(!said.contains("hello"), "{said}");
    }
}

#[test]
fn roots_of_the_client_that_declares_them_reach_the_server_and_others_have_the_configured_ones() {
    let stage = Stage::new(json!({ "roots": [{ "uri": "file:///srv/all" }] }));
    let serving = Serving::start(&stage.home, &[]);
    let own = json!({ "roots": ["file:///srv/own"] });
    assert_eq!(stage.said(&serving, ["roots"; 3], &own), ["file:///srv/own"; 3]);
    assert_eq!(stage.said(&serving, ["roots"; 3], &json!({})), ["file:///srv/all"; 3]);
}

#[test]
fn file_roots_of_clients_that_work_elsewhere_are_dropped_and_that_is_logged_and_audited() {
    let public = json!({ "publicUrl": "https://gateway.example", "access": "keys" });
    let stage = Stage::new(json!({ "roots": [{ "uri": "file:///srv/all" }], "gateway": public }));
    let log = stage.home.path("serve.log");
    let serving = Serving::start(&stage.home, &["--log-file", log.to_str().unwrap()]);
    let own = json!({ "roots": ["file:///etc", "file:///srv/own"] });
    for said in stage.said(&serving, ["roots"; 3], &own) {
        assert!(!said.contains("file:"), "{said}");
    }
    let began = Instant::now();
    let dropped = loop {
        let entries = stage.home.run(&["audit", "query", "--kind", "server-request", "-o", "json"]).json();
        let dropped: Vec<Value> = entries
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["details"]["dropped"].is_number())
            .cloned()
            .collect();
        if 3 <= dropped.len() {
            break dropped;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{entries}");
    };
    let mut callers: Vec<&str> = dropped.iter().map(|entry| entry["caller"].as_str().unwrap()).collect();
    callers.sort_unstable();
    assert_eq!(callers, ["client:one", "client:three", "client:two"]);
    for entry in &dropped {
        assert_eq!(
            (&entry["details"]["dropped"], &entry["details"]["method"]),
            (&json!(2), &json!("roots/list")),
            "{entry}"
        );
    }
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("roots of a client are not passed on to servers"), "{said}");
}
