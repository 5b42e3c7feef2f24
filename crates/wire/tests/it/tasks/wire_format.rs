//! Wire format of tasks in each era.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_wire::down::{DownstreamOptions, Service, http::Principal};

use super::task_service::TaskService;
use crate::{
    raw_clients::{RawHttpClient, RawStdioClient, call, refused, request, stateless, with},
    relay::Relay,
    routes::Route,
};

const MODERN: &str = "2026-07-28";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn wire() -> RawStdioClient {
    RawStdioClient::to(TaskService::new(), DownstreamOptions::default())
}

/// The same request of a client that declares the tasks extension.
fn with_extension(message: Value) -> Value {
    let mut message = stateless(message, MODERN);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] = json!({ EXTENSION: {} });
    message
}

fn task_call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", json!({ "name": tool, "task": { "ttl": 5000 } }))
}

fn about(id: u64, method: &str, task: &Value) -> Value {
    request(id, method, json!({ "taskId": task }))
}

#[tokio::test]
async fn session_waits_for_the_result_which_names_its_task() {
    let mut wire = wire();
    wire.session("2025-11-25").await;
    let made = wire.request(&task_call(1, "ask")).await;
    let task = &made["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"], &task["pollInterval"]), (&json!("working"), &json!(5000), &json!(100)));
    let id = &task["taskId"];

    let asked = wire.request(&about(2, "tasks/result", id)).await;
    let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": id } });
    let named = json!({ "io.modelcontextprotocol/related-task": { "taskId": id }, "toolway/ask-key": "name" });
    assert_eq!((&asked["method"], &asked["params"]["_meta"]), (&json!("elicitation/create"), &named));
    let got = wire.request(&about(3, "tasks/get", id)).await;
    assert_eq!(got["result"]["status"], "input_required");
    assert!(got["result"].get("inputRequests").is_none(), "not in a session: {got}");

    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let done = wire.request(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    assert_eq!((&done["id"], &done["result"]["_meta"]), (&json!(2), &related));
    assert_eq!(done["result"]["content"][0]["text"], "hello Ada");
    let listed = wire.request(&request(4, "tasks/list", json!({}))).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], *id);
    assert_eq!(listed["result"]["tasks"][0]["status"], "completed");
}

#[tokio::test]
async fn session_failed_tool_fails_its_task_which_cannot_be_cancelled() {
    let mut wire = wire();
    wire.session("2025-11-25").await;
    let made = wire.request(&task_call(1, "fail")).await;
    let id = &made["result"]["task"]["taskId"];
    let done = wire.request(&about(2, "tasks/result", id)).await;
    assert_eq!(done["result"]["isError"], true, "{done}");
    assert_eq!(wire.request(&about(3, "tasks/get", id)).await["result"]["status"], "failed");
    assert_eq!(refused(&wire.request(&about(4, "tasks/cancel", id)).await).1, -32602);
    let made = wire.request(&task_call(5, "wait")).await;
    let stopped = wire.request(&about(6, "tasks/cancel", &made["result"]["task"]["taskId"])).await;
    assert_eq!(stopped["result"]["status"], "cancelled");
    assert_eq!(refused(&wire.request(&about(7, "tasks/get", &json!("t0"))).await).1, -32602);
    assert_eq!(refused(&wire.request(&about(8, "tasks/update", id)).await).1, -32601);
}

#[tokio::test]
async fn older_session_has_no_tasks() {
    let mut wire = wire();
    wire.session("2025-06-18").await;
    assert_eq!(refused(&wire.request(&about(1, "tasks/get", &json!("t0"))).await).1, -32601);
    let answered = wire.request(&task_call(2, "fail")).await;
    assert_eq!(answered["result"]["isError"], true, "`task` is ignored: {answered}");
}

