//! Error codes of each era.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Outcome, Request},
    json::Raw,
    message::RpcError,
    revision::Era,
};

use super::scenario::{Endpoint, Scenario};

/// Error code of a tool · code if one side has no session · code between two sessions.
const CODES: [(i64, i64, i64); 7] = [
    (-32603, -32603, -32603),
    (-32602, -32602, -32602),
    (-32000, -32603, -32000),
    (-32020, -32603, -32603),
    (-32022, -32603, -32603),
    (-1, -1, -1),
    (4711, 4711, 4711),
];

pub(super) async fn codes(scenario: &Scenario) {
    let failed = scenario.call("test_error_handling", &json!({})).await;
    assert_eq!(failed["isError"], true);
    assert_eq!(refusal(scenario, "tools/call", &json!({ "name": scenario.name("nothing") })).await.code(), -32602);
    assert_eq!(refusal(scenario, "prompts/get", &json!({ "name": scenario.name("nothing") })).await.code(), -32602);
    assert_eq!(refusal(scenario, "unknown/method", &json!({})).await.code(), RpcError::METHOD_NOT_FOUND);
    let unread = refusal(scenario, "resources/read", &json!({ "uri": "test://unknown" })).await;
    assert_eq!(unread.code(), unknown_resource(scenario), "{unread}");
    for (given, stateless, stateful) in CODES {
        let params = json!({ "name": scenario.name("refuse"), "arguments": { "code": given } });
        let error = refusal(scenario, "tools/call", &params).await;
        let sessions = scenario.column.client == Era::Legacy && scenario.column.server == Era::Legacy;
        let expected = if sessions { stateful } else { stateless };
        assert_eq!(error.code(), expected, "{given}: {error}");
        assert!(error.message().contains("refused as asked"), "{error}");
    }
}

/// The 2025 era has a separate code for it, unless a 2026 server decides.
fn unknown_resource(scenario: &Scenario) -> i64 {
    match (scenario.column.client, scenario.column.server, scenario.endpoint) {
        (Era::Legacy, Era::Legacy, _) | (Era::Legacy, _, Endpoint::All) => RpcError::RESOURCE_NOT_FOUND,
        _ => RpcError::INVALID_PARAMS,
    }
}

async fn refusal(scenario: &Scenario, method: &'static str, params: &Value) -> RpcError {
    match scenario.outcome(Request::new(method, Some(Raw::of(params))).unwrap()).await {
        Outcome::Refused(error) => error,
        other => panic!("{method} {params}: {other:?}"),
    }
}
