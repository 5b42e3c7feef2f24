//! Answers to approval requests. The inbox collects them ([`crate::inbox`]).

use super::decision::{ApprovalRequest, Grant, Refusal};
use crate::inbox::InboxAnswer;

/// Answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// The call may be sent.
    Approved {
        /// How long the approval lasts.
        scope: ApprovalScope,
        /// The surface on which it was given: `terminal`, `console`, `inbox` …
        by: String,
    },
    /// The call must not be sent.
    Declined {
        /// Reason given by the user, for the call record and the model.
        why: Option<String>,
        /// Once, or for all calls of this tool from now on.
        scope: ApprovalScope,
    },
    /// No user is available, or none answered.
    Unavailable,
}

impl ApprovalAnswer {
    /// Approves this call alone.
    pub fn approved(by: impl Into<String>) -> Self {
        Self::Approved { scope: ApprovalScope::Once, by: by.into() }
    }

    /// Declines this call alone.
    pub fn declined(why: Option<String>) -> Self {
        Self::Declined { why, scope: ApprovalScope::Once }
    }
}

/// How long an answer lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalScope {
    /// For this call.
    Once,
    /// For this tool with any arguments, until the conversation or the session of the client ends.
    Conversation,
    /// Saved for this tool and caller: an approval for the same targets ([`ArgumentPattern`](super::ArgumentPattern)), a
    /// refusal for any arguments.
    Always,
}

impl ApprovalScope {
    /// The word in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Conversation => "conversation",
            Self::Always => "always",
        }
    }
}

/// Applies the answer of the inbox. Any answer but an approval is a refusal.
pub(crate) fn apply_answer(request: ApprovalRequest, answer: InboxAnswer) -> (ApprovalScope, Result<Grant, Refusal>) {
    match answer {
        InboxAnswer::Approval(ApprovalAnswer::Approved { scope, by }) => (scope, Ok(request.into_grant(&by))),
        InboxAnswer::Approval(ApprovalAnswer::Declined { why, scope }) => (scope, Err(Refusal::Declined { why })),
        InboxAnswer::Approval(ApprovalAnswer::Unavailable) | InboxAnswer::Elicitation(_) | InboxAnswer::Unavailable => {
            (ApprovalScope::Once, Err(request.unavailable()))
        }
    }
}
