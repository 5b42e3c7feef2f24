//! Errors, as each era has them.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Outcome, Request},
    json::Raw,
    message::RpcError,
    revision::Era,
};

use super::scene::{Door, Scene};

/// A tool's own code · what is left of it without a session on either side · between two sessions.
const CODES: [(i64, i64, i64); 7] = [
    (-32603, -32603, -32603),
    (-32602, -32602, -32602),
    (-32000, -32603, -32000),
    (-32020, -32603, -32603),
    (-32022, -32603, -32603),
    (-1, -1, -1),
    (4711, 4711, 4711),
];

pub(super) async fn codes(scene: &Scene) {
    let failed = scene.call("test_error_handling", &json!({})).await;
    assert_eq!(failed["isError"], true);
    assert_eq!(refusal(scene, "tools/call", &json!({ "name": scene.name("nothing") })).await.code(), -32602);
    assert_eq!(refusal(scene, "prompts/get", &json!({ "name": scene.name("nothing") })).await.code(), -32602);
    assert_eq!(refusal(scene, "nobody/knows", &json!({})).await.code(), RpcError::METHOD_NOT_FOUND);
    let unread = refusal(scene, "resources/read", &json!({ "uri": "test://unknown" })).await;
    assert_eq!(unread.code(), unknown_resource(scene), "{unread}");
    for (given, stateless, stateful) in CODES {
        let params = json!({ "name": scene.name("refuse"), "arguments": { "code": given } });
        let error = refusal(scene, "tools/call", &params).await;
        let sessions = scene.column.client == Era::Legacy && scene.column.server == Era::Legacy;
        let expected = if sessions { stateful } else { stateless };
        assert_eq!(error.code(), expected, "{given}: {error}");
        assert!(error.message().contains("refused as asked"), "{error}");
    }
}

/// A session has a code of its own for it, unless only a server without one can judge.
fn unknown_resource(scene: &Scene) -> i64 {
    match (scene.column.client, scene.column.server, scene.door) {
        (Era::Legacy, Era::Legacy, _) | (Era::Legacy, _, Door::All) => RpcError::RESOURCE_NOT_FOUND,
        _ => RpcError::INVALID_PARAMS,
    }
}

async fn refusal(scene: &Scene, method: &'static str, params: &Value) -> RpcError {
    match scene.outcome(Request::new(method, Some(Raw::of(params))).unwrap()).await {
        Outcome::Refused(error) => error,
        other => panic!("{method} {params}: {other:?}"),
    }
}
