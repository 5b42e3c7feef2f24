//! Whether a call may be sent: one decision for each request, as a value.
//!
//! | part | file |
//! |---|---|
//! | what is decided on | `input.rs`, `surface.rs` |
//! | which rule matches | `rules.rs`, `argument_match.rs`, `text_match.rs` |
//! | decision, grant, approval request, refusal | `decision.rs` |
//! | answers of a user; saved approvals and what they cover | `approval.rs`, `saved.rs`, `pattern.rs` |
//! | slots: a grant becomes a permit | `limit.rs`, `caller_counter.rs` |
//!
//! Within one file the first rule that matches decides; over files the strictest. A rule that cannot be evaluated refuses. Without a rule the default of the
//! surface decides, or the mode. A saved approval lifts `ask`, never `deny`.

pub mod approval;
mod argument_match;
mod caller_counter;
pub mod decision;
pub mod input;
pub mod limit;
pub mod pattern;
mod rules;
pub mod saved;
pub mod surface;
mod text_match;
pub mod trust;

use std::sync::Arc;

pub use approval::{ApprovalAnswer, ApprovalScope};
pub use decision::{ApprovalRequest, Decision, Grant, Refusal, RuleId, Subject};
pub use input::{Annotations, PolicyInput};
pub use limit::{CALLS_PER_CLIENT, CallLimits, Permit};
pub use pattern::ArgumentPattern;
pub use saved::{ApprovalKey, MemorySavedApprovals, SavedApprovals, SavedDecision, SavedEffect, decisive};
pub use surface::Surface;
use toolway_config::{PolicyMode, PolicySettings, RuleEffect, Trust, policy::Rule};
use toolway_wire::exchange::Request;
pub use trust::{MemoryTrust, TrustLedger};

use crate::{
    call::{CallKind, Caller},
    catalog::{Filter, ItemKind},
};

/// The decision where no rule matches, as the embedding program sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// The default of each surface.
    #[default]
    BySurface,
    /// Allow every call.
    Allow,
    /// Require an approval for each call.
    Ask,
    /// Deny all calls.
    Deny,
}

/// The policy in effect. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    stance: Stance,
    mode: Option<PolicyMode>,
    files: Arc<[Vec<Rule>]>,
}

/// The result for one request, before saved approvals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `Allow`, `Ask` or `Deny`.
    pub effect: RuleEffect,
    /// The rule or default that decided.
    pub rule: RuleId,
    /// Reason in the rule.
    pub reason: Option<String>,
}

impl Policy {
    /// Creates a policy that consists of a default decision only.
    pub fn of(stance: Stance) -> Self {
        Self { stance, ..Self::default() }
    }

    /// Creates the policy of a configuration; `stance` is the default of the embedding program.
    pub fn new(stance: Stance, settings: &PolicySettings) -> Self {
        Self { stance, mode: settings.mode.value, files: settings.files.clone().into() }
    }

    /// This policy with another mode, if one is given.
    #[must_use]
    pub fn with_mode(self, mode: Option<PolicyMode>) -> Self {
        Self { mode: mode.or(self.mode), ..self }
    }

    /// Decides about one request, which is in the grant: only what was decided on is sent. `filter` is the filter of the
    /// server's entry; it applies to calls as it does to listings.
    pub fn decide(&self, input: &PolicyInput<'_>, request: Option<Request>, filter: &Filter) -> Decision {
        let subject = input.subject.clone();
        if let Some(key) = left_out_by(&subject, filter) {
            return Decision::Deny(Refusal::FilteredOut { subject, key });
        }
        let Verdict { effect, rule, reason } = self.evaluate(input);
        match effect {
            RuleEffect::Allow => Decision::Allow(Grant::new(subject, rule, request)),
            RuleEffect::Ask | RuleEffect::Writes => {
                Decision::Ask(ApprovalRequest::new(Grant::new(subject, rule, request), input, reason))
            }
            RuleEffect::Deny => Decision::Deny(Refusal::Denied { rule, reason }),
        }
    }

    /// Evaluates rules and defaults.
    pub fn evaluate(&self, input: &PolicyInput<'_>) -> Verdict {
        let matching = self.files.iter().filter_map(|file| rules::first_match(file, input));
        let strictest = matching.max_by(|one, other| {
            // Of equal ones the first file counts.
            one.effect().cmp(&other.effect()).then(std::cmp::Ordering::Greater)
        });
        let (written, rule, reason) = match strictest {
            Some(matched) => {
                let unclear = matched.unclear.as_ref().map(|why| format!("the rule cannot be evaluated: {why}"));
                let reason = unclear.or_else(|| matched.rule.reason.clone());
                (matched.effect(), RuleId::Rule(matched.rule.place.clone()), reason)
            }
            None => self.default_of(input),
        };
        let passes = input.trust == Trust::Full || (input.trust >= Trust::Read && input.annotations.read_only);
        let effect = match written {
            RuleEffect::Writes if passes => RuleEffect::Allow,
            RuleEffect::Writes => RuleEffect::Ask,
            other => other,
        };
        Verdict { effect, rule, reason }
    }

    fn default_of(&self, input: &PolicyInput<'_>) -> (RuleEffect, RuleId, Option<String>) {
        let stance = match self.stance {
            Stance::BySurface => None,
            Stance::Allow => Some(RuleEffect::Allow),
            Stance::Ask => Some(RuleEffect::Ask),
            Stance::Deny => Some(RuleEffect::Deny),
        };
        if let Some(effect) = stance {
            return (effect, RuleId::Stance(effect), None);
        }
        let effect = match (self.mode, input.surface, input.caller) {
            (Some(PolicyMode::Interactive), ..) => RuleEffect::Ask,
            (Some(PolicyMode::Restricted), ..) => RuleEffect::Writes,
            (Some(PolicyMode::Full), ..) => RuleEffect::Allow,
            (None, Surface::Chat | Surface::Run, _) | (None, Surface::Console, Caller::Agent(_)) => RuleEffect::Writes,
            (None, ..) => RuleEffect::Allow,
        };
        let rule = match self.mode {
            Some(mode) => RuleId::Mode(mode),
            None => RuleId::Default(input.surface, effect),
        };
        (effect, rule, None)
    }
}

fn left_out_by(subject: &Subject, filter: &Filter) -> Option<&'static str> {
    let kind = match subject.kind {
        CallKind::Tool => ItemKind::Tool,
        CallKind::Prompt => ItemKind::Prompt,
        CallKind::Resource => ItemKind::Resource,
        CallKind::Method => return None,
    };
    filter.key_against(kind, &subject.raw_name)
}

#[cfg(test)]
mod tests;
