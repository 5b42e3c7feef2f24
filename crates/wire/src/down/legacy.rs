//! The accent of the stateful revisions, downstream: a server request is sent on the stream of the client's own request.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use futures_util::{StreamExt, TryFutureExt, future::BoxFuture, stream::FuturesUnordered};
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::{
    AllowedServerRequests,
    accent::{self, OutgoingMessage},
    dialect,
    progress::ProgressLimiter,
    refusal,
    session::{self, DownstreamSession},
    tasks::{self, DelayedOutcome, SessionTaskReply},
};
use crate::{
    exchange::{
        Answer, Exchange, ExchangeEvent, LogLevel, Outcome, ServerRequest, ServerRequestDetails, ServerRequestId,
    },
    json::Raw,
    message::{Envelope, Id, RpcError, compose, meta, splice::Edit},
    seal,
    task::codec,
};

/// One request of a session being answered, message by message.
pub(super) struct LegacyReply {
    session: Arc<DownstreamSession>,
    id: Id,
    token: Option<Raw>,
    method: Cow<'static, str>,
    limiter: ProgressLimiter,
    source: LegacySource,
    /// Id of the task that this request follows (`tasks/result`).
    task: Option<String>,
    /// Answers to server requests being awaited; most requests have none.
    answers: Option<FuturesUnordered<BoxFuture<'static, ServerRequestId>>>,
    open: Vec<(ServerRequestId, Id)>,
    /// The client is gone; server requests fail at once.
    detached: bool,
    outgoing: VecDeque<OutgoingMessage>,
}

enum LegacySource {
    /// An open exchange.
    Exchange(Exchange),
    /// A response that the downstream itself prepares.
    Here(DelayedOutcome),
    /// The response was produced.
    Nothing,
}

