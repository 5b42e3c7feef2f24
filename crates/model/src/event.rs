//! What a model sends while it answers.

use serde::{Deserialize, Serialize};

use crate::{message::Message, sent::SentRequest};

/// One event of a stream. A stream ends with [`ModelEvent::End`] or with an error; without either it was cut, which is
/// an error too.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// A request was sent. It comes first, and twice if the vendor refused the answer schema.
    Sent(SentRequest),
    /// More text.
    Text(String),
    /// More reasoning, as far as the vendor shows it.
    Reasoning(String),
    /// A tool call begins. `index` counts the calls of this message from 0.
    ToolCallStart {
        /// Position among the calls of this message.
        index: usize,
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// More of a call's arguments, as JSON text.
    ToolCallArguments {
        /// Position among the calls of this message.
        index: usize,
        /// Next piece of the JSON text.
        delta: String,
    },
    /// A call's arguments are complete.
    ToolCallEnd {
        /// Position among the calls of this message.
        index: usize,
    },
    /// Tokens used so far; a later event replaces an earlier one.
    Usage(Usage),
    /// The message is complete.
    End {
        /// Why the model stopped.
        reason: StopReason,
        /// The whole message, with the vendor's items.
        message: Message,
    },
}

/// Tokens that a request used. A figure that the vendor does not report is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the request that were read from the vendor's cache.
    pub cached_tokens: u64,
    /// Tokens of the request that were written to the vendor's cache.
    pub cache_write_tokens: u64,
    /// Tokens of the answer that were reasoning.
    pub reasoning_tokens: u64,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It is done.
    EndTurn,
    /// It wants results of tool calls.
    ToolCalls,
    /// It reached the limit of output tokens.
    MaxTokens,
    /// The vendor's safety filter or the model refused.
    Refused,
    /// Another reason, in the vendor's word.
    Other(String),
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}
