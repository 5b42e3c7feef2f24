//! A call and the question to its client: a gateway client that supports forms is asked for an approval by elicitation, on
//! the connection of its own call.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use parking_lot::Mutex;
use serde_json::json;
use toolway_config::Approver;
use toolway_wire::{
    exchange::{Answer, Cause, Progress, ServerRequest, ServerRequestDetails, ServerRequestId},
    json::Raw,
};

use super::{
    CallId, CallRequest, Caller,
    approval_form::{self, ApprovalForm},
    relay::CallEvent,
};
use crate::{
    inbox::{InboxAnswer, ItemOrigin, approval_rows::ArgumentRow},
    policy::{ApprovalRequest, limit::taken::CallBounds},
};

/// Id of the question within its call. Servers number theirs from 0.
const QUESTION: ServerRequestId = ServerRequestId(u64::MAX);

/// A call that was opened, shared by its relay and the stages before sending.
#[derive(Debug)]
pub(super) struct OpenCall {
    request: CallRequest,
    /// No await under this lock.
    question: Mutex<Question>,
    /// What the client is told while its call waits, last first. No await under this lock.
    notices: Mutex<Vec<CallEvent>>,
    /// What limits its time and its result; set when it is known what is called.
    bounds: OnceLock<CallBounds>,
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
        Self { request, question: Mutex::default(), notices: Mutex::default(), bounds: OnceLock::new() }
    }

    /// Sets what limits its time and its result. The first one counts.
    pub(super) fn set_bounds(&self, bounds: CallBounds) {
        // Set already if the call is decided on again.
        drop(self.bounds.set(bounds));
    }

    /// What limits its time and its result; `None` if nothing does, or if it is not known yet.
    pub(super) fn bounds(&self) -> Option<&CallBounds> {
        self.bounds.get()
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

    /// Asks the client of the call; `None` if it is not a client of the gateway that supports forms, or if it may not
    /// approve its own calls or the arguments do not fit into a form, which the client is told.
    pub(super) fn ask_client(
        self: &Arc<Self>,
        request: &ApprovalRequest,
        rows: &[ArgumentRow],
        approver: Approver,
    ) -> Option<BoxFuture<'static, InboxAnswer>> {
        let Caller::Client(client) = &self.request.caller else { return None };
        let capabilities = self.request.capabilities.as_ref()?;
        if capabilities.lacks("elicitation/create", Some(&approval_form::empty())).is_some() {
            return None;
        }
        if approver == Approver::Inbox {
            self.tell_that_it_waits("the operator of the gateway approves the calls of this client");
            return None;
        }
        let Some(form) = ApprovalForm::of(request, rows) else {
            self.tell_that_it_waits("its arguments are too large for a form");
            return None;
        };
        let params = form.params();
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
            form.read(&answer.unwrap_or(Answer::Unavailable), &by)
        });
        Some(answer.boxed())
    }

    /// Tells the client that its call waits for another surface: as a log message, and as progress if it wants that.
    fn tell_that_it_waits(&self, why: &str) {
        let text = format!("the call waits for approval in the inbox of the gateway; {why}");
        let log = json!({ "level": "notice", "logger": "toolway", "data": text });
        let mut notices = self.notices.lock();
        notices.push(CallEvent::Log(Raw::of(&log)));
        if self.request.progress == Progress::Wanted {
            notices.push(CallEvent::Progress(Raw::of(&json!({ "progress": 0, "message": text }))));
        }
    }

    /// The question or a notice, if it was not given to the client yet.
    pub(super) fn take_event(&self) -> Option<CallEvent> {
        if let Some(notice) = self.notices.lock().pop() {
            return Some(notice);
        }
        let mut state = self.question.lock();
        match std::mem::take(&mut *state) {
            Question::Ready(question) => {
                *state = Question::Asked;
                Some(CallEvent::ServerRequest(*question))
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