impl LegacyReply {
    /// Starts to answer a request of a session; returns the response if it is known at once.
    /// `headers`: those of its POST; `None` over stdio.
    pub(super) fn begin(
        session: &Arc<DownstreamSession>,
        envelope: &Envelope,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, OutgoingMessage> {
        accent::catch_panic(|| Self::start(session, envelope, headers))
            .unwrap_or_else(|error| Err(OutgoingMessage::error(envelope.id(), &error, StatusCode::OK)))
    }

    fn start(
        session: &Arc<DownstreamSession>,
        envelope: &Envelope,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, OutgoingMessage> {
        let id = envelope.id().cloned().ok_or_else(|| {
            OutgoingMessage::error(
                None,
                &RpcError::new(RpcError::INVALID_REQUEST, "a request must have an `id`"),
                StatusCode::BAD_REQUEST,
            )
        })?;
        if let Some(answer) = session.answer_here(envelope) {
            return Err(match answer {
                Ok(result) => OutgoingMessage::response(compose::result(&id, &result, &[])),
                Err(error) => OutgoingMessage::error(Some(&id), &error, StatusCode::OK),
            });
        }
        let (mut task, refuse) = (None, |error| OutgoingMessage::error(Some(&id), &error, StatusCode::OK));
        let source = if envelope.method() == "resources/subscribe" {
            let subscribed = Arc::clone(session).subscribe(envelope.params());
            LegacySource::Here(Box::pin(subscribed.map_ok_or_else(Outcome::Refused, Outcome::Answered)))
        } else {
            let mut request = session::neutral(session, envelope).map_err(refuse)?;
            request.idempotency_key = headers.and_then(crate::header::idempotency_key);
            if let Some(page) = session.prepared_page(&request) {
                return Err(OutgoingMessage::response(page.stateful_response(&id)));
            }
            match session.about_tasks(&request).transpose().map_err(refuse)? {
                None => LegacySource::Exchange(session.open(request)),
                Some(SessionTaskReply::Once(answer)) => LegacySource::Here(answer),
                Some(SessionTaskReply::Following(exchange, id)) => {
                    task = Some(id);
                    LegacySource::Exchange(exchange)
                }
            }
        };
        Ok(Self {
            session: Arc::clone(session),
            id,
            token: accent::progress_token(envelope),
            method: envelope.owned_method(),
            limiter: ProgressLimiter::new(),
            source,
            task,
            answers: None,
            open: Vec::new(),
            detached: false,
            outgoing: VecDeque::new(),
        })
    }

    /// Continues without a client: open and future server requests are not answered.
    pub(super) fn detached(mut self) -> Self {
        self.detached = true;
        self.abandon_requests();
        self
    }

    /// Whether the client has an unanswered server request.
    pub(super) fn has_open_requests(&self) -> bool {
        !self.open.is_empty()
    }

    /// Fails all open server requests as unanswered.
    pub(super) fn abandon_requests(&mut self) {
        for (_, id) in &self.open {
            self.session.forget_server_request(id);
        }
    }

    /// The next message; `None` after the response.
    pub(super) async fn next(&mut self) -> Option<OutgoingMessage> {
        loop {
            let message = match accent::catch_panic_async(self.poll_next()).await {
                Ok(message) => message?,
                Err(error) => {
                    self.source = LegacySource::Nothing;
                    self.outgoing.clear();
                    self.refused(&error)
                }
            };
            if let Some(message) = self.session.charged(message, Some(&self.id)) {
                return Some(message);
            }
        }
    }

    async fn poll_next(&mut self) -> Option<OutgoingMessage> {
        loop {
            if let Some(message) = self.outgoing.pop_front() {
                return Some(message);
            }
            let exchange = match &mut self.source {
                LegacySource::Nothing => return None,
                LegacySource::Exchange(exchange) => exchange,
                LegacySource::Here(answer) => {
                    let outcome = answer.await;
                    self.end(outcome);
                    continue;
                }
            };
            tokio::select! {
                event = exchange.next() => self.take(event),
                () = self.limiter.due() => {
                    if let Some(params) = self.limiter.release() {
                        self.report(&params);
                    }
                }
                Some(request_id) = answered(&mut self.answers) => self.close(request_id),
            }
        }
    }

    fn take(&mut self, event: Option<ExchangeEvent>) {
        match event {
            Some(ExchangeEvent::Progress(params)) if self.token.is_some() => {
                if let Some(params) = self.limiter.take(params) {
                    self.report(&params);
                }
            }
            Some(ExchangeEvent::Progress(_)) => {}
            Some(ExchangeEvent::Log(params)) => {
                if self.session.wants(LogLevel::of(&params)) {
                    self.push_notification(compose::notification("notifications/message", Some(&params), &[]));
                }
            }
            Some(ExchangeEvent::ServerRequest(server_request)) => self.forward(server_request),
            Some(ExchangeEvent::Withdrawn(request_id)) => self.withdraw(request_id),
            Some(ExchangeEvent::Ended(outcome)) => self.end(outcome),
            None => self.source = LegacySource::Nothing,
        }
    }

    fn report(&mut self, params: &Raw) {
        let token = self.token.clone().map(|token| Edit::Set("progressToken", token));
        let edits: Vec<_> = token.into_iter().chain(dialect::progress(self.session.caller.revision)).collect();
        self.push_notification(compose::notification("notifications/progress", Some(params), &edits));
    }

    fn push_notification(&mut self, message: bytes::Bytes) {
        self.outgoing.push_back(OutgoingMessage::notification(message));
    }

    fn forward(&mut self, server_request: ServerRequest) {
        if self.detached {
            return server_request.answer(Answer::Unavailable);
        }
        let details = &server_request.details;
        let caller = &self.session.caller;
        let too_old = details.method.starts_with("elicitation/") && !caller.revision.has_elicitation();
        let declared_only = too_old || self.session.server_requests() == AllowedServerRequests::Declared;
        if declared_only && caller.capabilities.lacks(&details.method, details.params.as_ref()).is_some() {
            let message = format!("the client does not support `{}`", details.method);
            return server_request.answer(Answer::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, &message)));
        }
        let adapt = |params: &Raw| {
            dialect::adapt_server_request(caller.revision, &caller.capabilities, &details.method, params)
        };
        let params = details.params.as_ref().map(adapt);
        let (id, answer) = self.session.register_server_request();
        let params = params.as_ref();
        let mut edits = elicitation_id(params);
        edits.extend(self.metadata_edit(details));
        let message = compose::request(&id, &details.method, params, &edits);
        self.outgoing.push_back(OutgoingMessage::request(message));
        let (number, timeout) = (details.id, self.session.answer_timeout());
        self.open.push((number, id));
        self.answers.get_or_insert_default().push(Box::pin(async move {
            let answer = match tokio::time::timeout(timeout, answer).await {
                Ok(answered) => answered.unwrap_or_else(|_| Answer::Unavailable),
                Err(_) => Answer::too_late(&server_request.details.method),
            };
            server_request.answer(answer);
            number
        }));
    }

    /// A server request was answered. If the client did not answer it, cancels it at the client.
    fn close(&mut self, request_id: ServerRequestId) {
        if let Some(index) = self.open.iter().position(|(open, _)| *open == request_id) {
            let (_, id) = self.open.swap_remove(index);
            if self.session.forget_server_request(&id) {
                self.send_cancelled(&id, "no answer in time");
            }
        }
    }