#[tokio::test]
async fn stateless_task_is_complete_in_one_response() {
    let mut wire = wire();
    let made = wire.request(&with_extension(call(1, "ask"))).await;
    let task = &made["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&task["ttlMs"], &task["pollIntervalMs"]), (&json!(60000), &json!(100)));
    let id = &task["taskId"];
    let asking = loop {
        let got = wire.request(&with_extension(about(2, "tasks/get", id))).await;
        assert_eq!(got["result"]["resultType"], "complete");
        if got["result"]["status"] == "input_required" {
            break got;
        }
    };
    assert_eq!(asking["result"]["inputRequests"]["name"]["method"], "elicitation/create");
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let update = with_extension(request(3, "tasks/update", json!({ "taskId": id, "inputResponses": answers })));
    let mut acknowledged = wire.request(&update).await["result"].clone();
    acknowledged.as_object_mut().unwrap().remove("_meta");
    assert_eq!(acknowledged, json!({ "resultType": "complete" }));
    let done = loop {
        let got = wire.request(&with_extension(about(4, "tasks/get", id))).await;
        if got["result"]["status"] == "completed" {
            break got;
        }
    };
    assert_eq!(done["result"]["result"]["content"][0]["text"], "hello Ada");
}

#[tokio::test]
async fn stateless_client_must_declare_the_tasks_extension() {
    let http_client = RawHttpClient::with(TaskService::new(), DownstreamOptions::default());
    let headers = |method: &'static str| [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", "t0")];
    let cases = [
        ("tasks/get", stateless(about(1, "tasks/get", &json!("t0")), MODERN), 400, -32021),
        ("tasks/get", with_extension(about(1, "tasks/get", &json!("t0"))), 200, -32602),
        ("tasks/result", with_extension(about(1, "tasks/result", &json!("t0"))), 404, -32601),
        ("tasks/list", with_extension(request(1, "tasks/list", json!({}))), 404, -32601),
        ("tasks/update", with_extension(about(1, "tasks/update", &json!("t0"))), 200, -32602),
    ];
    for (method, message, status, code) in cases {
        let reply = http_client.post(&headers(method), &message).await;
        assert_eq!((reply.status.as_u16(), refused(&reply.message()).1), (status, code), "{message}");
    }
    let needed = http_client.post(&headers("tasks/get"), &stateless(about(1, "tasks/get", &json!("t0")), MODERN)).await;
    let needed = &needed.message()["error"]["data"]["requiredCapabilities"];
    assert_eq!(*needed, json!({ "extensions": { EXTENSION: {} } }));
}

#[tokio::test]
async fn tasks_capability_is_advertised_per_era() {
    let mut wire = wire();
    let offered = wire.request(&stateless(request(1, "server/discover", json!({})), MODERN)).await;
    assert_eq!(offered["result"]["capabilities"], json!({ "tools": {}, "extensions": { EXTENSION: {} } }));
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let offered = wire.request(&request(2, "initialize", hello)).await;
    let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    assert_eq!(offered["result"]["capabilities"], json!({ "tools": {}, "tasks": tasks }));
}

#[tokio::test]
async fn task_is_visible_only_to_its_principal() {
    let http_client = RawHttpClient::with(TaskService::new(), DownstreamOptions::default());
    let send = async |who: &str, name: &str, message: Value| {
        let method = message["method"].as_str().unwrap().to_owned();
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method.as_str()), ("mcp-name", name)];
        let request = with(crate::raw_clients::posting(), &headers).extension(Principal(who.into()));
        http_client.send(request, message.to_string()).await.message()
    };
    let made = send("ada", "wait", with_extension(call(1, "wait"))).await;
    let id = made["result"]["taskId"].as_str().unwrap();
    for method in ["tasks/get", "tasks/cancel"] {
        let message = with_extension(about(2, method, &json!(id)));
        assert_eq!(refused(&send("bob", id, message.clone()).await).1, -32602, "{method}");
        assert!(send("ada", id, message).await.get("result").is_some(), "{method}");
    }
    let update = with_extension(request(3, "tasks/update", json!({ "taskId": id, "inputResponses": {} })));
    assert_eq!(refused(&send("bob", id, update).await).1, -32602);
}

#[tokio::test]
async fn task_subscription_receives_changes_over_every_route() {
    for relayed in
        [None, Some(Route::LinesLegacy), Some(Route::HttpLegacy), Some(Route::LinesModern), Some(Route::HttpModern)]
    {
        let behind = match relayed {
            Some(way) => Some(way.connect(TaskService::new()).await),
            None => None,
        };
        let service: Arc<dyn Service> = match &behind {
            Some(behind) => Arc::new(Relay(behind.peer.clone())),
            None => TaskService::new(),
        };
        let mut wire = RawStdioClient::to(service, DownstreamOptions::default());
        let made = wire.request(&with_extension(call(1, "ask"))).await;
        let id = made["result"]["taskId"].as_str().unwrap().to_owned();
        wire.send(&with_extension(request(
            7,
            "subscriptions/listen",
            json!({ "notifications": { "taskIds": [id, "t0"] } }),
        )))
        .await;
        let acknowledged = wire.receive().await;
        assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [id] }), "{relayed:?}: {acknowledged}");

        let asking = loop {
            let got = wire.request(&with_extension(about(2, "tasks/get", &json!(id)))).await;
            // Notifications in between are skipped.
            let got = if got.get("id").is_some() { got } else { wire.receive().await };
            if got["result"]["status"] == "input_required" {
                break got;
            }
        };
        let key = asking["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answers = json!({ key: { "action": "accept", "content": { "name": "Ada" } } });
        wire.send(&with_extension(request(3, "tasks/update", json!({ "taskId": id, "inputResponses": answers }))))
            .await;
        let mut told = Vec::new();
        let end = loop {
            let heard = wire.receive().await;
            if heard["method"] == "notifications/tasks" {
                assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{relayed:?}");
                told.push(heard["params"].clone());
            } else if heard["id"] == 7 {
                break heard;
            }
        };
        let last = told.last().unwrap_or_else(|| panic!("{relayed:?}: no notification"));
        assert_eq!(last["status"], "completed", "{relayed:?}: {told:?}");
        assert_eq!(last["result"]["content"][0]["text"], "hello Ada", "{relayed:?}");
        assert_eq!(end["result"]["resultType"], "complete", "{relayed:?}: the subscription ends: {end}");
    }
}

#[tokio::test]
async fn client_without_the_extension_cannot_subscribe_to_tasks() {
    let mut wire = wire();
    let listen = request(7, "subscriptions/listen", json!({ "notifications": { "taskIds": ["t0"] } }));
    assert_eq!(refused(&wire.request(&stateless(listen, MODERN)).await), (json!(7), -32021));
}
