//! Requests as they are sent, compared with files in `tests/golden`. `UPDATE_GOLDEN=1` writes them anew.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolway_model::{
    Audio, Image, Message, ModelRequest, Part, ResultPart, Role, ToolChoice, ToolDefinition, ToolResult, Vendor,
    schema::adapt,
};
use toolway_testkit::{
    odd::http::RecordedRequest,
    vendor::{Reply, VendorKind},
};

use crate::stage::{answer, hello, model, vendor};

/// One white pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg==";

fn pixel() -> Image {
    Image { mime_type: "image/png".to_owned(), data: PIXEL.to_owned() }
}

fn text(text: &str) -> ResultPart {
    ResultPart::Text { text: text.to_owned() }
}

/// The user's question with an image, an answer of `author` with reasoning, text and three calls, and their results.
async fn conversation(author: VendorKind) -> Vec<Message> {
    let reply = Reply::new()
        .reason("Both files matter, and the picture.")
        .say("I read both files and draw the plot.")
        .call("call_a", "files__read", json!({ "path": "a.txt" }))
        .call("call_b", "files__read", json!({ "path": "missing.txt", "lines": [1, 20] }))
        .call("call_c", "plots__draw", json!({}));
    let (_vendor, asked) = model(author, vec![reply]).await;
    let (_, message) = answer(&asked, hello()).await;
    let contents = [
        (vec![text("first line"), text("second line")], false),
        (vec![text("file not found: missing.txt")], true),
        (vec![text("The plot:"), ResultPart::Image(pixel())], false),
    ];
    let results = message.tool_calls().zip(contents).map(|(call, (content, is_error))| ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content,
        is_error,
    });
    let results = Message::tool_results(results.collect::<Vec<_>>());
    let question = vec![Part::Text { text: "Compare the files with this.".to_owned() }, Part::Image(pixel())];
    let question = Message { role: Role::User, parts: question, raw: None, task: None, attached: None };
    vec![question, message, results, Message::user("Be brief.")]
}

fn tools(vendor: Vendor) -> Vec<ToolDefinition> {
    let read = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "description": "Path of the file." },
            "lines": { "type": "array", "items": [{ "type": "integer" }, { "type": "integer" }] },
            "mode": { "const": "text" },
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    let draw = json!({ "type": "object" });
    vec![
        adapt(vendor, "files__read", "Read a file.", &read).unwrap(),
        adapt(vendor, "plots__draw", "Draw the plot.", &draw).unwrap(),
    ]
}

async fn request(kind: VendorKind, author: VendorKind) -> RecordedRequest {
    let request = ModelRequest {
        system: "You are a careful assistant.".to_owned(),
        messages: conversation(author).await,
        tools: tools(vendor(kind)),
        max_tokens: Some(1_000),
        ..ModelRequest::default()
    };
    let (vendor, asked) = model(kind, vec![Reply::text("Same.")]).await;
    assert_eq!(answer(&asked, request).await.0.text, "Same.");
    vendor.requests().remove(0)
}

/// Compares a request with a file.
fn compare(name: &str, request: &RecordedRequest) {
    let of_connection = ["host", "content-length", "connection", "user-agent", "accept-encoding"];
    let headers = request.headers.iter().filter(|(name, _)| !of_connection.contains(&name.as_str()));
    let headers: serde_json::Map<String, Value> =
        headers.map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let (method, path, body) = (&request.verb, &request.path, request.message());
    let found = json!({ "method": method, "path": path, "headers": headers, "body": body });
    let found = format!("{}\n", serde_json::to_string_pretty(&found).unwrap());
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert_eq!(found, golden, "{name}: run the test with UPDATE_GOLDEN=1 if the change is intended");
}

/// A request with everything that a server that asks a model can say.
async fn sampling(kind: VendorKind) -> RecordedRequest {
    let mut parts = vec![Part::Text { text: "What is this?".to_owned() }, Part::Image(pixel())];
    if matches!(kind, VendorKind::OpenaiChat | VendorKind::Gemini) {
        parts.push(Part::Audio(Audio { mime_type: "audio/wav".to_owned(), data: "UklGRg==".to_owned() }));
    }
    let request = ModelRequest {
        messages: vec![Message { role: Role::User, parts, raw: None, task: None, attached: None }],
        tools: tools(vendor(kind)),
        max_tokens: Some(100),
        temperature: Some(1.5),
        stop_sequences: vec!["END".to_owned(), "\n\n".to_owned()],
        tool_choice: Some(ToolChoice::Required),
        ..ModelRequest::default()
    };
    let (vendor, asked) = model(kind, vec![Reply::text("A pixel.")]).await;
    assert_eq!(answer(&asked, request).await.0.text, "A pixel.");
    vendor.requests().remove(0)
}

