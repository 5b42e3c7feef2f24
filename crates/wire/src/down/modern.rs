//! The stateless revision, spoken to a caller: a question ends the request, and the retry goes on with it.

mod asking;
mod caller;
mod listening;
mod watching;

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use self::watching::Subscription;
use super::{
    Caller, Downstream,
    accent::{self, Said},
    dialect,
    progress::Meter,
    refusal,
    tasks::{self, Later},
};
use crate::{
    exchange::{ServerRequest, Exchange, ExchangeEvent, LogLevel, Outcome, Progress, Request},
    json::{Kind, Raw},
    message::{
        Envelope, Id, RpcError, compose, meta,
        result::CacheHint,
        splice::{self, Edit},
    },
    revision::{Era, Revision},
    task::spelling,
};

/// Further questions are waited for this long after each one, so that they go out together …
const NEXT_ASK: Duration = Duration::from_millis(50);
/// … and this long in all.
const ALL_ASKS: Duration = Duration::from_millis(100);

/// Methods that exist only with a session; marked as stateless, they are unknown.
const LEGACY_ONLY: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Results that carry caching hints.
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

/// One request being answered, message by message.
pub(super) struct Reply {
    downstream: Arc<Downstream>,
    caller: Caller,
    id: Id,
    token: Option<Raw>,
    meter: Meter,
    level: Option<LogLevel>,
    request: Request,
    /// What a handle of this request is bound to.
    digest: OnceLock<String>,
    source: Source,
    unsaid: VecDeque<Said>,
}

