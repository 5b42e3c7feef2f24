//! The stateful revisions, spoken to a caller: a question is a request on the caller's own stream.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use futures_util::{StreamExt, TryFutureExt, future::BoxFuture, stream::FuturesUnordered};
use http::StatusCode;
use serde_json::json;

use super::{
    Asks,
    accent::{self, Said},
    dialect,
    progress::Meter,
    refusal,
    session::{self, Session},
    tasks::{self, InSession, Later},
};
use crate::{
    exchange::{Answer, ServerRequest, ServerRequestId, Exchange, ExchangeEvent, LogLevel, Outcome, ServerRequestDetails},
    json::Raw,
    message::{Envelope, Id, RpcError, compose, meta, splice::Edit},
    revision::Revision,
    seal,
    task::spelling,
};

/// One request being answered, message by message.
pub(super) struct Reply {
    session: Arc<Session>,
    id: Id,
    token: Option<Raw>,
    method: Cow<'static, str>,
    meter: Meter,
    source: Source,
    /// The task that is followed, where one is.
    task: Option<String>,
    /// Questions the caller has been sent; few are ever asked.
    asked: Option<FuturesUnordered<BoxFuture<'static, ServerRequestId>>>,
    open: Vec<(ServerRequestId, Id)>,
    /// Nobody will ever hear what is said.
    unheard: bool,
    unsaid: VecDeque<Said>,
}

enum Source {
    /// An exchange.
    Exchange(Exchange),
    /// An answer of the downstream's own that takes its time.
    Here(Later),
    /// Everything is said.
    Nothing,
}

impl Reply {
    /// Begins to answer a request of a session.
    pub(super) fn begin(session: &Arc<Session>, envelope: &Envelope) -> Result<Self, Said> {
        accent::guarded(|| Self::start(session, envelope))
            .unwrap_or_else(|broken| Err(Said::error(envelope.id(), &broken, StatusCode::OK)))
    }

    fn start(session: &Arc<Session>, envelope: &Envelope) -> Result<Self, Said> {
        let id = envelope.id().cloned().ok_or_else(|| {
            Said::error(None, &RpcError::new(RpcError::INVALID_REQUEST, "a request has an id"), StatusCode::BAD_REQUEST)
        })?;
        if let Some(answer) = session.answer_here(envelope) {
            return Err(match answer {
                Ok(result) => Said::last(compose::result(&id, &result, &[])),
                Err(error) => Said::error(Some(&id), &error, StatusCode::OK),
            });
        }
        let (mut task, refuse) = (None, |error| Said::error(Some(&id), &error, StatusCode::OK));
        let source = if envelope.method() == "resources/subscribe" {
            let subscribed = Arc::clone(session).subscribe(envelope.params());
            Source::Here(Box::pin(subscribed.map_ok_or_else(Outcome::Refused, Outcome::Answered)))
        } else {
            let request = session::neutral(session, envelope).map_err(refuse)?;
            match session.about_tasks(&request).transpose().map_err(refuse)? {
                None => Source::Exchange(session.open(request)),
                Some(InSession::Later(answer)) => Source::Here(answer),
                Some(InSession::Following(exchange, id)) => {
                    task = Some(id);
                    Source::Exchange(exchange)
                }
            }
        };
        Ok(Self {
            session: Arc::clone(session),
            id,
            token: accent::progress_token(envelope),
            method: envelope.kept_method(),
            meter: Meter::new(),
            source,
            task,
            asked: None,
            open: Vec::new(),
            unheard: false,
            unsaid: VecDeque::new(),
        })
    }

    /// Goes on without anybody who hears it: what was asked, and what will be, is answered by nobody.
    pub(super) fn unheard(mut self) -> Self {
        self.unheard = true;
        self.leave_unanswered();
        self
    }

    /// Whether the caller has been sent a question that it has not answered.
    pub(super) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// What was asked is answered by nobody.
    pub(super) fn leave_unanswered(&mut self) {
        for (_, id) in &self.open {
            self.session.forget_ask(id);
        }
    }

    /// The next message; after the last one there is none.
    pub(super) async fn next(&mut self) -> Option<Said> {
        match accent::guarded_future(self.go_on()).await {
            Ok(said) => said,
            Err(broken) => {
                self.source = Source::Nothing;
                self.unsaid.clear();
                Some(self.refused(&broken))
            }
        }
    }

