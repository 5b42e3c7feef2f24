//! Tools that send server requests before they answer.

use toolway_wire::{
    exchange::{Feed, Request},
    json::Raw,
    message::{ClientCapabilities, RpcError},
};

use super::{
    super::{
        content, schemas,
        server_requests::{self, PreparedRequest},
    },
    argument,
};

/// Runs a tool; `None` if this module has no tool with this name.
pub(super) async fn run(name: &str, request: &Request, feed: &Feed) -> Option<Result<Raw, RpcError>> {
    let answer = match name {
        "test_sampling" => {
            sample(server_requests::sampling("answer", &argument(request, "prompt"), 100), request, feed).await
        }
        "test_missing_capability" => {
            sample(server_requests::sampling("answer", "Are you there?", 10), request, feed).await
        }
        "test_input_required_result_sampling" => {
            sample(server_requests::sampling("capital_question", "What is the capital of France?", 100), request, feed)
                .await
        }
        "test_elicitation" => elicit(message(&argument(request, "message")), request, feed).await,
        "test_elicitation_sep1034_defaults" => {
            elicit(server_requests::elicitation("defaults", "Who are you?", &schemas::defaults()), request, feed).await
        }
        "test_elicitation_sep1330_enums" => {
            elicit(server_requests::elicitation("choices", "What do you choose?", &schemas::choices()), request, feed)
                .await
        }
        "test_streaming_elicitation" | "test_input_required_result_elicitation" => greet(request, feed).await,
        "test_input_required_result_list_roots" => roots(request, feed).await,
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            let asked = server_requests::form("confirm", "Please confirm", "ok", "boolean");
            server_requests::send(asked, request, feed)
                .await
                .map(|answer| text_result(&format!("state-ok: {}", server_requests::describe(&answer))))
        }
        "test_input_required_result_multiple_inputs" => all_at_once(request, feed).await,
        "test_input_required_result_multi_round" => one_after_the_other(request, feed).await,
        "test_input_required_result_capabilities" => what_was_declared(request, feed).await,
        _ => return None,
    };
    Some(answer)
}

fn text_result(text: &str) -> Raw {
    content::text_result(text)
}

fn message(message: &str) -> PreparedRequest {
    let text = |description: &str| serde_json::json!({ "type": "string", "description": description });
    let properties = serde_json::json!({ "username": text("User's response"), "email": text("User's email address") });
    let schema = serde_json::json!({ "type": "object", "properties": properties, "required": ["username", "email"] });
    server_requests::elicitation("user", message, &schema)
}

fn name(key: &'static str) -> PreparedRequest {
    server_requests::form(key, "What is your name?", "name", "string")
}

async fn sample(asked: PreparedRequest, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = server_requests::send(asked, request, feed).await?;
    Ok(text_result(&format!("LLM response: {}", server_requests::sampled(&answer))))
}

async fn elicit(asked: PreparedRequest, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = server_requests::send(asked, request, feed).await?;
    Ok(text_result(&format!("User response: {}", server_requests::describe(&answer))))
}

async fn greet(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = server_requests::send(name("user_name"), request, feed).await?;
    Ok(text_result(&format!("Hello, {}!", server_requests::field(&answer, "name"))))
}

async fn roots(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let answer = server_requests::send(server_requests::roots("client_roots"), request, feed).await?;
    let roots = answer.get("roots").unwrap_or_else(Raw::empty_object);
    Ok(text_result(&format!("{} roots: {roots}", roots.elements().len())))
}

async fn all_at_once(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let asked = [
        name("user_name"),
        server_requests::sampling("greeting", "Generate a greeting", 50),
        server_requests::roots("client_roots"),
    ];
    let [name, greeting, roots] = server_requests::send_all(asked, request, feed).await;
    let (name, greeting) = (server_requests::field(&name?, "name"), server_requests::sampled(&greeting?));
    Ok(text_result(&format!("{greeting} {name}, of {}", roots?)))
}

async fn one_after_the_other(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let first = server_requests::form("step1", "Step 1: What is your name?", "name", "string");
    let name = server_requests::field(&server_requests::send(first, request, feed).await?, "name");
    let second = server_requests::form("step2", "Step 2: What is your favorite color?", "color", "string");
    let color = server_requests::field(&server_requests::send(second, request, feed).await?, "color");
    Ok(text_result(&format!("{name} likes {color}.")))
}

/// Requests sampling if the client declared it, otherwise elicitation.
async fn what_was_declared(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let declared = request.capabilities.clone().unwrap_or_else(ClientCapabilities::none);
    let asked = match declared.lacks("sampling/createMessage", None) {
        None => server_requests::sampling("greeting", "Generate a greeting", 50),
        Some(_) => name("user_name"),
    };
    let answer = server_requests::send(asked, request, feed).await?;
    Ok(text_result(&answer.text()))
}
