//! The accent of the stateless revision, downstream: a server request ends the request with `input_required`, and the
//! client's retry continues it.

mod caller;
mod input_required;
mod subscription;
mod task_subscription;

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use self::task_subscription::ActiveSubscription;
use super::{
    Caller, Downstream,
    accent::{self, OutgoingMessage},
    dialect,
    progress::ProgressLimiter,
    refusal,
    tasks::{self, DelayedOutcome},
};
use crate::{
    exchange::{Exchange, ExchangeEvent, LogLevel, Outcome, Progress, Request, ServerRequest},
    json::{JsonKind, Raw},
    message::{
        Envelope, Id, RpcError, compose, meta,
        result::CacheHint,
        splice::{self, Edit},
    },
    revision::{Era, Revision},
    task::codec,
};

/// Wait for further server requests after each one, so that they go out together …
const NEXT_REQUEST_WAIT: Duration = Duration::from_millis(50);
/// … and the maximum wait in total.
const ROUND_WAIT: Duration = Duration::from_millis(100);

/// Methods that exist only in sessions; unknown in stateless requests.
const LEGACY_ONLY: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Methods whose results carry caching hints.
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

/// One stateless request being answered, message by message.
pub(super) struct ModernReply {
    downstream: Arc<Downstream>,
    caller: Caller,
    id: Id,
    token: Option<Raw>,
    limiter: ProgressLimiter,
    level: Option<LogLevel>,
    request: Request,
    /// Digest of the request, to which its handles are bound.
    digest: OnceLock<String>,
    source: ModernSource,
    outgoing: VecDeque<OutgoingMessage>,
}

