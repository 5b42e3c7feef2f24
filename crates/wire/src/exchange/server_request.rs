//! A request of the server to the client during an exchange (elicitation, sampling, roots), and its answer.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use super::core::Core;
use crate::{budget::Charge, json::Raw, message::RpcError};

/// A server request that can be answered once. If dropped, it is answered with [`Answer::Unavailable`].
#[derive(Debug)]
pub struct ServerRequest {
    /// Method, params and id of the request.
    pub details: ServerRequestDetails,
    responder: Option<AnswerSender>,
    observer: Option<Observer>,
    adapter: Option<Adapter>,
    /// Charge for its params, as long as it is unanswered.
    _charge: Charge,
}

/// Content of a server request.
#[derive(Clone, Debug)]
pub struct ServerRequestDetails {
    /// Id, unique within its exchange.
    pub id: ServerRequestId,
    /// Key given by the server, if any.
    pub key: Option<String>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Params as received.
    pub params: Option<Raw>,
    /// Request that caused it, if certain.
    pub cause: Cause,
}

/// A URL that a user must have opened before a server carries out a request.
#[derive(Clone, Debug)]
pub struct RequiredUrl {
    /// The server's id of it, which its announcement names ([`Notice::UrlCompleted`](crate::notice::Notice::UrlCompleted)).
    pub id: String,
    /// The request to show to the user.
    pub request: ServerRequestDetails,
}

/// What a server request belongs to. A request is named only when it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The request of this exchange.
    Request,
    /// No request: answered from configuration, or refused.
    Standing,
}

/// Id of a server request within its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerRequestId(pub u64);

/// Answer to a server request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The result, as the protocol defines it for the method.
    Given(Raw),
    /// An error response.
    Refused(RpcError),
    /// No handler is available to answer.
    Unavailable,
}

/// Sees the answer before it is sent.
struct Observer(Box<dyn FnOnce(&Answer) + Send + Sync>);

/// Changes the answer before it is observed and sent.
struct Adapter(Box<dyn FnOnce(Answer) -> Answer + Send + Sync>);

struct AnswerSender {
    core: Option<Arc<Core>>,
    sender: oneshot::Sender<Answer>,
}

impl ServerRequestDetails {
    /// Whether its server may send it again while it waits for what it asked for: one that names its requests knows them again,
    /// and announces nothing.
    pub fn may_be_repeated(&self) -> bool {
        self.key.is_some()
    }
}

// === impl ServerRequest ===

impl ServerRequest {
    pub(super) fn new(
        details: ServerRequestDetails,
        core: Arc<Core>,
        sender: oneshot::Sender<Answer>,
        charge: Charge,
    ) -> Self {
        let responder = Some(AnswerSender { core: Some(core), sender });
        Self { details, responder, observer: None, adapter: None, _charge: charge }
    }

    /// Shows the answer to `observer` before it is sent; also [`Answer::Unavailable`] of a request that is dropped.
    #[must_use]
    pub fn observed(mut self, observer: Box<dyn FnOnce(&Answer) + Send + Sync>) -> Self {
        self.observer = Some(Observer(observer));
        self
    }

    /// Passes the answer through `adapter` before it is sent.
    #[must_use]
    pub fn adapted(mut self, adapter: Box<dyn FnOnce(Answer) -> Answer + Send + Sync>) -> Self {
        self.adapter = Some(Adapter(adapter));
        self
    }

    /// A request that does not come from a server: of a host to the client of a call. Returns where its answer arrives.
    pub fn detached(details: ServerRequestDetails) -> (Self, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        (
            Self {
                details,
                responder: Some(AnswerSender { core: None, sender }),
                observer: None,
                adapter: None,
                _charge: Charge::default(),
            },
            receiver,
        )
    }

    /// Answers the request; the timeouts of the exchange run again.
    pub fn answer(mut self, answer: Answer) {
        self.close(answer);
    }

    fn close(&mut self, answer: Answer) {
        if let Some(AnswerSender { core, sender }) = self.responder.take() {
            let answer = match self.adapter.take() {
                Some(Adapter(adapt)) => adapt(answer),
                None => answer,
            };
            if let Some(Observer(observe)) = self.observer.take() {
                observe(&answer);
            }
            if let Some(core) = core {
                core.close_server_request(self.details.id);
            }
            // The asking side may have ended; then the answer is not needed.
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
    /// Converts the answer into a JSON-RPC result or error.
    pub fn into_result(self) -> Result<Raw, RpcError> {
        match self {
            Self::Given(given) => Ok(given),
            Self::Refused(error) => Err(error),
            Self::Unavailable => {
                Err(RpcError::new(RpcError::INTERNAL, "no handler is available to answer this request"))
            }
        }
    }

    /// Whether the client could have answered and did not, as opposed to a kind of request that it does not support.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::Given(_) => false,
            Self::Refused(error) => !matches!(error.code(), RpcError::METHOD_NOT_FOUND | RpcError::INVALID_PARAMS),
            Self::Unavailable => true,
        }
    }

    /// Returns the answer to a request that was shown to a user and not answered in time, as the method defines it.
    pub(crate) fn too_late(method: &str) -> Self {
        match method {
            "elicitation/create" => Self::dismissed(),
            "sampling/createMessage" => {
                Self::Refused(RpcError::new(RpcError::REJECTED_BY_USER, "no answer was given in time"))
            }
            _ => Self::Unavailable,
        }
    }

    /// The user declined a form or URL.
    pub fn declined() -> Self {
        Self::Given(Raw::of(&serde_json::json!({ "action": "decline" })))
    }

    /// The user closed the form without deciding.
    pub fn dismissed() -> Self {
        Self::Given(Self::closed_form())
    }

    /// Result of a form that was closed without deciding.
    pub(crate) fn closed_form() -> Raw {
        Raw::of(&serde_json::json!({ "action": "cancel" }))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Adapter")
    }
}

impl fmt::Debug for AnswerSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerSender")
    }
}
