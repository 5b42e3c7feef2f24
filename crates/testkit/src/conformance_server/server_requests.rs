//! Questions to the caller's side, and what is read from their answers.

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_wire::{
    exchange::{AskId, Cause, Feed, Question, Request},
    json::Raw,
    message::RpcError,
};

/// A question before it is numbered: its key, its method and its params.
pub(super) type Asked = (&'static str, &'static str, Value);

/// A form with one field that has to be filled in.
pub(super) fn form(key: &'static str, message: &str, field: &str, kind: &str) -> Asked {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    elicitation(key, message, &schema)
}

/// A form of this shape.
pub(super) fn elicitation(key: &'static str, message: &str, schema: &Value) -> Asked {
    (key, "elicitation/create", json!({ "message": message, "requestedSchema": schema }))
}

/// Something for the caller's model.
pub(super) fn sampling(key: &'static str, prompt: &str, most: u32) -> Asked {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    (key, "sampling/createMessage", json!({ "messages": [message], "maxTokens": most }))
}

/// Which folders the caller works in.
pub(super) fn roots(key: &'static str) -> Asked {
    (key, "roots/list", json!({}))
}

/// Asks one thing.
pub(super) async fn put(asked: Asked, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let [answer] = put_all([asked], request, feed).await;
    answer
}

/// Asks all of them before any is answered. An answer that came with the request is not asked for again.
pub(super) async fn put_all<const N: usize>(
    asked: [Asked; N],
    request: &Request,
    feed: &Feed,
) -> [Result<Raw, RpcError>; N] {
    let mut answers = [const { None }; N];
    let mut waiting = Vec::new();
    for (index, (key, method, params)) in asked.into_iter().enumerate() {
        match request.answers.as_ref().and_then(|answers| answers.get(key)) {
            Some(given) => answers[index] = Some(Ok(given)),
            None => {
                let number = AskId(u64::try_from(index).unwrap_or_default() + 1);
                let answer = feed.ask(question(number, key, method, &params));
                waiting.push(async move { (index, answer.await) });
            }
        }
    }
    for (index, answer) in join_all(waiting).await {
        answers[index] = Some(answer.into_result());
    }
    answers.map(|answer| answer.unwrap_or_else(|| Err(RpcError::new(RpcError::INTERNAL, "nobody answered"))))
}

/// One field of a filled-in form, as text.
pub(super) fn field(answer: &Raw, name: &str) -> String {
    let value = answer.get("content").and_then(|content| content.get(name));
    match value.as_ref().and_then(Raw::as_str) {
        Some(text) => text.into_owned(),
        None => value.map_or_else(|| "nobody".to_owned(), |value| value.to_string()),
    }
}

/// What was done with a form, and what stands in it.
pub(super) fn told(answer: &Raw) -> String {
    let action = answer.get("action");
    let action = action.as_ref().and_then(Raw::as_str).unwrap_or_default();
    let content = answer.get("content").unwrap_or_else(Raw::empty_object);
    format!("action={action}, content={content}")
}

/// What the caller's model said.
pub(super) fn sampled(answer: &Raw) -> String {
    let text = answer.get("content").and_then(|content| content.get("text"));
    text.as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned()
}

fn question(id: AskId, key: &str, method: &str, params: &Value) -> Question {
    Question {
        id,
        key: Some(key.to_owned()),
        method: method.to_owned(),
        params: Some(Raw::of(params)),
        cause: Cause::Request,
    }
}
