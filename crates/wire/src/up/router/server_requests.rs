//! What a server asks of us: answered at once, put to whoever made the call, left to configuration, or refused.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use super::Router;
use crate::{
    error::WireError,
    exchange::{Answer, ServerRequestId, Cause, ServerRequestDetails},
    json::Raw,
    message::{Envelope, Id, RpcError, compose, meta},
    notice::Notice,
    up::{
        accent::ServerRequestKind,
        call::Call,
        transport::{Lane, Outbound, Sink},
    },
};

/// A longer name of a question is none.
const KEY_BYTES: usize = 128;

/// A question that was put to a caller and is not answered yet.
#[derive(Debug)]
pub(super) struct OpenServerRequest {
    pub(super) call: Weak<Call>,
    pub(super) ask: ServerRequestId,
    method: String,
}

impl Router {
    pub(super) fn handle_request(&self, lane: Lane, envelope: &Envelope) {
        let (Some(id), Ok(accent)) = (envelope.id().cloned(), self.accent()) else {
            return self.answer_during_handshake(envelope);
        };
        let (method, params) = (envelope.method().to_owned(), envelope.params());
        match accent.classify_request(&method, params.as_ref()) {
            ServerRequestKind::Ping => self.reply(&id, Answer::Given(Raw::empty_object())),
            ServerRequestKind::Unknown(error) => self.reply(&id, Answer::Refused(error)),
            ServerRequestKind::Violation => self.fault(WireError::protocol(format!("the server sent a request (`{method}`)"))),
            // Whoever made the call on another's behalf has words for it; else it is refused here.
            ServerRequestKind::Undeclared(error) => match self.owner(lane, params.as_ref()).filter(|call| call.is_relayed()) {
                Some(call) => self.forward_to_caller(&call, id, self.details(method, params, Cause::Request)),
                None => self.reply(&id, Answer::Refused(error)),
            },
            ServerRequestKind::Input => match self.owner(lane, params.as_ref()) {
                Some(call) => self.forward_to_caller(&call, id, self.details(method, params, Cause::Request)),
                None => {
                    let question = self.details(method, params, Cause::Standing);
                    if let (Some(asks), true) = (&self.request_handler, 1 < self.interactive_calls()) {
                        asks.ambiguous(&question);
                    }
                    self.answer_from_configuration(id, question);
                }
            },
        }
    }

    /// The call that made the server ask; none where that is not certain.
    fn owner(&self, lane: Lane, params: Option<&Raw>) -> Option<Arc<Call>> {
        match (lane, meta::value(params, meta::RELATED_TASK)) {
            (Lane::Of(request), _) => self.call(request),
            // Named by the task it belongs to, so certain.
            (Lane::Shared | Lane::Standing, Some(task)) => self.only_call(|call| call.waits_for_task(&task)),
            (Lane::Shared | Lane::Standing, None) => self.only_call(Call::is_interactive),
        }
    }

    fn details(&self, method: String, params: Option<Raw>, cause: Cause) -> ServerRequestDetails {
        let key = meta::value(params.as_ref(), meta::ASK_KEY);
        let key = key.as_ref().and_then(Raw::as_str).filter(|key| key.len() <= KEY_BYTES).map(Cow::into_owned);
        ServerRequestDetails { id: ServerRequestId(self.new_id()), key, method, params, cause }
    }

    /// A request during the handshake: only a ping can be answered then.
    fn answer_during_handshake(&self, envelope: &Envelope) {
        if let Some(id) = envelope.id() {
            let answer = match envelope.method() {
                "ping" => Answer::Given(Raw::empty_object()),
                _ => Answer::Refused(RpcError::new(RpcError::INVALID_REQUEST, "the handshake is not over")),
            };
            self.reply(id, answer);
        }
    }

    fn forward_to_caller(&self, call: &Arc<Call>, id: Id, mut question: ServerRequestDetails) {
        question.key = question.key.filter(|key| call.register_key(key));
        if let Some(given) = question.key.as_deref().and_then(|key| call.supplied_answer(key)) {
            return self.reply(&id, Answer::Given(given));
        }
        if self.limits.server_requests_per_round <= call.feed.open_server_requests() {
            let message = format!("more than {} questions at once", self.limits.server_requests_per_round);
            return self.reply(&id, Answer::Refused(RpcError::new(RpcError::INTERNAL, &message)));
        }
        let open = OpenServerRequest { call: Arc::downgrade(call), ask: question.id, method: question.method.clone() };
        self.questions.lock().insert(id.clone(), open);
        let answer = call.feed.ask(question);
        let Some(me) = self.me.upgrade() else { return };
        self.spawn(async move {
            let answer = answer.await;
            // Withdrawn or called off meanwhile: then nobody waits for the answer.
            if me.questions.lock().remove(&id).is_some() {
                me.reply(&id, answer);
            }
        });
    }

    /// The caller has left: what it has not answered is answered as nobody's, now. An answer that comes later is not sent:
    /// a server that goes on all the same would act on it, for a caller who was told that nothing came of the call.
    pub(crate) fn cancel_server_requests(&self, call: &Call) {
        let of_call = |open: &OpenServerRequest| std::ptr::eq(open.call.as_ptr(), call) && call.feed.is_open(open.ask);
        let open: Vec<_> = self.questions.lock().extract_if(|_, open| of_call(open)).collect();
        let unanswered = |method: &str| if call.feed.is_gone() { Answer::Unavailable } else { Answer::too_late(method) };
        open.into_iter().for_each(|(id, open)| self.reply(&id, unanswered(&open.method)));
    }

    /// Questions without a certain cause: roots are configuration, anything else is for nobody in particular.
    fn answer_from_configuration(&self, id: Id, question: ServerRequestDetails) {
        let Some(handler) = self.request_handler.clone().filter(|_| question.method == "roots/list") else {
            let sentence = "no single request can be named that made the server ask this, so nobody is shown it";
            drop(self.notices.send(Notice::Fault(WireError::Refused(format!("`{}`: {sentence}", question.method)))));
            return self.reply(&id, Answer::Refused(RpcError::new(RpcError::INVALID_PARAMS, sentence)));
        };
        let Ok(turn) = Arc::clone(&self.standing_server_requests).try_acquire_owned() else {
            let message = format!("more than {} questions at once", self.limits.server_requests_per_round);
            return self.reply(&id, Answer::Refused(RpcError::new(RpcError::INTERNAL, &message)));
        };
        let Some(me) = self.me.upgrade() else { return };
        self.spawn(async move {
            let answer = handler.answer(question).await;
            me.reply(&id, answer);
            drop(turn);
        });
    }

    fn reply(&self, id: &Id, answer: Answer) {
        let message = match answer.into_result() {
            Ok(result) => compose::result(id, &result, &[]),
            Err(error) => compose::error(Some(id), &error),
        };
        if let Err(error) = self.send(Outbound::plain(message, None)) {
            tracing::debug!(%error, "an answer did not reach the server");
        }
    }
}
