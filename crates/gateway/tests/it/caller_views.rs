//! One name, another server's for each of two callers: whatever is asked about it goes to the one that caller is listed.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_testkit::test_host::{TestHost, within};
use toolway_wire::{
    exchange::{Outcome, Request, Terms},
    json::Raw,
    notice::Wanted,
    revision::Era,
    up::{Peer, Reference},
};

use crate::{
    knocking::{Knocker, with_meta},
    scripted::Scripted,
    stage::Stage,
};

/// Whom a server lists its things to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    /// Those who fill in forms.
    Somebody,
    /// Those who cannot be asked anything.
    Nobody,
}

const SHARED: &str = "note://shared";
const TEMPLATE: &str = "note://{name}";

/// A server that lists a note, a family of notes and a prompt to some, and wants a header of those who fill in forms.
fn sided(server: &'static str, to: To) -> Arc<Scripted> {
    let declared = json!({ "tools": {}, "prompts": {}, "completions": {}, "resources": { "subscribe": true, "listChanged": true } });
    Scripted::new(declared, move |request, caller| {
        let forms = caller.capabilities.lacks("elicitation/create", None).is_none();
        let shown = |item: Value| if forms == (to == To::Somebody) { json!([item]) } else { json!([]) };
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

struct Sides {
    stage: Stage,
    one: Arc<Scripted>,
    two: Arc<Scripted>,
}

impl Sides {
    async fn start() -> Self {
        let (one, two) = (sided("one", To::Nobody), sided("two", To::Somebody));
        let stage = Stage::with(TestHost::new().wanted(one.wanted("one")).wanted(two.wanted("two"))).await;
        stage.host.ready("one").await;
        stage.host.ready("two").await;
        Self { stage, one, two }
    }

    /// A caller who fills in forms, and is listed what such callers are.
    async fn somebody(&self, era: Era) -> Peer {
        let client = self.stage.client("/mcp", era).await;
        let listed = async {
            while listed_by(&client).await != ["two"] {
                tokio::task::yield_now().await;
            }
        };
        within("what is listed to those who fill in forms", listed).await;
        client
    }
}

/// Whose note is listed.
async fn listed_by(client: &Peer) -> Vec<String> {
    let listed = within("a list", client.list_resources()).await.unwrap();
    listed.items.into_iter().map(|item| item.name).collect()
}

async fn read(client: &Peer) -> Value {
    let request = Request::new("resources/read", Some(Raw::of(&json!({ "uri": SHARED })))).unwrap();
    match within("a read", client.open(request, Terms::call()).outcome()).await {
        Outcome::Answered(result) => result.read::<Value>().unwrap()["contents"][0]["text"].take(),
        other => panic!("{other:?}"),
    }
}

async fn completed(client: &Peer, about: Reference) -> Result<Value, String> {
    let completed = within("a completion", client.complete(&about, ("name", ""), None)).await;
    completed.map(|result| result.read::<Value>().unwrap()["completion"]["values"].take()).map_err(|e| e.to_string())
}

#[tokio::test]
async fn what_is_read_completed_and_subscribed_to_is_what_the_caller_is_listed() {
    for era in [Era::Legacy, Era::Modern] {
        let sides = Sides::start().await;
        let (ada, bob) = (sides.somebody(era).await, sides.stage.client_nobody("/mcp", era).await);
        assert_eq!(listed_by(&bob).await, ["one"], "{era:?}");
        assert_eq!((read(&ada).await, read(&bob).await), (json!("two"), json!("one")), "{era:?}");
        let template = || Reference::Resource(TEMPLATE.to_owned());
        assert_eq!(completed(&ada, template()).await, Ok(json!(["two"])), "{era:?}");
        assert_eq!(completed(&bob, template()).await, Ok(json!(["one"])), "{era:?}");
        let prompt = |server: &str| Reference::Prompt(format!("{server}__greet"));
        assert_eq!(completed(&ada, prompt("two")).await, Ok(json!(["two"])), "{era:?}");
        let refused = completed(&ada, prompt("one")).await.unwrap_err();
        assert!(refused.contains("there is nothing called `one__greet`"), "{era:?}: {refused}");
        let of_ada = within("a subscription", ada.listen(Wanted::resource(SHARED))).await.unwrap();
        assert_eq!(of_ada.honoured().uris, [SHARED], "{era:?}");
        assert_eq!((sides.one.subscribed(), sides.two.subscribed()), (vec![], vec![SHARED.to_owned()]), "{era:?}");
        let of_bob = within("a subscription", bob.listen(Wanted::resource(SHARED))).await.unwrap();
        assert_eq!(of_bob.honoured().uris, [SHARED], "{era:?}");
        assert_eq!(sides.one.subscribed(), [SHARED], "{era:?}");
    }
}

/// A stateless call of `route`, with or without the header.
async fn routed(knocker: &Knocker, capabilities: &Value, header: Option<&str>) -> u16 {
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
    knocker.send("POST", &headers, message.to_string()).await.status
}

#[tokio::test]
async fn a_header_is_owed_by_whoever_is_listed_it() {
    let sides = Sides::start().await;
    sides.somebody(Era::Modern).await;
    let knocker = sides.stage.knocker("/servers/two/mcp", sides.stage.key.as_ref().map(|key| key.expose()));
    let forms = json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} });
    assert_eq!(routed(&knocker, &forms, Some("north")).await, 200);
    assert_eq!(routed(&knocker, &forms, Some("south")).await, 400);
    assert_eq!(routed(&knocker, &forms, None).await, 400);
    assert_eq!(routed(&knocker, &json!({}), None).await, 200, "who is listed none owes none");
}
