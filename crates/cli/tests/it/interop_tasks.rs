//! Tasks of 2025-11-25 with unmodified SDK clients at the gateway, told with the public `server-everything`: created, polled,
//! listed, cancelled, found again after `kill -9`, and not noticed by a client that asks for none.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, Ran, root},
    sampling::run_client,
    task_crashes::HttpServer,
};

/// A gateway with the server over HTTP, whose tasks live on when the gateway is killed, and two clients.
struct Stage {
    home: Home,
    ada: String,
    ben: String,
    _server: HttpServer,
}

/// Program and script of a client of others.
type SdkClient = [PathBuf; 2];

fn typescript() -> SdkClient {
    [root().join(".interop/node_modules/.bin/node"), root().join("tests/interop/clients/tasks_typescript.mjs")]
}

fn python() -> SdkClient {
    [root().join(".interop/venv/bin/python"), root().join("tests/interop/clients/tasks_python.py")]
}

impl Stage {
    fn new() -> Self {
        let server = HttpServer::everything();
        let home = Home::new();
        home.configure(&json!({ "mcpServers": { "jobs": server.entry() } }).to_string());
        let add = |name| home.run(&["clients", "add", name, "-o", "raw"]).ok().trim().to_owned();
        let ada = add("ada");
        let ben = add("ben");
        Self { home, ada, ben, _server: server }
    }

    fn serve(&self) -> Serving {
        let serving = Serving::start(&self.home, &[]);
        serving.settled(&self.ada, "jobs", "ready");
        serving
    }

    /// Runs one step of a client.
    fn step(&self, serving: &Serving, client: &SdkClient, key: &str, step: &Value) -> Ran {
        let mut plan = json!({
            "url": format!("http://{}/mcp", serving.authority), "key": key,
            "call": ["jobs__simulate-research-query", { "topic": "paint" }],
        });
        for (name, value) in step.as_object().unwrap() {
            plan[name] = value.clone();
        }
        run_client(&self.home, client, &plan)
    }
}

fn walk(client: &SdkClient) {
    let stage = Stage::new();
    let serving = stage.serve();
    let step = |key: &str, step: Value| stage.step(&serving, client, key, &step);

    let walked = step(&stage.ada, json!({ "step": "walk" })).json();
    let task = &walked["task"];
    let seen: Vec<&str> = walked["seen"].as_array().unwrap().iter().map(|status| status.as_str().unwrap()).collect();
    assert!(seen.contains(&"working") && seen.ends_with(&["completed"]), "{walked}");
    assert!(walked["listed"].as_array().unwrap().contains(task), "{walked}");
    assert!(walked["text"].as_str().unwrap().contains("Research Report: paint"), "{walked}");

    let cancelled = step(&stage.ada, json!({ "step": "cancel" })).json();
    assert_eq!((&cancelled["cancelled"], &cancelled["after"]), (&json!("cancelled"), &json!("cancelled")));

    // A client that asks for no task gets the result itself.
    let plain = step(&stage.ada, json!({ "step": "plain" })).json();
    assert!(plain["text"].as_str().unwrap().contains("Research Report: paint"), "{plain}");

    // Another client sees nothing of it.
    let others = step(&stage.ben, json!({ "step": "list" })).json();
    assert_eq!(others["listed"], json!([]));
    assert_ne!(step(&stage.ben, json!({ "step": "find", "task": task })).code, 0);
    serving.stop();
}

/// A new session of the client finds its task after the gateway was killed.
fn survives(client: &SdkClient) {
    let stage = Stage::new();
    let serving = stage.serve();
    let started = stage.step(&serving, client, &stage.ada, &json!({ "step": "start" })).json();
    drop(serving);

    let serving = stage.serve();
    let find = json!({ "step": "find", "task": started["task"] });
    let found = stage.step(&serving, client, &stage.ada, &find).json();
    assert_eq!(found["after"], "completed", "{found}");
    assert!(found["text"].as_str().unwrap().contains("Research Report: paint"), "{found}");
    assert_ne!(stage.step(&serving, client, &stage.ben, &find).code, 0, "another client");
    serving.stop();
}

#[test]
fn typescript_sdk_walks_through_tasks() {
    walk(&typescript());
}

#[test]
fn python_sdk_walks_through_tasks() {
    walk(&python());
}

#[test]
fn typescript_sdk_finds_its_task_after_a_kill() {
    survives(&typescript());
}

#[test]
fn python_sdk_finds_its_task_after_a_kill() {
    survives(&python());
}