enum ModernSource {
    /// An open exchange, and the server requests collected for one round.
    Exchange { exchange: Exchange, server_requests: Vec<(String, ServerRequest)>, since: Option<Instant> },
    /// A response that the downstream itself prepares.
    Here(DelayedOutcome),
    /// A subscription that is not acknowledged yet.
    Subscribing(BoxFuture<'static, ActiveSubscription>),
    /// An acknowledged subscription.
    Listening(ActiveSubscription),
    /// The response was produced.
    Nothing,
}

impl ModernReply {
    /// Starts to answer; an invalid request is refused at once.
    ///
    /// Over HTTP the headers are checked against the body, in the order that the conformance suite expects.
    pub(super) fn begin(
        downstream: &Arc<Downstream>,
        envelope: &Envelope,
        principal: &Arc<str>,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, OutgoingMessage> {
        accent::catch_panic(|| Self::start(downstream, envelope, principal, headers))
            .unwrap_or_else(|error| Err(OutgoingMessage::error(envelope.id(), &error, StatusCode::OK)))
    }

    fn start(
        downstream: &Arc<Downstream>,
        envelope: &Envelope,
        principal: &Arc<str>,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, OutgoingMessage> {
        let id = envelope.id().cloned().ok_or_else(|| {
            OutgoingMessage::error(
                None,
                &RpcError::new(RpcError::INVALID_REQUEST, "a request must have an `id`"),
                StatusCode::BAD_REQUEST,
            )
        })?;
        let refuse = |error: RpcError, status| OutgoingMessage::error(Some(&id), &error, status);
        let (caller, level) = caller::read(downstream, envelope, principal, headers)
            .map_err(|error| refuse(error, StatusCode::BAD_REQUEST))?;
        if let Some(headers) = headers {
            caller::check_headers(downstream, envelope, &caller, headers)
                .map_err(|mismatch| refuse(caller::mismatched(&mismatch), StatusCode::BAD_REQUEST))?;
        }
        if LEGACY_ONLY.contains(&envelope.method()) {
            let message = format!("`{}` does not exist in {}", envelope.method(), caller.revision);
            return Err(refuse(RpcError::new(RpcError::METHOD_NOT_FOUND, &message), StatusCode::NOT_FOUND));
        }
        let mut request = accent::neutral(envelope).map_err(|error| refuse(error, StatusCode::OK))?;
        let take = |key| if request.brings_answers() { request.param(key) } else { None };
        let (responses, state) = (take("inputResponses"), take("requestState"));
        if request.brings_answers() {
            let params = request
                .params()
                .map(|params| splice::edited(params, &[Edit::Remove("inputResponses"), Edit::Remove("requestState")]));
            request = request.with_params(params);
        }
        request.capabilities = Some(caller.capabilities.clone());
        request.log_level = level;
        request.idempotency_key = headers.and_then(crate::header::idempotency_key);
        request.memory = downstream.options.limits.memory.of_principal(principal);
        tasks::allow(downstream, &caller, &mut request);
        let mut reply = Self {
            downstream: Arc::clone(downstream),
            caller,
            token: (request.progress == Progress::Wanted).then(|| accent::progress_token(envelope)).flatten(),
            limiter: ProgressLimiter::new(),
            level,
            request,
            digest: OnceLock::new(),
            source: ModernSource::Nothing,
            outgoing: VecDeque::new(),
            id: id.clone(),
        };
        reply.open(responses.as_ref(), state.as_ref()).map_err(|error| {
            let status = status_of(&error);
            refuse(error, status)
        })?;
        Ok(reply)
    }

    /// The next message; `None` after the response.
    pub(super) async fn next(&mut self) -> Option<OutgoingMessage> {
        loop {
            let message = match accent::catch_panic_async(self.poll_next()).await {
                Ok(message) => message?,
                Err(error) => {
                    self.source = ModernSource::Nothing;
                    self.outgoing.clear();
                    OutgoingMessage::error(Some(&self.id), &error, StatusCode::OK)
                }
            };
            if let Some(message) = message.charged(&self.request.memory, Some(&self.id), || false) {
                return Some(message);
            }
        }
    }

    async fn poll_next(&mut self) -> Option<OutgoingMessage> {
        loop {
            if let Some(message) = self.outgoing.pop_front() {
                return Some(message);
            }
            match &mut self.source {
                ModernSource::Nothing => return None,
                ModernSource::Here(answer) => {
                    let outcome = answer.await;
                    self.end(outcome);
                }
                ModernSource::Subscribing(subscribing) => {
                    let subscription = subscribing.await;
                    self.acknowledge(subscription);
                }
                ModernSource::Listening(subscription) => {
                    let notice = tokio::select! {
                        () = self.downstream.draining.cancelled() => None,
                        notice = subscription.service.notices.recv() => notice,
                    };
                    self.send_notice(notice);
                }
                ModernSource::Exchange { exchange, since, .. } => {
                    let event = match *since {
                        None => tokio::select! {
                            event = exchange.next() => event,
                            () = self.limiter.due() => {
                                self.flush_progress();
                                continue;
                            }
                        },
                        Some(since) => {
                            let until = (Instant::now() + NEXT_REQUEST_WAIT).min(since + ROUND_WAIT);
                            match tokio::time::timeout_at(until, exchange.next()).await {
                                Ok(event) => event,
                                Err(_) => {
                                    self.park();
                                    continue;
                                }
                            }
                        }
                    };
                    self.take(event);
                }
            }
        }
    }

    fn open(&mut self, responses: Option<&Raw>, state: Option<&Raw>) -> Result<(), RpcError> {
        responses.map(input_required::well_formed).transpose()?;
        match (self.request.method(), state) {
            ("server/discover", _) => self.discover(),
            ("subscriptions/listen", _) => self.listen()?,
            (method, _) if tasks::is_about(method) => {
                self.source =
                    ModernSource::Here(tasks::stateless(&self.downstream, &self.caller, &self.request, responses)?);
            }
            (_, Some(state)) => self.resume_with(state, responses)?,
            (_, None) => match self.downstream.service.prepared_page(&self.request, &self.caller) {
                Some(page) => {
                    let edits = vec![Edit::Add("resultType", Raw::of("complete")), self.server_info_in(None)];
                    let response = page.stateless_response(&self.id, edits);
                    self.outgoing.push_back(OutgoingMessage::response(response));
                }
                None => {
                    self.request.answers = responses.cloned();
                    self.open_exchange();
                }
            },
        }
        Ok(())
    }

    /// Opens the request at the service.
    fn open_exchange(&mut self) {
        let exchange = self.downstream.service.open(self.request.clone(), &self.caller);
        self.source = ModernSource::Exchange { exchange, server_requests: Vec::new(), since: None };
    }

    fn discover(&mut self) {
        let profile = self.downstream.service.profile(&self.caller);
        let versions: Vec<&str> = self.downstream.revisions(Era::Modern).into_iter().map(Revision::as_str).collect();
        let capabilities = tasks::with_task_capabilities(&self.downstream, &self.caller, &profile.capabilities);
        let mut edits =
            vec![Edit::Set("supportedVersions", Raw::of(&versions)), Edit::Set("capabilities", capabilities)];
        if let Some(instructions) = profile.instructions {
            edits.push(Edit::Set("instructions", Raw::of(&instructions)));
        }
        let result = splice::edited(&Raw::empty_object(), &edits);
        self.outgoing.push_back(self.answered(&result));
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
                if self.level.is_some_and(|level| level <= LogLevel::of(&params)) {
                    self.outgoing.push_back(OutgoingMessage::notification(compose::notification(
                        "notifications/message",
                        Some(&params),
                        &[],
                    )));
                }
            }
            Some(ExchangeEvent::ServerRequest(server_request)) => self.collect(server_request),
            Some(ExchangeEvent::Withdrawn(withdrawn)) => {
                if let ModernSource::Exchange { server_requests, since, .. } = &mut self.source {
                    server_requests.retain(|(_, request)| request.details.id != withdrawn);
                    if server_requests.is_empty() {
                        *since = None;
                    }
                }
            }
            Some(ExchangeEvent::Ended(outcome)) => self.end(outcome),
            None => self.source = ModernSource::Nothing,
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.source = ModernSource::Nothing;
        self.flush_progress();
        let response = match outcome {
            Outcome::Answered(result) => self.answered(&result),
            Outcome::HandedOff(task) => {
                let result = codec::modern(&task);
                OutgoingMessage::response(compose::result(&self.id, &result, &[self.server_info_edit(&result)]))
            }
            Outcome::Refused(error)
                if error.code() == RpcError::URL_ELICITATION_REQUIRED && self.request.is_interactive() =>
            {
                self.url_elicitation_required(&error)
            }
            Outcome::Refused(error) => {
                let uri = self.request.param("uri");
                let error = refusal::to_stateless(error, uri.as_ref(), &self.caller.capabilities);
                OutgoingMessage::error(Some(&self.id), &error, status_of(&error))
            }
            Outcome::Failed(error) => self.failed(&error),
            Outcome::TimedOut { kind, limit } => self.failed(&kind.describe(limit)),
            Outcome::Cancelled => self.failed(&"the request was cancelled"),
        };
        self.outgoing.push_back(response);
    }

    fn report(&mut self, params: &Raw) {
        let token = self.token.clone().map(|token| Edit::Set("progressToken", token));
        let message = compose::notification("notifications/progress", Some(params), token.as_slice());
        self.outgoing.push_back(OutgoingMessage::notification(message));
    }

    /// Sends the held progress notification.
    fn flush_progress(&mut self) {
        if let Some(params) = self.limiter.release() {
            self.report(&params);
        }
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> OutgoingMessage {
        OutgoingMessage::error(Some(&self.id), &RpcError::new(RpcError::INTERNAL, &problem.to_string()), StatusCode::OK)
    }

    /// The response with this result and the members that this revision requires: type, server info, cache hint.
    fn answered(&self, result: &Raw) -> OutgoingMessage {
        let mut edits = dialect::result(self.caller.revision, self.request.method(), result);
        // Most results have no `_meta`, and those of a stateless server begin with their type.
        let meta = if result.may_mention("_meta") { result.get("_meta") } else { None };
        edits.push(self.server_info_in(meta.as_ref()));
        if result.get("resultType").is_none() {
            edits.push(Edit::Add("resultType", Raw::of("complete")));
        }
        if CACHEABLE.contains(&self.request.method()) {
            let given = result.fields(["ttlMs", "cacheScope"]);
            let missing = CacheHint::NONE.members().into_iter().zip(given).filter(|(_, given)| given.is_none());
            edits.extend(missing.map(|((name, value), _)| Edit::Add(name, value)));
        }
        OutgoingMessage::response(compose::result(&self.id, result, &edits))
    }

    fn server_info_edit(&self, result: &Raw) -> Edit<'static> {
        self.server_info_in(meta::of(Some(result)).as_ref())
    }

    /// Edit that adds the server info to the `_meta` of a result.
    fn server_info_in(&self, meta: Option<&Raw>) -> Edit<'static> {
        let info = self.downstream.service.info(&self.caller);
        match meta {
            None => Edit::Add("_meta", splice::object([(meta::SERVER_INFO, &info)])),
            Some(meta) if meta.kind() == JsonKind::Object => {
                Edit::Set("_meta", splice::edited(meta, &[Edit::Set(meta::SERVER_INFO, info)]))
            }
            Some(_) => Edit::Set("_meta", splice::object([(meta::SERVER_INFO, &info)])),
        }
    }

    /// Digest of the request. Computed on demand; few requests get a handle.
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| input_required::digest(&self.request))
    }
}

/// HTTP status for an error.
fn status_of(error: &RpcError) -> StatusCode {
    match error.code() {
        RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        RpcError::MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
