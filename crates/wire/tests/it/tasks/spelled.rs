//! Tasks letter by letter, as callers of each era write and read them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_wire::down::{DownstreamOptions, Service, http::Principal};

use super::workshop::Workshop;
use crate::{
    callers::{Door, Wire, call, refused, request, stateless, with},
    relay::Relay,
    ways::Way,
};

const MODERN: &str = "2026-07-28";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn wire() -> Wire {
    Wire::to(Workshop::new(), DownstreamOptions::default())
}

/// The same request, from a caller that knows of tasks.
fn knowing(message: Value) -> Value {
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
async fn in_a_session_a_result_is_waited_for_and_names_its_task() {
    let mut wire = wire();
    wire.session("2025-11-25").await;
    let made = wire.ask(&task_call(1, "ask")).await;
    let task = &made["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"], &task["pollInterval"]), (&json!("working"), &json!(5000), &json!(100)));
    let id = &task["taskId"];

    let asked = wire.ask(&about(2, "tasks/result", id)).await;
    let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": id } });
    let named = json!({ "io.modelcontextprotocol/related-task": { "taskId": id }, "toolway/ask-key": "name" });
    assert_eq!((&asked["method"], &asked["params"]["_meta"]), (&json!("elicitation/create"), &named));
    let got = wire.ask(&about(3, "tasks/get", id)).await;
    assert_eq!(got["result"]["status"], "input_required");
    assert!(got["result"].get("inputRequests").is_none(), "that is for others: {got}");

    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let done = wire.ask(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    assert_eq!((&done["id"], &done["result"]["_meta"]), (&json!(2), &related));
    assert_eq!(done["result"]["content"][0]["text"], "hello Ada");
    let listed = wire.ask(&request(4, "tasks/list", json!({}))).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], *id);
    assert_eq!(listed["result"]["tasks"][0]["status"], "completed");
}

#[tokio::test]
async fn in_a_session_a_failed_tool_fails_its_task_and_what_is_over_cannot_be_cancelled() {
    let mut wire = wire();
    wire.session("2025-11-25").await;
    let made = wire.ask(&task_call(1, "fail")).await;
    let id = &made["result"]["task"]["taskId"];
    let done = wire.ask(&about(2, "tasks/result", id)).await;
    assert_eq!(done["result"]["isError"], true, "{done}");
    assert_eq!(wire.ask(&about(3, "tasks/get", id)).await["result"]["status"], "failed");
    assert_eq!(refused(&wire.ask(&about(4, "tasks/cancel", id)).await).1, -32602);
    let made = wire.ask(&task_call(5, "wait")).await;
    let stopped = wire.ask(&about(6, "tasks/cancel", &made["result"]["task"]["taskId"])).await;
    assert_eq!(stopped["result"]["status"], "cancelled");
    assert_eq!(refused(&wire.ask(&about(7, "tasks/get", &json!("t0"))).await).1, -32602);
    assert_eq!(refused(&wire.ask(&about(8, "tasks/update", id)).await).1, -32601);
}

#[tokio::test]
async fn a_session_of_an_older_revision_knows_no_tasks() {
    let mut wire = wire();
    wire.session("2025-06-18").await;
    assert_eq!(refused(&wire.ask(&about(1, "tasks/get", &json!("t0"))).await).1, -32601);
    let answered = wire.ask(&task_call(2, "fail")).await;
    assert_eq!(answered["result"]["isError"], true, "the wish is not understood: {answered}");
}

