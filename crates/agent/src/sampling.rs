//! Answers sampling requests of servers with a model.
//!
//! | part | file |
//! |---|---|
//! | choosing the model | `sampling/choice.rs` |
//! | the model of each conversation | `sampling/conversations.rs` |
//! | the tokens of a request before it is sent | `sampling/estimate.rs` |
//! | a request as the model gets it, and the answer as the server gets it | `sampling/translation.rs` |
//!
//! Whether a request is answered at all is decided in `host`. What a person sees is made from the request that the model
//! gets, and that is the one that is sent.

mod choice;
mod conversations;
mod estimate;
mod translation;

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::StreamExt;
use parking_lot::Mutex;
use toolway_config::{SamplingLevels, ServerName};
use toolway_host::{
    call::CallId,
    sampling::{ModelAnswer, PreparedSample, SampledTokens, Sampler, SamplingOffer, SamplingRequest, refused},
};
use toolway_model::{Model, ModelEvent, ModelRequest, Usage};
use toolway_wire::message::RpcError;

use self::translation::{Abilities, Translated};
pub use self::{
    choice::{ModelCandidate, ModelPriority},
    conversations::ConversationModels,
};

/// Requests of one call that are answered at most: a server could ask without end.
const MAX_REQUESTS_OF_A_CALL: u32 = 20;
/// Calls whose requests are counted; the oldest are forgotten.
const COUNTED_CALLS: usize = 1_000;

/// Why the model of a conversation answers.
pub const OF_CONVERSATION: &str = "the model of the conversation";

/// Answers sampling requests with models of the configuration.
pub struct ModelSampler {
    models: Arc<dyn SamplingModels>,
    conversations: ConversationModels,
    requests: RequestCounts<CallId>,
}

/// The models that may answer.
pub trait SamplingModels: Send + Sync {
    /// Kinds of sampling that can be answered to this server.
    fn offer(&self, server: &ServerName) -> SamplingOffer;

    /// The configured models, in the order in which equal ones are preferred.
    fn candidates(&self) -> Vec<ModelCandidate>;

    /// The model of this name, or the default, and why that is the default. The error is for the operator.
    fn open(&self, name: Option<&str>) -> Result<OpenedModel, String>;
}

/// A model that can be asked.
#[derive(Clone, Debug)]
pub struct OpenedModel {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Why it is the default; empty if it was named.
    pub reason: &'static str,
}

/// Number of requests by call. Ids of calls are in the order of time.
#[derive(Debug)]
struct RequestCounts<K>(
    // Nothing awaits under this lock.
    Mutex<BTreeMap<K, u32>>,
);

// === impl ModelSampler ===

impl ModelSampler {
    /// Answers with these models, and in the calls of a conversation with its own.
    pub fn new(models: Arc<dyn SamplingModels>, conversations: ConversationModels) -> Self {
        Self { models, conversations, requests: RequestCounts(Mutex::default()) }
    }

    /// The model that was chosen by name, or else that of the conversation, or the default.
    fn open(&self, name: Option<&str>, conversation: Option<&str>) -> Result<OpenedModel, String> {
        match conversation.and_then(|conversation| self.conversations.of(conversation)) {
            Some(model) if name.is_none() => Ok(OpenedModel { model, reason: OF_CONVERSATION }),
            _ => self.models.open(name),
        }
    }
}

impl Sampler for ModelSampler {
    fn offer(&self, server: &ServerName) -> SamplingOffer {
        self.models.offer(server)
    }

    fn prepare(&self, request: &SamplingRequest, levels: &SamplingLevels) -> Result<PreparedSample, RpcError> {
        let server = &request.server;
        if !request.origin.call.is_some_and(|call| self.requests.add(call)) {
            let why = format!("a call can ask {MAX_REQUESTS_OF_A_CALL} times at most");
            return Err(refused(server, &why));
        }
        let params = translation::read(request.request.params.as_ref())?;
        let choice = choice::choose(levels.model(), &params["modelPreferences"], &self.models.candidates());
        let conversation = request.origin.conversation.as_deref();
        let opened = self.open(choice.name.as_deref(), conversation).map_err(|error| {
            tracing::warn!(server = server.as_str(), %error, "no model for sampling");
            refused(server, "its model is not available")
        })?;
        let reason = choice.reason.unwrap_or_else(|| opened.reason.to_owned());
        let model = opened.model;
        let translated = Translated::of(&params, levels.max_tokens(), Abilities { vendor: model.vendor() })?;
        let details = translated.details(&request.called, model.name(), reason);
        let server = server.clone();
        let wanted = translated.request;
        Ok(PreparedSample { details, send: Box::new(move || Box::pin(ask(server, model, wanted))) })
    }
}

/// Lets the model answer.
async fn ask(server: ServerName, model: Arc<dyn Model>, wanted: ModelRequest) -> ModelAnswer {
    let mut used: Option<Usage> = None;
    let stops = wanted.stop_sequences.clone();
    let mut events = model.stream(wanted);
    let mut has_begun = false;
    let failed = || RpcError::new(RpcError::INTERNAL, "the model did not answer");
    let answer = loop {
        match events.next().await {
            Some(Ok(ModelEvent::End { reason, message })) => {
                break Ok(translation::result(&message, &reason, model.name(), &stops));
            }
            Some(Ok(ModelEvent::Usage(usage))) => used = Some(usage),
            Some(Ok(_)) => has_begun = true,
            // The text of a vendor is for the operator.
            Some(Err(error)) => {
                tracing::warn!(server = server.as_str(), %error, "the model did not answer a sampling request");
                break Err(failed());
            }
            None => break Err(failed()),
        }
    };
    // A vendor that reports nothing has figures of 0: then the reservation stays.
    let used = used.filter(|usage| 0 < usage.input_tokens + usage.output_tokens);
    let used = used.map(|usage| SampledTokens { input: usage.input_tokens, output: usage.output_tokens });
    // A request that failed at once used nothing; what a cut answer used is not known.
    let tokens = if answer.is_err() && !has_begun { used.or(Some(SampledTokens::default())) } else { used };
    ModelAnswer { tokens, answer }
}

impl<K: Ord> RequestCounts<K> {
    /// Counts a request of a call; `false` if that is one too many.
    fn add(&self, call: K) -> bool {
        let mut counts = self.0.lock();
        let number = counts.entry(call).or_default();
        *number = number.saturating_add(1);
        let is_within = *number <= MAX_REQUESTS_OF_A_CALL;
        while COUNTED_CALLS < counts.len() {
            counts.pop_first();
        }
        is_within
    }
}

impl fmt::Debug for ModelSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSampler").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTED_CALLS, MAX_REQUESTS_OF_A_CALL, RequestCounts};

    #[test]
    fn each_call_has_its_share_of_requests_and_old_calls_are_forgotten() {
        let counts = RequestCounts(parking_lot::Mutex::default());
        assert!((0..MAX_REQUESTS_OF_A_CALL).all(|_| counts.add(1)));
        assert!(!counts.add(1) && counts.add(2));
        assert!((3..2 * COUNTED_CALLS).all(|call| counts.add(call)));
        assert_eq!(counts.0.lock().len(), COUNTED_CALLS);
    }
}
