//! What an era-neutral request sounds like to one server, and what that server's replies mean.
//!
//! Two implementations, [`super::legacy`] and [`super::modern`]; nothing else on the up downstream knows what year it is.

use std::fmt;

use bytes::Bytes;

use super::transport::Outbound;
use crate::{
    exchange::{LogLevel, Request, ServerRequestDetails},
    json::Raw,
    message::{RpcError, item::Tool, result::ResultType},
    revision::Revision,
    task::Task,
};

/// One era, spoken to a server.
pub(crate) trait Accent: Send + Sync + fmt::Debug {
    /// The revision agreed on.
    fn revision(&self) -> Revision;

    /// The request as it goes out under this id; `round` holds what an earlier reply asked for.
    fn request(&self, id: u64, request: &Request, round: Option<&InputRound>) -> Outbound;

    /// What a good reply to this request means, which says of itself that it is this.
    fn result(&self, request: &Request, result: Raw, said: ResultType) -> InterpretedResponse;

    /// What a bad reply means.
    fn error(&self, request: &Request, error: RpcError) -> InterpretedResponse;

    /// What a server that sends us a request wants.
    fn classify_request(&self, method: &str, params: Option<&Raw>) -> ServerRequestKind;

    /// What the server means when it cancels.
    fn cancel_target(&self) -> CancelTarget;

    /// The message that cancels, where closing the lane does not say it.
    fn cancellation(&self, id: u64, reason: &str) -> Option<Bytes>;

    /// The server's tools went by: what their schemas want in headers.
    fn learn_tools(&self, _result: &Raw) {}

    /// Why a tool of this server may not be offered, if so.
    fn rejection_reason(&self, _tool: &Tool) -> Option<String> {
        None
    }

    /// When the server is told what a caller's side can be asked.
    fn capability_scope(&self) -> CapabilityScope;

    /// How the server tells of changes.
    fn change_delivery(&self) -> ChangeDelivery;

    /// How the server keeps tasks, where it does.
    fn task_model(&self) -> TaskModel;

    /// The method that asks for a sign of life.
    fn ping_method(&self) -> &'static str;

    /// Whether a completion can say what other arguments are.
    fn completes_in_context(&self) -> bool;

    /// Logs are wanted from this level on: the request that says so, where it is not said with each request.
    fn log_level_request(&self, level: LogLevel) -> Option<Request>;
}

/// When a server is told what a caller's side can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityScope {
    /// With each request: callers who can be asked different things share a connection.
    PerRequest,
    /// When the connection begins: it says the same for all who use it.
    PerConnection,
}

/// What a reply means.
#[derive(Debug)]
pub(crate) enum InterpretedResponse {
    /// The end, with a result.
    Complete(Raw),
    /// The end, with an error.
    Refused(RpcError),
    /// Questions first; all answers go back with the state.
    InputRequired(Vec<ServerRequestDetails>, Option<Raw>),
    /// A task goes on in its place.
    Task(Task),
    /// The server speaks another revision now; say it again in that one.
    OtherRevision(Revision),
    /// The headers did not fit; the schemas we know may be old.
    StaleHeaders(RpcError),
    /// Not an answer the protocol knows.
    Invalid(String),
    /// More than the bound.
    TooLarge(&'static str, usize),
}

/// What a request from the server is.
#[derive(Debug)]
pub(crate) enum ServerRequestKind {
    /// Are you there?
    Ping,
    /// A question for the caller's side.
    Input,
    /// A question we did not declare that we take, and how it is refused.
    Undeclared(RpcError),
    /// Something we do not know.
    Unknown(RpcError),
    /// This server may not send requests at all.
    Violation,
}

/// Which request a server's cancellation names: one of its own, as it counts them, or one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelTarget {
    /// A question it asked us.
    ServerRequests,
    /// A subscription we made.
    Subscriptions,
}

/// How a server tells of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeDelivery {
    /// Of lists by itself, of each resource once it was asked to.
    Unsolicited,
    /// On a stream that is asked for.
    SubscriptionStream,
}

/// How a server keeps tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskModel {
    /// Results and questions come on a stream that is held open for them.
    SessionStream,
    /// All there is to a task is in one answer.
    Polled,
}

/// The answers of one round on their way back.
#[derive(Debug)]
pub(crate) struct InputRound {
    /// `inputResponses`, by the server's keys; none where nothing was asked.
    pub(crate) answers: Option<Raw>,
    /// `requestState`, as it came.
    pub(crate) state: Option<Raw>,
}