#[tokio::test]
async fn without_a_session_all_of_a_task_is_in_one_answer() {
    let mut wire = wire();
    let made = wire.ask(&knowing(call(1, "ask"))).await;
    let task = &made["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&task["ttlMs"], &task["pollIntervalMs"]), (&json!(60000), &json!(100)));
    let id = &task["taskId"];
    let asking = loop {
        let got = wire.ask(&knowing(about(2, "tasks/get", id))).await;
        assert_eq!(got["result"]["resultType"], "complete");
        if got["result"]["status"] == "input_required" {
            break got;
        }
    };
    assert_eq!(asking["result"]["inputRequests"]["name"]["method"], "elicitation/create");
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let update = knowing(request(3, "tasks/update", json!({ "taskId": id, "inputResponses": answers })));
    let mut acknowledged = wire.ask(&update).await["result"].clone();
    acknowledged.as_object_mut().unwrap().remove("_meta");
    assert_eq!(acknowledged, json!({ "resultType": "complete" }));
    let done = loop {
        let got = wire.ask(&knowing(about(4, "tasks/get", id))).await;
        if got["result"]["status"] == "completed" {
            break got;
        }
    };
    assert_eq!(done["result"]["result"]["content"][0]["text"], "hello Ada");
}

#[tokio::test]
async fn without_a_session_a_caller_has_to_know_of_tasks() {
    let door = Door::with(Workshop::new(), DownstreamOptions::default());
    let headers = |method: &'static str| [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", "t0")];
    let cases = [
        ("tasks/get", stateless(about(1, "tasks/get", &json!("t0")), MODERN), 400, -32021),
        ("tasks/get", knowing(about(1, "tasks/get", &json!("t0"))), 200, -32602),
        ("tasks/result", knowing(about(1, "tasks/result", &json!("t0"))), 404, -32601),
        ("tasks/list", knowing(request(1, "tasks/list", json!({}))), 404, -32601),
        ("tasks/update", knowing(about(1, "tasks/update", &json!("t0"))), 200, -32602),
    ];
    for (method, message, status, code) in cases {
        let reply = door.post(&headers(method), &message).await;
        assert_eq!((reply.status.as_u16(), refused(&reply.message()).1), (status, code), "{message}");
    }
    let needed = door.post(&headers("tasks/get"), &stateless(about(1, "tasks/get", &json!("t0")), MODERN)).await;
    let needed = &needed.message()["error"]["data"]["requiredCapabilities"];
    assert_eq!(*needed, json!({ "extensions": { EXTENSION: {} } }));
}

#[tokio::test]
async fn what_is_offered_is_what_the_era_calls_it() {
    let mut wire = wire();
    let offered = wire.ask(&stateless(request(1, "server/discover", json!({})), MODERN)).await;
    assert_eq!(offered["result"]["capabilities"], json!({ "tools": {}, "extensions": { EXTENSION: {} } }));
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let offered = wire.ask(&request(2, "initialize", hello)).await;
    let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    assert_eq!(offered["result"]["capabilities"], json!({ "tools": {}, "tasks": tasks }));
}

#[tokio::test]
async fn nobody_sees_the_task_of_another() {
    let door = Door::with(Workshop::new(), DownstreamOptions::default());
    let send = async |who: &str, name: &str, message: Value| {
        let method = message["method"].as_str().unwrap().to_owned();
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method.as_str()), ("mcp-name", name)];
        let request = with(crate::callers::posting(), &headers).extension(Principal(who.into()));
        door.send(request, message.to_string()).await.message()
    };
    let made = send("ada", "wait", knowing(call(1, "wait"))).await;
    let id = made["result"]["taskId"].as_str().unwrap();
    for method in ["tasks/get", "tasks/cancel"] {
        let message = knowing(about(2, method, &json!(id)));
        assert_eq!(refused(&send("bob", id, message.clone()).await).1, -32602, "{method}");
        assert!(send("ada", id, message).await.get("result").is_some(), "{method}");
    }
    let update = knowing(request(3, "tasks/update", json!({ "taskId": id, "inputResponses": {} })));
    assert_eq!(refused(&send("bob", id, update).await).1, -32602);
}

#[tokio::test]
async fn whoever_listens_to_a_task_hears_of_every_change_whatever_keeps_it() {
    for relayed in [None, Some(Way::LinesLegacy), Some(Way::HttpLegacy), Some(Way::LinesModern), Some(Way::HttpModern)]
    {
        let behind = match relayed {
            Some(way) => Some(way.connect(Workshop::new()).await),
            None => None,
        };
        let service: Arc<dyn Service> = match &behind {
            Some(behind) => Arc::new(Relay(behind.peer.clone())),
            None => Workshop::new(),
        };
        let mut wire = Wire::to(service, DownstreamOptions::default());
        let made = wire.ask(&knowing(call(1, "ask"))).await;
        let id = made["result"]["taskId"].as_str().unwrap().to_owned();
        wire.say(&knowing(request(7, "subscriptions/listen", json!({ "notifications": { "taskIds": [id, "t0"] } }))))
            .await;
        let acknowledged = wire.hear().await;
        assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [id] }), "{relayed:?}: {acknowledged}");

        let asking = loop {
            let got = wire.ask(&knowing(about(2, "tasks/get", &json!(id)))).await;
            // What is told of meanwhile is not what was asked for.
            let got = if got.get("id").is_some() { got } else { wire.hear().await };
            if got["result"]["status"] == "input_required" {
                break got;
            }
        };
        let key = asking["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answers = json!({ key: { "action": "accept", "content": { "name": "Ada" } } });
        wire.say(&knowing(request(3, "tasks/update", json!({ "taskId": id, "inputResponses": answers })))).await;
        let mut told = Vec::new();
        let end = loop {
            let heard = wire.hear().await;
            if heard["method"] == "notifications/tasks" {
                assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{relayed:?}");
                told.push(heard["params"].clone());
            } else if heard["id"] == 7 {
                break heard;
            }
        };
        let last = told.last().unwrap_or_else(|| panic!("{relayed:?}: nothing was told"));
        assert_eq!(last["status"], "completed", "{relayed:?}: {told:?}");
        assert_eq!(last["result"]["content"][0]["text"], "hello Ada", "{relayed:?}");
        assert_eq!(end["result"]["resultType"], "complete", "{relayed:?}: there is no more to tell: {end}");
    }
}

#[tokio::test]
async fn whoever_did_not_say_that_it_knows_of_tasks_cannot_listen_to_one() {
    let mut wire = wire();
    let listen = request(7, "subscriptions/listen", json!({ "notifications": { "taskIds": ["t0"] } }));
    assert_eq!(refused(&wire.ask(&stateless(listen, MODERN)).await), (json!(7), -32021));
}
