//! Questions of a stateless caller's request: gathered into a round, parked with it, and taken up with the retry.

use futures_util::FutureExt;
use serde_json::json;
use tokio::time::Instant;

use super::{Reply, Source};
use crate::{
    down::{
        accent::{self, Said},
        park::{Claimed, Dishonoured, Parked},
    },
    exchange::{Answer, ServerRequest, ExchangeEvent, Request},
    json::{Kind, Raw},
    message::{
        RpcError, compose, meta,
        splice::{self, Edit},
    },
    seal,
};

impl Reply {
    /// One more question for this round, if the caller can be asked it.
    pub(super) fn gather(&mut self, ask: ServerRequest) {
        let question = &ask.details;
        if !self.request.is_interactive() {
            return ask.answer(Answer::Refused(RpcError::new(
                RpcError::INVALID_PARAMS,
                "nothing can be asked during this request",
            )));
        }
        if let Some(needed) = self.caller.capabilities.lacks(&question.method, question.params.as_ref()) {
            ask.answer(Answer::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "the caller cannot be asked this")));
            let said = self.lacking(&needed);
            self.unsaid.push_back(said);
            self.source = Source::Nothing;
            return;
        }
        let limit = self.downstream.options.limits.server_requests_per_round;
        if let Source::Exchange { asks, since, .. } = &mut self.source {
            since.get_or_insert_with(Instant::now);
            asks.push((key(asks, &ask), ask));
            if limit <= asks.len() {
                self.park();
            }
        }
    }

    /// The round is complete: the exchange waits, and the caller gets the questions.
    pub(super) fn park(&mut self) {
        let Source::Exchange { exchange, asks, .. } = std::mem::replace(&mut self.source, Source::Nothing) else {
            return;
        };
        self.catch_up();
        let requests = asked(&asks);
        let parked = Parked { exchange, asks };
        let said = match self.downstream.parked.park(parked, &self.caller.principal, self.digest()) {
            Ok(state) => self.input_required(&state, requests),
            Err(error) => self.failed(&error),
        };
        self.unsaid.push_back(said);
    }

    fn input_required(&self, state: &str, requests: Raw) -> Said {
        let result = Raw::of(&json!({ "resultType": "input_required", "requestState": state }));
        let result = splice::edited(&result, &[Edit::Set("inputRequests", requests)]);
        Said::last(compose::result(&self.id, &result, &[self.signed(&result)]))
    }

    /// Goes on with what a handle stands for.
    pub(super) fn go_on_with(&mut self, state: &Raw, responses: Option<&Raw>) -> Result<(), RpcError> {
        let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
        let state = state.as_str().ok_or_else(|| invalid("requestState must be a string"))?;
        match self.downstream.parked.claim(&state, &self.caller.principal, self.digest()) {
            Ok(Claimed::Parked(parked)) => self.resume(parked, responses),
            Ok(Claimed::Again) => self.again(responses),
            Err(Dishonoured::Over) => {
                let said = self.tool_error("interaction expired, call again");
                self.unsaid.push_back(said);
            }
            Err(dishonoured) => return Err(invalid(&dishonoured.to_string())),
        }
        Ok(())
    }

    /// Goes on with a parked call: what was answered is answered, the rest is asked again. What happened to the call
    /// meanwhile is looked at first: it may be over, or want to know no longer.
    fn resume(&mut self, parked: Parked, responses: Option<&Raw>) {
        let given = responses.map(|responses| responses.members()).unwrap_or_default();
        let (mut answered, mut unanswered) = (Vec::new(), Vec::new());
        for (key, ask) in parked.asks {
            match given.iter().find(|member| member.key == key) {
                Some(member) => answered.push((ask, member.value.clone())),
                None => unanswered.push((key, ask)),
            }
        }
        let since = (!unanswered.is_empty()).then(Instant::now);
        self.source = Source::Exchange { exchange: parked.exchange, asks: unanswered, since };
        // An answer to what is over would be acted on by nobody, or by somebody who should not.
        if self.is_over_meanwhile() {
            return;
        }
        answered.into_iter().for_each(|(ask, value)| ask.answer(Answer::Given(value)));
    }

    /// Takes what has happened to the exchange so far; whether that was its end.
    fn is_over_meanwhile(&mut self) -> bool {
        // As much as can be waiting; whoever tells more than that tells it now.
        for _ in 0..2 * self.downstream.options.limits.unread_events {
            let Source::Exchange { exchange, .. } = &mut self.source else { return false };
            let Some(happening) = exchange.next().now_or_never() else { return false };
            let over = matches!(happening, Some(ExchangeEvent::Ended(_)) | None);
            self.take(happening);
            if over {
                return true;
            }
        }
        false
    }

    /// A page had to be opened first: where it was, the call is simply made again.
    fn again(&mut self, responses: Option<&Raw>) {
        let given = responses.map(|responses| responses.members()).unwrap_or_default();
        let said_no =
            |answer: &Raw| answer.get("action").is_some_and(|action| action.as_str().as_deref() != Some("accept"));
        if given.iter().any(|member| said_no(&member.value)) {
            let said = self.tool_error("the page that has to be opened first was declined");
            self.unsaid.push_back(said);
        } else {
            self.put();
        }
    }

    /// A session would be told to open a page first; here that is a question, and its answer is the same call again.
    pub(super) fn page_first(&self, error: &RpcError) -> Said {
        let page = |entry: &Raw| {
            let [message, url] = entry.fields(["message", "url"]);
            let mode = Raw::of("url");
            let message = message.unwrap_or_else(|| Raw::of(&error.message()));
            let params = splice::object([("mode", &mode), ("message", &message), ("url", &url?)]);
            Some(splice::object([("method", &Raw::of("elicitation/create")), ("params", &params)]))
        };
        let entries = error.data().and_then(|data| data.get("elicitations")).map(|entries| entries.elements());
        let pages: Vec<Raw> = entries.unwrap_or_default().iter().filter_map(page).collect();
        let limit = self.downstream.options.limits.server_requests_per_round;
        if pages.is_empty() || limit < pages.len() {
            return self.failed(&error);
        }
        if let Some(needed) = self.caller.capabilities.lacks("elicitation/create", pages[0].get("params").as_ref()) {
            return self.lacking(&needed);
        }
        let keys: Vec<String> = (1..=pages.len()).map(|number| format!("page-{number}")).collect();
        let requests = splice::object(keys.iter().map(String::as_str).zip(&pages));
        match self.downstream.parked.again(&self.caller.principal, self.digest()) {
            Ok(state) => self.input_required(&state, requests),
            Err(error) => self.failed(&error),
        }
    }

    /// What the caller would have to declare.
    fn lacking(&self, needed: &Raw) -> Said {
        let data = splice::object([("requiredCapabilities", needed)]);
        let error = RpcError::new(RpcError::MISSING_CAPABILITY, "the caller lacks a capability this needs");
        let error = RpcError::from_raw(splice::edited(error.raw(), &[Edit::Set("data", data)]));
        Said::error(Some(&self.id), &error, http::StatusCode::BAD_REQUEST)
    }

    /// An end that whoever called a tool can read, and an error for everybody else.
    fn tool_error(&self, text: &str) -> Said {
        match self.request.method() {
            "tools/call" => self.answered(&accent::tool_error(text)),
            _ => self.failed(&text),
        }
    }
}

