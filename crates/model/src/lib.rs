//! Talks to model vendors.
//!
//! | part | file |
//! |---|---|
//! | neutral messages, streaming events, errors | `message.rs`, `event.rs`, `error.rs` |
//! | the port to a model | `model.rs` |
//! | wire formats: requests and streams | `anthropic.rs`, `openai.rs`, `openai_chat.rs`, `gemini.rs` |
//! | text of a model and a vendor, kept as it was written | `raw_json.rs` |
//! | sending a request and reading its stream | `transport.rs` |
//! | a request as it was sent, to be rebuilt later | `sent.rs` |
//! | asking for the vendor's models, and choosing one | `transport/listing.rs`, `newest.rs` |
//! | what vendors accept, as one table | `vendor.rs` |
//! | adapting tool schemas to a vendor | `schema.rs` |
//! | problems of tool definitions | `lint.rs` |
//! | a script instead of a model | `scripted.rs` |
//! | a model that takes no images | `text_only.rs` |
//! | finding Ollama on its port | `ollama.rs` |
//!
//! Knows nothing about MCP servers, policy, the database or the terminal.

mod answer;
mod anthropic;
pub mod error;
pub mod event;
mod gemini;
pub mod lint;
pub mod message;
pub mod model;
mod newest;
pub mod ollama;
mod openai;
mod openai_chat;
mod raw_json;
pub mod schema;
pub mod scripted;
mod sent;
mod text_only;
pub mod transport;
pub mod vendor;
mod wire;

pub use error::{ModelError, ModelErrorKind};
pub use event::{ModelEvent, StopReason, Usage};
pub use message::{Audio, Image, Message, Part, RawItems, ResultPart, Role, ToolCall, ToolResult};
pub use model::{Model, ModelRequest, Purpose, ToolChoice, ToolDefinition};
pub use ollama::Ollama;
pub use raw_json::value_of;
pub use scripted::{ScriptError, ScriptedModel};
pub use sent::{Encoding, SentRequest};
pub use text_only::TextOnly;
pub use toolway_config::Vendor;
pub use transport::{HttpModel, HttpModelOptions};
