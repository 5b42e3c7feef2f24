//! Answers to approval requests. The inbox collects them ([`crate::inbox`]).

use std::sync::Arc;

use super::{
    Scope,
    decision::{ApprovalRequest, Grant, Refusal},
};
use crate::inbox::InboxAnswer;

/// Answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// The call may be sent.
    Approved {
        /// How long the approval lasts.
        term: ApprovalTerm,
        /// What it covers beyond this call; `None`: what the request proposes for the term. It must cover the call.
        scope: Option<Scope>,
        /// Who approved: the surface, and the client or the session of the console.
        by: String,
    },
    /// The call must not be sent.
    Declined {
        /// Reason given by the user, for the call record and the model.
        why: Option<String>,
        /// Once, or for all calls of this tool from now on.
        term: ApprovalTerm,
        /// Who declined: the surface, and the client or the session of the console.
        by: String,
    },
    /// No user is available, or none answered.
    Unavailable,
}

/// How long an answer lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalTerm {
    /// For this call.
    Once,
    /// Until the conversation or the session of the client ends.
    Conversation,
    /// Saved. A refusal covers the tool with any arguments.
    Always,
}

/// An answer, applied to its request.
#[derive(Debug)]
pub(crate) struct AppliedAnswer {
    pub(crate) term: ApprovalTerm,
    /// What an approval covers beyond its call, if the user chose that.
    pub(crate) scope: Option<Scope>,
    /// Who answered; `None` if the item was not answered.
    pub(crate) by: Option<Arc<str>>,
    pub(crate) result: Result<Grant, Refusal>,
}

impl ApprovalAnswer {
    /// Approves this call alone.
    pub fn approved(by: impl Into<String>) -> Self {
        Self::approved_for(ApprovalTerm::Once, by)
    }

    /// Approves what the request proposes for a term.
    pub fn approved_for(term: ApprovalTerm, by: impl Into<String>) -> Self {
        Self::Approved { term, scope: None, by: by.into() }
    }

    /// Declines this call alone.
    pub fn declined(why: Option<String>, by: impl Into<String>) -> Self {
        Self::Declined { why, term: ApprovalTerm::Once, by: by.into() }
    }

    /// Declines this call and all later ones of the tool.
    pub fn never(by: impl Into<String>) -> Self {
        Self::Declined { why: None, term: ApprovalTerm::Always, by: by.into() }
    }
}

impl ApprovalTerm {
    /// The word in the audit log and for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Conversation => "conversation",
            Self::Always => "always",
        }
    }
}

/// Applies the answer of the inbox. Any answer but an approval is a refusal.
pub(crate) fn apply_answer(request: ApprovalRequest, answer: InboxAnswer) -> AppliedAnswer {
    match answer {
        InboxAnswer::Approval(ApprovalAnswer::Approved { term, scope, by }) => {
            let by: Arc<str> = by.into();
            AppliedAnswer { term, scope, by: Some(Arc::clone(&by)), result: Ok(request.into_grant(by)) }
        }
        InboxAnswer::Approval(ApprovalAnswer::Declined { why, term, by }) => {
            let by: Arc<str> = by.into();
            let result = Err(Refusal::Declined { why, by: Arc::clone(&by) });
            AppliedAnswer { term, scope: None, by: Some(by), result }
        }
        InboxAnswer::Approval(ApprovalAnswer::Unavailable)
        | InboxAnswer::Elicitation(_)
        | InboxAnswer::Sampling(_)
        | InboxAnswer::Unavailable => {
            AppliedAnswer { term: ApprovalTerm::Once, scope: None, by: None, result: Err(request.unavailable()) }
        }
    }
}
