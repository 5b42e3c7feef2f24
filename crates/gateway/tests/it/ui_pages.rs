//! UI pages of tools: the page has a public URI at the gateway.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_testkit::test_host::{TestHost, within};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    revision::Era,
    up::Peer,
};

use crate::{scripted::Scripted, test_gateway::TestGateway};

const UI: &str = "io.modelcontextprotocol/ui";

/// A server with one tool and its UI page at this URI.
fn shown_by(server: &'static str, page: &'static str) -> Arc<Scripted> {
    shown_with(server, page, json!({ "tools": {}, "resources": {} }))
}

fn shown_with(server: &'static str, page: &'static str, capabilities: Value) -> Arc<Scripted> {
    let meta =
        move || json!({ "ui": { "resourceUri": page, "visibility": ["model"] }, "ui/resourceUri": page, "k": 1 });
    Scripted::new(capabilities, move |request, _| {
        Some(match request.method() {
            "tools/list" => json!({ "tools": [
                { "name": "show", "description": "Show", "inputSchema": { "type": "object" }, "_meta": meta() },
            ] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": server }], "_meta": meta() }),
            "resources/list" => json!({ "resources": [{ "uri": page, "name": "page" }] }),
            "resources/read" if request.param("uri")?.as_str()? == page => {
                json!({ "contents": [{ "uri": page, "text": server }] })
            }
            _ => return None,
        })
    })
}

/// `_meta` of a tool, and `_meta` of its result.
async fn meta_of(client: &Peer, tool: &str) -> [Value; 2] {
    let listed = within("a list", client.list_tools()).await.unwrap();
    let listed = listed.items.into_iter().find(|item| item.name == tool).unwrap();
    let result = answered(client, "tools/call", &json!({ "name": tool, "arguments": {} })).await;
    [listed.raw.get("_meta").unwrap().read().unwrap(), result["_meta"].clone()]
}

async fn answered(client: &Peer, method: &'static str, params: &Value) -> Value {
    let request = Request::new(method, Some(Raw::of(params))).unwrap();
    match within(method, client.open(request, ExchangeTimeouts::call()).outcome()).await {
        Outcome::Answered(result) => result.read().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ui_extension_is_declared_if_a_server_has_it() {
    for (extensions, declared) in [(json!({}), false), (json!({ UI: {} }), true)] {
        let capabilities = json!({ "tools": {}, "resources": {}, "extensions": extensions });
        let one = shown_with("one", "ui://show", capabilities).wanted("one");
        let gateway = TestGateway::with(TestHost::new().wanted(one)).await;
        gateway.host.ready("one").await;
        for era in [Era::Legacy, Era::Modern] {
            let client = gateway.client("/mcp", era).await;
            assert_eq!(client.profile().capabilities.extension(UI), declared, "{era:?}");
        }
    }
}

/// The error for an unknown resource contains the requested URI.
#[tokio::test]
async fn error_contains_the_public_uri() {
    let one = shown_by("one", "ui://show").wanted("one");
    let gateway =
        TestGateway::with(TestHost::new().wanted(one).wanted(shown_by("two", "ui://show").wanted("two"))).await;
    gateway.host.ready("one").await;
    gateway.host.ready("two").await;
    for era in [Era::Legacy, Era::Modern] {
        for (path, uri) in [("/mcp", "ui://toolway+two/gone"), ("/servers/two/mcp", "ui://gone")] {
            let client = gateway.client(path, era).await;
            let request = Request::new("resources/read", Some(Raw::of(&json!({ "uri": uri })))).unwrap();
            let Outcome::Refused(error) =
                within("a read", client.open(request, ExchangeTimeouts::call()).outcome()).await
            else {
                panic!("{path} {era:?}")
            };
            assert_eq!(error.data().unwrap().to_string(), json!({ "uri": uri }).to_string(), "{path} {era:?}");
        }
    }
}

#[tokio::test]
async fn tool_refers_to_the_public_uri_of_its_page() {
    let builder = TestHost::new()
        .wanted(shown_by("one", "ui://show").wanted("one"))
        .wanted(shown_by("two", "ui://show").wanted("two"))
        .wanted(shown_by("three", "ui://other").wanted("three"));
    let gateway = TestGateway::with(builder).await;
    for server in ["one", "two", "three"] {
        gateway.host.ready(server).await;
    }
    for era in [Era::Legacy, Era::Modern] {
        let all = gateway.client("/mcp", era).await;
        for server in ["one", "two"] {
            let page = format!("ui://toolway+{server}/show");
            for meta in meta_of(&all, &format!("{server}__show")).await {
                assert_eq!(meta["ui"], json!({ "resourceUri": page, "visibility": ["model"] }), "{era:?}");
                assert_eq!((&meta["ui/resourceUri"], &meta["k"]), (&json!(page), &json!(1)), "{era:?}");
            }
            let read = answered(&all, "resources/read", &json!({ "uri": page })).await;
            assert_eq!(read["contents"][0], json!({ "uri": page, "text": server }), "{era:?}");
            let alone = gateway.client(&format!("/servers/{server}/mcp"), era).await;
            let [listed, given] = meta_of(&alone, "show").await;
            assert_eq!(
                (&listed["ui"]["resourceUri"], &given["ui/resourceUri"]),
                (&json!("ui://show"), &json!("ui://show"))
            );
        }
        let [listed, given] = meta_of(&all, "three__show").await;
        assert_eq!(
            (&listed["ui"]["resourceUri"], &given["ui/resourceUri"]),
            (&json!("ui://other"), &json!("ui://other"))
        );
    }
}
