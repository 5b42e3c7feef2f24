//! The prompts, and the completion of their arguments.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Feed, Request},
    json::Raw,
    message::RpcError,
};

use super::{content, server_requests};

/// Lists the prompts; the description of one contains `changes`.
pub(super) fn list(changes: usize) -> Raw {
    let argument =
        |name: &str, description: &str| json!({ "name": name, "description": description, "required": true });
    Raw::of(&json!({ "prompts": [
        { "name": "test_simple_prompt", "description": "One message" },
        {
            "name": "test_prompt_with_arguments",
            "description": "One message made of two arguments",
            "arguments": [argument("arg1", "First test argument"), argument("arg2", "Second test argument")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A resource and what to do with it",
            "arguments": [argument("resourceUri", "The resource to embed")],
        },
        { "name": "test_prompt_with_image", "description": "A picture and what to do with it" },
        { "name": "test_input_required_result_prompt", "description": "Asks for its context first" },
        { "name": "test_changing_prompt", "description": format!("Changed {changes} times") },
    ] }))
}

pub(super) async fn get(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let name = request.param("name").and_then(|name| name.as_str().map(|name| name.into_owned())).unwrap_or_default();
    let messages = match name.as_str() {
        "test_simple_prompt" => vec![content::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, other) = (argument(request, "arg1")?, argument(request, "arg2")?);
            vec![content::text(&format!("Prompt with arguments: arg1='{one}', arg2='{other}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            content::resource(
                &argument(request, "resourceUri")?,
                "text/plain",
                "Embedded resource content for testing.",
            ),
            content::text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![content::picture(), content::text("Please analyze the image above.")],
        "test_input_required_result_prompt" => {
            let asked =
                server_requests::form("user_context", "What context should the prompt use?", "context", "string");
            let context = server_requests::send(asked, request, feed).await?;
            vec![content::text(&format!("In the context of {}.", server_requests::field(&context, "context")))]
        }
        "test_changing_prompt" => vec![content::text("Its description changes.")],
        other => {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, &format!("unknown prompt `{other}`")));
        }
    };
    let message = |block: Value| json!({ "role": "user", "content": block });
    Ok(Raw::of(&json!({ "messages": messages.into_iter().map(message).collect::<Vec<_>>() })))
}

/// Values that start with the given prefix.
pub(super) fn complete(request: &Request) -> Raw {
    let begun = request.param("argument").and_then(|argument| argument.get("value"));
    let begun = begun.as_ref().and_then(Raw::as_str).unwrap_or_default();
    let known = ["paris", "park", "party"];
    let values: Vec<&str> = known.into_iter().filter(|value| value.starts_with(&*begun)).collect();
    Raw::of(&json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } }))
}

fn argument(request: &Request, name: &str) -> Result<String, RpcError> {
    let value = request.param("arguments").and_then(|arguments| arguments.get(name));
    let value = value.as_ref().and_then(Raw::as_str).map(|value| value.into_owned());
    value.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, &format!("the argument `{name}` is missing")))
}
