//! What each vendor gets of a tool and its result, compared with files in `tests/golden`. `UPDATE_GOLDEN=1` writes them anew.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, Conversation};
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

/// A model of a mock vendor that asks for one call and for a prompt.
async fn model(kind: VendorKind, model: &str) -> (MockVendor, Arc<HttpModel>) {
    let prompt = json!({ "server_id": "weather", "prompt_name": "hello" });
    let first = Reply::new().call("call_a", "weather__measure", json!({})).call("call_b", "mcp_get_prompt", prompt);
    let vendor = MockVendor::start(kind, vec![first, Reply::text("Warm.")]).await.unwrap();
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
    (vendor, Arc::new(HttpModel::new(options, HttpClient::new(HttpOptions::default(), &Limits::default()))))
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
    let mut pieces = body.split("instructions-");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |whole, piece| {
        format!("{whole}instructions-{}", piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
    })
}

async fn compare(golden: &str, kind: VendorKind, model: &str) {
    let found = format!("{}\n", last_request(kind, model).await);
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
    compare("anthropic", VendorKind::Anthropic, "claude").await;
    compare("openai", VendorKind::Openai, "gpt").await;
    compare("openai-chat", VendorKind::OpenaiChat, "qwen").await;
    compare("openai-chat-audio", VendorKind::OpenaiChat, "gpt-audio").await;
    compare("gemini", VendorKind::Gemini, "gemini-2").await;
}
