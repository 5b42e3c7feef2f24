//! A call and the question to its client: a gateway client that supports forms is asked for an approval by elicitation, on
//! the connection of its own call.

use std::{ops::Deref, sync::Arc};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use parking_lot::Mutex;
use serde_json::json;
use toolway_wire::{
    exchange::{Answer, Cause, ServerRequest, ServerRequestDetails, ServerRequestId},
    json::Raw,
};

use super::{CallId, CallRequest, Caller};
use crate::{
    inbox::{InboxAnswer, ItemOrigin},
    policy::{ApprovalAnswer, ApprovalRequest},
};

/// Id of the question within its call. Servers number theirs from 0.
const QUESTION: ServerRequestId = ServerRequestId(u64::MAX);

/// A call that was opened, shared by its relay and the stages before sending.
#[derive(Debug)]
pub(super) struct OpenCall {
    request: CallRequest,
    /// No await under this lock.
    question: Mutex<Question>,
}

/// The state of the question to the client.
#[derive(Debug, Default)]
enum Question {
    #[default]
    NotAsked,
    /// To be given to the client when the relay is polled.
    Ready(Box<ServerRequest>),
    Asked,
    Answered,
}

impl OpenCall {
    pub(super) fn new(request: CallRequest) -> Self {
        Self { request, question: Mutex::default() }
    }

    /// The call, for inbox items.
    pub(super) fn origin(&self, id: CallId) -> ItemOrigin {
        ItemOrigin {
            call: Some(id),
            caller: self.request.caller.clone(),
            surface: self.request.surface,
            conversation: self.request.conversation.clone(),
            has_session: self.request.session.is_some(),
        }
    }

    /// Asks the client of the call; `None` if it is not a client of the gateway that supports forms.
    pub(super) fn ask_client(self: &Arc<Self>, request: &ApprovalRequest) -> Option<BoxFuture<'static, InboxAnswer>> {
        let Caller::Client(client) = &self.request.caller else { return None };
        let capabilities = self.request.capabilities.as_ref()?;
        let params = params(request);
        if capabilities.lacks("elicitation/create", Some(&params)).is_some() {
            return None;
        }
        let details = ServerRequestDetails {
            id: QUESTION,
            key: Some("approval".to_owned()),
            method: "elicitation/create".to_owned(),
            params: Some(params),
            cause: Cause::Request,
        };
        let (question, answer) = ServerRequest::detached(details);
        *self.question.lock() = Question::Ready(Box::new(question));
        let (open_call, by) = (Arc::clone(self), format!("client:{client}"));
        let answer = answer.map(move |answer| {
            *open_call.question.lock() = Question::Answered;
            read(&answer.unwrap_or(Answer::Unavailable), &by)
        });
        Some(answer.boxed())
    }

    /// The question, if it was not given to the client yet.
    pub(super) fn take_question(&self) -> Option<ServerRequest> {
        let mut state = self.question.lock();
        match std::mem::take(&mut *state) {
            Question::Ready(question) => {
                *state = Question::Asked;
                Some(*question)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Withdraws a question that was given to the client and that another surface answered.
    pub(super) fn withdraw_question(&self) -> Option<ServerRequestId> {
        let state = std::mem::take(&mut *self.question.lock());
        matches!(state, Question::Asked).then_some(QUESTION)
    }
}

impl Deref for OpenCall {
    type Target = CallRequest;

    fn deref(&self) -> &CallRequest {
        &self.request
    }
}

/// The first answer of two surfaces. A surface that cannot answer leaves it to the other.
pub(super) async fn first_answer(
    client: BoxFuture<'static, InboxAnswer>,
    port: BoxFuture<'_, InboxAnswer>,
) -> InboxAnswer {
    match select(client, port).await {
        Either::Left((InboxAnswer::Unavailable, port)) => port.await,
        Either::Right((InboxAnswer::Unavailable, client)) => client.await,
        Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
    }
}

/// The form that the client shows. It names neither files nor rules of the operator.
fn params(request: &ApprovalRequest) -> Raw {
    let subject = request.subject();
    let (server, tool) = (&subject.server, &subject.raw_name);
    let warning = if request.annotations().destructive { " It may change or delete data." } else { "" };
    let reason = request.reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let arguments = request.arguments().map(|arguments| format!("\nArguments: {arguments}")).unwrap_or_default();
    let message = format!("Allow the {} `{tool}` of `{server}`?{warning}{reason}{arguments}", subject.kind);
    Raw::of(&json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": { "allow": { "type": "boolean", "title": "Allow this call", "default": false } },
            "required": ["allow"],
        },
    }))
}

/// Only an explicit `true` approves.
fn read(answer: &Answer, by: &str) -> InboxAnswer {
    let Answer::Given(result) = answer else { return InboxAnswer::Unavailable };
    let text = |key: &str| result.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    let allowed = result.get("content").and_then(|content| content.get("allow")).and_then(|allow| allow.as_bool());
    InboxAnswer::Approval(match (text("action").as_deref(), allowed) {
        (Some("accept"), Some(true)) => ApprovalAnswer::approved(by),
        _ => ApprovalAnswer::declined(None),
    })
}
