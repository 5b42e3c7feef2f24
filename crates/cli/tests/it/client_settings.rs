//! Settings of single clients of a running gateway: their mode, and who approves their calls.

use std::{
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    configuring::run_in,
    gateway::{Answer, Serving, until},
    home::{Home, TOOLWAY},
};

/// Longest wait for an item of the inbox.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home with two clients, and their keys.
struct Clients {
    home: Home,
    editor: String,
    helper: String,
}

impl Clients {
    fn new() -> Self {
        let home = Home::new();
        let add = |name| home.run(&["clients", "add", name, "-o", "raw"]).ok().trim().to_owned();
        let (editor, helper) = (add("editor"), add("helper"));
        Self { home, editor, helper }
    }

    fn configure(&self, clients: &Value, policy: &Value) {
        let servers = json!({ "shop": { "command": TOOLWAY, "args": ["sample"] } });
        let config = json!({ "mcpServers": servers, "gateway": { "clients": clients }, "policy": policy });
        self.home.configure(&config.to_string());
    }

    fn serve(&self) -> Serving {
        let serving = Serving::start(&self.home, &[]);
        serving.settled(&self.editor, "shop", "ready");
        serving
    }

    /// Waits for an item of the inbox; returns it.
    fn item(&self) -> Value {
        let began = Instant::now();
        loop {
            let items = self.home.run(&["inbox", "list", "-o", "json"]).json();
            if let Some(item) = items.as_array().unwrap().first() {
                return item.clone();
            }
            assert!(began.elapsed() < PATIENCE, "nothing waits");
        }
    }

    fn waiting(&self) -> usize {
        self.home.run(&["inbox", "list", "-o", "json"]).json().as_array().unwrap().len()
    }
}

/// Calls `add` as a client that declares forms, and wants progress.
fn add(serving: &Serving, key: &str) -> TcpStream {
    let capabilities = json!({ "elicitation": { "form": {} } });
    let params = json!({ "name": "shop__add", "arguments": { "a": 2, "b": 3 } });
    let stream = serving.call_declaring(key, "tools/call", params, &capabilities);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_client_whose_operator_approves_is_never_sent_a_form_and_another_is() {
    let clients = Clients::new();
    let asks = json!({ "rules": [{ "match": { "server": "shop" }, "then": "ask" }] });
    clients.configure(&json!({ "editor": { "approver": "inbox" }, "helper": { "approver": "client" } }), &asks);
    let serving = clients.serve();

    let mut stream = add(&serving, &clients.editor);
    let item = clients.item();
    assert_eq!(item["caller"], json!("client:editor"), "{item}");
    let told = until(&mut stream, "the operator of the gateway approves the calls of this client");
    clients.home.run(&["inbox", "answer", item["id"].as_str().unwrap()]).ok();
    let said = told + &until(&mut stream, "\"sum\":5");
    assert!(!said.contains("elicitation/create"), "{said}");
    let record = clients.home.run(&["calls", "show", item["callId"].as_str().unwrap(), "-o", "json"]).json();
    assert_eq!(record["approvedBy"], json!("inbox"), "{record}");

    let said = until(&mut add(&serving, &clients.helper), "elicitation/create");
    assert!(said.contains("`add` of `shop`"), "{said}");
}

#[test]
fn the_mode_of_one_client_leaves_others_alone_and_a_reload_changes_it() {
    let clients = Clients::new();
    clients.configure(&json!({ "editor": { "mode": "ask", "approver": "inbox" } }), &json!({}));
    let serving = clients.serve();
    let answer = |key: &str| Answer::of(add(&serving, key)).body;
    assert!(answer(&clients.helper).contains("\"sum\":5"), "the other client is not asked about");
    thread::scope(|scope| {
        let called = scope.spawn(|| answer(&clients.editor));
        let item = clients.item();
        assert_eq!(item["approval"]["rule"], json!("mode `ask` of client `editor`"), "{item}");
        clients.home.run(&["inbox", "decline", item["id"].as_str().unwrap()]).ok();
        assert!(called.join().unwrap().contains("declined"));
    });

    clients.configure(&json!({ "helper": { "mode": "ask", "approver": "inbox" } }), &json!({}));
    clients.home.run(&["config", "reload"]).ok();
    assert!(answer(&clients.editor).contains("\"sum\":5"), "it is not asked about any more");
    thread::scope(|scope| {
        let called = scope.spawn(|| answer(&clients.helper));
        clients.home.run(&["inbox", "answer", clients.item()["id"].as_str().unwrap()]).ok();
        assert!(called.join().unwrap().contains("\"sum\":5"));
    });
    assert_eq!(clients.waiting(), 0);
}

#[test]
fn settings_of_clients_are_shown_and_explained() {
    let clients = Clients::new();
    clients.configure(&json!({ "editor": { "mode": "ask" } }), &json!({ "mode": "writes" }));
    let home = &clients.home;
    let shown = home.run(&["config", "show", "gateway.clients", "-o", "raw"]);
    assert_eq!(
        shown.ok(),
        "gateway.clients.editor.servers=null\ngateway.clients.editor.tools=null\ngateway.clients.editor.mode=\"ask\"\ngateway.clients.editor.approver=\"client\"\ngateway.clients.editor.sampling=true\ngateway.clients.editor.roots=[]\ngateway.clients.editor.inbox.wait=null\ngateway.clients.editor.limits=null\n"
    );
    let explain = |caller: &str| home.run(&["policy", "explain", "--caller", caller, "shop.add", "-o", "json"]).json();
    let editor = explain("client:editor");
    assert_eq!((&editor["decision"], &editor["mode"]), (&json!("ask"), &json!("ask")), "{editor}");
    assert_eq!(editor["rule"], json!("mode `ask` of client `editor`"), "{editor}");
    assert_eq!(explain("client:helper")["mode"], json!("writes"));
    let policy = home.run(&["policy", "show", "-o", "json"]).json();
    assert_eq!(policy["clients"], json!({ "editor": { "mode": "ask", "approver": "client" } }), "{policy}");
    let policy = home.run(&["policy", "show", "-o", "human"]);
    assert!(policy.ok().contains("client `editor`: mode ask, approver client\n"), "{policy:?}");
}

#[test]
fn a_client_without_a_key_is_a_warning_and_a_project_configures_no_clients() {
    let clients = Clients::new();
    let home = &clients.home;
    clients.configure(&json!({ "editro": { "mode": "ask" }, "anonymous": { "mode": "ask" } }), &json!({}));
    let checked = home.run(&["config", "check", "-o", "json"]).json();
    let [warning] = checked["warnings"].as_array().unwrap().as_slice() else { panic!("{checked}") };
    assert!(warning["message"].as_str().unwrap().contains("did you mean `editor`?"), "{warning}");
    let diagnosed = home.run(&["doctor"]);
    assert!(diagnosed.talk.contains("`gateway.clients.editro` has no effect"), "{diagnosed:?}");

    home.write("work/toolway.json", "{\n\"gateway\": {\n\"clients\": {\"editor\": {\"mode\": \"allow\"}}}}");
    let checked = run_in(home, "work", &["config", "check", "-o", "human"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    assert!(checked.out.contains("work/toolway.json:3: "), "{checked:?}");
    assert!(checked.out.contains("`gateway.clients` is not allowed"), "{checked:?}");
}
