//! Arguments and results against the schemas of a tool: refused for agents, reported for clients.

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_config::{Config, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, Target},
    policy::{Refusal, Surface},
    validation::ValidationCounts,
};
use toolway_testkit::test_host::{TestHost, within};
use toolway_wire::json::Raw;

use crate::{scripted::Scripted, test_gateway::TestGateway};

/// A gateway to a server whose tools have schemas, and the arguments that the server received.
struct Checked {
    gateway: TestGateway,
    received: Arc<Mutex<Vec<Value>>>,
}

fn tools() -> Value {
    let number = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let doubling = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "pattern": "(?=x)y" } } });
    json!({ "tools": [
        { "name": "count", "inputSchema": number, "outputSchema": number },
        { "name": "far", "inputSchema": { "type": "object", "$ref": "http://127.0.0.1:1/s.json" } },
        { "name": "odd", "inputSchema": { "type": "object", "properties": { "n": doubling } } },
    ] })
}

impl Checked {
    async fn with(settings: &str) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&received);
        let server = Scripted::new(json!({ "tools": {} }), move |request, _| match request.method() {
            "tools/list" => Some(tools()),
            "tools/call" => {
                let arguments: Value = request.param("arguments").map_or(json!({}), |given| given.read().unwrap());
                seen.lock().push(arguments.clone());
                Some(json!({ "content": [], "structuredContent": arguments }))
            }
            _ => None,
        });
        let document = Document::of(Path::new("/toolway.json"), settings).unwrap();
        let config = Config::of(&document, None).unwrap();
        let gateway = TestGateway::with(TestHost::new().config(config).wanted(server.wanted("files"))).await;
        gateway.host.ready("files").await;
        Self { gateway, received }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let client = self.gateway.raw_client("/mcp", self.gateway.key.as_ref().map(|key| key.expose()));
        client.ask("tools/call", json!({ "name": format!("files__{tool}"), "arguments": arguments })).await
    }

    async fn call_as_agent(&self, tool: &str, arguments: &Value) -> CallOutcome {
        let request = request(Caller::Agent("c".into()), tool, arguments);
        self.gateway.host.host.call(CallRequest { surface: Surface::Run, ..request }).await
    }

    async fn call_at_terminal(&self, tool: &str, arguments: &Value) -> CallOutcome {
        self.gateway.host.host.call(request(Caller::Terminal, tool, arguments)).await
    }

    /// Waits for the reports of what was relayed.
    async fn counts(&self, wanted: ValidationCounts) {
        let counted = async {
            while self.gateway.host.host.validation_counts() != wanted {
                tokio::task::yield_now().await;
            }
        };
        within(&format!("{wanted:?} after {:?}", self.gateway.host.host.validation_counts()), counted).await;
    }
}

fn request(caller: Caller, tool: &str, arguments: &Value) -> CallRequest {
    let target = Target::Tool(format!("files__{tool}").parse().unwrap());
    CallRequest { arguments: Some(Raw::of(arguments)), ..CallRequest::new(caller, target) }
}

#[tokio::test]
async fn a_client_is_relayed_and_what_does_not_match_is_reported() {
    let checked = Checked::with("{}").await;
    let answer = checked.call("count", json!({ "n": "x" })).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "n": "x" }), "{answer}");
    let invalid = ValidationCounts { invalid_arguments: 1, invalid_results: 1, ..ValidationCounts::default() };
    checked.counts(invalid).await;
    checked.call("count", json!({ "n": 1 })).await;
    checked.call("count", json!({ "n": "x".repeat(300_000) })).await;
    checked.counts(ValidationCounts { skipped: 1, ..invalid }).await;
    assert_eq!(checked.received.lock().len(), 3, "every call was sent");
    let client = checked.gateway.raw_client("/metrics", checked.gateway.key.as_ref().map(|key| key.expose()));
    let metrics = client.get().await.text().await;
    assert!(metrics.contains("toolway_validation_total{found=\"skipped\"} 1"), "{metrics}");
}

#[tokio::test]
async fn an_agent_gets_the_error_instead_of_a_call() {
    let checked = Checked::with("{}").await;
    let outcome = checked.call_as_agent("count", &json!({ "n": "x" })).await;
    let CallOutcome::Refused(refusal @ Refusal::InvalidArguments { .. }) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(refusal.to_string(), r#"invalid arguments of `count`: argument `n`: "x" is not of type "integer""#);
    assert!(checked.received.lock().is_empty());
    let outcome = checked.call_as_agent("count", &json!({})).await;
    assert!(outcome.to_string().contains("missing argument `n`"), "{outcome}");
}

#[tokio::test]
async fn a_schema_that_cannot_be_checked_rejects_nothing() {
    let checked = Checked::with("{}").await;
    for tool in ["far", "odd"] {
        let outcome = checked.call_at_terminal(tool, &json!({ "n": "x" })).await;
        assert!(matches!(outcome, CallOutcome::Answered(_)), "{tool}: {outcome:?}");
    }
    assert_eq!(checked.gateway.host.host.validation_counts(), ValidationCounts::default());
}

#[tokio::test]
async fn configuration_decides_for_every_surface() {
    let rejecting = Checked::with(r#"{"validation": {"arguments": "reject", "results": "off"}}"#).await;
    let answer = rejecting.call("count", json!({ "n": "x" })).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(rejecting.received.lock().is_empty());
    let off = Checked::with(r#"{"validation": {"arguments": "off"}}"#).await;
    assert!(matches!(off.call_at_terminal("count", &json!({ "n": "x" })).await, CallOutcome::Answered(_)));
    off.counts(ValidationCounts { invalid_results: 1, ..ValidationCounts::default() }).await;
    let wrong = Document::of(Path::new("/toolway.json"), r#"{"validation": {"results": "reject"}}"#).unwrap();
    assert!(Config::of(&wrong, None).is_err(), "a result is never dropped");
}

#[tokio::test]
async fn a_report_names_what_does_not_match_without_the_value() {
    let checked = Checked::with(r#"{"validation": {"arguments": "report"}}"#).await;
    let relay = checked.gateway.host.host.open(request(Caller::Terminal, "count", &json!({ "n": "secret" })));
    let id = relay.id();
    assert!(matches!(relay.outcome().await, CallOutcome::Answered(_)));
    let report = checked.gateway.host.host.take_validation_report(id).unwrap();
    assert_eq!(report.arguments, [r#"argument `n`: value is not of type "integer""#]);
    assert_eq!(report.result, [r#"member `n`: value is not of type "integer""#]);
    assert_eq!(checked.gateway.host.host.take_validation_report(id), None, "given once");
}
