//! The port to a model: one request, one stream of events.

use std::fmt;

use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::{Vendor, error::ModelError, event::ModelEvent, message::Message};

/// A model.
pub trait Model: Send + Sync + fmt::Debug {
    /// Name in the configuration.
    fn name(&self) -> &str;

    /// The vendor, which decides how tools are adapted.
    fn vendor(&self) -> Vendor;

    /// Tokens that a conversation may have; `None` if unknown.
    fn context_window(&self) -> Option<u64>;

    /// Whether images can be sent to it.
    fn takes_images(&self) -> bool {
        true
    }

    /// Sends a request. Nothing is sent before the stream is polled; dropping the stream ends the request.
    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>>;
}

/// One request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// System prompt; empty for none.
    pub system: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tools on offer, already adapted to the vendor (`schema::adapt`).
    pub tools: Vec<ToolDefinition>,
    /// Limit of output tokens; `None`: the configured or the vendor's default.
    pub max_tokens: Option<u64>,
    /// JSON Schema that the final answer must match. It is sent where the vendor can enforce it; the answer has to be
    /// checked in any case.
    pub answer_schema: Option<Value>,
    /// Randomness of the answer; sent only to models that take it, within the vendor's range.
    pub temperature: Option<f64>,
    /// Texts at which the model stops. A vendor without them sends the whole answer.
    pub stop_sequences: Vec<String>,
    /// Whether the model may or must call a tool; `None`: the vendor's default. Ignored without tools.
    pub tool_choice: Option<ToolChoice>,
    /// What the answer is for. No vendor is told.
    pub purpose: Purpose,
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The conversation.
    #[default]
    Answer,
    /// A summary of older turns, by which a conversation is kept within the context window.
    Summary,
}

/// Whether a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// It must call one.
    Required,
    /// It must not.
    Never,
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Name, valid for every vendor: `[A-Za-z_][A-Za-z0-9_-]{0,63}`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub input_schema: Value,
}
