//! Decides whether a call may be sent: one decision for each request, as a value.
//!
//! Holds no connection and awaits nothing but an approval. There is one rule: items of configured servers may be used
//! unless a filter of the server excludes them. An embedding program can require an approval for each call instead.

pub mod approval;
mod caller_counter;
pub mod decision;
pub mod limit;
pub mod trust;

pub use approval::{ApprovalAnswer, Approver, NoApprover};
pub use decision::{ApprovalRequest, Decision, Grant, Refusal, RuleId, Subject};
pub use limit::{CALLS_PER_CLIENT, CallLimits, Permit};
pub use trust::{MemoryTrust, TrustLedger};

use crate::{
    call::{CallKind, Caller},
    catalog::{Filter, ItemKind},
};

/// Default decision, if no rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// Allow the use of configured servers.
    #[default]
    Allow,
    /// Require an approval for each call.
    Ask,
    /// Deny all calls.
    Deny,
}

/// The policy in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    stance: Stance,
}

impl Policy {
    /// Creates a policy that consists of a default decision only.
    pub fn of(stance: Stance) -> Self {
        Self { stance }
    }

    /// Decides about one request. `filter` is the filter of the server's entry; it applies to calls as it does to
    /// listings.
    pub fn decide(&self, subject: Subject, caller: &Caller, filter: &Filter) -> Decision {
        if let Some(key) = left_out_by(&subject, filter) {
            return Decision::Deny(Refusal::FilteredOut { subject, key });
        }
        match self.stance {
            Stance::Allow => Decision::Allow(Grant::new(subject, RuleId::CONFIGURED)),
            Stance::Ask => Decision::Ask(ApprovalRequest::new(Grant::new(subject, RuleId::ASK), caller.clone())),
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
    fn configured_servers_are_allowed_and_filters_apply() {
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
            assert!(said.ends_with(&format!("of `files` is excluded by `{key}` of its entry")), "{said}");
        }
    }

    #[test]
    fn stance_asks_or_denies_after_filters() {
        let filter = Filter { exclude_tools: vec!["write".into()], ..Filter::default() };
        let decide =
            |stance, name| Policy::of(stance).decide(subject(CallKind::Tool, name), &Caller::Terminal, &filter);
        let Decision::Ask(request) = decide(Stance::Ask, "read") else { panic!("approval expected") };
        assert_eq!(request.to_string(), "may terminal use the tool `read` of `files`?");
        assert!(matches!(decide(Stance::Deny, "read"), Decision::Deny(refusal) if refusal.code() == "denied"));
        assert!(matches!(decide(Stance::Ask, "write"), Decision::Deny(refusal) if refusal.code() == "filtered_out"));
    }
}
