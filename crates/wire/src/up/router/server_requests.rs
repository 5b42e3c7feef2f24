//! Requests from the server: answered at once, forwarded to the caller, answered from configuration, or refused.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use super::Router;
use crate::{
    error::WireError,
    exchange::{Answer, Cause, ServerRequestDetails, ServerRequestId},
    json::Raw,
    message::{Envelope, Id, RpcError, compose, meta, splice::Edit},
    notice::Notice,
    up::{
        accent::ServerRequestKind,
        call::Call,
        transport::{Lane, Outbound, Sink},
    },
};

/// Longest key of a server request in bytes; longer keys are ignored.
const KEY_BYTES: usize = 128;

/// A server request that was forwarded to a caller and is not answered yet.
#[derive(Debug)]
pub(super) struct OpenServerRequest {
    pub(super) call: Weak<Call>,
    pub(super) id: ServerRequestId,
    method: String,
    /// The task that it named. Its answer names it, too.
    task: Option<Raw>,
    /// The request, if it need not belong to the call: it outlives the call.
    standing: Option<ServerRequestDetails>,
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
            ServerRequestKind::Violation => {
                self.fault(WireError::protocol(format!(
                    "the server sent a request (`{method}`), which its revision does not allow"
                )));
            }
            // A relayed caller answers it itself; otherwise it is refused here.
            ServerRequestKind::Undeclared(error) => {
                match self.owner(lane, params.as_ref()).filter(|call| call.is_relayed()) {
                    Some(call) => self.forward_to_caller(&call, id, self.details(method, params, Cause::Request), None),
                    None => self.reply(&id, Answer::Refused(error)),
                }
            }
            ServerRequestKind::Input => match self.owner(lane, params.as_ref()) {
                Some(call) => {
                    let standing = may_be_standing(lane, &method, params.as_ref());
                    let standing = standing.then(|| self.details(method.clone(), params.clone(), Cause::Standing));
                    self.forward_to_caller(&call, id, self.details(method, params, Cause::Request), standing);
                }
                None => {
                    let details = self.details(method, params, Cause::Standing);
                    if let (Some(handler), true) = (&self.request_handler, 1 < self.interactive_calls()) {
                        handler.ambiguous(&details);
                    }
                    self.answer_from_configuration(id, details);
                }
            },
        }
    }

    /// The call that a server request belongs to; `None` if that is not certain.
    fn owner(&self, lane: Lane, params: Option<&Raw>) -> Option<Arc<Call>> {
        match (lane, meta::value(params, meta::RELATED_TASK)) {
            (Lane::Of(request), _) => self.call(request),
            // Named by its task, so certain.
            (Lane::Shared | Lane::Standing, Some(task)) => self.only_call(|call| call.waits_for_task(&task)),
            (Lane::Shared | Lane::Standing, None) => self.only_call(Call::is_interactive),
        }
    }

    fn details(&self, method: String, params: Option<Raw>, cause: Cause) -> ServerRequestDetails {
        let key = meta::value(params.as_ref(), meta::ASK_KEY);
        let key = key.as_ref().and_then(Raw::as_str).filter(|key| key.len() <= KEY_BYTES).map(Cow::into_owned);
        ServerRequestDetails { id: ServerRequestId(self.new_id()), key, method, params, cause }
    }

    /// Answers a request during the handshake: only a ping is allowed then.
    fn answer_during_handshake(&self, envelope: &Envelope) {
        if let Some(id) = envelope.id() {
            let answer = match envelope.method() {
                "ping" => Answer::Given(Raw::empty_object()),
                _ => Answer::Refused(RpcError::new(RpcError::INVALID_REQUEST, "the handshake is not complete")),
            };
            self.reply(id, answer);
        }
    }

    /// Asks the caller of `call`. A request that need not belong to the call is answered outside it if the call ends first.
    fn forward_to_caller(
        &self,
        call: &Arc<Call>,
        id: Id,
        mut details: ServerRequestDetails,
        standing: Option<ServerRequestDetails>,
    ) {
        details.key = details.key.filter(|key| call.register_key(key));
        if let Some(given) = details.key.as_deref().and_then(|key| call.supplied_answer(key)) {
            let task = meta::value(details.params.as_ref(), meta::RELATED_TASK);
            return self.reply_for(&id, Answer::Given(given), task.as_ref());
        }
        if self.limits.server_requests_per_round <= call.feed.open_server_requests() {
            let message = format!("more than {} server requests at once", self.limits.server_requests_per_round);
            return self.reply(&id, Answer::Refused(RpcError::new(RpcError::INTERNAL, &message)));
        }
        let (call_handle, method) = (Arc::downgrade(call), details.method.clone());
        let task = meta::value(details.params.as_ref(), meta::RELATED_TASK);
        let open = OpenServerRequest { call: Weak::clone(&call_handle), id: details.id, method, task, standing };
        self.server_requests.lock().insert(id.clone(), open);
        let answer = call.feed.ask(details);
        let Some(me) = self.me.upgrade() else { return };
        self.spawn(async move {
            let answer = answer.await;
            // If it was withdrawn or cancelled meanwhile, the answer is not sent.
            let Some(open) = me.server_requests.lock().remove(&id) else { return };
            let call_is_over = || call_handle.upgrade().is_none_or(|call| call.feed.is_over());
            match open.standing.filter(|_| matches!(answer, Answer::Unavailable) && call_is_over()) {
                Some(standing) => me.answer_from_configuration(id, standing),
                None => me.reply_for(&id, answer, open.task.as_ref()),
            }
        });
    }

    /// The caller has cancelled: answers its open server requests now. A later answer is not sent: a server that ignores the
    /// cancellation would act on it, for a caller whose call was reported as cancelled.
    pub(crate) fn cancel_server_requests(&self, call: &Call) {
        let of_call = |open: &OpenServerRequest| std::ptr::eq(open.call.as_ptr(), call) && call.feed.is_open(open.id);
        let open: Vec<_> = self.server_requests.lock().extract_if(|_, open| of_call(open)).collect();
        let unanswered =
            |method: &str| if call.feed.is_gone() { Answer::Unavailable } else { Answer::too_late(method) };
        for (id, open) in open {
            match open.standing {
                Some(standing) => self.answer_from_configuration(id, standing),
                None => self.reply_for(&id, unanswered(&open.method), open.task.as_ref()),
            }
        }
    }

    /// Answers a server request that belongs to no certain call: roots come from configuration, anything else is refused.
    fn answer_from_configuration(&self, id: Id, details: ServerRequestDetails) {
        let Some(handler) = self.request_handler.clone().filter(|_| details.method == "roots/list") else {
            let reason =
                "this server request cannot be attributed to one client request, so it cannot be shown to a user";
            drop(self.notices.send(Notice::Fault(WireError::Refused(format!("`{}`: {reason}", details.method)))));
            return self.reply(&id, Answer::Refused(RpcError::new(RpcError::INVALID_PARAMS, reason)));
        };
        let Ok(permit) = Arc::clone(&self.standing_server_requests).try_acquire_owned() else {
            let message = format!("more than {} server requests at once", self.limits.server_requests_per_round);
            return self.reply(&id, Answer::Refused(RpcError::new(RpcError::INTERNAL, &message)));
        };
        let Some(me) = self.me.upgrade() else { return };
        self.first_roots.mark_asked();
        self.spawn(async move {
            let answer = handler.answer(details).await;
            me.reply(&id, answer);
            me.first_roots.mark_answered();
            drop(permit);
        });
    }

    fn reply(&self, id: &Id, answer: Answer) {
        self.reply_for(id, answer, None);
    }

    /// Replies to a request of this task. Keys of `_meta` that belong to the hop of a caller are not passed on: its task
    /// has another id.
    fn reply_for(&self, id: &Id, answer: Answer, task: Option<&Raw>) {
        let message = match answer.into_result() {
            Ok(result) => {
                let result = meta::without_hop_keys(&result);
                let task = task.map(|task| Edit::Set(meta::RELATED_TASK, task.clone()));
                let related = task.map(|task| meta::with_keys(Some(&result), &[task]));
                compose::result(id, &result, related.as_slice())
            }
            Err(error) => compose::error(Some(id), &error),
        };
        if let Err(error) = self.send(Outbound::plain(message, None)) {
            tracing::debug!(%error, "answer to a server request not delivered");
        }
    }
}

/// Whether a server request that arrives during a call may have another cause: a server reads roots again when they change,
/// and its connection does not tell for which request.
fn may_be_standing(lane: Lane, method: &str, params: Option<&Raw>) -> bool {
    method == "roots/list" && !matches!(lane, Lane::Of(_)) && meta::value(params, meta::RELATED_TASK).is_none()
}