/// The answers a retry brings, if they are well-formed.
pub(super) fn well_formed(responses: &Raw) -> Result<(), RpcError> {
    let good = responses.kind() == Kind::Object
        && responses.members().iter().all(|member| member.value.kind() == Kind::Object);
    let refusal = || RpcError::new(RpcError::INVALID_PARAMS, "inputResponses must be an object of result objects");
    good.then_some(()).ok_or_else(refusal)
}

/// What a handle is bound to: the same request, however its caller writes it down the second time.
pub(super) fn digest(request: &Request) -> String {
    let params = request.params().map(|params| splice::edited(params, &[Edit::Remove("_meta")]));
    let mut canonical = Vec::new();
    if let Some(params) = params {
        params.write_canonical(&mut canonical);
    }
    seal::fingerprint([request.method().as_bytes(), &canonical])
}

/// The key a question goes by: its server's, or one of ours.
fn key(asks: &[(String, ServerRequest)], ask: &ServerRequest) -> String {
    let is_free = |key: &String| asks.iter().all(|(taken, _)| taken != key);
    let ours = (1..).map(|number| format!("ask-{number}"));
    ask.details.key.clone().into_iter().chain(ours).find(is_free).unwrap_or_default()
}

/// The questions as this revision spells them, under their keys: without what only a session understands, and with
/// every other byte as it came.
fn asked(asks: &[(String, ServerRequest)]) -> Raw {
    let asked = |ask: &ServerRequest| {
        let method = Raw::of(&ask.details.method);
        let edits = [Edit::Remove("task"), Edit::Remove("elicitationId")];
        let params = ask.details.params.as_ref().map(|it| splice::edited(&meta::without_hop_keys(it), &edits));
        splice::object([("method", &method)].into_iter().chain(params.iter().map(|it| ("params", it))))
    };
    let asked: Vec<(&str, Raw)> = asks.iter().map(|(key, ask)| (key.as_str(), asked(ask))).collect();
    splice::object(asked.iter().map(|(key, question)| (*key, question)))
}
