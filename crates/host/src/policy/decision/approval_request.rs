//! An approval request: what policy asks a user before a call, and what becomes of it.

use std::{fmt, sync::Arc};

use toolway_config::Trust;
use toolway_wire::{exchange::Request, json::Raw};

use super::{Definition, Grant, Refusal, RuleId, Subject};
use crate::{
    call::{CallKind, Caller},
    policy::{Annotations, AskedCall, Lift, PolicyInput, Reached, Surface},
};

/// Asks a user to approve a call before it is sent. Without an approval the call is refused.
#[derive(Debug)]
pub struct ApprovalRequest {
    grant: Grant,
    caller: Caller,
    surface: Surface,
    trust: Trust,
    annotations: Annotations,
    arguments: Option<Raw>,
    reason: Option<String>,
    /// The reason as far as a client may read it.
    client_reason: Option<String>,
    lift: Lift,
    reached: Reached,
    /// Id of a saved approval that covers the call where a person is present.
    saved: Option<String>,
    remedy: Remedy,
}

/// What would allow a call without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// A rule.
    #[default]
    Rule,
    /// A trusted tool of the assistant that asks.
    TrustedTool,
    /// No single command.
    None,
}

impl ApprovalRequest {
    pub(in crate::policy) fn new(grant: Grant, input: &PolicyInput<'_>, reason: Option<String>, lift: Lift) -> Self {
        let PolicyInput { surface, trust, annotations, .. } = *input;
        let (caller, arguments) = (input.caller.clone(), input.arguments.cloned());
        let reached = Reached::default();
        let client_reason = reason.clone();
        Self {
            grant,
            caller,
            surface,
            trust,
            annotations,
            arguments,
            reason,
            client_reason,
            lift,
            reached,
            saved: None,
            remedy: Remedy::default(),
        }
    }

    /// This request with a further reason, which stands first.
    #[must_use]
    pub(crate) fn because(self, why: &str) -> Self {
        let client_reason = Some(joined(why, self.client_reason.as_deref()));
        Self { client_reason, ..self }.because_for_operator(why)
    }

    /// This request with a further reason that no client reads: it may name other servers and files of this machine.
    #[must_use]
    pub(crate) fn because_for_operator(self, why: &str) -> Self {
        Self { reason: Some(joined(why, self.reason.as_deref())), ..self }
    }

    /// This request, which no saved approval answers.
    #[must_use]
    pub(crate) fn never_lifted(self) -> Self {
        Self { lift: Lift::Never, ..self }
    }

    /// This request, which this would allow.
    #[must_use]
    pub(in crate::policy) fn allowed_by(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }

    /// This request, which a saved approval would cover if a person were present.
    #[must_use]
    pub(crate) fn saved_for_attended_use(self, id: String) -> Self {
        Self { saved: Some(id), ..self }
    }

    /// This request, about a server and an item as they are now.
    #[must_use]
    pub(crate) fn defined_as(mut self, definition: Definition) -> Self {
        self.grant.definition = Some(Box::new(definition));
        self
    }

