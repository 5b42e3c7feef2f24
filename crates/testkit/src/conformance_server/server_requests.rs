//! Server requests to the client, and the parsing of their answers.

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Cause, Feed, Request, ServerRequestDetails, ServerRequestId},
    json::Raw,
    message::RpcError,
};

/// A server request without an id: key, method and params.
pub(super) type PreparedRequest = (&'static str, &'static str, Value);

/// A form with one required field.
pub(super) fn form(key: &'static str, message: &str, field: &str, kind: &str) -> PreparedRequest {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    elicitation(key, message, &schema)
}

/// A form with this schema.
pub(super) fn elicitation(key: &'static str, message: &str, schema: &Value) -> PreparedRequest {
    (key, "elicitation/create", json!({ "message": message, "requestedSchema": schema }))
}

/// A sampling request.
pub(super) fn sampling(key: &'static str, prompt: &str, most: u32) -> PreparedRequest {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    (key, "sampling/createMessage", json!({ "messages": [message], "maxTokens": most }))
}

/// A roots request.
pub(super) fn roots(key: &'static str) -> PreparedRequest {
    (key, "roots/list", json!({}))
}

/// Sends one server request.
pub(super) async fn send(asked: PreparedRequest, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let [answer] = send_all([asked], request, feed).await;
    answer
}

/// Sends all server requests before any is answered. Answers that came with the request are not requested again.
pub(super) async fn send_all<const N: usize>(
    asked: [PreparedRequest; N],
    request: &Request,
    feed: &Feed,
) -> [Result<Raw, RpcError>; N] {
    let mut answers = [const { None }; N];
    let mut waiting = Vec::new();
    for (index, (key, method, params)) in asked.into_iter().enumerate() {
        match request.answers.as_ref().and_then(|answers| answers.get(key)) {
            Some(given) => answers[index] = Some(Ok(given)),
            None => {
                let number = ServerRequestId(u64::try_from(index).unwrap_or_default() + 1);
                let answer = feed.ask(question(number, key, method, &params));
                waiting.push(async move { (index, answer.await) });
            }
        }
    }
    for (index, answer) in join_all(waiting).await {
        answers[index] = Some(answer.into_result());
    }
    answers.map(|answer| answer.unwrap_or_else(|| Err(RpcError::new(RpcError::INTERNAL, "no answer"))))
}

/// One field of a submitted form, as text.
pub(super) fn field(answer: &Raw, name: &str) -> String {
    let value = answer.get("content").and_then(|content| content.get(name));
    match value.as_ref().and_then(Raw::as_str) {
        Some(text) => text.into_owned(),
        None => value.map_or_else(|| "unknown".to_owned(), |value| value.to_string()),
    }
}

/// Action and content of an elicitation answer.
pub(super) fn describe(answer: &Raw) -> String {
    let action = answer.get("action");
    let action = action.as_ref().and_then(Raw::as_str).unwrap_or_default();
    let content = answer.get("content").unwrap_or_else(Raw::empty_object);
    format!("action={action}, content={content}")
}

/// Text of a sampling answer.
pub(super) fn sampled(answer: &Raw) -> String {
    let text = answer.get("content").and_then(|content| content.get("text"));
    text.as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned()
}

fn question(id: ServerRequestId, key: &str, method: &str, params: &Value) -> ServerRequestDetails {
    ServerRequestDetails {
        id,
        key: Some(key.to_owned()),
        method: method.to_owned(),
        params: Some(Raw::of(params)),
        cause: Cause::Request,
    }
}
