//! What is relayed to a server: the methods of the protocol, after everything in them was checked, and others only if the
//! server's entry names them.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_host::{catalog::Filter, connection::WantedServer};
use toolway_testkit::test_host::TestHost;

use crate::{
    raw_client::{RawClient, request},
    scripted::Scripted,
    test_gateway::TestGateway,
};

const PATHS: [&str; 2] = ["/mcp", "/servers/files/mcp"];

/// A gateway to one server, and the methods that the server received.
struct Watched {
    gateway: TestGateway,
    server: Arc<Scripted>,
    received: Arc<Mutex<Vec<String>>>,
}

impl Watched {
    async fn with(filter: Filter) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&received);
        let capabilities = json!({ "prompts": {}, "resources": { "subscribe": true }, "completions": {} });
        let server = Scripted::new(capabilities, move |request, _| {
            seen.lock().push(request.method().to_owned());
            Some(match request.method() {
                "prompts/list" => json!({ "prompts": [{ "name": "open" }, { "name": "secret" }] }),
                "resources/list" => json!({ "resources": [{ "uri": "note://a", "name": "a" }] }),
                "resources/templates/list" => json!({ "resourceTemplates": [] }),
                "completion/complete" => json!({ "completion": { "values": ["x"] } }),
                _ => json!({ "answered": true }),
            })
        });
        let wanted = WantedServer { filter: Arc::new(filter), ..server.wanted("files") };
        let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
        gateway.host.ready("files").await;
        Self { gateway, server, received }
    }

    fn client(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, self.gateway.key.as_ref().map(|key| key.expose()))
    }

    fn has_received(&self, method: &str) -> bool {
        self.received.lock().iter().any(|received| received == method)
    }
}

fn completion(about: &Value) -> Value {
    json!({ "ref": about, "argument": { "name": "who", "value": "" } })
}

#[tokio::test]
async fn completion_that_names_a_prompt_and_a_resource_is_refused() {
    let watched = Watched::with(Filter { exclude_prompts: vec!["secret".into()], ..Filter::default() }).await;
    for (path, prefix) in PATHS.into_iter().zip(["files__", ""]) {
        for about in [
            json!({ "type": "ref/prompt", "name": format!("{prefix}secret"), "uri": "note://a" }),
            json!({ "type": "ref/resource", "name": format!("{prefix}secret"), "uri": "note://a" }),
            json!({ "type": "ref/prompt", "uri": "note://a" }),
            json!({ "type": "ref/prompt", "name": format!("{prefix}open"), "Name": "secret" }),
            json!({ "type": "ref/prompt", "name": format!("{prefix}secret") }),
        ] {
            let refused = watched.client(path).ask("completion/complete", completion(&about)).await;
            assert_eq!(refused["error"]["code"], -32602, "{path}: {refused}");
            assert!(!watched.has_received("completion/complete"), "{path}");
        }
    }
    for (path, prefix) in PATHS.into_iter().zip(["files__", ""]) {
        let about = json!({ "type": "ref/prompt", "name": format!("{prefix}open") });
        let completed = watched.client(path).ask("completion/complete", completion(&about)).await;
        assert_eq!(completed["result"]["completion"]["values"], json!(["x"]), "{path}: {completed}");
    }
}

#[tokio::test]
async fn methods_outside_the_protocol_are_relayed_only_if_the_entry_names_them() {
    let [path, single] = PATHS;
    let closed = Watched::with(Filter::default()).await;
    let open = Watched::with(Filter { extra_methods: vec!["acme/*".into(), "*".into()], ..Filter::default() }).await;
    for (watched, path, relayed) in [(&closed, single, false), (&open, path, false), (&open, single, true)] {
        let answer = watched.client(path).ask("acme/search", json!({})).await;
        assert_eq!(answer["result"]["answered"] == true, relayed, "{path}: {answer}");
        assert!(relayed || answer["error"]["code"] == -32601, "{path}: {answer}");
        assert_eq!(watched.has_received("acme/search"), relayed, "{path}");
    }
    let session = open.client(single).start_session().await;
    for (method, params) in [
        ("subscriptions/listen", json!({ "notifications": { "taskIds": ["t"] } })),
        ("notifications/cancelled", json!({ "requestId": 1 })),
        ("server/discover", json!({})),
    ] {
        let refused = session.post(&request(7, method, params)).await.answer().await;
        assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
        assert!(!open.has_received(method), "{method}");
    }
}

/// A server may ignore case, white space or separators of a method.
#[tokio::test]
async fn methods_of_the_protocol_in_another_spelling_are_refused() {
    let [_, single] = PATHS;
    let filter = Filter {
        extra_methods: vec!["*".into()],
        exclude_tools: vec!["*".into()],
        exclude_prompts: vec!["secret".into()],
        ..Filter::default()
    };
    let open = Watched::with(filter).await;
    let params = json!({ "name": "secret", "arguments": {} });
    // A request of this era has no header that repeats the method.
    let session = open.client(single).start_session().await;
    for method in [
        "Tools/Call",
        "TOOLS/CALL",
        " tools/call",
        "tools/call ",
        "tools/call\n",
        "tools/call/",
        "tools//call",
        "tools/call\0",
        "tools%2Fcall",
        "tool\u{17f}/call",
        "tools/ca\u{200b}ll",
        "\u{ff34}ools/call",
        "Prompts/Get",
        "prompts.get",
        "Completion/Complete",
    ] {
        let refused = session.post(&request(7, method, params.clone())).await.answer().await;
        assert!([json!(-32601), json!(-32600)].contains(&refused["error"]["code"]), "{method:?}: {refused}");
        assert!(!open.has_received(method), "{method:?}");
        // A request of the other era repeats the method in a header, which takes visible ASCII.
        if method.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            let refused = open.client(single).ask(method, params.clone()).await;
            assert!(refused["error"].is_object() && !open.has_received(method), "{method:?}: {refused}");
        }
    }
    let answer = open.client(single).ask("acme/search", json!({})).await;
    assert_eq!(answer["result"]["answered"], true, "{answer}");
}

#[tokio::test]
async fn every_uri_of_a_listen_is_checked() {
    let watched =
        Watched::with(Filter { resources: toolway_host::catalog::filter::Switch::Off, ..Filter::default() }).await;
    for path in PATHS {
        for uris in [json!(["note://a"]), json!(["file:///x", "note://a"])] {
            let params = json!({ "notifications": { "resourceSubscriptions": uris } });
            let mut listening = watched.client(path).open_request("subscriptions/listen", params).await;
            let acknowledged = listening.message().await.unwrap();
            let accepted = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
            assert!(accepted.as_array().is_none_or(Vec::is_empty), "{path}: {acknowledged}");
        }
    }
    assert!(watched.server.subscribed().is_empty());
}
