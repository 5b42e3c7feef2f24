//! What models answered servers in the calls of each conversation, for the budget and the report of an agent.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolway_config::ServerName;

use crate::host::Host;

/// Conversations that are remembered; the oldest are forgotten.
const CONVERSATIONS: usize = 1_000;
/// Refusals of a conversation that are remembered.
const REFUSALS: usize = 20;

/// What sampling cost in one conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationSampling {
    /// Tokens of all requests; the maximum where the vendor reported none.
    pub tokens: u64,
    /// Servers whose request was refused because no person could be asked.
    pub unapproved: Vec<ServerName>,
}

/// The totals of a host.
#[derive(Debug, Default)]
pub(crate) struct SamplingTotals {
    // Nothing awaits under this lock.
    conversations: Mutex<VecDeque<Total>>,
}

#[derive(Debug)]
struct Total {
    conversation: Arc<str>,
    sampling: ConversationSampling,
}

impl SamplingTotals {
    /// Adds the tokens of an answer.
    pub(crate) fn add_tokens(&self, conversation: Option<&Arc<str>>, tokens: u64) {
        self.change(conversation, |sampling| sampling.tokens = sampling.tokens.saturating_add(tokens));
    }

    /// Adds a request that a person could have allowed.
    pub(crate) fn add_unapproved(&self, conversation: Option<&Arc<str>>, server: &ServerName) {
        self.change(conversation, |sampling| {
            if sampling.unapproved.len() < REFUSALS {
                sampling.unapproved.push(server.clone());
            }
        });
    }

    fn change(&self, conversation: Option<&Arc<str>>, change: impl FnOnce(&mut ConversationSampling)) {
        let Some(conversation) = conversation else { return };
        let mut totals = self.conversations.lock();
        if !totals.iter().any(|total| total.conversation == *conversation) {
            let sampling = ConversationSampling::default();
            totals.push_back(Total { conversation: Arc::clone(conversation), sampling });
        }
        if let Some(total) = totals.iter_mut().find(|total| total.conversation == *conversation) {
            change(&mut total.sampling);
        }
        while CONVERSATIONS < totals.len() {
            totals.pop_front();
        }
    }

    fn of(&self, conversation: &str) -> ConversationSampling {
        let totals = self.conversations.lock();
        let found = totals.iter().find(|total| &*total.conversation == conversation);
        found.map(|total| total.sampling.clone()).unwrap_or_default()
    }
}

impl Host {
    /// What models answered servers in the calls of a conversation since the start.
    pub fn sampling_in(&self, conversation: &str) -> ConversationSampling {
        self.inner().context.sampled.of(conversation)
    }
}
