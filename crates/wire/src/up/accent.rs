//! What an era-neutral request sounds like to one server, and what that server's replies mean.
//!
//! Two implementations, [`super::legacy`] and [`super::modern`]; nothing else on the up face knows what year it is.

use std::fmt;

use bytes::Bytes;

use super::transport::Outbound;
use crate::{
    exchange::{LogLevel, Question, Request},
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
    fn request(&self, id: u64, request: &Request, round: Option<&Round>) -> Outbound;

    /// What a good reply to this request means, which says of itself that it is this.
    fn result(&self, request: &Request, result: Raw, said: ResultType) -> Reply;

    /// What a bad reply means.
    fn error(&self, request: &Request, error: RpcError) -> Reply;

    /// What a server that sends us a request wants.
    fn asked(&self, method: &str, params: Option<&Raw>) -> Asked;

    /// What the server means when it cancels.
    fn withdraws(&self) -> Withdraws;

    /// The message that cancels, where closing the lane does not say it.
    fn cancellation(&self, id: u64, reason: &str) -> Option<Bytes>;

    /// The server's tools went by: what their schemas want in headers.
    fn learn_tools(&self, _result: &Raw) {}

    /// Why a tool of this server may not be offered, if so.
    fn objection(&self, _tool: &Tool) -> Option<String> {
        None
    }

    /// When the server is told what a caller's side can be asked.
    fn declares(&self) -> Declares;

    /// How the server tells of changes.
    fn tells(&self) -> Tells;

    /// How the server keeps tasks, where it does.
    fn keeps_tasks(&self) -> KeepsTasks;

    /// The method that asks for a sign of life.
    fn sign_of_life(&self) -> &'static str;

    /// Whether a completion can say what other arguments are.
    fn completes_in_context(&self) -> bool;

    /// Logs are wanted from this level on: the request that says so, where it is not said with each request.
    fn log_from(&self, level: LogLevel) -> Option<Request>;
}

/// When a server is told what a caller's side can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declares {
    /// With each request: callers who can be asked different things share a connection.
    EachTime,
    /// When the connection begins: it says the same for all who use it.
    Once,
}

/// What a reply means.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The end, with a result.
    Complete(Raw),
    /// The end, with an error.
    Refused(RpcError),
    /// Questions first; all answers go back with the state.
    Questions(Vec<Question>, Option<Raw>),
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
pub(crate) enum Asked {
    /// Are you there?
    Ping,
    /// A question for the caller's side.
    Question,
    /// A question we did not declare that we take, and how it is refused.
    Undeclared(RpcError),
    /// Something we do not know.
    Refuse(RpcError),
    /// This server may not send requests at all.
    Violation,
}

/// Which request a server's cancellation names: one of its own, as it counts them, or one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdraws {
    /// A question it asked us.
    Questions,
    /// A subscription we made.
    Subscriptions,
}

/// How a server tells of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    /// Of lists by itself, of each resource once it was asked to.
    ByItself,
    /// On a stream that is asked for.
    OnAStream,
}

/// How a server keeps tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepsTasks {
    /// Results and questions come on a stream that is held open for them.
    InASession,
    /// All there is to a task is in one answer.
    OnTheirOwn,
}

/// The answers of one round on their way back.
#[derive(Debug)]
pub(crate) struct Round {
    /// `inputResponses`, by the server's keys; none where nothing was asked.
    pub(crate) answers: Option<Raw>,
    /// `requestState`, as it came.
    pub(crate) state: Option<Raw>,
}
