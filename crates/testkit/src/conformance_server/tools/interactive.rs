//! The tools that ask before they answer.

use toolway_wire::{
    exchange::{Feed, Request},
    json::Raw,
    message::{ClientCapabilities, RpcError},
};

use super::{
    super::{
        asking::{self, Asked},
        content, schemas,
    },
    argument,
};

/// `None`: no tool of this name asks anything.
pub(super) async fn run(name: &str, request: &Request, feed: &Feed) -> Option<Result<Raw, RpcError>> {
    let answer = match name {
        "test_sampling" => sample(asking::sampling("answer", &argument(request, "prompt"), 100), request, feed).await,
        "test_missing_capability" => sample(asking::sampling("answer", "Are you there?", 10), request, feed).await,
        "test_input_required_result_sampling" => {
            sample(asking::sampling("capital_question", "What is the capital of France?", 100), request, feed).await
        }
        "test_elicitation" => elicit(message(&argument(request, "message")), request, feed).await,
        "test_elicitation_sep1034_defaults" => {
            elicit(asking::elicitation("defaults", "Who are you?", &schemas::defaults()), request, feed).await
        }
        "test_elicitation_sep1330_enums" => {
            elicit(asking::elicitation("choices", "What do you choose?", &schemas::choices()), request, feed).await
        }
        "test_streaming_elicitation" | "test_input_required_result_elicitation" => greet(request, feed).await,
        "test_input_required_result_list_roots" => roots(request, feed).await,
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            let asked = asking::form("confirm", "Please confirm", "ok", "boolean");
            asking::put(asked, request, feed).await.map(|answer| said(&format!("state-ok: {}", asking::told(&answer))))
        }
        "test_input_required_result_multiple_inputs" => all_at_once(request, feed).await,
        "test_input_required_result_multi_round" => one_after_the_other(request, feed).await,
        "test_input_required_result_capabilities" => what_was_declared(request, feed).await,
        _ => return None,
    };
    Some(answer)
}

fn said(words: &str) -> Raw {
    content::said(words)
}

fn message(message: &str) -> Asked {
    let text = |description: &str| serde_json::json!({ "type": "string", "description": description });
    let properties = serde_json::json!({ "username": text("User's response"), "email": text("User's email address") });
    let schema = serde_json::json!({ "type": "object", "properties": properties, "required": ["username", "email"] });
    asking::elicitation("user", message, &schema)
}

fn name(key: &'static str) -> Asked {
    asking::form(key, "What is your name?", "name", "string")
}

async fn sample(asked: Asked, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = asking::put(asked, request, feed).await?;
    Ok(said(&format!("LLM response: {}", asking::sampled(&answer))))
}

async fn elicit(asked: Asked, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = asking::put(asked, request, feed).await?;
    Ok(said(&format!("User response: {}", asking::told(&answer))))
}

async fn greet(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = asking::put(name("user_name"), request, feed).await?;
    Ok(said(&format!("Hello, {}!", asking::field(&answer, "name"))))
}

async fn roots(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = asking::put(asking::roots("client_roots"), request, feed).await?;
    let roots = answer.get("roots").unwrap_or_else(Raw::empty_object);
    Ok(said(&format!("{} roots: {roots}", roots.elements().len())))
}

async fn all_at_once(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let asked =
        [name("user_name"), asking::sampling("greeting", "Generate a greeting", 50), asking::roots("client_roots")];
    let [name, greeting, roots] = asking::put_all(asked, request, feed).await;
    let (name, greeting) = (asking::field(&name?, "name"), asking::sampled(&greeting?));
    Ok(said(&format!("{greeting} {name}, of {}", roots?)))
}

async fn one_after_the_other(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let first = asking::form("step1", "Step 1: What is your name?", "name", "string");
    let name = asking::field(&asking::put(first, request, feed).await?, "name");
    let second = asking::form("step2", "Step 2: What is your favorite color?", "color", "string");
    let color = asking::field(&asking::put(second, request, feed).await?, "color");
    Ok(said(&format!("{name} likes {color}.")))
}

/// A model where the caller declared one, else the caller itself.
async fn what_was_declared(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let declared = request.capabilities.clone().unwrap_or_else(ClientCapabilities::none);
    let asked = match declared.lacks("sampling/createMessage", None) {
        None => asking::sampling("greeting", "Generate a greeting", 50),
        Some(_) => name("user_name"),
    };
    let answer = asking::put(asked, request, feed).await?;
    Ok(said(&answer.text()))
}
