//! Talks to model vendors.
//!
//! | part | file |
//! |---|---|
//! | neutral messages, streaming events, errors | `message.rs`, `event.rs`, `error.rs` |
//! | the port to a model | `model.rs` |
//! | wire formats: requests and streams | `anthropic.rs`, `openai.rs`, `openai_chat.rs`, `gemini.rs` |
//! | sending a request and reading its stream | `transport.rs` |
//! | adapting tool schemas to a vendor | `schema.rs` |
//! | a script instead of a model | `scripted.rs` |
//! | finding Ollama on its port | `ollama.rs` |
//!
//! Knows nothing about MCP servers, policy, the database or the terminal.

mod answer;
mod anthropic;
pub mod error;
pub mod event;
mod gemini;
pub mod message;
pub mod model;
pub mod ollama;
mod openai;
mod openai_chat;
pub mod schema;
pub mod scripted;
pub mod transport;
mod wire;

pub use error::{ModelError, ModelErrorKind};
pub use event::{ModelEvent, StopReason, Usage};
pub use message::{Image, Message, Part, RawItems, ResultPart, Role, ToolCall, ToolResult, Wire};
pub use model::{Model, ModelRequest, ToolDefinition};
pub use ollama::Ollama;
pub use scripted::{ScriptError, ScriptedModel};
pub use transport::{HttpModel, HttpModelOptions};
