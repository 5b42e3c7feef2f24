//! A model of a mock vendor, and its answers in a form that is easy to compare.

use std::time::Duration;

use futures_util::StreamExt;
use http::HeaderMap;
use serde_json::{Value, json};
use toolway_config::Secret;
use toolway_model::{
    HttpModel, HttpModelOptions, Message, Model, ModelError, ModelEvent, ModelRequest, StopReason, Usage, Vendor,
};
use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};
use toolway_wire::{
    limit::Limits,
    up::{client::HttpClient, connector::HttpOptions},
};

/// The key of all models.
pub(crate) const KEY: &str = "sk-test-0123456789";

/// A vendor with these replies, and a model of it.
pub(crate) async fn model(kind: VendorKind, replies: Vec<Reply>) -> (MockVendor, HttpModel) {
    let vendor = MockVendor::start(kind, replies).await.unwrap();
    let model = build(options(kind, &vendor.base_url()));
    (vendor, model)
}

pub(crate) fn options(kind: VendorKind, base_url: &str) -> HttpModelOptions {
    HttpModelOptions {
        name: "m".to_owned(),
        vendor: vendor(kind),
        model: format!("{}-model", kind.as_str()),
        base_url: base_url.parse().unwrap(),
        key: Some(Secret::new(KEY)),
        headers: HeaderMap::new(),
        max_tokens: None,
        context_window: Some(200_000),
        pause: Duration::from_millis(1),
    }
}

pub(crate) fn build(options: HttpModelOptions) -> HttpModel {
    HttpModel::new(options, HttpClient::new(HttpOptions::default(), &Limits::default()))
}

pub(crate) fn vendor(kind: VendorKind) -> Vendor {
    match kind {
        VendorKind::Anthropic => Vendor::Anthropic,
        VendorKind::Openai => Vendor::Openai,
        VendorKind::OpenaiChat => Vendor::OpenaiChat,
        VendorKind::Gemini => Vendor::Gemini,
    }
}

/// A request with one message of the user.
pub(crate) fn hello() -> ModelRequest {
    ModelRequest { messages: vec![Message::user("hello")], ..ModelRequest::default() }
}

/// What a model sent: all events, and the error after them.
pub(crate) async fn listen(model: &HttpModel, request: ModelRequest) -> (Vec<ModelEvent>, Option<ModelError>) {
    let (mut events, mut stream) = (Vec::new(), model.stream(request));
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// The error of an answer that has no end.
pub(crate) async fn error(model: &HttpModel) -> ModelError {
    let (events, error) = listen(model, hello()).await;
    assert!(!events.iter().any(|event| matches!(event, ModelEvent::End { .. })), "an end before an error: {events:?}");
    error.unwrap()
}

/// A whole answer, put together from the events and compared with the message of the last one.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) reasoning: String,
    pub(crate) text: String,
    /// Names and arguments.
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) usage: Usage,
    pub(crate) reason: StopReason,
}

pub(crate) async fn answer(model: &HttpModel, request: ModelRequest) -> (Answer, Message) {
    let (events, error) = listen(model, request).await;
    assert_eq!(error, None, "after {events:?}");
    gather(events)
}

/// Puts events together. Every call begins and ends once; nothing follows the end.
pub(crate) fn gather(events: Vec<ModelEvent>) -> (Answer, Message) {
    let (mut reasoning, mut text, mut usage) = (String::new(), String::new(), Usage::default());
    let mut calls: Vec<(String, String, String, bool)> = Vec::new();
    let mut end = None;
    for event in events {
        assert!(end.is_none(), "{event:?} after the end");
        match event {
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::Reasoning(piece) => reasoning.push_str(&piece),
            ModelEvent::ToolCallStart { index, id, name } => {
                assert_eq!(index, calls.len());
                calls.push((id, name, String::new(), false));
            }
            ModelEvent::ToolCallArguments { index, delta } => {
                assert!(!calls[index].3, "arguments after the end of a call");
                calls[index].2.push_str(&delta);
            }
            ModelEvent::ToolCallEnd { index } => assert!(!std::mem::replace(&mut calls[index].3, true), "ended twice"),
            ModelEvent::Usage(later) => usage = later,
            ModelEvent::End { reason, message } => end = Some((reason, message)),
            ModelEvent::Sent(_) => {}
        }
    }
    let (reason, message) = end.unwrap();
    assert_eq!(message.text(), text);
    let of_message: Vec<_> = message.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
    assert_eq!(of_message, calls.iter().map(|(id, name, ..)| (id.clone(), name.clone())).collect::<Vec<_>>());
    assert!(calls.iter().all(|call| call.3), "a call did not end");
    let parsed =
        |text: &str| if text.is_empty() { json!({}) } else { serde_json::from_str(text).unwrap_or(json!(text)) };
    let calls: Vec<(String, Value)> = calls.iter().map(|(_, name, text, _)| (name.clone(), parsed(text))).collect();
    let of_message: Vec<_> = message.tool_calls().map(|call| (call.name.clone(), call.arguments_value())).collect();
    assert_eq!(of_message, calls);
    (Answer { reasoning, text, calls, usage, reason }, message)
}
