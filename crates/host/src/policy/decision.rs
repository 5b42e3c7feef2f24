//! Policy decisions: a grant, an approval request, or a refusal with its reason.
//!
//! Only this module creates a [`Grant`]. It cannot be copied, and is consumed to get a
//! [`Permit`](super::limit::Permit), which sending a request requires.
//!
//! | part | file |
//! |---|---|
//! | what a user is asked | `decision/approval_request.rs` |
//! | what decided | `decision/rule_id.rs` |
//! | why nothing was sent | `decision/refusal.rs` |

mod approval_request;
mod refusal;
mod rule_id;

use std::sync::Arc;

pub use approval_request::ApprovalRequest;
pub(crate) use approval_request::Remedy;
pub use refusal::Refusal;
pub use rule_id::RuleId;
use toolway_config::{ServerName, Trust};
use toolway_wire::exchange::Request;

use super::{Annotations, ApprovalKey, Lift, PolicyInput};
use crate::{
    call::{CallKind, Caller},
    catalog::Fingerprint,
};

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
///     Grant { subject, rule, request: None, approved_by: None, definition: None } // the fields are private
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
    /// What was approved; `None` if no approval was required.
    definition: Option<Box<Definition>>,
}

/// The server and the item of a call that requires approval, as they were when it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Digest of the server's entry.
    pub(crate) entry: String,
    /// Digest of the tool's definition.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) annotations: Annotations,
    pub(crate) trust: Trust,
    /// Hosts that the call reaches and that were not known.
    pub(crate) new_hosts: Vec<String>,
    /// How the tool and its server differ from what was seen first, as a person was shown it; `None` if they do not.
    pub(crate) drift: Option<String>,
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

/// Why a changed definition is asked about, for all who read it.
const DRIFT: &str = "it is not what was seen before";

// === impl Decision ===

impl Decision {
    /// This decision about a call whose definition is not what was seen first: what is allowed is asked about. No saved
    /// approval lifts it: the file of a program can change without the entry that such an approval is bound to.
    pub(crate) fn asking_about_drift(self, input: &PolicyInput<'_>, reason: &str) -> Self {
        match self {
            Self::Allow(grant) => {
                let grant = Grant { rule: RuleId::Drift, ..grant };
                let request = ApprovalRequest::new(grant, input, None, Lift::Never);
                Self::Ask(request.because(DRIFT).because_for_operator(reason))
            }
            Self::Ask(request) => Self::Ask(request.never_lifted().because(DRIFT).because_for_operator(reason)),
            Self::Deny(refusal) => Self::Deny(refusal),
        }
    }
}

// === impl Grant ===

impl Grant {
    pub(super) fn new(subject: Subject, rule: RuleId, request: Option<Request>) -> Self {
        Self { subject, rule, request, approved_by: None, definition: None }
    }

    /// The request that was decided on.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// This grant for a repetition of the same request.
    pub(crate) fn with_request(self, request: Option<Request>) -> Self {
        Self { request, ..self }
    }

    /// The request that was decided on.
    pub(crate) fn into_request(self) -> Option<Request> {
        self.request
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

// === impl Definition ===

impl Definition {
    /// The key of answers about it.
    pub(crate) fn key(&self, caller: &Caller, subject: &Subject, method: Option<&str>) -> ApprovalKey {
        ApprovalKey::new(caller, subject, self.entry.clone(), method, self.fingerprint)
    }
}