    /// What has changed since an earlier grant for the same call; `None` if a person approved just this. The person who
    /// approved has not seen it.
    pub(crate) fn changes_since(&self, earlier: &Grant) -> Option<&'static str> {
        // No person has approved this call: the saved answer covers it now, or it is asked about.
        if matches!(earlier.rule, RuleId::Saved(_)) {
            return Some("the answer that covered the call no longer does");
        }
        let (Some(now), Some(then)) = (&self.grant.definition, &earlier.definition) else {
            return Some("the policy has changed since the call was made");
        };
        if earlier.subject != *self.subject() || now.entry != then.entry {
            return Some("the server has changed since the call was approved");
        }
        if now.fingerprint != then.fingerprint || now.annotations != then.annotations {
            return Some("the definition has changed since the call was approved");
        }
        // What was shown and approved is the baseline by now: no difference is left.
        if now.drift.is_some() && now.drift != then.drift {
            return Some("the definition has changed since the call was approved");
        }
        let is_same = now.trust == then.trust && now.new_hosts == then.new_hosts;
        (!is_same).then_some("the policy has changed since the call was approved")
    }

    /// The call, as saved approvals are compared with it.
    pub(crate) fn asked_call(&self) -> AskedCall<'_> {
        AskedCall { arguments: self.arguments.as_ref(), reached: &self.reached }
    }

    /// The annotations as far as the server is trusted.
    pub(crate) fn believed_annotations(&self) -> Annotations {
        self.annotations.believed(self.trust, self.subject().kind)
    }

    /// This request, which reaches this.
    pub(in crate::policy) fn reaching(self, reached: Reached) -> Self {
        Self { reached, ..self }
    }

    /// What the request reaches, if that is why it is asked about.
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Surface that the call comes from.
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// Trust of the server.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Annotations of the tool.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// Arguments as they will be sent.
    pub fn arguments(&self) -> Option<&Raw> {
        self.arguments.as_ref()
    }

    /// Method that is to be sent; `None` if the request is composed later.
    pub(crate) fn method(&self) -> Option<&str> {
        self.grant.request().map(Request::method)
    }

    /// Whether a saved approval answers it.
    pub fn lift(&self) -> Lift {
        self.lift
    }

    /// Rule that asks.
    pub fn rule(&self) -> &RuleId {
        self.grant.rule()
    }

    /// The reason as far as a client may read it.
    pub(crate) fn client_reason(&self) -> Option<&str> {
        self.client_reason.as_deref()
    }

    /// Reason in the rule, for the operator.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The command that writes what would allow this call without asking: a rule, or a trusted tool of its assistant. `None`
    /// in mode `ask`, which no rule lifts, and for names that cannot be pasted safely into a shell.
    pub fn remedy(&self) -> Option<String> {
        let Subject { server, kind, raw_name } = self.subject();
        let label = self.caller.label();
        let caller = label.split(':').next().unwrap_or_default();
        let caller = if caller == "client" { label.as_str() } else { caller };
        let item = format!("{server}.{raw_name}");
        let mut words = match (self.remedy, self.rule()) {
            (Remedy::Rule, _) => vec!["toolway", "policy", "allow", &item, "--caller", caller],
            (Remedy::TrustedTool, RuleId::Assistant(name, _)) => {
                vec!["toolway", "assistants", "set", name, "--trust-tool", &item]
            }
            (Remedy::TrustedTool | Remedy::None, _) => return None,
        };
        if *kind != CallKind::Tool {
            words.extend(["--kind", kind.as_str()]);
        }
        // A name with `*` would be a pattern.
        let is_plain = |word: &&str| {
            word.chars().all(|letter| letter.is_ascii_graphic() || letter.is_alphanumeric() || letter == ' ')
        };
        let is_writable = self.lift == Lift::BySaved && words.iter().all(is_plain) && !item.contains('*');
        is_writable.then(|| shlex::try_join(words).ok())?
    }

    /// The refusal of a call that no user was asked about.
    pub(crate) fn unavailable(&self) -> Refusal {
        let (name, rule) = (self.subject().raw_name.clone(), self.rule().clone());
        let new = self.reached.new_hosts().filter(|found| found.is_plain());
        let new_hosts = new.map(|found| found.host.clone()).collect();
        let extended = self.saved.as_ref().map(|id| format!("toolway trust allow {id} --unattended"));
        let remedies = self.remedy().into_iter().chain(extended).collect();
        let changes = self.reason.as_deref().filter(|_| rule == RuleId::Drift).map(Box::from);
        Refusal::ApproverUnavailable { name, rule, changes, remedies, new_hosts }
    }

    /// The item to be used.
    pub fn subject(&self) -> &Subject {
        self.grant.subject()
    }

    /// Identity on whose behalf the call is made.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The request that approval was asked for.
    pub(crate) fn into_request(self) -> Option<Request> {
        self.grant.request
    }

    /// Turns an approved request into its grant.
    pub(in crate::policy) fn into_grant(self, approved_by: Arc<str>) -> Grant {
        Grant { approved_by: Some(approved_by), ..self.grant }
    }

    /// Turns a request that a saved approval covers into its grant.
    pub(crate) fn into_saved_grant(self, saved: String) -> Grant {
        let approved_by = Some(format!("saved approval {saved}").into());
        Grant { rule: RuleId::Saved(saved), approved_by, ..self.grant }
    }
}

fn joined(why: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| why.to_owned(), |reason| format!("{why}; {reason}"))
}

/// A question for the user, in one sentence.
impl fmt::Display for ApprovalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { server, kind, raw_name } = self.subject();
        write!(f, "may {} use the {kind} `{raw_name}` of `{server}`?", self.caller)
    }
}