enum Source {
    /// An exchange, and the questions gathered from it for one round.
    Exchange { exchange: Exchange, asks: Vec<(String, ServerRequest)>, since: Option<Instant> },
    /// An answer of the downstream's own that takes its time.
    Here(Later),
    /// A subscription that is not yet acknowledged.
    Subscribing(BoxFuture<'static, Subscription>),
    /// A subscription.
    Listening(Subscription),
    /// Everything is said.
    Nothing,
}

impl Reply {
    /// Begins to answer; a request that is refused at the door is answered at once.
    ///
    /// Over HTTP the headers are checked against the body, in the order the protocol's referee looks for.
    pub(super) fn begin(
        downstream: &Arc<Downstream>,
        envelope: &Envelope,
        principal: &Arc<str>,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, Said> {
        accent::guarded(|| Self::start(downstream, envelope, principal, headers))
            .unwrap_or_else(|broken| Err(Said::error(envelope.id(), &broken, StatusCode::OK)))
    }

    fn start(
        downstream: &Arc<Downstream>,
        envelope: &Envelope,
        principal: &Arc<str>,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, Said> {
        let id = envelope.id().cloned().ok_or_else(|| {
            Said::error(None, &RpcError::new(RpcError::INVALID_REQUEST, "a request has an id"), StatusCode::BAD_REQUEST)
        })?;
        let refuse = |error: RpcError, status| Said::error(Some(&id), &error, status);
        let (caller, level) =
            caller::read(downstream, envelope, principal, headers).map_err(|error| refuse(error, StatusCode::BAD_REQUEST))?;
        if let Some(headers) = headers {
            caller::check_headers(downstream, envelope, &caller, headers)
                .map_err(|mismatch| refuse(caller::mismatched(&mismatch), StatusCode::BAD_REQUEST))?;
        }
        if LEGACY_ONLY.contains(&envelope.method()) {
            let message = format!("`{}` does not exist in {}", envelope.method(), caller.revision);
            return Err(refuse(RpcError::new(RpcError::METHOD_NOT_FOUND, &message), StatusCode::NOT_FOUND));
        }
        let mut request = accent::neutral(envelope).map_err(|error| refuse(error, StatusCode::OK))?;
        let brought = |key| if request.brings_answers() { request.param(key) } else { None };
        let (responses, state) = (brought("inputResponses"), brought("requestState"));
        if request.brings_answers() {
            let params = request
                .params()
                .map(|params| splice::edited(params, &[Edit::Remove("inputResponses"), Edit::Remove("requestState")]));
            request = request.with_params(params);
        }
        request.capabilities = Some(caller.capabilities.clone());
        request.log_level = level;
        tasks::allow(downstream, &caller, &mut request);
        let mut reply = Self {
            downstream: Arc::clone(downstream),
            caller,
            token: (request.progress == Progress::Wanted).then(|| accent::progress_token(envelope)).flatten(),
            meter: Meter::new(),
            level,
            request,
            digest: OnceLock::new(),
            source: Source::Nothing,
            unsaid: VecDeque::new(),
            id: id.clone(),
        };
        reply.open(responses.as_ref(), state.as_ref()).map_err(|error| {
            let status = status_of(&error);
            refuse(error, status)
        })?;
        Ok(reply)
    }

    /// The next message; after the last one there is none.
    pub(super) async fn next(&mut self) -> Option<Said> {
        match accent::guarded_future(self.go_on()).await {
            Ok(said) => said,
            Err(broken) => {
                self.source = Source::Nothing;
                self.unsaid.clear();
                Some(Said::error(Some(&self.id), &broken, StatusCode::OK))
            }
        }
    }

    async fn go_on(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.unsaid.pop_front() {
                return Some(said);
            }
            match &mut self.source {
                Source::Nothing => return None,
                Source::Here(answer) => {
                    let outcome = answer.await;
                    self.end(outcome);
                }
                Source::Subscribing(subscribing) => {
                    let subscription = subscribing.await;
                    self.acknowledge(subscription);
                }
                Source::Listening(subscription) => {
                    let notice = tokio::select! {
                        () = self.downstream.draining.cancelled() => None,
                        notice = subscription.heard.notices.recv() => notice,
                    };
                    self.hear(notice);
                }
                Source::Exchange { exchange, since, .. } => {
                    let happening = match *since {
                        None => tokio::select! {
                            happening = exchange.next() => happening,
                            () = self.meter.due() => {
                                self.catch_up();
                                continue;
                            }
                        },
                        Some(since) => {
                            let until = (Instant::now() + NEXT_ASK).min(since + ALL_ASKS);
                            match tokio::time::timeout_at(until, exchange.next()).await {
                                Ok(happening) => happening,
                                Err(_) => {
                                    self.park();
                                    continue;
                                }
                            }
                        }
                    };
                    self.take(happening);
                }
            }
        }
    }

    fn open(&mut self, responses: Option<&Raw>, state: Option<&Raw>) -> Result<(), RpcError> {
        responses.map(asking::well_formed).transpose()?;
        match (self.request.method(), state) {
            ("server/discover", _) => self.discover(),
            ("subscriptions/listen", _) => self.listen()?,
            (method, _) if tasks::is_about(method) => {
                self.source = Source::Here(tasks::on_its_own(&self.downstream, &self.caller, &self.request, responses)?);
            }
            (_, Some(state)) => self.go_on_with(state, responses)?,
            (_, None) => {
                self.request.answers = responses.cloned();
                self.put();
            }
        }
        Ok(())
    }

    /// Puts the request to the service.
    fn put(&mut self) {
        let exchange = self.downstream.service.open(self.request.clone(), &self.caller);
        self.source = Source::Exchange { exchange, asks: Vec::new(), since: None };
    }

    fn discover(&mut self) {
        let profile = self.downstream.service.profile(&self.caller);
        let versions: Vec<&str> = self.downstream.revisions(Era::Modern).into_iter().map(Revision::as_str).collect();
        let capabilities = tasks::offered(&self.downstream, &self.caller, &profile.capabilities);
        let mut edits =
            vec![Edit::Set("supportedVersions", Raw::of(&versions)), Edit::Set("capabilities", capabilities)];
        if let Some(instructions) = profile.instructions {
            edits.push(Edit::Set("instructions", Raw::of(&instructions)));
        }
        let result = splice::edited(&Raw::empty_object(), &edits);
        self.unsaid.push_back(self.answered(&result));
    }

    fn take(&mut self, happening: Option<ExchangeEvent>) {
        match happening {
            Some(ExchangeEvent::Progress(params)) if self.token.is_some() => {
                if let Some(params) = self.meter.take(params) {
                    self.report(&params);
                }
            }
            Some(ExchangeEvent::Progress(_)) => {}
            Some(ExchangeEvent::Log(params)) => {
                if self.level.is_some_and(|level| level <= LogLevel::of(&params)) {
                    self.unsaid.push_back(Said::more(compose::notification(
                        "notifications/message",
                        Some(&params),
                        &[],
                    )));
                }
            }
            Some(ExchangeEvent::ServerRequest(ask)) => self.gather(ask),
            Some(ExchangeEvent::Withdrawn(withdrawn)) => {
                if let Source::Exchange { asks, since, .. } = &mut self.source {
                    asks.retain(|(_, ask)| ask.details.id != withdrawn);
                    if asks.is_empty() {
                        *since = None;
                    }
                }
            }
            Some(ExchangeEvent::Ended(outcome)) => self.end(outcome),
            None => self.source = Source::Nothing,
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.source = Source::Nothing;
        self.catch_up();
        let said = match outcome {
            Outcome::Answered(result) => self.answered(&result),
            Outcome::HandedOff(task) => {
                let result = spelling::modern(&task);
                Said::last(compose::result(&self.id, &result, &[self.signed(&result)]))
            }
            Outcome::Refused(error)
                if error.code() == RpcError::URL_ELICITATION_REQUIRED && self.request.is_interactive() =>
            {
                self.page_first(&error)
            }
            Outcome::Refused(error) => {
                let uri = self.request.param("uri");
                let error = refusal::to_stateless(error, uri.as_ref(), &self.caller.capabilities);
                Said::error(Some(&self.id), &error, status_of(&error))
            }
            Outcome::Failed(error) => self.failed(&error),
            Outcome::TimedOut { kind, limit } => self.failed(&format!("no answer within {limit:?} ({kind})")),
            Outcome::Cancelled => self.failed(&"the request was given up"),
        };
        self.unsaid.push_back(said);
    }

    fn report(&mut self, params: &Raw) {
        let token = self.token.clone().map(|token| Edit::Set("progressToken", token));
        let message = compose::notification("notifications/progress", Some(params), token.as_slice());
        self.unsaid.push_back(Said::more(message));
    }

    /// Says what was held back of the progress.
    fn catch_up(&mut self) {
        if let Some(params) = self.meter.release() {
            self.report(&params);
        }
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> Said {
        Said::error(Some(&self.id), &RpcError::new(RpcError::INTERNAL, &problem.to_string()), StatusCode::OK)
    }

    /// The result with what this revision requires: its type, who answers, how long it keeps.
    fn answered(&self, result: &Raw) -> Said {
        let mut edits = dialect::result(self.caller.revision, self.request.method(), result);
        let [meta, kind, ttl, scope] = result.fields(["_meta", "resultType", "ttlMs", "cacheScope"]);
        edits.push(self.signature(meta.as_ref()));
        if kind.is_none() {
            edits.push(Edit::Add("resultType", Raw::of("complete")));
        }
        if CACHEABLE.contains(&self.request.method()) && (ttl.is_none() || scope.is_none()) {
            let unsaid = CacheHint::NONE.members().into_iter().zip([ttl, scope]).filter(|(_, said)| said.is_none());
            edits.extend(unsaid.map(|((name, value), _)| Edit::Add(name, value)));
        }
        Said::last(compose::result(&self.id, result, &edits))
    }

    fn signed(&self, result: &Raw) -> Edit<'static> {
        self.signature(meta::of(Some(result)).as_ref())
    }

    /// Who answers, said in the `_meta` of a result that has this one.
    fn signature(&self, meta: Option<&Raw>) -> Edit<'static> {
        let info = self.downstream.service.info(&self.caller);
        match meta {
            None => Edit::Add("_meta", splice::object([(meta::SERVER_INFO, &info)])),
            Some(meta) if meta.kind() == Kind::Object => {
                Edit::Set("_meta", splice::edited(meta, &[Edit::Set(meta::SERVER_INFO, info)]))
            }
            Some(_) => Edit::Set("_meta", splice::object([(meta::SERVER_INFO, &info)])),
        }
    }

    /// What a handle of this request is bound to. Few requests ever get one.
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| asking::digest(&self.request))
    }
}

/// The HTTP status a refusal calls for.
fn status_of(error: &RpcError) -> StatusCode {
    match error.code() {
        RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        RpcError::MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
