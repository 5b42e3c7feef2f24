//! What reasoning models behind Chat Completions added to their calls: they refuse a conversation without it. DeepSeek and
//! Kimi expect `reasoning_content`, Gemini's compatible endpoint the signature in `extra_content`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    openai_chat,
    reply::{Body, Piece, VendorReply},
};

/// What was added, by the id of a call.
#[derive(Debug, Default)]
pub(super) struct Memory {
    reasoning: HashMap<String, String>,
    signatures: HashMap<String, String>,
}

impl Memory {
    /// Keeps what an answer adds to its calls.
    pub(super) fn keep(&mut self, reply: &VendorReply) {
        let Body::Answer(answer) = &reply.body else { return };
        let mut thoughts = String::new();
        let mut ids = Vec::new();
        for piece in &answer.pieces {
            match piece {
                Piece::Reasoning(text) => thoughts.push_str(text),
                Piece::Call { id, .. } => ids.push(id.clone()),
                Piece::Text(_) => {}
            }
        }
        let first = ids.first().cloned().zip(answer.signature.clone());
        self.signatures.extend(first);
        if !thoughts.is_empty() {
            self.reasoning.extend(ids.into_iter().map(|id| (id, thoughts.clone())));
        }
    }

    /// Refuses a request whose calls lack it, with the words of Kimi and of Gemini.
    pub(super) fn check(&self, body: &Value) -> Result<(), (u16, String)> {
        for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let id = call["id"].as_str().unwrap_or_default();
                let reasoning = self.reasoning.get(id);
                if reasoning.is_some_and(|reasoning| message["reasoning_content"] != json!(reasoning)) {
                    let why = "thinking is enabled but reasoning_content is missing in assistant tool call message";
                    return Err((400, format!("{why} at index {at}")));
                }
                let signature = self.signatures.get(id).map(|signature| openai_chat::extra_content(signature));
                if signature.is_some_and(|signature| call["extra_content"] != signature) {
                    let why = "Function call is missing a thought_signature in functionCall parts.";
                    return Err((400, why.to_owned()));
                }
            }
        }
        Ok(())
    }
}
