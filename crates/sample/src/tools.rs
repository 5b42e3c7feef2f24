//! Tools of the sample: text, numbers, an image, progress, an elicitation, a memo with change notifications.

use std::time::Duration;

use serde_json::json;
use toolway_wire::{
    exchange::{Cause, Feed, Request, ServerRequestDetails, ServerRequestId},
    json::Raw,
    message::RpcError,
};

use crate::Sample;

/// A PNG of 8 by 8 pixels, base64.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAdElEQVR42g3JMQEEQQgEwVdyNrBB3A7GBjbGBjawgQ1+K63fxwWXnLjizDU33O9jg01WbLFmmx32xQSTjJhizDQzzIsOOmnRRZtueugXDpxYuLBx48EvKqikRBVlqqmhXihQIqFCRo0GvcggkxRZpMkmh/wDZ3FdwZwtjkoAAAAASUVORK5CYII=";
/// Maximum number of steps of `count`.
const STEPS: u64 = 1_000;

pub(crate) fn list() -> Raw {
    let text = |description: &str| json!({ "type": "string", "description": description });
    Raw::of(&json!({ "tools": [
        { "name": "echo", "title": "Echo", "description": "Return a text",
          "inputSchema": { "type": "object", "properties": { "text": text("Text to return") }, "required": ["text"] },
          "annotations": { "readOnlyHint": true } },
        { "name": "add", "title": "Add", "description": "Add two numbers",
          "inputSchema": { "type": "object", "required": ["a", "b"],
            "properties": { "a": { "type": "number" }, "b": { "type": "number" } } },
          "outputSchema": { "type": "object", "properties": { "sum": { "type": "number" } }, "required": ["sum"] },
          "annotations": { "readOnlyHint": true } },
        { "name": "count", "title": "Count", "description": "Count up to a number and report progress at each step",
          "inputSchema": { "type": "object", "properties": {
            "to": { "type": "integer", "minimum": 1, "maximum": STEPS, "default": 3 },
            "pause": { "type": "integer", "description": "Milliseconds between steps", "default": 0 } } },
          "annotations": { "readOnlyHint": true } },
        { "name": "picture", "title": "Picture", "description": "Return a small image and its size",
          "inputSchema": { "type": "object" },
          "outputSchema": { "type": "object", "properties": {
            "width": { "type": "integer" }, "height": { "type": "integer" } }, "required": ["width", "height"] },
          "annotations": { "readOnlyHint": true } },
        { "name": "greet", "title": "Greet", "description": "Ask for your name and greet you",
          "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } },
        { "name": "write_memo", "title": "Write the memo", "description": "Replace the text of memo://today",
          "inputSchema": { "type": "object", "properties": { "text": text("The new text") }, "required": ["text"] },
          "annotations": { "readOnlyHint": false, "destructiveHint": true } },
        { "name": "fail", "title": "Fail", "description": "Always fail, to show a failed tool call",
          "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } },
    ] }))
}

pub(crate) async fn call(sample: &Sample, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let name = request.param("name");
    let arguments = Arguments(request.param("arguments").unwrap_or_else(Raw::empty_object));
    match name.as_ref().and_then(Raw::as_str).as_deref() {
        Some("echo") => Ok(text_result(&arguments.text("text")?)),
        Some("add") => add(&arguments),
        Some("count") => count(&arguments, feed).await,
        Some("picture") => Ok(picture()),
        Some("greet") => greet(feed).await,
        Some("write_memo") => {
            sample.shared.memo.write(arguments.text("text")?);
            // There may be no listener.
            drop(sample.shared.notices.send(crate::resources::memo_changed()));
            Ok(text_result("written"))
        }
        Some("fail") => Ok(Raw::of(&json!({
            "content": [{ "type": "text", "text": "This tool always fails." }], "isError": true
        }))),
        Some(other) => Err(RpcError::new(RpcError::INVALID_PARAMS, &format!("unknown tool `{other}`"))),
        None => Err(RpcError::new(RpcError::INVALID_PARAMS, "`name` is missing")),
    }
}

fn add(arguments: &Arguments) -> Result<Raw, RpcError> {
    let sum = arguments.number("a")? + arguments.number("b")?;
    Ok(structured(&json!({ "sum": sum }), Vec::new()))
}

async fn count(arguments: &Arguments, feed: &Feed) -> Result<Raw, RpcError> {
    let to = arguments.whole("to").unwrap_or(3).clamp(1, STEPS);
    let pause = Duration::from_millis(arguments.whole("pause").unwrap_or_default());
    for step in 1..=to {
        feed.progress(Raw::of(&json!({ "progress": step, "total": to, "message": format!("{step} of {to}") })));
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    feed.log(Raw::of(&json!({ "level": "info", "logger": "sample", "data": format!("counted to {to}") })));
    Ok(text_result(&format!("Counted to {to}.")))
}

fn picture() -> Raw {
    let image = json!({ "type": "image", "data": PICTURE, "mimeType": "image/png" });
    structured(&json!({ "width": 8, "height": 8 }), vec![image])
}

async fn greet(feed: &Feed) -> Result<Raw, RpcError> {
    let question = ServerRequestDetails {
        id: ServerRequestId(1),
        key: Some("name".to_owned()),
        method: "elicitation/create".to_owned(),
        params: Some(Raw::of(&json!({
            "message": "Who are you?",
            "requestedSchema": { "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string", "title": "Your name", "default": "guest" } } },
        }))),
        cause: Cause::Request,
    };
    let answer = match feed.ask(question).await.into_result() {
        Ok(answer) => answer,
        Err(error) => {
            return Ok(Raw::of(&json!({
                "content": [{ "type": "text", "text": format!("no name was given: {}", error.message()) }],
                "isError": true
            })));
        }
    };
    let accepted = answer.get("action").as_ref().and_then(Raw::as_str).is_some_and(|action| action == "accept");
    let name = answer.get("content").and_then(|content| content.get("name"));
    Ok(match name.as_ref().and_then(Raw::as_str).filter(|_| accepted) {
        Some(name) => text_result(&format!("Hello, {name}.")),
        None => text_result("Hello. You did not give a name."),
    })
}

fn text_result(text: &str) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }], "isError": false }))
}

/// A result with structured content, its text form, and further blocks.
fn structured(value: &serde_json::Value, blocks: Vec<serde_json::Value>) -> Raw {
    let mut content = vec![json!({ "type": "text", "text": value.to_string() })];
    content.extend(blocks);
    Raw::of(&json!({ "content": content, "structuredContent": value, "isError": false }))
}

struct Arguments(Raw);

impl Arguments {
    fn text(&self, name: &str) -> Result<String, RpcError> {
        let text = self.0.get(name);
        let text = text.as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        text.ok_or_else(|| wrong(name, "a string"))
    }

    fn number(&self, name: &str) -> Result<f64, RpcError> {
        self.0.get(name).and_then(|number| number.as_f64()).ok_or_else(|| wrong(name, "a number"))
    }

    fn whole(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(|number| number.as_u64())
    }
}

fn wrong(name: &str, expected: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, &format!("argument `{name}` must be {expected}"))
}
