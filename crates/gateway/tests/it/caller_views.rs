//! One name that belongs to different servers for two callers: requests go to the server in the list of the caller.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_testkit::test_host::{TestHost, within};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    notice::SubscriptionFilter,
    revision::Era,
    up::{CompletionTarget, Peer},
};

use crate::{
    raw_client::{RawClient, with_meta},
    scripted::Scripted,
    test_gateway::TestGateway,
};

/// Clients that get the list of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListedTo {
    /// Clients that support forms.
    WithForms,
    /// Clients without capabilities.
    WithoutForms,
}

const SHARED: &str = "note://shared";
const TEMPLATE: &str = "note://{name}";

/// A server that lists a note, a template and a prompt to some clients, and requires a header from clients with forms.
fn server_for(server: &'static str, to: ListedTo) -> Arc<Scripted> {
    let declared = json!({ "tools": {}, "prompts": {}, "completions": {}, "resources": { "subscribe": true, "listChanged": true } });
    Scripted::new(declared, move |request, caller| {
        let forms = caller.capabilities.lacks("elicitation/create", None).is_none();
        let shown = |item: Value| if forms == (to == ListedTo::WithForms) { json!([item]) } else { json!([]) };
        let mut region = json!({ "type": "string" });
        if forms {
            region["x-mcp-header"] = json!("Region");
        }
        let schema = json!({ "type": "object", "properties": { "region": region } });
        Some(match request.method() {
            "tools/list" => json!({ "tools": [{ "name": "route", "description": "Route", "inputSchema": schema }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": server }] }),
            "prompts/list" => json!({ "prompts": shown(json!({ "name": "greet" })) }),
            "resources/list" => json!({ "resources": shown(json!({ "uri": SHARED, "name": server })) }),
            "resources/templates/list" => {
                json!({ "resourceTemplates": shown(json!({ "uriTemplate": TEMPLATE, "name": server })) })
            }
            "resources/read" => json!({ "contents": [{ "uri": SHARED, "text": server }] }),
            "completion/complete" => json!({ "completion": { "values": [server] } }),
            _ => return None,
        })
    })
}

struct TwoViews {
    gateway: TestGateway,
    one: Arc<Scripted>,
    two: Arc<Scripted>,
}

impl TwoViews {
    async fn start() -> Self {
        let (one, two) = (server_for("one", ListedTo::WithoutForms), server_for("two", ListedTo::WithForms));
        let gateway = TestGateway::with(TestHost::new().wanted(one.wanted("one")).wanted(two.wanted("two"))).await;
        gateway.host.ready("one").await;
        gateway.host.ready("two").await;
        Self { gateway, one, two }
    }

    /// A client that supports forms, once it gets the list for such clients.
    async fn client_with_forms(&self, era: Era) -> Peer {
        let client = self.gateway.client("/mcp", era).await;
        let listed = async {
            while listed_by(&client).await != ["two"] {
                tokio::task::yield_now().await;
            }
        };
        within("the list for clients with forms", listed).await;
        client
    }
}

/// Servers of the listed notes.
async fn listed_by(client: &Peer) -> Vec<String> {
    let listed = within("a list", client.list_resources()).await.unwrap();
    listed.items.into_iter().map(|item| item.name).collect()
}

async fn read(client: &Peer) -> Value {
    let request = Request::new("resources/read", Some(Raw::of(&json!({ "uri": SHARED })))).unwrap();
    match within("a read", client.open(request, ExchangeTimeouts::call()).outcome()).await {
        Outcome::Answered(result) => result.read::<Value>().unwrap()["contents"][0]["text"].take(),
        other => panic!("{other:?}"),
    }
}

async fn completed(client: &Peer, about: CompletionTarget) -> Result<Value, String> {
    let completed = within("a completion", client.complete(&about, ("name", ""), None)).await;
    completed.map(|result| result.read::<Value>().unwrap()["completion"]["values"].take()).map_err(|e| e.to_string())
}

#[tokio::test]
async fn read_completion_and_subscription_use_the_list_of_the_caller() {
    for era in [Era::Legacy, Era::Modern] {
        let sides = TwoViews::start().await;
        let (ada, bob) = (sides.client_with_forms(era).await, sides.gateway.client_without_user("/mcp", era).await);
        assert_eq!(listed_by(&bob).await, ["one"], "{era:?}");
        assert_eq!((read(&ada).await, read(&bob).await), (json!("two"), json!("one")), "{era:?}");
        let template = || CompletionTarget::Resource(TEMPLATE.to_owned());
        assert_eq!(completed(&ada, template()).await, Ok(json!(["two"])), "{era:?}");
        assert_eq!(completed(&bob, template()).await, Ok(json!(["one"])), "{era:?}");
        let prompt = |server: &str| CompletionTarget::Prompt(format!("{server}__greet"));
        assert_eq!(completed(&ada, prompt("two")).await, Ok(json!(["two"])), "{era:?}");
        let refused = completed(&ada, prompt("one")).await.unwrap_err();
        assert!(refused.contains("unknown prompt or resource `one__greet`"), "{era:?}: {refused}");
        let of_ada = within("a subscription", ada.listen(SubscriptionFilter::resource(SHARED))).await.unwrap();
        assert_eq!(of_ada.accepted().uris, [SHARED], "{era:?}");
        assert_eq!((sides.one.subscribed(), sides.two.subscribed()), (vec![], vec![SHARED.to_owned()]), "{era:?}");
        let of_bob = within("a subscription", bob.listen(SubscriptionFilter::resource(SHARED))).await.unwrap();
        assert_eq!(of_bob.accepted().uris, [SHARED], "{era:?}");
        assert_eq!(sides.one.subscribed(), [SHARED], "{era:?}");
    }
}

/// A stateless call of `route`, with or without the header.
async fn routed(raw_client: &RawClient, capabilities: &Value, header: Option<&str>) -> u16 {
    let mut params = with_meta(json!({ "name": "route", "arguments": { "region": "north" } }));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut headers = vec![
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "route"),
    ];
    headers.extend(header.map(|value| ("mcp-param-region", value)));
    raw_client.send("POST", &headers, message.to_string()).await.status
}

#[tokio::test]
async fn header_is_required_only_from_clients_that_see_the_annotation() {
    let sides = TwoViews::start().await;
    sides.client_with_forms(Era::Modern).await;
    let raw_client = sides.gateway.raw_client("/servers/two/mcp", sides.gateway.key.as_ref().map(|key| key.expose()));
    let forms = json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} });
    assert_eq!(routed(&raw_client, &forms, Some("north")).await, 200);
    assert_eq!(routed(&raw_client, &forms, Some("south")).await, 400);
    assert_eq!(routed(&raw_client, &forms, None).await, 400);
    assert_eq!(routed(&raw_client, &json!({}), None).await, 200, "no annotation, no header");
}
