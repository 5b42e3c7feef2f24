//! What models answered servers in the calls of each conversation, for the report of an agent, and the budget that bounds it.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolway_config::ServerName;

use crate::{connection::HostContext, host::Host};

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
    /// Tokens at which further requests are refused; `None`: no limit.
    limit: Option<u64>,
    /// Tokens of requests that are being answered.
    reserved: u64,
}

/// The tokens of a request that is being answered; free again on drop.
pub(crate) struct BudgetPlace {
    context: Arc<HostContext>,
    conversation: Arc<str>,
    tokens: u64,
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

    /// Lets servers use so many tokens more in this conversation.
    pub(crate) fn bound(&self, conversation: &Arc<str>, left: Option<u64>) {
        self.change_total(conversation, |total| {
            total.limit = left.map(|left| total.sampling.tokens.saturating_add(left));
        });
    }

    /// Takes the tokens of a request out of the budget; `false` if nothing of it is left. As with the requests of an agent, the
    /// last one may use more than is left.
    pub(crate) fn take(&self, conversation: &Arc<str>, tokens: u64) -> bool {
        let mut is_taken = false;
        self.change_total(conversation, |total| {
            let used = total.sampling.tokens.saturating_add(total.reserved);
            is_taken = total.limit.is_none_or(|limit| used < limit);
            if is_taken {
                total.reserved = total.reserved.saturating_add(tokens);
            }
        });
        is_taken
    }

    fn give_back(&self, conversation: &Arc<str>, tokens: u64) {
        self.change_total(conversation, |total| total.reserved = total.reserved.saturating_sub(tokens));
    }

    fn change(&self, conversation: Option<&Arc<str>>, change: impl FnOnce(&mut ConversationSampling)) {
        let Some(conversation) = conversation else { return };
        self.change_total(conversation, |total| change(&mut total.sampling));
    }

    fn change_total(&self, conversation: &Arc<str>, change: impl FnOnce(&mut Total)) {
        let mut totals = self.conversations.lock();
        if !totals.iter().any(|total| total.conversation == *conversation) {
            let sampling = ConversationSampling::default();
            totals.push_back(Total { conversation: Arc::clone(conversation), sampling, limit: None, reserved: 0 });
        }
        if let Some(total) = totals.iter_mut().find(|total| total.conversation == *conversation) {
            change(total);
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

impl BudgetPlace {
    /// A place in the budget of a conversation; `None` if nothing of it is left.
    pub(crate) fn take(context: &Arc<HostContext>, conversation: &Arc<str>, tokens: u64) -> Option<Self> {
        let is_taken = context.sampled.take(conversation, tokens);
        is_taken.then(|| Self { context: Arc::clone(context), conversation: Arc::clone(conversation), tokens })
    }
}

impl Drop for BudgetPlace {
    fn drop(&mut self) {
        self.context.sampled.give_back(&self.conversation, self.tokens);
    }
}

impl Host {
    /// Lets servers use so many tokens of models in the calls of a conversation from now on; `None`: as the quotas say.
    pub fn bound_sampling(&self, conversation: &Arc<str>, left: Option<u64>) {
        self.inner().context.sampled.bound(conversation, left);
    }

    /// What models answered servers in the calls of a conversation since the start.
    pub fn sampling_in(&self, conversation: &str) -> ConversationSampling {
        self.inner().context.sampled.of(conversation)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::SamplingTotals;

    #[test]
    fn what_is_left_of_a_budget_is_used_once_by_requests_at_the_same_time() {
        let totals = SamplingTotals::default();
        let [one, other] = [Arc::from("one"), Arc::from("other")];
        totals.bound(&one, Some(100));
        assert_eq!([40, 40, 40, 40].map(|tokens| totals.take(&one, tokens)), [true, true, true, false]);
        assert!(totals.take(&other, 1_000_000), "a conversation without a limit");
        totals.give_back(&one, 40);
        totals.add_tokens(Some(&one), 10);
        assert!(totals.take(&one, 40) && !totals.take(&one, 1));
        (0..3).for_each(|_| totals.give_back(&one, 40));
        totals.add_tokens(Some(&one), 90);
        assert!(!totals.take(&one, 1), "all is used");
        totals.bound(&one, Some(1));
        assert!(totals.take(&one, 50) && !totals.take(&one, 1), "of the next answer");
        totals.bound(&one, None);
        assert!(totals.take(&one, 1));
    }
}
