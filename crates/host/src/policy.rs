//! Whether a call may go out: one decision for each request, as a value.
//!
//! Holds no connection and awaits nothing but a person. For now there is one rule: what the operator has configured
//! may be used, as far as the server's filters let it through, and an embedding program can have a person asked each
//! time. A rule that cannot be evaluated refuses.

pub mod approval;
pub mod decision;
pub mod limit;
mod tally;
pub mod trust;

pub use approval::{Answer, Approver, NobodyApproves};
pub use decision::{Decision, Grant, Question, Refusal, RuleId, Subject};
pub use limit::{CALLS_PER_CLIENT, CallLimits, Permit};
pub use trust::{MemoryTrust, TrustLedger};

use crate::{
    call::{CallKind, Caller},
    catalog::{Filter, ItemKind},
};

/// What is decided where no rule says anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// What is configured may be used.
    #[default]
    Allow,
    /// A person is asked each time.
    Ask,
    /// Nothing may be used.
    Deny,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    stance: Stance,
}

impl Policy {
    /// A policy without rules but this stance.
    pub fn of(stance: Stance) -> Self {
        Self { stance }
    }

    /// Decides about one request. `filter` is what the operator left out in the server's entry: it holds for a call
    /// as it does for a listing.
    pub fn decide(&self, subject: Subject, caller: &Caller, filter: &Filter) -> Decision {
        if let Some(key) = left_out_by(&subject, filter) {
            return Decision::Deny(Refusal::FilteredOut { subject, key });
        }
        match self.stance {
            Stance::Allow => Decision::Allow(Grant::new(subject, RuleId::CONFIGURED)),
            Stance::Ask => Decision::Ask(Question::new(Grant::new(subject, RuleId::ASK), caller.clone())),
            Stance::Deny => Decision::Deny(Refusal::Denied { rule: RuleId::DENY }),
        }
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
mod tests {
    use super::{Decision, Policy, RuleId, Stance, Subject};
    use crate::{
        call::{CallKind, Caller},
        catalog::{Filter, filter::Switch},
    };

    fn subject(kind: CallKind, raw_name: &str) -> Subject {
        Subject { server: "files".parse().unwrap(), kind, raw_name: raw_name.to_owned() }
    }

    #[test]
    fn what_is_configured_may_be_used_and_filters_hold() {
        let filter = Filter { exclude_tools: vec!["write*".into()], resources: Switch::Off, ..Filter::default() };
        let decide = |kind, name| Policy::default().decide(subject(kind, name), &Caller::Terminal, &filter);
        let Decision::Allow(grant) = decide(CallKind::Tool, "read") else { panic!("allowed") };
        assert_eq!(grant.rule(), RuleId::CONFIGURED);
        for (kind, name, key) in
            [(CallKind::Tool, "write_all", "excludeTools"), (CallKind::Resource, "file:///x", "resources: false")]
        {
            let Decision::Deny(refusal) = decide(kind, name) else { panic!("refused") };
            assert_eq!(refusal.code(), "filtered_out");
            let said = refusal.to_string();
            assert!(said.ends_with(&format!("of `files` is left out by `{key}` of its entry")), "{said}");
        }
    }

    #[test]
    fn a_stance_asks_or_denies_and_filters_come_first() {
        let filter = Filter { exclude_tools: vec!["write".into()], ..Filter::default() };
        let decide =
            |stance, name| Policy::of(stance).decide(subject(CallKind::Tool, name), &Caller::Terminal, &filter);
        let Decision::Ask(question) = decide(Stance::Ask, "read") else { panic!("asked") };
        assert_eq!(question.to_string(), "may terminal use the tool `read` of `files`?");
        assert!(matches!(decide(Stance::Deny, "read"), Decision::Deny(refusal) if refusal.code() == "denied"));
        assert!(matches!(decide(Stance::Ask, "write"), Decision::Deny(refusal) if refusal.code() == "filtered_out"));
    }
}
