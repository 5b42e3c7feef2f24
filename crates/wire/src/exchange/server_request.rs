//! A question in the middle of an exchange, and its answer.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use super::core::Core;
use crate::{json::Raw, message::RpcError};

/// A question and the way to answer it. Dropped unanswered, it is answered with [`Answer::Unavailable`].
#[derive(Debug)]
pub struct ServerRequest {
    /// What is asked.
    pub details: ServerRequestDetails,
    responder: Option<Responder>,
}

/// What a server wants of the caller's side.
#[derive(Clone, Debug)]
pub struct ServerRequestDetails {
    /// Which one, within its exchange.
    pub id: ServerRequestId,
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
pub struct ServerRequestId(pub u64);

/// What the caller's side says to a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The result, as the protocol defines it for the question's method.
    Given(Raw),
    /// No answer will be given, and why.
    Refused(RpcError),
    /// Nobody is there to answer.
    Unavailable,
}

struct Responder {
    core: Option<Arc<Core>>,
    sender: oneshot::Sender<Answer>,
}

// === impl ServerRequest ===

impl ServerRequest {
    pub(super) fn new(details: ServerRequestDetails, core: Arc<Core>, sender: oneshot::Sender<Answer>) -> Self {
        Self { details, responder: Some(Responder { core: Some(core), sender }) }
    }

    /// Answers; the clocks of the exchange run again.
    pub fn answer(mut self, answer: Answer) {
        self.close(answer);
    }

    fn close(&mut self, answer: Answer) {
        if let Some(Responder { core, sender }) = self.responder.take() {
            if let Some(core) = core {
                core.close_server_request(self.details.id);
            }
            // The asking side may be gone; then nobody misses the answer.
            let _gone = sender.send(answer);
        }
    }
}

impl Drop for ServerRequest {
    fn drop(&mut self) {
        self.close(Answer::Unavailable);
    }
}

// === impl Answer ===

impl Answer {
    /// As whoever asked is told: the result, or an error.
    pub fn into_result(self) -> Result<Raw, RpcError> {
        match self {
            Self::Given(given) => Ok(given),
            Self::Refused(error) => Err(error),
            Self::Unavailable => Err(RpcError::new(RpcError::INTERNAL, "nobody is there to answer this")),
        }
    }

    /// What is said where somebody was asked and never answered: in the words that this question has for it.
    pub(crate) fn too_late(method: &str) -> Self {
        match method {
            "elicitation/create" => Self::dismissed(),
            "sampling/createMessage" => {
                Self::Refused(RpcError::new(RpcError::REJECTED_BY_USER, "nobody came back with an answer"))
            }
            _ => Self::Unavailable,
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

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}
