//! Server requests during a stateless request: collected into a round, parked with the call, and continued by the retry.

use futures_util::FutureExt;
use serde_json::json;
use tokio::time::Instant;

use super::{ModernReply, ModernSource};
use crate::{
    down::{
        accent::{self, OutgoingMessage},
        park::{ClaimError, Claimed, ParkedCall},
    },
    exchange::{Answer, ExchangeEvent, Request, ServerRequest},
    json::{JsonKind, Raw},
    message::{
        RpcError, compose, meta,
        splice::{self, Edit},
    },
    seal,
};

impl ModernReply {
    /// Adds a server request to this round, if the client supports it.
    pub(super) fn collect(&mut self, server_request: ServerRequest) {
        let details = &server_request.details;
        if !self.request.is_interactive() {
            return server_request.answer(Answer::Refused(RpcError::new(
                RpcError::INVALID_PARAMS,
                "server requests are not possible during this request",
            )));
        }
        if let Some(needed) = self.caller.capabilities.lacks(&details.method, details.params.as_ref()) {
            server_request.answer(Answer::Refused(RpcError::new(
                RpcError::METHOD_NOT_FOUND,
                "the client does not support this server request",
            )));
            let message = self.missing_capability(&needed);
            self.outgoing.push_back(message);
            self.source = ModernSource::Nothing;
            return;
        }
        let limit = self.downstream.options.limits.server_requests_per_round;
        if let ModernSource::Exchange { server_requests, since, .. } = &mut self.source {
            since.get_or_insert_with(Instant::now);
            server_requests.push((key(server_requests, &server_request), server_request));
            if limit <= server_requests.len() {
                self.park();
            }
        }
    }

    /// The round is complete: parks the exchange and sends the server requests to the client.
    pub(super) fn park(&mut self) {
        let ModernSource::Exchange { exchange, server_requests, .. } =
            std::mem::replace(&mut self.source, ModernSource::Nothing)
        else {
            return;
        };
        self.flush_progress();
        let requests = input_requests(&server_requests);
        let parked = ParkedCall { exchange, server_requests };
        let message = match self.downstream.parked.park(parked, &self.caller.principal, self.digest()) {
            Ok(state) => self.input_required(&state, requests),
            Err(error) => self.failed(&error),
        };
        self.outgoing.push_back(message);
    }

    fn input_required(&self, state: &str, requests: Raw) -> OutgoingMessage {
        let result = Raw::of(&json!({ "resultType": "input_required", "requestState": state }));
        let result = splice::edited(&result, &[Edit::Set("inputRequests", requests)]);
        OutgoingMessage::response(compose::result(&self.id, &result, &[self.server_info_edit(&result)]))
    }

    /// Continues what the handle refers to.
    pub(super) fn resume_with(&mut self, state: &Raw, responses: Option<&Raw>) -> Result<(), RpcError> {
        let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
        let state = state.as_str().ok_or_else(|| invalid("`requestState` must be a string"))?;
        match self.downstream.parked.claim(&state, &self.caller.principal, self.digest()) {
            Ok(Claimed::Parked(parked)) => self.resume(parked, responses),
            Ok(Claimed::Again) => self.repeat_call(responses),
            Err(ClaimError::Expired) => {
                let message = self.tool_error("the interaction has expired; call again");
                self.outgoing.push_back(message);
            }
            Err(error) => return Err(invalid(&error.to_string())),
        }
        Ok(())
    }

    /// Continues a parked call: passes the answers on and sends the unanswered server requests again. Pending events are
    /// handled first, because the call may have ended or its server requests may have been withdrawn.
    fn resume(&mut self, parked: ParkedCall, responses: Option<&Raw>) {
        let given = responses.map(|responses| responses.members()).unwrap_or_default();
        let (mut answered, mut unanswered) = (Vec::new(), Vec::new());
        for (key, server_request) in parked.server_requests {
            match given.iter().find(|member| member.key == key) {
                Some(member) => answered.push((server_request, member.value.clone())),
                None => unanswered.push((key, server_request)),
            }
        }
        let since = (!unanswered.is_empty()).then(Instant::now);
        self.source = ModernSource::Exchange { exchange: parked.exchange, server_requests: unanswered, since };
        // An ended exchange must not receive answers.
        if self.has_ended_meanwhile() {
            return;
        }
        answered.into_iter().for_each(|(server_request, value)| server_request.answer(Answer::Given(value)));
    }

    /// Handles pending events of the exchange; returns whether it has ended.
    fn has_ended_meanwhile(&mut self) -> bool {
        // At most what the queue can hold; later events are handled as usual.
        for _ in 0..2 * self.downstream.options.limits.unread_events {
            let ModernSource::Exchange { exchange, .. } = &mut self.source else { return false };
            let Some(event) = exchange.next().now_or_never() else { return false };
            let ended = matches!(event, Some(ExchangeEvent::Ended(_)) | None);
            self.take(event);
            if ended {
                return true;
            }
        }
        false
    }

