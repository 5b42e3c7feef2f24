//! The stateless revision, spoken to a caller: a question ends the request, and the retry goes on with it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::time::Instant;

use super::{
    Caller, Face,
    accent::{self, Said},
    park::Parked,
    tasks::{self, Later},
};
use crate::{
    exchange::{Answer, Ask, Exchange, Happening, LogLevel, Outcome, Request},
    header::{self, Mismatch},
    json::{Kind, Raw},
    message::{
        ClientCapabilities, Envelope, Id, RpcError, compose, meta,
        splice::{self, Edit},
    },
    notice::{Notice, filter},
    revision::{Era, Revision},
    seal,
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
    face: Arc<Face>,
    caller: Caller,
    id: Id,
    token: Option<Raw>,
    level: Option<LogLevel>,
    request: Request,
    /// What a handle of this request is bound to.
    digest: String,
    source: Source,
    unsaid: VecDeque<Said>,
}

enum Source {
    /// An exchange, and the questions gathered from it for one round.
    Exchange { exchange: Exchange, asks: Vec<Ask>, since: Option<Instant> },
    /// An answer of the face's own that takes its time.
    Here(Later),
    /// A subscription that is not yet acknowledged.
    Subscribing(BoxFuture<'static, super::Heard>),
    /// A subscription.
    Listening(super::Heard),
    /// Everything is said.
    Nothing,
}

impl Reply {
    /// Begins to answer; a request that is refused at the door is answered at once.
    ///
    /// Over HTTP the headers are checked against the body, in the order the protocol's referee looks for.
    pub(super) fn begin(
        face: &Arc<Face>,
        envelope: &Envelope,
        principal: &Arc<str>,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, Said> {
        accent::guarded(|| Self::start(face, envelope, principal, headers))
            .unwrap_or_else(|broken| Err(Said::error(envelope.id(), &broken, StatusCode::OK)))
    }

    fn start(
        face: &Arc<Face>,
        envelope: &Envelope,
        principal: &Arc<str>,
        headers: Option<&HeaderMap>,
    ) -> Result<Self, Said> {
        let id = envelope.id().cloned().ok_or_else(|| {
            Said::error(None, &RpcError::new(RpcError::INVALID_REQUEST, "a request has an id"), StatusCode::BAD_REQUEST)
        })?;
        let refuse = |error: RpcError, status| Said::error(Some(&id), &error, status);
        let (caller, level) =
            caller(face, envelope, principal, headers).map_err(|error| refuse(error, StatusCode::BAD_REQUEST))?;
        if let Some(headers) = headers {
            check_headers(face, envelope, &caller, headers)
                .map_err(|mismatch| refuse(mismatched(&mismatch), StatusCode::BAD_REQUEST))?;
        }
        if LEGACY_ONLY.contains(&envelope.method()) {
            let message = format!("`{}` does not exist in {}", envelope.method(), caller.revision);
            return Err(refuse(RpcError::new(RpcError::METHOD_NOT_FOUND, &message), StatusCode::NOT_FOUND));
        }
        let mut request = accent::neutral(envelope).map_err(|error| refuse(error, StatusCode::OK))?;
        let (responses, state) = (request.param("inputResponses"), request.param("requestState"));
        if responses.is_some() || state.is_some() {
            let params = request
                .params()
                .map(|params| splice::edited(params, &[Edit::Remove("inputResponses"), Edit::Remove("requestState")]));
            request = request.with_params(params);
        }
        request.capabilities = Some(caller.capabilities.clone());
        request.log_level = level;
        tasks::allow(face, &caller, &mut request);
        let digest = digest(&request);
        let mut reply = Self {
            face: Arc::clone(face),
            caller,
            token: accent::progress_token(envelope),
            level,
            request,
            digest,
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
                Source::Subscribing(heard) => {
                    let heard = heard.await;
                    self.acknowledge(heard);
                }
                Source::Listening(heard) => {
                    let notice = tokio::select! {
                        () = self.face.draining.cancelled() => None,
                        notice = heard.notices.recv() => notice,
                    };
                    self.hear(notice);
                }
                Source::Exchange { exchange, since, .. } => {
                    let happening = match *since {
                        None => exchange.next().await,
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
        let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
        if let Some(responses) = responses {
            let well_formed = responses.kind() == Kind::Object
                && responses.members().iter().all(|member| member.value.kind() == Kind::Object);
            if !well_formed {
                return Err(invalid("inputResponses must be an object of result objects"));
            }
        }
        match (self.request.method(), state) {
            ("server/discover", _) => self.discover(),
            ("subscriptions/listen", _) => self.listen(),
            (method, _) if tasks::is_about(method) => {
                self.source = Source::Here(tasks::on_its_own(&self.face, &self.caller, &self.request, responses)?);
            }
            (_, Some(state)) => {
                let state = state.as_str().ok_or_else(|| invalid("requestState must be a string"))?;
                let parked = self.face.parked.claim(&state, &self.caller.principal, &self.digest);
                self.resume(parked.map_err(|error| invalid(&error.to_string()))?, responses);
            }
            (_, None) => {
                self.request.answers = responses.cloned();
                let exchange = self.face.service.open(self.request.clone(), &self.caller);
                self.source = Source::Exchange { exchange, asks: Vec::new(), since: None };
            }
        }
        Ok(())
    }

    fn discover(&mut self) {
        let profile = self.face.service.profile(&self.caller);
        let versions: Vec<&str> = self.face.revisions(Era::Modern).into_iter().map(Revision::as_str).collect();
        let capabilities = tasks::offered(&self.face, &self.caller, &profile.capabilities);
        let mut edits =
            vec![Edit::Set("supportedVersions", Raw::of(&versions)), Edit::Set("capabilities", capabilities)];
        if let Some(instructions) = profile.instructions {
            edits.push(Edit::Set("instructions", Raw::of(&instructions)));
        }
        let result = splice::edited(&Raw::empty_object(), &edits);
        self.unsaid.push_back(self.answered(&result));
    }

    fn listen(&mut self) {
        let wanted = filter::read(self.request.params());
        let (face, caller) = (Arc::clone(&self.face), self.caller.clone());
        let heard = async move { face.service.listen(wanted, &caller).await };
        self.source = Source::Subscribing(Box::pin(heard));
    }

    fn acknowledge(&mut self, heard: super::Heard) {
        let acknowledged = filter::written(&heard.honoured);
        self.say_notification("notifications/subscriptions/acknowledged", Some(&acknowledged));
        self.source = Source::Listening(heard);
    }

    fn hear(&mut self, notice: Option<Notice>) {
        match notice {
            Some(Notice::Changed(list)) => self.say_notification(list.changed_method(), None),
            Some(Notice::Updated { params, .. }) => {
                self.say_notification("notifications/resources/updated", Some(&params))
            }
            Some(Notice::Other { method, params }) => self.say_notification(&method, params.as_ref()),
            Some(Notice::Log(_) | Notice::Fault(_) | Notice::Missed(_)) => {}
            None => {
                let tag = Edit::Set(meta::SUBSCRIPTION_ID, self.id.raw());
                let result = splice::edited(&Raw::empty_object(), &[meta::with_keys(None, &[tag])]);
                let said = self.answered(&result);
                self.unsaid.push_back(said);
                self.source = Source::Nothing;
            }
        }
    }

    /// A notification on this subscription, tagged with it.
    fn say_notification(&mut self, method: &str, params: Option<&Raw>) {
        let tag = Edit::Set(meta::SUBSCRIPTION_ID, self.id.raw());
        let edit = meta::with_keys(params, &[tag]);
        self.unsaid.push_back(Said::more(compose::notification(method, params, &[edit])));
    }

    fn take(&mut self, happening: Option<Happening>) {
        match happening {
            Some(Happening::Progress(params)) => {
                if let Some(token) = &self.token {
                    let edit = [Edit::Set("progressToken", token.clone())];
                    self.unsaid.push_back(Said::more(compose::notification(
                        "notifications/progress",
                        Some(&params),
                        &edit,
                    )));
                }
            }
            Some(Happening::Log(params)) => {
                if self.level.is_some_and(|level| level <= LogLevel::of(&params)) {
                    self.unsaid.push_back(Said::more(compose::notification(
                        "notifications/message",
                        Some(&params),
                        &[],
                    )));
                }
            }
            Some(Happening::Ask(ask)) => self.gather(ask),
            Some(Happening::Withdrawn(withdrawn)) => {
                if let Source::Exchange { asks, since, .. } = &mut self.source {
                    asks.retain(|ask| ask.question.id != withdrawn);
                    if asks.is_empty() {
                        *since = None;
                    }
                }
            }
            Some(Happening::Ended(outcome)) => self.end(outcome),
            None => self.source = Source::Nothing,
        }
    }

    /// One more question for this round, if the caller can be asked it.
    fn gather(&mut self, ask: Ask) {
        let question = &ask.question;
        if !self.request.is_interactive() {
            return ask.answer(Answer::Refused(RpcError::new(
                RpcError::INVALID_PARAMS,
                "nothing can be asked during this request",
            )));
        }
        if let Some(needed) = self.caller.capabilities.lacks(&question.method, question.params.as_ref()) {
            ask.answer(Answer::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "the caller cannot be asked this")));
            let data =
                json!({ "requiredCapabilities": serde_json::from_slice::<serde_json::Value>(needed.as_bytes()).ok() });
            let error =
                RpcError::with_data(RpcError::MISSING_CAPABILITY, "the caller lacks a capability this needs", data);
            self.unsaid.push_back(Said::error(Some(&self.id), &error, StatusCode::BAD_REQUEST));
            self.source = Source::Nothing;
            return;
        }
        let limit = self.face.options.limits.asks_per_round;
        if let Source::Exchange { asks, since, .. } = &mut self.source {
            since.get_or_insert_with(Instant::now);
            asks.push(ask);
            if limit <= asks.len() {
                self.park();
            }
        }
    }

    /// The round is complete: the exchange waits, and the caller gets the questions.
    fn park(&mut self) {
        let Source::Exchange { exchange, asks, .. } = std::mem::replace(&mut self.source, Source::Nothing) else {
            return;
        };
        let asks = with_keys(asks);
        self.park_with(exchange, asks);
    }

    fn park_with(&mut self, exchange: Exchange, asks: Vec<(String, Ask)>) {
        let requests = asked(&asks);
        let parked = Parked { exchange, asks };
        let said = match self.face.parked.park(parked, &self.caller.principal, &self.digest) {
            Ok(state) => {
                let result = Raw::of(&json!({ "resultType": "input_required", "requestState": state }));
                let result = splice::edited(&result, &[Edit::Set("inputRequests", requests)]);
                Said::last(compose::result(&self.id, &result, &[self.signed(&result)]))
            }
            Err(error) => self.failed(&error),
        };
        self.unsaid.push_back(said);
    }

    /// Goes on with a parked call: what was answered is answered, the rest is asked again.
    fn resume(&mut self, parked: Parked, responses: Option<&Raw>) {
        let given = responses.map(|responses| responses.members()).unwrap_or_default();
        let mut unanswered = Vec::new();
        for (key, ask) in parked.asks {
            match given.iter().find(|member| member.key == key) {
                Some(member) => ask.answer(Answer::Given(member.value.clone())),
                None => unanswered.push((key, ask)),
            }
        }
        if unanswered.is_empty() {
            self.source = Source::Exchange { exchange: parked.exchange, asks: Vec::new(), since: None };
        } else {
            self.park_with(parked.exchange, unanswered);
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.source = Source::Nothing;
        let said = match outcome {
            Outcome::Answered(result) => self.answered(&result),
            Outcome::HandedOff(task) => {
                let result = spelling::modern(&task);
                Said::last(compose::result(&self.id, &result, &[self.signed(&result)]))
            }
            Outcome::Refused(error) => {
                let error = self.translated(error);
                Said::error(Some(&self.id), &error, status_of(&error))
            }
            Outcome::Failed(error) => self.failed(&error),
            Outcome::TimedOut { clock, limit } => self.failed(&format!("no answer within {limit:?} ({clock})")),
            Outcome::Cancelled => self.failed(&"the request was given up"),
        };
        self.unsaid.push_back(said);
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> Said {
        Said::error(Some(&self.id), &RpcError::new(RpcError::INTERNAL, &problem.to_string()), StatusCode::OK)
    }

    /// The result with what this revision requires: its type, who answers, how long it keeps.
    fn answered(&self, result: &Raw) -> Said {
        let mut edits = vec![self.signed(result)];
        if result.get("resultType").is_none() {
            edits.push(Edit::Set("resultType", Raw::of("complete")));
        }
        if CACHEABLE.contains(&self.request.method()) {
            if result.get("ttlMs").is_none() {
                edits.push(Edit::Set("ttlMs", Raw::of(&0)));
            }
            if result.get("cacheScope").is_none() {
                edits.push(Edit::Set("cacheScope", Raw::of("private")));
            }
        }
        Said::last(compose::result(&self.id, result, &edits))
    }

    fn signed(&self, result: &Raw) -> Edit<'static> {
        let info = self.face.service.profile(&self.caller).info;
        meta::with_keys(Some(result), &[Edit::Set(meta::SERVER_INFO, info)])
    }

    /// Codes that mean something else to this caller, or would mislead it about this hop.
    fn translated(&self, error: RpcError) -> RpcError {
        match error.code() {
            RpcError::RESOURCE_NOT_FOUND => {
                let uri = self.request.param("uri").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
                RpcError::with_data(RpcError::INVALID_PARAMS, &error.message(), json!({ "uri": uri }))
            }
            RpcError::HEADER_MISMATCH | RpcError::UNSUPPORTED_VERSION => {
                RpcError::new(RpcError::INTERNAL, &format!("between here and the server: {error}"))
            }
            RpcError::MISSING_CAPABILITY => error,
            code if (-32099..=-32000).contains(&code) => {
                let data = json!({ "upstream": { "code": code, "message": error.message() } });
                RpcError::with_data(RpcError::INTERNAL, &error.message(), data)
            }
            _ => error,
        }
    }
}

/// What a handle is bound to: the same request, however its caller writes it down the second time.
fn digest(request: &Request) -> String {
    let params = request.params().map(|params| splice::edited(params, &[Edit::Remove("_meta")]));
    let mut canonical = Vec::new();
    if let Some(params) = params {
        params.write_canonical(&mut canonical);
    }
    seal::fingerprint([request.method().as_bytes(), &canonical])
}

/// Who asks, by what the request says of itself; refused where it says too little or something we do not speak.
fn caller(
    face: &Face,
    envelope: &Envelope,
    principal: &Arc<str>,
    headers: Option<&HeaderMap>,
) -> Result<(Caller, Option<LogLevel>), RpcError> {
    let params = envelope.params();
    let header = headers.map(|headers| headers.get(header::PROTOCOL_VERSION).ok_or("is missing")).transpose();
    let header = header.map_err(|problem| mismatched(&format!("{} {problem}", header::PROTOCOL_VERSION)))?;
    let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
    let version = meta::value(params.as_ref(), meta::PROTOCOL_VERSION);
    let version = version.as_ref().and_then(Raw::as_str).ok_or_else(|| invalid("_meta lacks the protocol version"))?;
    let capabilities = meta::value(params.as_ref(), meta::CLIENT_CAPABILITIES)
        .filter(|capabilities| capabilities.kind() == Kind::Object)
        .ok_or_else(|| invalid("_meta lacks the client's capabilities"))?;
    if header.is_some_and(|header| header.as_bytes() != version.as_bytes()) {
        return Err(mismatched(&format!("{} does not match the body", header::PROTOCOL_VERSION)));
    }
    let supported = face.revisions(Era::Modern);
    let Some(revision) = supported.iter().copied().find(|revision| revision.as_str() == version) else {
        let listed: Vec<&str> = supported.into_iter().map(Revision::as_str).collect();
        let data = json!({ "supported": listed, "requested": version });
        return Err(RpcError::with_data(RpcError::UNSUPPORTED_VERSION, "unsupported protocol version", data));
    };
    let level = match meta::value(params.as_ref(), meta::LOG_LEVEL) {
        None => None,
        Some(level) => {
            let level = level.as_str().and_then(|level| level.parse().ok());
            Some(level.ok_or_else(|| invalid("unknown log level"))?)
        }
    };
    let info = meta::value(params.as_ref(), meta::CLIENT_INFO);
    let capabilities = ClientCapabilities(capabilities);
    Ok((Caller { revision, capabilities, info, principal: Arc::clone(principal) }, level))
}

fn check_headers(face: &Face, envelope: &Envelope, caller: &Caller, headers: &HeaderMap) -> Result<(), Mismatch> {
    let params = envelope.params();
    let annotated = match (envelope.method(), params.as_ref().and_then(|params| params.get("name"))) {
        ("tools/call", Some(name)) => {
            name.as_str().map(|name| face.service.param_headers(&name, caller)).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    header::check(headers, envelope.method(), params.as_ref(), &annotated)
}

fn mismatched(problem: &dyn std::fmt::Display) -> RpcError {
    RpcError::new(RpcError::HEADER_MISMATCH, &problem.to_string())
}

/// Each question under the key its server gave it, or one of ours.
fn with_keys(asks: Vec<Ask>) -> Vec<(String, Ask)> {
    let taken: Vec<Option<String>> = asks.iter().map(|ask| ask.question.key.clone()).collect();
    let mut next = 0;
    let mut mint = || loop {
        next += 1;
        let key = format!("ask-{next}");
        if !taken.contains(&Some(key.clone())) {
            return key;
        }
    };
    asks.into_iter().map(|ask| (ask.question.key.clone().unwrap_or_else(&mut mint), ask)).collect()
}

/// The questions as this revision spells them, under their keys: without what only a session understands, and with
/// every other byte as it came.
fn asked(asks: &[(String, Ask)]) -> Raw {
    let asked = |ask: &Ask| {
        let method = Raw::of(&ask.question.method);
        let edits = [Edit::Remove("task"), Edit::Remove("elicitationId")];
        let params = ask.question.params.as_ref().map(|it| splice::edited(&meta::without_hop_keys(it), &edits));
        splice::object([("method", &method)].into_iter().chain(params.iter().map(|it| ("params", it))))
    };
    let asked: Vec<(&str, Raw)> = asks.iter().map(|(key, ask)| (key.as_str(), asked(ask))).collect();
    splice::object(asked.iter().map(|(key, question)| (*key, question)))
}

/// The HTTP status a refusal calls for.
fn status_of(error: &RpcError) -> StatusCode {
    match error.code() {
        RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        RpcError::MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
