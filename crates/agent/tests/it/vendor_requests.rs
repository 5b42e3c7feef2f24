//! What each vendor gets of a tool and its result, compared with files in `tests/golden`. `UPDATE_GOLDEN=1` writes them anew.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, Attachment, Conversation};
use toolway_host::policy::ApprovalAnswer;
use toolway_model::{HttpModel, HttpModelOptions, Message, Vendor};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::TestHost,
    vendor::{MockVendor, Reply, VendorKind},
};
use toolway_wire::{
    limit::Limits,
    up::{client::HttpClient, connector::HttpOptions},
};

use crate::options;

/// A text, structured content, an image, a sound, and resources of each kind.
const EVERYTHING: &str = r#"{
    "content": [
        {"type": "text", "text": "21 degrees"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
        {"type": "resource", "resource": {"uri": "file:///log.txt", "mimeType": "text/plain", "text": "line one"}},
        {"type": "resource", "resource": {"uri": "file:///raw.bin", "blob": "AAAA"}}
    ],
    "structuredContent": {"celsius": 21.50, "station": 9007199254740993}
}"#;

fn server() -> FixtureServer {
    let hints = json!({ "destructiveHint": true, "openWorldHint": true, "idempotentHint": true });
    let schema = json!({ "type": "object", "properties": { "celsius": { "type": "number" } } });
    FixtureServer::new("weather")
        .annotated("measure", &hints, Behaviour::Answer(EVERYTHING))
        .structured("measure", &schema)
}

/// Names of the files, and models whose names say what they take.
const VENDORS: [(&str, VendorKind, &str); 5] = [
    ("anthropic", VendorKind::Anthropic, "claude"),
    ("openai", VendorKind::Openai, "gpt"),
    ("openai-chat", VendorKind::OpenaiChat, "qwen"),
    ("openai-chat-audio", VendorKind::OpenaiChat, "gpt-audio"),
    ("gemini", VendorKind::Gemini, "gemini-2"),
];

/// A model of a mock vendor that asks for one call and for a prompt.
async fn model(kind: VendorKind, model: &str) -> (MockVendor, Arc<HttpModel>) {
    let prompt = json!({ "server_id": "weather", "prompt_name": "hello" });
    let first = Reply::new().call("call_a", "weather__measure", json!({})).call("call_b", "mcp_get_prompt", prompt);
    let vendor = MockVendor::start(kind, vec![first, Reply::text("Warm.")]).await.unwrap();
    let model = http_model(&vendor, kind, model);
    (vendor, model)
}

fn http_model(vendor: &MockVendor, kind: VendorKind, model: &str) -> Arc<HttpModel> {
    let wire = match kind {
        VendorKind::Anthropic => Vendor::Anthropic,
        VendorKind::Openai => Vendor::Openai,
        VendorKind::OpenaiChat => Vendor::OpenaiChat,
        VendorKind::Gemini => Vendor::Gemini,
    };
    let options = HttpModelOptions {
        name: "m".to_owned(),
        vendor: wire,
        model: model.to_owned(),
        base_url: vendor.base_url().parse().unwrap(),
        key: Some(toolway_config::Secret::new("sk-test")),
        headers: http::HeaderMap::new(),
        max_tokens: None,
        context_window: Some(200_000),
        pause: Duration::from_millis(1),
    };
    Arc::new(HttpModel::new(options, HttpClient::new(HttpOptions::default(), &Limits::default())))
}

/// The last request of a conversation with one call, without the delimiter of its id.
async fn last_request(kind: VendorKind, name: &str) -> String {
    let host = TestHost::with(&server(), "weather").start().await;
    host.answering(ApprovalAnswer::approved("test"));
    host.ready("weather").await;
    let (vendor, model) = model(kind, name).await;
    let agent = Agent::new(host.host.clone(), model, options());
    let (mut conversation, cancel) = (Conversation::new(None), CancellationToken::new());
    let asked = vec![Message::user("How warm is it?")];
    let answer = agent.answer(&mut conversation, asked, &cancel, &mut |_| {}).await.unwrap();
    assert_eq!(answer.text, "Warm.");
    let body = serde_json::to_string_pretty(&vendor.requests().remove(1).message()).unwrap();
    without_digits(&body)
}

/// The request of a message with a file, an image, a sound, and a resource with an embedded image.
async fn request_with_attachments(kind: VendorKind, name: &str) -> String {
    let listed = json!({ "uri": "weather://chart", "name": "chart" });
    let contents = json!([
        { "uri": "weather://chart", "mimeType": "text/markdown", "text": "# Chart" },
        { "uri": "weather://chart.png", "mimeType": "image/png", "blob": "iVBORw0KGgo=" },
    ]);
    let host = TestHost::with(&server().resource(listed, contents), "weather").start().await;
    host.ready("weather").await;
    let vendor = MockVendor::start(kind, vec![Reply::text("Warm.")]).await.unwrap();
    let agent = Agent::new(host.host.clone(), http_model(&vendor, kind, name), options());
    let mut conversation = Conversation::new(None);
    let mut messages = Vec::new();
    for file in ["notes.txt", "dot.png", "beep.wav"] {
        let file = Attachment::read_file(&PathBuf::from("tests/attached").join(file)).await.unwrap();
        messages.push(file.message(&conversation));
    }
    messages.push(agent.attach_resource(&conversation, "weather://chart").await.unwrap().message(&conversation));
    messages.push(Message::user("How warm is it?"));
    agent.answer(&mut conversation, messages, &CancellationToken::new(), &mut |_| {}).await.unwrap();
    let mut body = vendor.requests().remove(0).message().clone();
    // The definitions of tools are in the other files.
    body.as_object_mut().unwrap().remove("tools");
    without_digits(&serde_json::to_string_pretty(&body).unwrap())
}

/// A request without the delimiters that are derived from the id of its conversation.
fn without_digits(body: &str) -> String {
    ["instructions-", "attachment-"].iter().fold(body.to_owned(), |body, mark| {
        let mut pieces = body.split(mark);
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |whole, piece| {
            format!("{whole}{mark}{}", piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
        })
    })
}

fn compare(golden: &str, found: &str) {
    let found = format!("{found}\n");
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{golden}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, expected, "{golden}: run the test with UPDATE_GOLDEN=1 if the change is intended");
}

#[tokio::test]
async fn each_vendor_gets_hints_structure_sounds_and_resources() {
    for (golden, kind, model) in VENDORS {
        compare(golden, &last_request(kind, model).await);
    }
}

#[tokio::test]
async fn each_vendor_gets_attachments_before_the_message() {
    for (golden, kind, model) in VENDORS {
        compare(&format!("{golden}-attachments"), &request_with_attachments(kind, model).await);
    }
}
