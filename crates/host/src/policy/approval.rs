//! Questions put to a person before a call goes out, and the port they are put through.

use futures_util::{FutureExt, future::BoxFuture};

use super::decision::{Grant, Question, Refusal};

/// Asks a person. Whoever implements it may take its time; the caller can leave meanwhile.
pub trait Approver: Send + Sync {
    /// What the person says.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer>;
}

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Yes,
    /// Do not.
    No {
        /// In their words, for the record and the model.
        why: Option<String>,
    },
    /// There is no person, or they did not look.
    Nobody,
}

/// Refuses: the safe default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyApproves;

impl Approver for NobodyApproves {
    fn ask<'a>(&'a self, _question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody })
    }
}

/// Puts the question; anything but a yes is a refusal, an approver that panics included.
pub(crate) async fn put(question: Question, approver: &dyn Approver) -> Result<Grant, Refusal> {
    let asked = async { approver.ask(&question).await };
    let answer = std::panic::AssertUnwindSafe(asked).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("the approver panicked; the call is refused");
        Answer::Nobody
    });
    match answer {
        Answer::Yes => Ok(question.into_grant()),
        Answer::No { why } => Err(Refusal::Declined { why }),
        Answer::Nobody => Err(Refusal::NobodyToAsk(question.subject().raw_name.clone())),
    }
}