#[tokio::test]
async fn each_vendor_gets_what_a_server_asks_for() {
    compare("anthropic-sampling", &sampling(VendorKind::Anthropic).await);
    compare("openai-sampling", &sampling(VendorKind::Openai).await);
    compare("openai-chat-sampling", &sampling(VendorKind::OpenaiChat).await);
    compare("gemini-sampling", &sampling(VendorKind::Gemini).await);
}

#[tokio::test]
async fn anthropic_gets_its_own_blocks_back() {
    compare("anthropic", &request(VendorKind::Anthropic, VendorKind::Anthropic).await);
}

#[tokio::test]
async fn anthropic_gets_the_answer_of_another_vendor_rebuilt() {
    compare("anthropic-after-openai", &request(VendorKind::Anthropic, VendorKind::Openai).await);
}

#[tokio::test]
async fn openai_gets_its_own_items_back() {
    compare("openai", &request(VendorKind::Openai, VendorKind::Openai).await);
}

#[tokio::test]
async fn openai_gets_the_answer_of_another_vendor_rebuilt() {
    compare("openai-after-anthropic", &request(VendorKind::Openai, VendorKind::Anthropic).await);
}

#[tokio::test]
async fn a_chat_server_gets_its_own_message_back() {
    compare("openai-chat", &request(VendorKind::OpenaiChat, VendorKind::OpenaiChat).await);
}

#[tokio::test]
async fn a_chat_server_gets_the_answer_of_another_vendor_rebuilt() {
    compare("openai-chat-after-anthropic", &request(VendorKind::OpenaiChat, VendorKind::Anthropic).await);
}

#[tokio::test]
async fn gemini_gets_its_own_parts_back() {
    compare("gemini", &request(VendorKind::Gemini, VendorKind::Gemini).await);
}

#[tokio::test]
async fn gemini_gets_the_answer_of_another_vendor_rebuilt() {
    compare("gemini-after-openai", &request(VendorKind::Gemini, VendorKind::Openai).await);
}

#[tokio::test]
async fn reasoning_is_never_sent_to_another_vendor_and_always_back_to_its_own() {
    for kind in VendorKind::ALL {
        for author in VendorKind::ALL {
            let request = request(kind, author).await;
            let body = String::from_utf8(request.body().to_vec()).unwrap();
            let signatures = ["EqQBCgIYAhIM1", "gAAAAABo-encrypted", "geminiThoughtSignature"];
            let found = signatures.iter().filter(|signature| body.contains(**signature)).count();
            // Chat Completions has no signature of the whole answer.
            let expected = usize::from(kind == author && kind != VendorKind::OpenaiChat);
            assert_eq!(found, expected, "{author:?} to {kind:?}");
            // Gemini expects the signature only.
            let expected = kind == author && kind != VendorKind::Gemini;
            assert_eq!(body.contains("Both files matter"), expected, "{author:?} to {kind:?}");
        }
    }
}

#[tokio::test]
async fn a_message_of_another_model_of_the_same_vendor_is_rebuilt() {
    let (vendor, _) = model(VendorKind::Anthropic, vec![Reply::text("Same.")]).await;
    let mut options = crate::stage::options(VendorKind::Anthropic, &vendor.base_url());
    options.model = "another".to_owned();
    let messages = conversation(VendorKind::Anthropic).await;
    answer(&crate::stage::build(options), ModelRequest { messages, ..ModelRequest::default() }).await;
    let body = String::from_utf8(vendor.requests()[0].body().to_vec()).unwrap();
    assert!(!body.contains("thinking") && body.contains("call_b"), "{body}");
}

#[tokio::test]
async fn gemini_3_gets_a_signature_with_the_first_call_of_another_vendor() {
    let (vendor, _) = model(VendorKind::Gemini, vec![Reply::text("Same.")]).await;
    let mut options = crate::stage::options(VendorKind::Gemini, &vendor.base_url());
    options.model = "gemini-3-pro".to_owned();
    let messages = conversation(VendorKind::Openai).await;
    answer(&crate::stage::build(options), ModelRequest { messages, ..ModelRequest::default() }).await;
    let body = String::from_utf8(vendor.requests()[0].body().to_vec()).unwrap();
    assert_eq!(body.matches("skip_thought_signature_validator").count(), 1, "{body}");
}