    /// Repeats a call after a URL elicitation, unless the client declined it.
    fn repeat_call(&mut self, responses: Option<&Raw>) {
        let given = responses.map(|responses| responses.members()).unwrap_or_default();
        let declined =
            |answer: &Raw| answer.get("action").is_some_and(|action| action.as_str().as_deref() != Some("accept"));
        if given.iter().any(|member| declined(&member.value)) {
            let message = self.tool_error("the required URL elicitation was declined");
            self.outgoing.push_back(message);
        } else {
            self.open_exchange();
        }
    }

    /// A URL elicitation is required first: sent as a server request whose answer repeats the call.
    pub(super) fn url_elicitation_required(&self, error: &RpcError) -> OutgoingMessage {
        let page = |entry: &Raw| {
            let [message, url, id] = entry.fields(["message", "url", "elicitationId"]);
            let (mode, url) = (Raw::of("url"), url?);
            let message = message.unwrap_or_else(|| Raw::of(&error.message()));
            // Not defined in this revision, but clients written for it expect it.
            let id = id.iter().map(|id| ("elicitationId", id));
            let params = splice::object([("mode", &mode), ("message", &message), ("url", &url)].into_iter().chain(id));
            Some(splice::object([("method", &Raw::of("elicitation/create")), ("params", &params)]))
        };
        let entries = error.data().and_then(|data| data.get("elicitations")).map(|entries| entries.elements());
        let pages: Vec<Raw> = entries.unwrap_or_default().iter().filter_map(page).collect();
        let limit = self.downstream.options.limits.server_requests_per_round;
        if pages.is_empty() || limit < pages.len() {
            return self.failed(&error);
        }
        if let Some(needed) = self.caller.capabilities.lacks("elicitation/create", pages[0].get("params").as_ref()) {
            return self.missing_capability(&needed);
        }
        let keys: Vec<String> = (1..=pages.len()).map(|number| format!("page-{number}")).collect();
        let requests = splice::object(keys.iter().map(String::as_str).zip(&pages));
        match self.downstream.parked.again(&self.caller.principal, self.digest()) {
            Ok(state) => self.input_required(&state, requests),
            Err(error) => self.failed(&error),
        }
    }

    /// Error that names the capability the client must declare.
    fn missing_capability(&self, needed: &Raw) -> OutgoingMessage {
        let data = splice::object([("requiredCapabilities", needed)]);
        let error =
            RpcError::new(RpcError::MISSING_CAPABILITY, "the client lacks a capability that this request requires");
        let error = RpcError::from_raw(splice::edited(error.raw(), &[Edit::Set("data", data)]));
        OutgoingMessage::error(Some(&self.id), &error, http::StatusCode::BAD_REQUEST)
    }

    /// A tool result with `isError` for a tool call, else an error.
    fn tool_error(&self, text: &str) -> OutgoingMessage {
        match self.request.method() {
            "tools/call" => self.answered(&accent::tool_error(text)),
            _ => self.failed(&text),
        }
    }
}

/// Checks the shape of the answers in a retry.
pub(super) fn well_formed(responses: &Raw) -> Result<(), RpcError> {
    let good = responses.kind() == JsonKind::Object
        && responses.members().iter().all(|member| member.value.kind() == JsonKind::Object);
    let refusal =
        || RpcError::new(RpcError::INVALID_PARAMS, "`inputResponses` must be an object whose values are objects");
    good.then_some(()).ok_or_else(refusal)
}

/// Digest to which a handle is bound: equal for the same request, whatever its formatting.
pub(super) fn digest(request: &Request) -> String {
    let params = request.params().map(|params| splice::edited(params, &[Edit::Remove("_meta")]));
    let mut canonical = Vec::new();
    if let Some(params) = params {
        params.write_canonical(&mut canonical);
    }
    seal::fingerprint([request.method().as_bytes(), &canonical])
}

/// Key of a server request: the server's, or a new one.
fn key(server_requests: &[(String, ServerRequest)], server_request: &ServerRequest) -> String {
    let is_free = |key: &String| server_requests.iter().all(|(taken, _)| taken != key);
    let ours = (1..).map(|number| format!("ask-{number}"));
    server_request.details.key.clone().into_iter().chain(ours).find(is_free).unwrap_or_default()
}

/// `inputRequests` of these server requests, by key: without `task`, which exists only in sessions, otherwise byte for
/// byte. An `elicitationId` of the server stays: clients of this revision expect it.
fn input_requests(server_requests: &[(String, ServerRequest)]) -> Raw {
    let encode = |server_request: &ServerRequest| {
        let method = Raw::of(&server_request.details.method);
        let edits = [Edit::Remove("task")];
        let params =
            server_request.details.params.as_ref().map(|it| splice::edited(&meta::without_hop_keys(it), &edits));
        splice::object([("method", &method)].into_iter().chain(params.iter().map(|it| ("params", it))))
    };
    let encoded: Vec<(&str, Raw)> =
        server_requests.iter().map(|(key, request)| (key.as_str(), encode(request))).collect();
    splice::object(encoded.iter().map(|(key, request)| (*key, request)))
}
