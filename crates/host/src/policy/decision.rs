//! Policy decisions: a grant, an approval request, or a refusal with its reason.
//!
//! Only this module creates a [`Grant`]. It cannot be copied, and is consumed to get a
//! [`Permit`](super::limit::Permit), which sending a request requires.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::{Place, PolicyMode, RuleEffect, ServerName, Trust};
use toolway_wire::{exchange::Request, json::Raw};

use super::{Annotations, PolicyInput, Surface};
use crate::call::{CallKind, Caller};

/// Decision of the policy about one request.
#[must_use]
#[derive(Debug)]
pub enum Decision {
    /// The request is allowed.
    Allow(Grant),
    /// The request requires an approval.
    Ask(ApprovalRequest),
    /// The request is refused.
    Deny(Refusal),
}

/// Permission for one request. Only `policy` can create one.
///
/// ```compile_fail
/// # use toolway_host::policy::{Grant, RuleId, Subject};
/// fn forge(subject: Subject, rule: RuleId) -> Grant {
///     Grant { subject, rule, request: None, approved_by: None } // the fields are private
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Grant {
    subject: Subject,
    rule: RuleId,
    /// The request that was decided on; `None` for requests that `host` composes later from the subject alone.
    request: Option<Request>,
    approved_by: Option<Arc<str>>,
}

/// What a request is about, as far as rules consider it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Server that owns the item.
    pub server: ServerName,
    /// Kind of the item.
    pub kind: CallKind,
    /// Name of the item at its server: a tool, a prompt, a URI or a method.
    pub raw_name: String,
}

/// Identifier of the rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleId {
    /// The default of a surface.
    Default(Surface, RuleEffect),
    /// The configured mode.
    Mode(PolicyMode),
    /// The default of the embedding program.
    Stance(RuleEffect),
    /// A rule, by file and line.
    Rule(Place),
    /// A saved approval, by id.
    Saved(String),
}

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
}

/// Why a call was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No server offers an item of this name.
    #[error("unknown {kind} `{name}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// Kind of the requested item.
        kind: CallKind,
        /// Name as requested.
        name: String,
        /// Most similar name, if there is one.
        near: Option<String>,
    },
    /// No server of this name is configured.
    #[error("unknown server `{0}`")]
    UnknownServer(String),
    /// The server is disabled.
    #[error("server `{0}` is disabled")]
    Disabled(ServerName),
    /// A filter of the server's entry excludes the item.
    #[error("{} `{}` of `{}` is excluded by `{key}` of its entry", subject.kind, subject.raw_name, subject.server)]
    FilteredOut {
        /// The requested item.
        subject: Subject,
        /// Key of the entry that excludes it: `includeTools`, `excludePrompts`, `resources: false` …
        key: &'static str,
    },
    /// A rule denies the request.
    #[error("denied by policy ({rule}){}{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default(), rule.removal())]
    Denied {
        /// Rule that decided.
        rule: RuleId,
        /// Reason in the rule.
        reason: Option<String>,
    },
    /// A user declined the approval request.
    #[error("approval declined{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Declined {
        /// Reason given by the user.
        why: Option<String>,
    },
    /// The call requires approval, and no approver answered.
    #[error("`{name}` requires approval ({rule}), and no approver is available; this rule would allow it: {remedy}")]
    ApproverUnavailable {
        /// Name of the item.
        name: String,
        /// Rule that asks.
        rule: RuleId,
        /// The rule that would allow the call, as JSON for `policy.rules`.
        remedy: String,
    },
    /// The call cannot be recorded, and recording is required.
    #[error("the call was not sent because it cannot be recorded: {0}")]
    NotRecorded(String),
    /// No slot became free in time.
    #[error("no free call slot within {waited:?}: {limit} calls {whose} are in flight; try again later")]
    Busy {
        /// Maximum number of calls in flight.
        limit: usize,
        /// Scope of the limit: `to this server`, `in total` …
        whose: &'static str,
        /// Time spent waiting for a slot.
        waited: Duration,
    },
    /// The client has reached its maximum number of calls.
    #[error(
        "this client already has {limit} calls running or queued, which is the maximum; wait until some have ended"
    )]
    TooMany {
        /// Maximum number of calls of one client.
        limit: usize,
    },
    /// The definition is not the one the caller chose.
    #[error("`{0}` has changed since it was listed; list it again and review the new definition")]
    Changed(String),
    /// The request is invalid.
    #[error("{0}")]
    Malformed(String),
    /// The host is being shut down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

