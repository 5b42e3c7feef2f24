//! Approval requests before a call is sent, and the port that answers them.

use futures_util::{FutureExt, future::BoxFuture};

use super::decision::{ApprovalRequest, Grant, Refusal};

/// Answers approval requests. An implementation may take any time; the future is dropped if the caller cancels the
/// call.
pub trait Approver: Send + Sync {
    /// Answers one approval request.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer>;
}

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
    /// For this tool, until the conversation ends.
    Conversation,
    /// For this tool and caller, saved.
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

/// The default approver: refuses every call that requires approval.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async { ApprovalAnswer::Unavailable })
    }
}

/// Asks the approver. Any answer but an approval is a refusal, and so is a panic of the approver.
pub(crate) async fn request_approval(
    request: ApprovalRequest,
    approver: &dyn Approver,
) -> (ApprovalScope, Result<Grant, Refusal>) {
    let answer = async { approver.ask(&request).await };
    let answer = std::panic::AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("the approver panicked; the call is refused");
        ApprovalAnswer::Unavailable
    });
    match answer {
        ApprovalAnswer::Approved { scope, by } => (scope, Ok(request.into_grant(&by))),
        ApprovalAnswer::Declined { why, scope } => (scope, Err(Refusal::Declined { why })),
        ApprovalAnswer::Unavailable => (ApprovalScope::Once, Err(request.unavailable())),
    }
}
