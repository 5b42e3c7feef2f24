//! Policy decisions: a grant, an approval request, or a refusal with its reason.
//!
//! Only this module creates a [`Grant`]. It cannot be copied, and is consumed to get a
//! [`Permit`](super::limit::Permit), which sending a request requires.

use std::{fmt, time::Duration};

use toolway_config::ServerName;

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
/// fn forge(subject: Subject) -> Grant {
///     Grant { subject, rule: RuleId::CONFIGURED } // the fields are private
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Grant {
    subject: Subject,
    rule: RuleId,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(&'static str);

/// Asks a user to approve a call before it is sent. Without an approval the call is refused.
#[derive(Debug)]
pub struct ApprovalRequest {
    grant: Grant,
    caller: Caller,
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
    #[error("denied by rule `{rule}`")]
    Denied {
        /// Rule that decided.
        rule: RuleId,
    },
    /// A user declined the approval request.
    #[error("approval declined{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Declined {
        /// Reason given by the user.
        why: Option<String>,
    },
    /// The call requires approval, and no approver answered.
    #[error("`{0}` requires approval, and no approver is available")]
    ApproverUnavailable(String),
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
    pub(super) fn new(subject: Subject, rule: RuleId) -> Self {
        Self { subject, rule }
    }

    /// The granted item.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Rule that granted it.
    pub fn rule(&self) -> RuleId {
        self.rule
    }
}

// === impl ApprovalRequest ===

impl ApprovalRequest {
    pub(super) fn new(grant: Grant, caller: Caller) -> Self {
        Self { grant, caller }
    }

    /// The item to be used.
    pub fn subject(&self) -> &Subject {
        self.grant.subject()
    }

    /// Identity on whose behalf the call is made.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Turns an approved request into its grant.
    pub(super) fn into_grant(self) -> Grant {
        self.grant
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
    /// The server is configured and no filter excludes the item.
    pub const CONFIGURED: Self = Self("configured");
    /// Each call requires an approval.
    pub const ASK: Self = Self("ask");
    /// All calls are denied.
    pub const DENY: Self = Self("deny");

    /// Stable identifier, as used in records.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
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
            Self::ApproverUnavailable(_) => "no_approver",
            Self::Busy { .. } => "busy",
            Self::TooMany { .. } => "too_many_calls",
            Self::Changed(_) => "changed",
            Self::Malformed(_) => "malformed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}
