//! `/usage` and `/compact`: how full the context window is, what was used, and making room.

use tokio_util::sync::CancellationToken;
use toolway_agent::{AgentEvent, Compacted, ContextMeter, cached_share};
use toolway_model::Usage;

use super::{Chat, turn::Stoppable};
use crate::{commands::run::answer_report, cost::Cost};

impl Chat<'_> {
    pub(super) fn show_usage(&self) {
        self.screen.line(&meter_words(&self.agent.context(&self.conversation)));
        if let Some(file) = &self.project_file {
            self.screen.line(&format!("project instructions: {file} (accepted)"));
        }
        let count = self.conversation.messages().len();
        let cost = self.cost.map(|cost| format!("; cost {:.4}", cost.amount())).unwrap_or_default();
        self.screen.line(&format!("{}; {count} messages in this conversation{cost}", tokens(&self.used)));
    }

    /// Counts what a request used.
    pub(super) fn count_usage(&mut self, usage: &Usage) {
        self.used += *usage;
        let cost = Cost::of(&self.config.settings, self.agent.model().name(), usage);
        self.cost = match (self.cost, cost) {
            (Some(before), Some(cost)) => Some(before.plus(cost)),
            (before, cost) => before.or(cost),
        };
    }

    /// Summarises all turns but the last four.
    pub(super) async fn compact(&mut self) {
        let (agent, cancel) = (self.agent.clone(), CancellationToken::new());
        let mut used = Usage::default();
        let mut observe = |event: AgentEvent| {
            if let AgentEvent::Usage(usage) = event {
                used = usage;
            }
        };
        let mut conversation = self.conversation.clone();
        self.screen.busy("summarising older turns");
        let compacted = self.stoppable(agent.compact(&mut conversation, &cancel, &mut observe)).await;
        self.screen.idle();
        self.count_usage(&used);
        match compacted {
            Stoppable::Done(Ok(Some(compacted))) => {
                self.conversation = conversation;
                self.screen.line(&format!("{}.", sentence(&compacted)));
            }
            Stoppable::Done(Ok(None)) => {
                self.screen.line("There is nothing to summarise: the last four turns are always kept.");
            }
            Stoppable::Done(Err(error)) => self.screen.line(&answer_report(&error).to_human()),
            Stoppable::Stopped => self.screen.line("Stopped."),
        }
    }
}

/// What was left out, as a sentence without its full stop.
pub(super) fn sentence(compacted: &Compacted) -> String {
    let words = compacted.words();
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// How full the window is, by part.
fn meter_words(meter: &ContextMeter) -> String {
    let parts = meter.parts.iter().map(|part| format!("{} {}", part.part.as_str(), part.tokens));
    let parts = parts.collect::<Vec<_>>().join(", ");
    let share = (meter.share() * 100.0).round();
    format!("context: about {} of {} tokens ({share} %): {parts}", meter.used, meter.window)
}

/// Tokens in words.
pub(super) fn tokens(usage: &Usage) -> String {
    let cached = match usage.cached_tokens {
        0 => String::new(),
        cached => format!(" ({cached} cached, {:.0} %)", cached_share(usage) * 100.0),
    };
    format!("{} tokens in{cached}, {} out", usage.input_tokens, usage.output_tokens)
}
