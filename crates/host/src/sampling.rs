//! Sampling: a server asks for the answer of a model.
//!
//! | part | file |
//! |---|---|
//! | the port that chooses a model and lets it answer | here |
//! | whether a request is answered, as one pure function | `sampling/permission.rs` |
//! | quotas, and the port that counts | `sampling/quota.rs` |
//! | what it cost in each conversation | `sampling/totals.rs` |
//! | the path of a request: permission, quota, person, model, review | `sampling/answering.rs` |
//!
//! What a person sees of a request and what the model gets are made from one value ([`PreparedSample`]): between the two
//! nothing is read again.

pub(crate) mod answering;
pub mod permission;
pub mod quota;
pub(crate) mod totals;

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolway_config::{SamplingLevels, ServerName, visible};
use toolway_wire::{exchange::ServerRequestDetails, json::Raw, message::RpcError};

pub use self::{
    permission::{Permission, PermissionInput, Presence, SavedAnswer},
    quota::{NoSamplingLedger, QuotaLeft, SampledTokens, SamplingEnd, SamplingLedger, SamplingQuotas, SamplingUse},
    totals::ConversationSampling,
};
use crate::inbox::ItemOrigin;

/// Lets a model answer sampling requests. It decides nothing: the host asks it only for what is allowed.
pub trait Sampler: Send + Sync {
    /// Kinds of sampling that can be answered to this server.
    fn offer(&self, server: &ServerName) -> SamplingOffer;

    /// Chooses the model and translates the request for it. Nothing is sent.
    fn prepare(&self, request: &SamplingRequest, levels: &SamplingLevels) -> Result<PreparedSample, RpcError>;
}

/// A sampling request, its server and its call. Its content is untrusted.
#[derive(Clone, Debug)]
pub struct SamplingRequest {
    /// The server that sent it.
    pub server: ServerName,
    /// The call that it belongs to.
    pub origin: ItemOrigin,
    /// Name of what is called.
    pub called: String,
    /// Method and parameters.
    pub request: ServerRequestDetails,
}

/// A request as a model gets it, and as a person sees it.
pub struct PreparedSample {
    /// What a person sees.
    pub details: SamplingDetails,
    /// Sends exactly that to the model.
    pub send: SendToModel,
}

/// Sends a prepared request. Can be used once.
pub type SendToModel = Box<dyn FnOnce() -> BoxFuture<'static, ModelAnswer> + Send>;

/// What a model answered, and what that cost.
#[derive(Debug)]
pub struct ModelAnswer {
    /// Tokens as the vendor counts them; `None` if it did not say.
    pub tokens: Option<SampledTokens>,
    /// The answer, or the error for the server.
    pub answer: Result<Sampled, RpcError>,
}

/// An answer of a model.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The result for the server.
    pub result: Raw,
    /// The same, as a person sees it.
    pub text: String,
    /// Why the model stopped, in the protocol's word.
    pub stop_reason: String,
}

/// What a person sees of a sampling request: everything that the model gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingDetails {
    /// Name of what is called.
    pub called: String,
    /// The messages in order.
    pub messages: Vec<SampledMessage>,
    /// System prompt of the server.
    pub system: Option<String>,
    /// Temperature, as the server wrote it.
    pub temperature: Option<String>,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Maximum number of tokens of the answer.
    pub max_tokens: u64,
    /// Tokens of the request, estimated before it is sent.
    pub input_tokens: u64,
    /// The tools that the model may call; the server runs them.
    pub tools: Vec<SampledTool>,
    /// Whether the model may or must call a tool, if the server says so.
    pub tool_choice: Option<String>,
    /// Name of the model.
    pub model: String,
    /// Why this model was chosen.
    pub reason: String,
    /// What is left of the quotas after this request.
    pub quota: Vec<QuotaLeft>,
    /// The answer of the model, if that is what a person decides on.
    pub answer: Option<String>,
}

/// One message as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// Its text; other content by kind and size.
    pub text: String,
}

/// A tool of the server as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledTool {
    /// Its name.
    pub name: String,
    /// Its description for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: String,
}

/// Kinds of sampling that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SamplingOffer {
    /// Sampling is not supported.
    Nothing,
    /// Messages without tools.
    Messages,
    /// Messages with tools of the server.
    WithTools,
}

/// Supports no sampling: the safe default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSampler;

impl Sampler for NoSampler {
    fn offer(&self, _server: &ServerName) -> SamplingOffer {
        SamplingOffer::Nothing
    }

    fn prepare(&self, request: &SamplingRequest, _levels: &SamplingLevels) -> Result<PreparedSample, RpcError> {
        Err(refused(&request.server, "no model is available"))
    }
}

impl fmt::Debug for PreparedSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedSample").field("details", &self.details).finish_non_exhaustive()
    }
}

impl SamplingDetails {
    /// Tokens that a request reserves: what it has itself, estimated, and the most that its answer may have.
    pub fn reserved_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.max_tokens)
    }

    /// About how many bytes are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        let messages: usize = self.messages.iter().map(|message| message.text.len() + message.role.len()).sum();
        let tool = |tool: &SampledTool| tool.name.len() + tool.description.len() + tool.schema.len();
        let tools: usize = self.tools.iter().map(tool).sum();
        let stops: usize = self.stop_sequences.iter().map(String::len).sum();
        messages + tools + stops + [&self.system, &self.answer].into_iter().flatten().map(String::len).sum::<usize>()
    }

    /// Whether what is sent contains hidden characters. Allowing it takes two steps.
    pub fn has_hidden(&self) -> bool {
        self.texts().any(visible::has_hidden)
    }

    /// As scripts and pages see it.
    pub fn to_json(&self) -> Value {
        let message = |message: &SampledMessage| json!({ "role": message.role, "text": message.text });
        let tool =
            |tool: &SampledTool| json!({ "name": tool.name, "description": tool.description, "schema": tool.schema });
        let quota = |left: &QuotaLeft| json!({ "level": left.level.as_str(), "requests": left.requests, "tokens": left.tokens, "text": left.to_string() });
        json!({
            "called": self.called,
            "messages": self.messages.iter().map(message).collect::<Vec<_>>(),
            "system": self.system,
            "temperature": self.temperature,
            "stopSequences": self.stop_sequences,
            "maxTokens": self.max_tokens,
            "estimatedInputTokens": self.input_tokens,
            "tools": self.tools.iter().map(tool).collect::<Vec<_>>(),
            "toolChoice": self.tool_choice,
            "model": self.model,
            "reason": self.reason,
            "quota": self.quota.iter().map(quota).collect::<Vec<_>>(),
            "answer": self.answer,
            "hidden": self.has_hidden(),
        })
    }

    /// All texts of others in it, in the order in which they are shown.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let tools = self.tools.iter().flat_map(|tool| [&tool.name, &tool.description, &tool.schema]);
        let messages = self.messages.iter().map(|message| &message.text);
        let others = self.stop_sequences.iter().chain(&self.tool_choice).chain(&self.temperature).chain(&self.answer);
        let texts = self.system.iter().chain(messages).chain(tools).chain(others);
        texts.map(String::as_str)
    }
}

/// The error of a request that is not answered.
pub fn refused(server: &ServerName, why: &str) -> RpcError {
    let message = format!("sampling for `{server}` was refused: {why}");
    RpcError::new(RpcError::INVALID_REQUEST, &message)
}
