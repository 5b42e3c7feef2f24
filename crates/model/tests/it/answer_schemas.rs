//! The JSON Schema of a whole answer on each wire, and vendors that refuse it.

use serde_json::{Value, json};
use toolway_model::{ModelErrorKind, ModelRequest, ToolDefinition};
use toolway_testkit::vendor::{Reply, VendorKind};

use crate::stage::{answer, build, hello, listen, model, options};

/// Where each wire has the schema.
const PLACES: [(VendorKind, &str); 4] = [
    (VendorKind::Anthropic, "/output_config/format/schema"),
    (VendorKind::Openai, "/text/format/schema"),
    (VendorKind::OpenaiChat, "/response_format/json_schema/schema"),
    (VendorKind::Gemini, "/generationConfig/responseJsonSchema"),
];

fn schema() -> Value {
    json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false })
}

fn request(schema: Value) -> ModelRequest {
    ModelRequest { answer_schema: Some(schema), ..hello() }
}

fn with_tool(request: ModelRequest) -> ModelRequest {
    let tool = ToolDefinition {
        name: "read".to_owned(),
        description: "Read".to_owned(),
        input_schema: json!({ "type": "object", "properties": {} }),
    };
    ModelRequest { tools: vec![tool], ..request }
}

/// The schema that a model of this name sends.
async fn sent(kind: VendorKind, name: &str, request: ModelRequest) -> Option<Value> {
    let (vendor, _) = model(kind, vec![Reply::text("{}")]).await;
    let mut options = options(kind, &vendor.base_url());
    options.model = name.to_owned();
    answer(&build(options), request).await;
    let place = PLACES.iter().find(|(place, _)| *place == kind)?.1;
    vendor.requests()[0].message().pointer(place).cloned()
}

#[tokio::test]
async fn every_wire_sends_the_schema_of_the_answer() {
    for (kind, _) in PLACES {
        assert_eq!(sent(kind, "m", request(schema())).await, Some(schema()), "{kind:?}");
    }
    let (vendor, model) = model(VendorKind::Gemini, vec![Reply::text("{}")]).await;
    answer(&model, request(schema())).await;
    assert_eq!(vendor.requests()[0].message()["generationConfig"]["responseMimeType"], "application/json");
}

#[tokio::test]
async fn tools_keep_their_place_where_a_vendor_cannot_combine_them_with_a_schema() {
    for (kind, name, is_sent) in [
        (VendorKind::Anthropic, "claude-sonnet-4-5", true),
        (VendorKind::Openai, "gpt-5", true),
        // The mock is not at OpenAI's address, as Ollama or vLLM.
        (VendorKind::OpenaiChat, "qwen3", false),
        (VendorKind::Gemini, "gemini-2.5-pro", false),
        (VendorKind::Gemini, "gemini-3-pro", true),
    ] {
        assert_eq!(sent(kind, name, with_tool(request(schema()))).await.is_some(), is_sent, "{name}");
    }
}

#[tokio::test]
async fn anthropic_gets_closed_objects_without_keywords_that_it_refuses() {
    let wide = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "size": { "type": "integer", "minimum": 3 },
            "when": { "type": "string", "format": "date", "maxLength": 10 },
            "shape": { "oneOf": [{ "const": "round" }, { "type": "null" }] },
            "tags": { "type": "array", "items": { "$ref": "#/definitions/tag" }, "minItems": 2 },
        },
        "definitions": { "tag": { "type": "object", "properties": { "name": { "type": "string", "pattern": "x" } } } },
    });
    let narrow = json!({
        "type": "object",
        "properties": {
            "size": { "type": "integer" },
            "when": { "type": "string", "format": "date" },
            "shape": { "anyOf": [{ "type": "string", "enum": ["round"] }, { "type": "null" }] },
            "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" } },
        },
        "additionalProperties": false,
        "$defs": { "tag": { "type": "object", "properties": { "name": { "type": "string" } }, "additionalProperties": false } },
    });
    assert_eq!(sent(VendorKind::Anthropic, "m", request(wide)).await, Some(narrow));
}

#[tokio::test]
async fn what_anthropic_cannot_express_is_left_to_the_words() {
    let list = json!({ "$ref": "#" });
    for schema in [
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "object", "required": ["sum"] }),
        json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
        json!({ "type": "object", "properties": { "any": {} } }),
        json!({ "type": "object", "properties": { "value": { "type": "string" }, "next": list } }),
    ] {
        assert_eq!(sent(VendorKind::Anthropic, "m", request(schema.clone())).await, None, "{schema}");
    }
}

#[tokio::test]
async fn a_vendor_that_refuses_the_schema_is_asked_without_it_from_then_on() {
    for (kind, place) in PLACES {
        let replies = vec![Reply::refusal(400, "unknown field"), Reply::text("{}"), Reply::text("{}")];
        let (vendor, model) = model(kind, replies).await;
        answer(&model, request(schema())).await;
        answer(&model, request(schema())).await;
        let requests = vendor.requests();
        let sent: Vec<bool> = requests.iter().map(|request| request.message().pointer(place).is_some()).collect();
        assert_eq!(sent, [true, false, false], "{kind:?}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_for_another_reason_stays_refused() {
    for (kind, _) in PLACES {
        let (vendor, model) = model(kind, vec![Reply::refusal(400, "no such model"); 3]).await;
        let error = listen(&model, request(schema())).await.1.unwrap();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest { status: 400 }, "{kind:?}");
        assert_eq!(vendor.requests().len(), 2, "{kind:?}");
    }
}
