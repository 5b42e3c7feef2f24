//! What a server asks in the middle of a call.

use serde_json::{Value, json};
use toolway_wire::{exchange::Outcome, message::RpcError, revision::Era};

use super::scene::{Scene, answered, text};

pub(super) async fn form(scene: &Scene) {
    let answer = scene.said("test_elicitation", &json!({ "message": "Who are you?" })).await;
    assert_eq!(answer, r#"User response: action=accept, content={"email":"Ada","username":"Ada"}"#);
    let (_, params) = only(scene, "elicitation/create");
    assert_eq!(params["message"], "Who are you?");
    assert_eq!(params["requestedSchema"]["required"], json!(["username", "email"]));
    assert_eq!(scene.said("test_input_required_result_multi_round", &json!({})).await, "Ada likes Ada.");
    assert_eq!(scene.person.asked().len(), 2);
}

pub(super) async fn address(scene: &Scene) {
    let answer = scene.said("ask_address", &json!({})).await;
    assert_eq!(answer, "User response: action=accept, content={}");
    let (_, params) = only(scene, "elicitation/create");
    assert_eq!(params["url"], "https://example.invalid/sign-in");
    // A session names what it asks, so that it can tell when it is done; without one nothing is told.
    assert_eq!(params["elicitationId"].is_string(), scene.column.client == Era::Legacy, "{params}");
    required_address(scene).await;
}

/// A call that ends until an address was opened. Between two sessions that is an error which says so; to everybody
/// else it is a question.
async fn required_address(scene: &Scene) {
    let label = json!({ "label": scene.label("address") });
    let outcome = scene.outcome(scene.call_of("require_address", &label)).await;
    let outcome = match (scene.column.client, scene.column.server, outcome) {
        (Era::Legacy, Era::Legacy, Outcome::Refused(error)) => {
            assert_eq!(error.code(), RpcError::URL_ELICITATION_REQUIRED);
            let data: Value = error.data().unwrap().read().unwrap();
            assert_eq!(data["elicitations"][0]["url"], "https://example.invalid/required");
            scene.outcome(scene.call_of("require_address", &label)).await
        }
        (_, _, outcome) => {
            let (_, params) = only(scene, "elicitation/create");
            assert_eq!(params["url"], "https://example.invalid/required");
            outcome
        }
    };
    assert_eq!(text(&answered(outcome)), "The address was opened.");
}

pub(super) async fn sample(scene: &Scene) {
    let answer = scene.said("test_sampling", &json!({ "prompt": "What is the capital of France?" })).await;
    assert_eq!(answer, "LLM response: Paris");
    let (_, params) = only(scene, "sampling/createMessage");
    assert_eq!(params["maxTokens"], 100);
    assert!(params["messages"].to_string().contains("What is the capital of France?"), "{params}");
}

pub(super) async fn sample_with_tools(scene: &Scene) {
    let answer: Value = serde_json::from_str(&scene.said("ask_model_with_tools", &json!({})).await).unwrap();
    let used = json!([{ "type": "tool_use", "id": "use-1", "name": "weather", "input": { "city": "Paris" } }]);
    assert_eq!((&answer["content"], &answer["stopReason"]), (&used, &json!("toolUse")));
    let (_, params) = only(scene, "sampling/createMessage");
    assert_eq!(params["tools"][0]["name"], "weather");
    assert_eq!(params["toolChoice"], json!({ "mode": "required" }));
}

pub(super) async fn roots(scene: &Scene) {
    let answer = scene.said("test_input_required_result_list_roots", &json!({})).await;
    assert_eq!(answer, r#"1 roots: [{"name":"work","uri":"file:///work"}]"#);
    only(scene, "roots/list");
    let answer = scene.said("test_input_required_result_multiple_inputs", &json!({})).await;
    assert!(answer.starts_with("Paris Ada, of ") && answer.contains("file:///work"), "{answer}");
    assert_eq!(scene.person.asked().len(), 3);
}

/// What was asked, if it was one thing.
fn only(scene: &Scene, method: &str) -> (String, Value) {
    let mut asked = scene.person.asked();
    assert_eq!(asked.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>(), [method], "{asked:?}");
    asked.remove(0)
}