    /// `_meta` of a server request: its task and its key, if any.
    fn metadata_edit(&self, details: &ServerRequestDetails) -> Option<Edit<'static>> {
        let task = self.task.as_ref().map(|task| Edit::Set(meta::RELATED_TASK, Raw::of(&json!({ "taskId": task }))));
        let key = details.key.as_ref().map(|key| Edit::Set(meta::ASK_KEY, Raw::of(key)));
        let keys: Vec<Edit<'_>> = task.into_iter().chain(key).collect();
        (!keys.is_empty()).then(|| meta::with_keys(details.params.as_ref(), &keys))
    }

    /// The server withdrew a request: cancels it at the client.
    fn withdraw(&mut self, request_id: ServerRequestId) {
        if let Some(index) = self.open.iter().position(|(open, _)| *open == request_id) {
            let (_, id) = self.open.swap_remove(index);
            self.session.forget_server_request(&id);
            self.send_cancelled(&id, "no longer needed");
        }
    }

    fn send_cancelled(&mut self, id: &Id, reason: &str) {
        let params = Raw::of(&json!({ "reason": reason }));
        let edit = [Edit::Set("requestId", id.raw())];
        self.push_notification(compose::notification("notifications/cancelled", Some(&params), &edit));
    }

    fn end(&mut self, outcome: Outcome) {
        self.source = LegacySource::Nothing;
        if let Some(params) = self.limiter.release() {
            self.report(&params);
        }
        let message = match outcome {
            Outcome::Answered(result) => {
                let mut edits = dialect::result(self.session.caller.revision, &self.method, &result);
                if let Some(task) = &self.task {
                    edits.retain(|edit| edit.key() != "_meta");
                    edits.push(tasks::related(Some(&meta::without_hop_keys(&result)), task));
                }
                OutgoingMessage::response(compose::result(&self.id, &result, &edits))
            }
            Outcome::HandedOff(task) => {
                OutgoingMessage::response(compose::result(&self.id, &codec::legacy_created(&task), &[]))
            }
            Outcome::Refused(refusal) if refusal.code() == RpcError::URL_ELICITATION_REQUIRED => {
                self.url_elicitation_required(&refusal)
            }
            Outcome::Refused(error) => self.refused(&refusal::to_stateful(error)),
            Outcome::Failed(problem) => self.failed(&problem),
            Outcome::TimedOut { kind, limit } => self.failed(&kind.describe(limit)),
            Outcome::Cancelled => self.failed(&"the request was cancelled"),
        };
        self.outgoing.push_back(message);
    }

    /// A URL elicitation is required first: passed on if the client supports it, else explained in text.
    fn url_elicitation_required(&self, error: &RpcError) -> OutgoingMessage {
        let caller = &self.session.caller;
        let url = Raw::of(&json!({ "mode": "url" }));
        if caller.capabilities.lacks("elicitation/create", Some(&url)).is_none() {
            return self.refused(error);
        }
        let pages = error.data().and_then(|data| data.get("elicitations")).map(|pages| pages.elements());
        let pages = pages.unwrap_or_default();
        let addresses: Vec<String> =
            pages.iter().filter_map(|page| page.get("url")?.as_str().map(String::from)).collect();
        let sentence = format!("{}; open {} first, then repeat the call", error.message(), addresses.join(" and "));
        if self.method == "tools/call" {
            return OutgoingMessage::response(compose::result(&self.id, &accent::tool_error(&sentence), &[]));
        }
        self.refused(&RpcError::new(RpcError::INTERNAL, &sentence))
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> OutgoingMessage {
        self.refused(&RpcError::new(RpcError::INTERNAL, &problem.to_string()))
    }

    fn refused(&self, error: &RpcError) -> OutgoingMessage {
        OutgoingMessage::error(Some(&self.id), error, StatusCode::OK)
    }
}

impl Drop for LegacyReply {
    fn drop(&mut self) {
        self.abandon_requests();
    }
}

/// The next server request that is answered; pending forever if none is open.
async fn answered(
    answers: &mut Option<FuturesUnordered<BoxFuture<'static, ServerRequestId>>>,
) -> Option<ServerRequestId> {
    match answers {
        Some(answers) if !answers.is_empty() => answers.next().await,
        _ => std::future::pending().await,
    }
}

/// Adds an `elicitationId` to a URL elicitation, so that its completion can be announced.
fn elicitation_id(params: Option<&Raw>) -> Vec<Edit<'static>> {
    let mode = params.and_then(|params| params.get("mode"));
    let url = mode.as_ref().and_then(Raw::as_str).is_some_and(|mode| mode == "url");
    let named = params.is_some_and(|params| params.get("elicitationId").is_some());
    match seal::random_token() {
        Ok(id) if url && !named => vec![Edit::Set("elicitationId", Raw::of(&id))],
        _ => Vec::new(),
    }
}
