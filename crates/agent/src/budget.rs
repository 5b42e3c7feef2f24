//! How much one answer may cost, and when identical calls are stopped.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use toolway_model::{ToolCall, Usage};

use crate::agent::Answer;

/// Limits of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests to the model.
    pub turns: u32,
    /// Input and output tokens of all requests, and of what servers asked a model in the calls; `None`: no limit. Those of a vendor that reports none are estimated.
    pub tokens: Option<u64>,
    /// Tool calls.
    pub tool_calls: u32,
    /// Time from the first request on; `None`: no limit.
    pub time: Option<Duration>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model is done.
    Done,
    /// The model reached its limit of output tokens.
    MaxOutput,
    /// The model or its vendor refused.
    Refused,
    /// All turns are used.
    MaxTurns,
    /// All tokens are used.
    MaxTokens,
    /// All tool calls are used.
    MaxToolCalls,
    /// The time is over.
    MaxTime,
    /// The model repeats the same call.
    Loop,
    /// The user cancelled it.
    Cancelled,
}

/// Times that the same call with the same arguments is made. Later ones are answered with an error.
const SAME_CALLS: u32 = 3;
/// Repetitions after which the answer ends.
const MAX_REPEATED: u32 = 6;

impl Default for Budget {
    fn default() -> Self {
        Self { turns: 50, tokens: None, tool_calls: 200, time: None }
    }
}

impl Budget {
    /// What is left after an answer that began this long ago.
    #[must_use]
    pub fn less(self, answer: &Answer, elapsed: Duration) -> Self {
        let calls = u32::try_from(answer.calls.len()).unwrap_or(u32::MAX);
        let used = answer.usage.input_tokens + answer.usage.output_tokens;
        Self {
            turns: self.turns.saturating_sub(answer.turns),
            tokens: self.tokens.map(|most| most.saturating_sub(used)),
            tool_calls: self.tool_calls.saturating_sub(calls),
            time: self.time.map(|most| most.saturating_sub(elapsed)),
        }
    }
}

impl Stop {
    /// The word for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::MaxOutput => "max_output_tokens",
            Self::Refused => "refused",
            Self::MaxTurns => "max_turns",
            Self::MaxTokens => "max_tokens",
            Self::MaxToolCalls => "max_tool_calls",
            Self::MaxTime => "max_time",
            Self::Loop => "loop",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a budget or the loop guard ended the answer.
    pub fn is_out_of_budget(self) -> bool {
        !matches!(self, Self::Done | Self::MaxOutput | Self::Refused | Self::Cancelled)
    }

    pub(crate) fn is_cancelled(self) -> bool {
        self == Self::Cancelled
    }
}

/// What an answer has used so far.
#[derive(Debug)]
pub(crate) struct Spent {
    budget: Budget,
    began: Instant,
    pub(crate) turns: u32,
    pub(crate) usage: Usage,
    /// Tokens of requests whose vendor reported none.
    estimated: u64,
    /// Tokens of answers to servers that asked a model in the calls.
    pub(crate) sampled: u64,
    calls: u32,
    seen: HashMap<String, u32>,
    repeated: u32,
}

impl Spent {
    pub(crate) fn new(budget: Budget) -> Self {
        let (usage, seen) = (Usage::default(), HashMap::new());
        Self { budget, began: Instant::now(), turns: 0, usage, estimated: 0, sampled: 0, calls: 0, seen, repeated: 0 }
    }

    /// Tokens used so far.
    fn tokens(&self) -> u64 {
        self.usage.input_tokens + self.usage.output_tokens + self.estimated + self.sampled
    }

    /// Tokens left; `None` without a limit.
    pub(crate) fn remaining_tokens(&self) -> Option<u64> {
        self.budget.tokens.map(|most| most.saturating_sub(self.tokens()))
    }

    /// The limit that forbids another request to the model.
    pub(crate) fn exhausted(&self) -> Option<Stop> {
        let tokens = self.tokens();
        if self.repeated >= MAX_REPEATED {
            Some(Stop::Loop)
        } else if self.turns >= self.budget.turns {
            Some(Stop::MaxTurns)
        } else if self.budget.tokens.is_some_and(|most| most <= tokens) {
            Some(Stop::MaxTokens)
        } else if self.calls >= self.budget.tool_calls && self.calls > 0 {
            Some(Stop::MaxToolCalls)
        } else if self.remaining_time().is_some_and(|left| left.is_zero()) {
            Some(Stop::MaxTime)
        } else {
            None
        }
    }

    /// Adds the tokens of a request; `estimate` stands in for a vendor that reports none, for the limit only.
    pub(crate) fn add(&mut self, usage: Usage, estimate: impl FnOnce() -> u64) {
        self.usage += usage;
        if self.budget.tokens.is_some() && usage.input_tokens + usage.output_tokens == 0 {
            self.estimated += estimate();
        }
    }

    /// Time left; `None` without a limit.
    pub(crate) fn remaining_time(&self) -> Option<Duration> {
        self.budget.time.map(|most| most.saturating_sub(self.began.elapsed()))
    }

    /// When the time limit is reached; `None` without a limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.began.checked_add(self.budget.time?)
    }

    /// Counts a call. Returns an error for the model if it must not be made.
    pub(crate) fn count_call(&mut self, call: &ToolCall) -> Result<(), String> {
        if self.calls >= self.budget.tool_calls {
            return Err(format!("the limit of {} tool calls is reached", self.budget.tool_calls));
        }
        self.calls += 1;
        let seen = self.seen.entry(format!("{} {}", call.name, call.arguments)).or_insert(0);
        *seen += 1;
        if *seen > SAME_CALLS {
            self.repeated += 1;
            return Err(format!(
                "this call was already made {SAME_CALLS} times with the same arguments; use its result"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::json::Raw;

    use super::*;

    fn call(number: u32) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: "read".to_owned(), arguments: Raw::of(&json!({ "n": number })) }
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_ends_the_answer() {
        let budget = Budget { turns: 2, tokens: Some(10), tool_calls: 3, time: Some(Duration::from_secs(5)) };
        let mut spent = Spent::new(budget);
        assert_eq!(spent.exhausted(), None);
        spent.turns = 2;
        assert_eq!(spent.exhausted(), Some(Stop::MaxTurns));
        spent.turns = 1;
        spent.usage.output_tokens = 10;
        assert_eq!(spent.exhausted(), Some(Stop::MaxTokens));
        spent.usage.output_tokens = 0;
        (0..3).for_each(|number| spent.count_call(&call(number)).unwrap());
        assert_eq!(spent.exhausted(), Some(Stop::MaxToolCalls));
        assert!(spent.count_call(&call(9)).unwrap_err().contains("limit of 3"));
        let spent = Spent::new(Budget { tool_calls: 9, ..budget });
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(spent.exhausted(), Some(Stop::MaxTime));
    }

    #[tokio::test]
    async fn repeated_identical_calls_are_stopped() {
        let mut spent = Spent::new(Budget::default());
        (0..3).for_each(|_| spent.count_call(&call(1)).unwrap());
        spent.count_call(&call(2)).unwrap();
        for _ in 0..6 {
            assert!(spent.count_call(&call(1)).is_err());
        }
        assert_eq!(spent.exhausted(), Some(Stop::Loop));
    }
}
