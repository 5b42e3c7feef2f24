//! The upstream accent: the codec of one protocol era for requests to servers and their responses.
//!
//! There are two implementations, [`super::legacy`] and [`super::modern`]; nothing else on the upstream side depends on
//! the era.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::transport::Outbound;
use crate::{
    exchange::{LogLevel, Request, RequiredUrl, ServerRequestDetails},
    json::Raw,
    message::{RpcError, item::Tool, result::ResultType},
    notice::Notice,
    revision::Revision,
    task::Task,
};

/// Codec of one protocol era, upstream.
pub(crate) trait Accent: Send + Sync + fmt::Debug {
    /// Negotiated revision.
    fn revision(&self) -> Revision;

    /// Encodes a request under this id; `round` holds the answers to an earlier `input_required` result.
    fn request(&self, id: u64, request: &Request, round: Option<&InputRound>) -> Outbound;

    /// Interprets a result of this request, given its `resultType`.
    fn result(&self, request: &Request, result: Raw, result_type: ResultType) -> InterpretedResponse;

    /// Interprets an error response.
    fn error(&self, request: &Request, error: RpcError) -> InterpretedResponse;

    /// Classifies a request sent by the server.
    fn classify_request(&self, method: &str, params: Option<&Raw>) -> ServerRequestKind;

    /// What a `notifications/cancelled` of the server refers to.
    fn cancel_target(&self) -> CancelTarget;

    /// The message that cancels a request; `None` where closing its lane cancels it.
    fn cancellation(&self, id: u64, reason: &str) -> Option<Bytes>;

    /// Records which headers the tools of a `tools/list` result require.
    fn learn_tools(&self, _result: &Raw) {}

    /// Why a tool must not be listed; `None` if it may be.
    fn rejection_reason(&self, _tool: &Tool) -> Option<String> {
        None
    }

    /// How long a result stays valid; `None` if servers do not say that.
    fn result_lifetime(&self, _result: &Raw) -> Option<Duration> {
        None
    }

    /// Whether client capabilities are declared per request or per connection.
    fn capability_scope(&self) -> CapabilityScope;

    /// How the server delivers change notifications.
    fn change_delivery(&self) -> ChangeDelivery;

    /// How tasks of the server are read.
    fn task_model(&self) -> TaskModel;

    /// Method of the notification that a task has changed.
    fn task_notification(&self) -> &'static str;

    /// Whether a server reports progress of a task with the token of its call.
    fn keeps_progress_of_tasks(&self) -> bool {
        false
    }

    /// Method that serves as a ping.
    fn ping_method(&self) -> &'static str;

    /// Whether `completion/complete` accepts the values of other arguments.
    fn completes_in_context(&self) -> bool;

    /// Interprets a notification that belongs to no request.
    fn notice(&self, method: &str, params: Option<Raw>) -> Notice {
        Notice::read(method, params)
    }

    /// The URLs without which the server refuses a request; `None` if an error does not name them all.
    fn required_urls(&self, _error: &RpcError) -> Option<Vec<RequiredUrl>> {
        None
    }

    /// The notification that our roots changed; `None` where servers ask for them with each request.
    fn roots_changed_notification(&self) -> Option<Bytes> {
        None
    }

    /// Sets the lowest log level. Returns the request to send; `None` where each request carries the level.
    fn log_level_request(&self, level: LogLevel) -> Option<Request>;
}

/// Scope in which client capabilities are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityScope {
    /// Each request declares its own: callers with different capabilities can share a connection.
    PerRequest,
    /// Declared once in the handshake: all callers of the connection have the same capabilities.
    PerConnection,
}

/// Meaning of a response.
#[derive(Debug)]
pub(crate) enum InterpretedResponse {
    /// Final result.
    Complete(Raw),
    /// Final error.
    Refused(RpcError),
    /// Server requests to answer first; the answers are sent back together with the state.
    InputRequired(Vec<ServerRequestDetails>, Option<Raw>),
    /// A task continues the work.
    Task(Task),
    /// The server now uses another revision; the request is repeated in it.
    OtherRevision(Revision),
    /// The headers did not match; the known tool schemas may be outdated.
    StaleHeaders(RpcError),
    /// A response that violates the protocol.
    Invalid(String),
    /// A part that exceeds a bound, with its name and the bound.
    TooLarge(&'static str, usize),
}

/// Kind of a request from the server.
#[derive(Debug)]
pub(crate) enum ServerRequestKind {
    /// A `ping`.
    Ping,
    /// A server request for the caller.
    Input,
    /// A server request whose capability was not declared, and its error response.
    Undeclared(RpcError),
    /// An unknown method, and its error response.
    Unknown(RpcError),
    /// The revision does not allow requests from the server.
    Violation,
}

/// Whose request id a server's cancellation names: its own or ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelTarget {
    /// A server request, by the server's id.
    ServerRequests,
    /// A subscription, by our id.
    Subscriptions,
}

/// How a server delivers change notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeDelivery {
    /// List changes without a request, resource changes after `resources/subscribe`.
    Unsolicited,
    /// On the stream of a `subscriptions/listen` request.
    SubscriptionStream,
}

/// How tasks of a server are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskModel {
    /// Results and server requests come on the stream of a pending `tasks/result`.
    SessionStream,
    /// Each `tasks/get` result is complete.
    Polled,
}

/// Answers to one `input_required` result, sent back with the request.
#[derive(Debug)]
pub(crate) struct InputRound {
    /// `inputResponses` by the server's keys; `None` if there was no server request.
    pub(crate) answers: Option<Raw>,
    /// `requestState`, as received.
    pub(crate) state: Option<Raw>,
}