// === impl Grant ===

impl Grant {
    pub(super) fn new(subject: Subject, rule: RuleId, request: Option<Request>) -> Self {
        Self { subject, rule, request, approved_by: None }
    }

    /// The request that was decided on.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// This grant for a repetition of the same request.
    pub(crate) fn with_request(self, request: Option<Request>) -> Self {
        Self { request, ..self }
    }

    /// Takes the request that was decided on. It is sent once.
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.request.take()
    }

    /// Who approved it, where policy asked.
    pub fn approved_by(&self) -> Option<&Arc<str>> {
        self.approved_by.as_ref()
    }

    /// The granted item.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Rule that granted it.
    pub fn rule(&self) -> &RuleId {
        &self.rule
    }
}

// === impl ApprovalRequest ===

impl ApprovalRequest {
    pub(super) fn new(grant: Grant, input: &PolicyInput<'_>, reason: Option<String>) -> Self {
        let PolicyInput { surface, trust, annotations, .. } = *input;
        let (caller, arguments) = (input.caller.clone(), input.arguments.cloned());
        Self { grant, caller, surface, trust, annotations, arguments, reason }
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

    /// Rule that asks.
    pub fn rule(&self) -> &RuleId {
        self.grant.rule()
    }

    /// Reason in the rule.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The rule that would allow this call without asking, as JSON for `policy.rules`.
    pub fn remedy(&self) -> String {
        let Subject { server, kind, raw_name } = self.subject();
        let label = self.caller.label();
        let caller = label.split(':').next().unwrap_or_default();
        let caller = if caller == "client" { label.as_str() } else { caller };
        let mut matches = json!({ "caller": caller, "server": server.as_str(), "tool": raw_name });
        if *kind != CallKind::Tool {
            matches["kind"] = json!(kind.as_str());
        }
        json!({ "match": matches, "then": "allow" }).to_string()
    }

    /// The refusal of a call that no user was asked about.
    pub(super) fn unavailable(&self) -> Refusal {
        let (name, rule) = (self.subject().raw_name.clone(), self.rule().clone());
        Refusal::ApproverUnavailable { name, rule, remedy: self.remedy() }
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
    pub(super) fn into_grant(self, approved_by: &str) -> Grant {
        Grant { approved_by: Some(approved_by.into()), ..self.grant }
    }

    /// Turns a request that a saved approval covers into its grant.
    pub(crate) fn into_saved_grant(self, saved: String) -> Grant {
        let approved_by = Some(format!("saved approval {saved}").into());
        Grant { rule: RuleId::Saved(saved), approved_by, ..self.grant }
    }
}

/// A question for the user, in one sentence.
impl fmt::Display for ApprovalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { server, kind, raw_name } = self.subject();
        write!(f, "may {} use the {kind} `{raw_name}` of `{server}`?", self.caller)
    }
}

// === impl RuleId ===

impl RuleId {
    /// File and line of the rule; `None` for defaults and saved approvals.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Rule(place) => Some(place),
            _ => None,
        }
    }

    /// What removes a saved refusal, which no file shows; empty for rules.
    fn removal(&self) -> String {
        match self {
            Self::Saved(id) => format!("; `toolway trust remove {id}` removes it"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(surface, effect) => write!(f, "default of `{surface}`: {}", effect.as_str()),
            Self::Mode(mode) => write!(f, "mode `{}`", mode.as_str()),
            Self::Stance(effect) => write!(f, "default of the program: {}", effect.as_str()),
            Self::Rule(place) => write!(f, "rule at {place}"),
            Self::Saved(id) => write!(f, "saved approval {id}"),
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// Stable error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_name",
            Self::UnknownServer(_) => "unknown_server",
            Self::Disabled(_) => "disabled",
            Self::FilteredOut { .. } => "filtered_out",
            Self::Denied { .. } => "denied",
            Self::Declined { .. } => "declined",
            Self::ApproverUnavailable { .. } => "no_approver",
            Self::NotRecorded(_) => "not_recorded",
            Self::Busy { .. } => "busy",
            Self::TooMany { .. } => "too_many_calls",
            Self::Changed(_) => "changed",
            Self::Malformed(_) => "malformed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}
