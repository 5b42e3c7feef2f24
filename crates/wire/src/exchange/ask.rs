//! A question in the middle of an exchange, and its answer.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use super::core::Core;
use crate::{json::Raw, message::RpcError};

/// A question and the way to answer it. Dropped unanswered, it is answered with [`Answer::Nobody`].
#[derive(Debug)]
pub struct Ask {
    /// What is asked.
    pub question: Question,
    reply: Option<Reply>,
}

/// What a server wants of the caller's side.
#[derive(Clone, Debug)]
pub struct Question {
    /// Which one, within its exchange.
    pub id: AskId,
    /// What the asking side calls it, where it calls it anything.
    pub key: Option<String>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// As they came.
    pub params: Option<Raw>,
    /// Which request made the server ask.
    pub cause: Cause,
}

/// Why a server asks. A cause is named only when it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The request of this exchange.
    Request,
    /// No request: a standing question, answered from configuration or refused.
    Standing,
}

/// A question's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// What the caller's side says to a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The result, as the protocol defines it for the question's method.
    Given(Raw),
    /// No answer will be given, and why.
    Refused(RpcError),
    /// Nobody is there to answer.
    Nobody,
}

struct Reply {
    core: Option<Arc<Core>>,
    sender: oneshot::Sender<Answer>,
}

// === impl Ask ===

impl Ask {
    pub(super) fn new(question: Question, core: Arc<Core>, sender: oneshot::Sender<Answer>) -> Self {
        Self { question, reply: Some(Reply { core: Some(core), sender }) }
    }

    /// Answers; the clocks of the exchange run again.
    pub fn answer(mut self, answer: Answer) {
        self.close(answer);
    }

    fn close(&mut self, answer: Answer) {
        if let Some(Reply { core, sender }) = self.reply.take() {
            if let Some(core) = core {
                core.ask_closed(self.question.id);
            }
            // The asking side may be gone; then nobody misses the answer.
            let _gone = sender.send(answer);
        }
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.close(Answer::Nobody);
    }
}

// === impl Answer ===

impl Answer {
    /// As whoever asked is told: the result, or an error.
    pub fn into_result(self) -> Result<Raw, RpcError> {
        match self {
            Self::Given(given) => Ok(given),
            Self::Refused(error) => Err(error),
            Self::Nobody => Err(RpcError::new(RpcError::INTERNAL, "nobody is there to answer this")),
        }
    }

    /// What is said where somebody was asked and never answered: in the words that this question has for it.
    pub(crate) fn too_late(method: &str) -> Self {
        match method {
            "elicitation/create" => Self::dismissed(),
            "sampling/createMessage" => {
                Self::Refused(RpcError::new(RpcError::REJECTED_BY_USER, "nobody came back with an answer"))
            }
            _ => Self::Nobody,
        }
    }

    /// A person looked at a form or address and said no.
    pub fn declined() -> Self {
        Self::Given(Raw::of(&serde_json::json!({ "action": "decline" })))
    }

    /// A person closed the form without deciding.
    pub fn dismissed() -> Self {
        Self::Given(Self::closed_form())
    }

    /// What is said of a form that was closed without deciding.
    pub(crate) fn closed_form() -> Raw {
        Raw::of(&serde_json::json!({ "action": "cancel" }))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
