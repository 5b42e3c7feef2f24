//! What a host counts since its start besides calls: answers of people, and tokens of models. For metrics.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::host::Host;

/// Answers to approval requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalCounts {
    /// Approved by a person.
    pub approved: u64,
    /// Refused by a person, or not answered in time.
    pub refused: u64,
}

/// Tokens of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelTokens {
    /// Sent to it.
    pub input: u64,
    /// Of its answers.
    pub output: u64,
}

/// The counters of a host.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    approved: AtomicU64,
    refused: AtomicU64,
    // Nothing awaits under this lock. Names come from the configuration.
    models: Mutex<BTreeMap<String, ModelTokens>>,
}

/// Models with counters of their own, over all reloads.
const MAX_MODELS: usize = 256;

impl Tallies {
    /// Counts the answer to an approval request.
    pub(crate) fn count_approval(&self, is_approved: bool) {
        let count = if is_approved { &self.approved } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what an answer of a model used.
    pub(crate) fn count_tokens(&self, model: &str, used: ModelTokens) {
        let mut models = self.models.lock();
        if MAX_MODELS <= models.len() && !models.contains_key(model) {
            return;
        }
        let tokens = models.entry(model.to_owned()).or_default();
        tokens.input = tokens.input.saturating_add(used.input);
        tokens.output = tokens.output.saturating_add(used.output);
    }
}

impl Host {
    /// Answers to approval requests since the start.
    pub fn approval_counts(&self) -> ApprovalCounts {
        let tallies = &self.inner().context.tallies;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ApprovalCounts { approved: load(&tallies.approved), refused: load(&tallies.refused) }
    }

    /// Tokens since the start, by the name of the model in the configuration.
    pub fn model_tokens(&self) -> BTreeMap<String, ModelTokens> {
        self.inner().context.tallies.models.lock().clone()
    }

    /// Counts what an answer of a model used in a conversation.
    pub fn count_model_tokens(&self, model: &str, used: ModelTokens) {
        self.inner().context.tallies.count_tokens(model, used);
    }
}
