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
    Approved,
    /// The call must not be sent.
    Declined {
        /// Reason given by the user, for the call record and the model.
        why: Option<String>,
    },
    /// No user is available, or none answered.
    Unavailable,
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
pub(crate) async fn request_approval(request: ApprovalRequest, approver: &dyn Approver) -> Result<Grant, Refusal> {
    let answer = async { approver.ask(&request).await };
    let answer = std::panic::AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("the approver panicked; the call is refused");
        ApprovalAnswer::Unavailable
    });
    match answer {
        ApprovalAnswer::Approved => Ok(request.into_grant()),
        ApprovalAnswer::Declined { why } => Err(Refusal::Declined { why }),
        ApprovalAnswer::Unavailable => Err(Refusal::ApproverUnavailable(request.subject().raw_name.clone())),
    }
}
