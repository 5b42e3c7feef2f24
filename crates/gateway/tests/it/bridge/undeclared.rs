//! Server requests that the caller did not declare are refused, with a message that says why.

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_wire::{exchange::Outcome, revision::Era};

use super::scenario::{BridgeGateway, Column, Endpoint, Scenario};

/// A tool with a server request, the method of that request, and the capability it needs.
const ASKING: [(&str, &str, &str); 5] = [
    ("test_elicitation", "elicitation/create", r#"{"elicitation":{"form":{}}}"#),
    ("ask_address", "elicitation/create", r#"{"elicitation":{"url":{}}}"#),
    ("test_sampling", "sampling/createMessage", r#"{"sampling":{}}"#),
    ("ask_model_with_tools", "sampling/createMessage", r#"{"sampling":{"tools":{}}}"#),
    ("test_input_required_result_list_roots", "roots/list", r#"{"roots":{}}"#),
];

/// The expected refusal.
pub(super) struct Refusal {
    pub(super) client: Era,
    pub(super) server: Era,
    pub(super) code: i64,
    /// Message, with `{}` for the method.
    pub(super) sentence: &'static str,
    /// Whether `data` names the required capability.
    pub(super) names_it: bool,
}

const LACKS: &str = "the client lacks a capability that this request requires";

/// Expected refusals. Between two sessions this is the error that the server gets.
pub(super) const REFUSALS: [Refusal; 4] = [
    Refusal::new(Era::Legacy, Era::Legacy, -32601, "the client does not support `{}`", false),
    Refusal::new(Era::Legacy, Era::Modern, -32603, LACKS, true),
    Refusal::new(Era::Modern, Era::Legacy, -32021, LACKS, true),
    Refusal::new(Era::Modern, Era::Modern, -32021, LACKS, true),
];

impl Refusal {
    const fn new(client: Era, server: Era, code: i64, sentence: &'static str, names_it: bool) -> Self {
        Self { client, server, code, sentence, names_it }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeclared_server_request_is_refused_with_a_reason() {
    join_all(Column::ALL.map(async |column| {
        let bridge_gateway = BridgeGateway::of(column).await;
        for endpoint in Endpoint::BOTH {
            let scenario = bridge_gateway.scenario_without_user(endpoint).await;
            refused(&scenario).await;
            scenario.client.close().await;
        }
    }))
    .await;
}

async fn refused(scenario: &Scenario) {
    let column = scenario.column;
    let said = REFUSALS.iter().find(|said| (said.client, said.server) == (column.client, column.server)).unwrap();
    for (tool, method, needed) in ASKING {
        let outcome = scenario.outcome(scenario.call_of(tool, &json!({}))).await;
        let Outcome::Refused(error) = outcome else { panic!("{tool} · {column}: {outcome:?}") };
        let expected = (said.code, said.sentence.replace("{}", method));
        assert_eq!((error.code(), error.message()), expected, "{tool} · {column}");
        let named = error.data().and_then(|data| data.get("requiredCapabilities"));
        let needed: Option<Value> = said.names_it.then(|| serde_json::from_str(needed).unwrap());
        assert_eq!(named.map(|named| named.read().unwrap()), needed, "{tool} · {column}");
    }
}
