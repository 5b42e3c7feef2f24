//! Sampling: a server asks for the answer of a model. The port [`Sampler`] decides and answers; what a person must decide
//! is an item of the inbox.

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails},
    message::RpcError,
};

use crate::inbox::ItemOrigin;

/// Answers sampling requests with a model.
pub trait Sampler: Send + Sync {
    /// Kinds of sampling that can be answered to this server, as declared to it.
    fn offer(&self, server: &ServerName) -> SamplingOffer;

    /// Decides on a request, before anything of it is sent to a model.
    fn decide(&self, request: &SamplingRequest) -> SamplingDecision;

    /// Returns the response of the model to a request that was allowed.
    fn sample(&self, request: SamplingRequest) -> BoxFuture<'_, Answer>;
}

/// A sampling request, its server and its call. Its content is untrusted.
#[derive(Clone, Debug)]
pub struct SamplingRequest {
    /// The server that sent it.
    pub server: ServerName,
    /// The call that it belongs to.
    pub origin: ItemOrigin,
    /// Method and parameters.
    pub request: ServerRequestDetails,
}

/// Decision on a sampling request.
#[derive(Clone, Debug)]
pub enum SamplingDecision {
    /// It is answered.
    Allowed,
    /// A person decides.
    Ask(Box<SamplingDetails>),
    /// It is refused; the server gets this error.
    Refused(RpcError),
}

/// What a person sees of a sampling request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingDetails {
    /// The messages in order.
    pub messages: Vec<SampledMessage>,
    /// System prompt that the server wants.
    pub system: Option<String>,
    /// Temperature that the server wants, as it wrote it.
    pub temperature: Option<String>,
    /// Maximum number of tokens of the answer.
    pub max_tokens: u64,
    /// Names of the tools that the model may call; the server runs them.
    pub tools: Vec<String>,
    /// Name of the model.
    pub model: String,
    /// Why this model was chosen.
    pub reason: String,
}

/// One message as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// Its text; other content by kind and size.
    pub text: String,
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

    fn decide(&self, request: &SamplingRequest) -> SamplingDecision {
        SamplingDecision::Refused(refused(&request.server, "no model is available"))
    }

    fn sample(&self, _request: SamplingRequest) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Unavailable })
    }
}

impl SamplingDetails {
    /// About how many bytes are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        let messages: usize = self.messages.iter().map(|message| message.text.len() + message.role.len()).sum();
        let tools: usize = self.tools.iter().map(String::len).sum();
        messages + tools + self.system.as_deref().map_or(0, str::len)
    }
}

/// The error of a request that is not answered.
pub fn refused(server: &ServerName, why: &str) -> RpcError {
    let message = format!("sampling for `{server}` was refused: {why}");
    RpcError::new(RpcError::INVALID_REQUEST, &message)
}
