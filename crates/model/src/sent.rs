//! A request as it was sent to a model: its bytes, and what decided them besides the request. Header fields, and with them
//! keys, are no part of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use crate::{
    ModelRequest, Vendor,
    message::vendor_word,
    text_only::leave_out_images,
    wire::{self, WireSettings},
};

/// A request that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRequest {
    /// How it was encoded.
    pub encoding: Encoding,
    /// The JSON Schema of the answer, as far as it was sent.
    pub answer_schema: Option<Value>,
    /// Its body.
    pub body: Bytes,
}

/// What decides the bytes of a request besides the request: the wire format, and the model's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Encoding {
    /// The vendor, which decides the wire format.
    #[serde(with = "vendor_word")]
    pub vendor: Vendor,
    /// The vendor's name of the model.
    pub model: String,
    /// Configured limit of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Whether the vendor is OpenAI itself and not a compatible server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_openai: bool,
    /// Whether texts stand in for images.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_text_only: bool,
}

impl Encoding {
    /// The body of a request, as it would be sent now.
    pub fn body(&self, request: &ModelRequest) -> Bytes {
        if self.is_text_only {
            let mut request = request.clone();
            request.messages.iter_mut().for_each(leave_out_images);
            return Self { is_text_only: false, ..self.clone() }.body(&request);
        }
        let settings =
            WireSettings { model: self.model.clone(), max_tokens: self.max_tokens, at_openai: self.at_openai };
        let body = wire::encode(self.vendor, &settings, request).map(|(_, body)| body);
        Bytes::from(body.unwrap_or_else(|| neutral(request)).to_string())
    }

    /// A request of a model without a wire format, as if it had one: in our own form.
    pub(crate) fn scripted(model: &str) -> Self {
        Self {
            vendor: Vendor::Scripted,
            model: model.to_owned(),
            max_tokens: None,
            at_openai: false,
            is_text_only: false,
        }
    }

    pub(crate) fn encode(self, request: &ModelRequest) -> SentRequest {
        let body = self.body(request);
        SentRequest { encoding: self, answer_schema: request.answer_schema.clone(), body }
    }
}

/// A request in our own form.
fn neutral(request: &ModelRequest) -> Raw {
    let tool = |tool: &crate::ToolDefinition| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema });
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let body = Raw::of(&json!({ "system": request.system, "tools": tools, "messages": [] }));
    // Arguments and items keep every byte.
    let messages = serde_json::to_string(&request.messages).ok().and_then(|text| Raw::parse(text).ok());
    match messages {
        Some(messages) => splice::edited(&body, &[Edit::Set("messages", messages)]),
        None => body,
    }
}