    async fn go_on(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.unsaid.pop_front() {
                return Some(said);
            }
            let exchange = match &mut self.source {
                Source::Nothing => return None,
                Source::Exchange(exchange) => exchange,
                Source::Here(answer) => {
                    let outcome = answer.await;
                    self.end(outcome);
                    continue;
                }
            };
            tokio::select! {
                happening = exchange.next() => self.take(happening),
                () = self.meter.due() => {
                    if let Some(params) = self.meter.release() {
                        self.report(&params);
                    }
                }
                Some(ask) = answered(&mut self.asked) => self.close(ask),
            }
        }
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
                if self.session.wants(LogLevel::of(&params)) {
                    self.say(compose::notification("notifications/message", Some(&params), &[]));
                }
            }
            Some(ExchangeEvent::ServerRequest(ask)) => self.ask(ask),
            Some(ExchangeEvent::Withdrawn(ask)) => self.withdraw(ask),
            Some(ExchangeEvent::Ended(outcome)) => self.end(outcome),
            None => self.source = Source::Nothing,
        }
    }

    fn report(&mut self, params: &Raw) {
        let token = self.token.clone().map(|token| Edit::Set("progressToken", token));
        let edits: Vec<_> = token.into_iter().chain(dialect::progress(self.session.caller.revision)).collect();
        self.say(compose::notification("notifications/progress", Some(params), &edits));
    }

    fn say(&mut self, message: bytes::Bytes) {
        self.unsaid.push_back(Said::more(message));
    }

    fn ask(&mut self, ask: ServerRequest) {
        if self.unheard {
            return ask.answer(Answer::Unavailable);
        }
        let question = &ask.details;
        let caller = &self.session.caller;
        let too_old = question.method.starts_with("elicitation/") && !caller.revision.has_elicitation();
        let undeclared = caller.capabilities.lacks(&question.method, question.params.as_ref()).is_some();
        if too_old || (undeclared && self.session.asks() == Asks::Declared) {
            let message = format!("the caller cannot be asked `{}`", question.method);
            return ask.answer(Answer::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, &message)));
        }
        let params = match question.params.as_ref() {
            Some(params) => dialect::question(caller.revision, &question.method, params).map(Some),
            None => Ok(None),
        };
        let params = match params {
            Ok(params) => params,
            Err(inexpressible) => {
                let told = dialect::told(&inexpressible);
                self.say(compose::notification("notifications/message", Some(&told), &[]));
                return ask.answer(Answer::dismissed());
            }
        };
        let (id, answer) = self.session.ask();
        let params = params.as_ref();
        let mut edits = only_with_a_session(params);
        edits.extend(self.beside_the_point(question));
        let message = compose::request(&id, &question.method, params, &edits);
        self.unsaid.push_back(Said::question(message));
        let (number, patience) = (question.id, self.session.patience());
        self.open.push((number, id));
        self.asked.get_or_insert_default().push(Box::pin(async move {
            let answer = match tokio::time::timeout(patience, answer).await {
                Ok(answered) => answered.unwrap_or_else(|_| Answer::Unavailable),
                Err(_) => Answer::too_late(&ask.details.method),
            };
            ask.answer(answer);
            number
        }));
    }

    /// A question has its answer. Where that is not the caller's, the caller need not answer any more.
    fn close(&mut self, ask: ServerRequestId) {
        if let Some(index) = self.open.iter().position(|(open, _)| *open == ask) {
            let (_, id) = self.open.swap_remove(index);
            if self.session.forget_ask(&id) {
                self.call_off(&id, "nobody answered in time");
            }
        }
    }

    /// What is said of a question beside the point: its task and its key, where it has them.
    fn beside_the_point(&self, question: &ServerRequestDetails) -> Option<Edit<'static>> {
        let task = self.task.as_ref().map(|task| Edit::Set(meta::RELATED_TASK, Raw::of(&json!({ "taskId": task }))));
        let key = question.key.as_ref().map(|key| Edit::Set(meta::ASK_KEY, Raw::of(key)));
        let keys: Vec<Edit<'_>> = task.into_iter().chain(key).collect();
        (!keys.is_empty()).then(|| meta::with_keys(question.params.as_ref(), &keys))
    }

    /// The server no longer wants to know: neither does the caller have to answer.
    fn withdraw(&mut self, ask: ServerRequestId) {
        if let Some(index) = self.open.iter().position(|(open, _)| *open == ask) {
            let (_, id) = self.open.swap_remove(index);
            self.session.forget_ask(&id);
            self.call_off(&id, "no longer needed");
        }
    }

    fn call_off(&mut self, id: &Id, reason: &str) {
        let params = Raw::of(&json!({ "reason": reason }));
        let edit = [Edit::Set("requestId", id.raw())];
        self.say(compose::notification("notifications/cancelled", Some(&params), &edit));
    }

    fn end(&mut self, outcome: Outcome) {
        self.source = Source::Nothing;
        if let Some(params) = self.meter.release() {
            self.report(&params);
        }
        let said = match outcome {
            Outcome::Answered(result) => {
                let mut edits = dialect::result(self.session.caller.revision, &self.method, &result);
                if let Some(task) = &self.task {
                    edits.retain(|edit| edit.key() != "_meta");
                    edits.push(tasks::related(Some(&meta::without_hop_keys(&result)), task));
                }
                Said::last(compose::result(&self.id, &result, &edits))
            }
            Outcome::HandedOff(task) => Said::last(compose::result(&self.id, &spelling::legacy_created(&task), &[])),
            Outcome::Refused(refusal) if refusal.code() == RpcError::URL_ELICITATION_REQUIRED => {
                self.page_first(&refusal)
            }
            Outcome::Refused(error) => self.refused(&refusal::to_stateful(error)),
            Outcome::Failed(problem) => self.failed(&problem),
            Outcome::TimedOut { kind, limit } => self.failed(&format!("no answer within {limit:?} ({kind})")),
            Outcome::Cancelled => self.failed(&"the request was given up"),
        };
        self.unsaid.push_back(said);
    }

    /// A page has to be opened first: said as it was, where the caller knows what that means, else in a sentence.
    fn page_first(&self, error: &RpcError) -> Said {
        let caller = &self.session.caller;
        let url = Raw::of(&json!({ "mode": "url" }));
        let understood = Revision::V2025_11_25 <= caller.revision;
        if understood && caller.capabilities.lacks("elicitation/create", Some(&url)).is_none() {
            return self.refused(error);
        }
        let pages = error.data().and_then(|data| data.get("elicitations")).map(|pages| pages.elements());
        let pages = pages.unwrap_or_default();
        let addresses: Vec<String> =
            pages.iter().filter_map(|page| page.get("url")?.as_str().map(String::from)).collect();
        let sentence = format!("{}; open {} first, then call again", error.message(), addresses.join(" and "));
        if self.method == "tools/call" {
            return Said::last(compose::result(&self.id, &accent::tool_error(&sentence), &[]));
        }
        self.refused(&RpcError::new(RpcError::INTERNAL, &sentence))
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> Said {
        self.refused(&RpcError::new(RpcError::INTERNAL, &problem.to_string()))
    }

    fn refused(&self, error: &RpcError) -> Said {
        Said::error(Some(&self.id), error, StatusCode::OK)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.leave_unanswered();
    }
}

/// The next question that is answered; waits for good where none is open.
async fn answered(asked: &mut Option<FuturesUnordered<BoxFuture<'static, ServerRequestId>>>) -> Option<ServerRequestId> {
    match asked {
        Some(asked) if !asked.is_empty() => asked.next().await,
        _ => std::future::pending().await,
    }
}

/// A page to open is named in a session, so that its completion can be announced.
fn only_with_a_session(params: Option<&Raw>) -> Vec<Edit<'static>> {
    let mode = params.and_then(|params| params.get("mode"));
    let url = mode.as_ref().and_then(Raw::as_str).is_some_and(|mode| mode == "url");
    let named = params.is_some_and(|params| params.get("elicitationId").is_some());
    match seal::random_token() {
        Ok(word) if url && !named => vec![Edit::Set("elicitationId", Raw::of(&word))],
        _ => Vec::new(),
    }
}
