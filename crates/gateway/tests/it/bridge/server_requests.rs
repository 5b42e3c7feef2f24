//! Server requests during a call.

use serde_json::{Value, json};
use toolway_wire::{exchange::Outcome, message::RpcError, revision::Era};

use super::scenario::{Scenario, answered, text};

pub(super) async fn form(scenario: &Scenario) {
    let answer = scenario.said("test_elicitation", &json!({ "message": "Who are you?" })).await;
    assert_eq!(answer, r#"User response: action=accept, content={"email":"Ada","username":"Ada"}"#);
    let (_, params) = only(scenario, "elicitation/create");
    assert_eq!(params["message"], "Who are you?");
    assert_eq!(params["requestedSchema"]["required"], json!(["username", "email"]));
    assert_eq!(scenario.said("test_input_required_result_multi_round", &json!({})).await, "Ada likes Ada.");
    assert_eq!(scenario.user.take_requests().len(), 2);
}

pub(super) async fn address(scenario: &Scenario) {
    let answer = scenario.said("ask_address", &json!({})).await;
    assert_eq!(answer, "User response: action=accept, content={}");
    let (_, params) = only(scenario, "elicitation/create");
    assert_eq!(params["url"], "https://example.invalid/sign-in");
    assert_eq!(params["elicitationId"], "sign-in-1", "{params}");
    required_address(scenario).await;
}

/// A call that fails until a URL was opened: an error between two sessions, otherwise a server request.
async fn required_address(scenario: &Scenario) {
    let label = json!({ "label": scenario.label("address") });
    let outcome = scenario.outcome(scenario.call_of("require_address", &label)).await;
    let outcome = match (scenario.column.client, scenario.column.server, outcome) {
        (Era::Legacy, Era::Legacy, Outcome::Refused(error)) => {
            assert_eq!(error.code(), RpcError::URL_ELICITATION_REQUIRED);
            let data: Value = error.data().unwrap().read().unwrap();
            assert_eq!(data["elicitations"][0]["url"], "https://example.invalid/required");
            scenario.outcome(scenario.call_of("require_address", &label)).await
        }
        (_, _, outcome) => {
            let (_, params) = only(scenario, "elicitation/create");
            assert_eq!(params["url"], "https://example.invalid/required");
            outcome
        }
    };
    assert_eq!(text(&answered(outcome)), "The address was opened.");
}

pub(super) async fn sample(scenario: &Scenario) {
    let answer = scenario.said("test_sampling", &json!({ "prompt": "What is the capital of France?" })).await;
    assert_eq!(answer, "LLM response: Paris");
    let (_, params) = only(scenario, "sampling/createMessage");
    assert_eq!(params["maxTokens"], 100);
    assert!(params["messages"].to_string().contains("What is the capital of France?"), "{params}");
}

pub(super) async fn sample_with_tools(scenario: &Scenario) {
    let answer: Value = serde_json::from_str(&scenario.said("ask_model_with_tools", &json!({})).await).unwrap();
    let used = json!([{ "type": "tool_use", "id": "use-1", "name": "weather", "input": { "city": "Paris" } }]);
    assert_eq!((&answer["content"], &answer["stopReason"]), (&used, &json!("toolUse")));
    let (_, params) = only(scenario, "sampling/createMessage");
    assert_eq!(params["tools"][0]["name"], "weather");
    assert_eq!(params["toolChoice"], json!({ "mode": "required" }));
    assert_eq!(params["_meta"]["example.org/trace"], "7", "{params}");
    assert_eq!(params["metadata"], json!({ "example.org/user": "ada" }), "{params}");
    assert_eq!(answer["_meta"], json!({ "example.org/answered": "by ada" }), "{answer}");
}

pub(super) async fn roots(scenario: &Scenario) {
    let answer = scenario.said("test_input_required_result_list_roots", &json!({})).await;
    assert_eq!(answer, r#"1 roots: [{"name":"work","uri":"file:///work"}]"#);
    only(scenario, "roots/list");
    let answer = scenario.said("test_input_required_result_multiple_inputs", &json!({})).await;
    assert!(answer.starts_with("Paris Ada, of ") && answer.contains("file:///work"), "{answer}");
    assert_eq!(scenario.user.take_requests().len(), 3);
}

/// The only server request, with this method.
fn only(scenario: &Scenario, method: &str) -> (String, Value) {
    let mut asked = scenario.user.take_requests();
    assert_eq!(asked.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>(), [method], "{asked:?}");
    asked.remove(0)
}
