//! The upstream accent of the stateless revision: every request is self-contained, server requests come as an
//! `input_required` result.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;

use super::{
    accent::{
        Accent, CancelTarget, CapabilityScope, ChangeDelivery, InputRound, InterpretedResponse, ServerRequestKind,
        TaskModel,
    },
    handshake::{self, ClientProfile},
    legacy,
    transport::{LinkKind, Outbound},
};
use crate::{
    exchange::{Answer, Cause, Handover, LogLevel, Progress, Request, ServerRequestDetails, ServerRequestId},
    header::{self, ParamHeader},
    json::{JsonKind, Raw},
    limit::Limits,
    message::{
        ClientCapabilities, Id, RpcError, capability, compose,
        item::{self, Tool},
        meta,
        result::{CacheHint, ResultType},
        splice::{self, Edit},
    },
    revision::{Era, Revision},
    task::Task,
};

/// Codec for a server of 2026-07-28.
#[derive(Debug)]
pub(crate) struct Modern {
    revision: Revision,
    link_kind: LinkKind,
    /// Default capabilities of a request.
    capabilities: ClientCapabilities,
    /// `_meta` of every request, except for the capabilities.
    client_meta: Raw,
    limits: Limits,
    /// Log level of every request that does not set its own.
    log_level: Mutex<Option<LogLevel>>,
    /// Headers required by the tools' schemas, by tool name. No await under this lock.
    tool_headers: Mutex<HashMap<String, Vec<ParamHeader>>>,
}

impl Accent for Modern {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn request(&self, id: u64, request: &Request, round: Option<&InputRound>) -> Outbound {
        let meta = self.meta(id, request);
        let message = match (round, &request.answers) {
            (None, None) => compose::request(&Id::number(id), request.method(), request.params(), &[meta]),
            (round, supplied) => {
                let answers = round.map_or(supplied, |round| &round.answers);
                let mut edits = vec![meta];
                edits.extend(answers.iter().map(|answers| Edit::Set("inputResponses", answers.clone())));
                edits.extend(round.map(|round| match &round.state {
                    Some(state) => Edit::Set("requestState", state.clone()),
                    None => Edit::Remove("requestState"),
                }));
                compose::request(&Id::number(id), request.method(), request.params(), &edits)
            }
        };
        let headers = match self.link_kind {
            LinkKind::Http => self.headers(request),
            LinkKind::Stream => Vec::new(),
        };
        Outbound { message, request: Some(id), headers, mark: None }
    }

    fn result(&self, request: &Request, result: Raw, result_type: ResultType) -> InterpretedResponse {
        match result_type {
            ResultType::Complete => InterpretedResponse::Complete(result),
            ResultType::InputRequired if request.is_interactive() => self.input_required(request, &result),
            ResultType::Task if request.method() == "tools/call" => match Task::view(&result) {
                Some(task) => InterpretedResponse::Task(task),
                None => InterpretedResponse::Invalid("the task has no `taskId` or `status`".to_owned()),
            },
            ResultType::InputRequired | ResultType::Task => {
                InterpretedResponse::Invalid(format!("`{}` does not allow this result type", request.method()))
            }
            ResultType::Unknown(name) => InterpretedResponse::Invalid(format!("unknown `resultType` {name}")),
        }
    }

    fn error(&self, _request: &Request, error: RpcError) -> InterpretedResponse {
        match error.code() {
            RpcError::HEADER_MISMATCH => InterpretedResponse::StaleHeaders(error),
            RpcError::UNSUPPORTED_VERSION => match supported(&error) {
                Some(revision) => InterpretedResponse::OtherRevision(revision),
                None => InterpretedResponse::Refused(error),
            },
            _ => InterpretedResponse::Refused(error),
        }
    }

    fn classify_request(&self, _method: &str, _params: Option<&Raw>) -> ServerRequestKind {
        ServerRequestKind::Violation
    }

    fn cancel_target(&self) -> CancelTarget {
        CancelTarget::Subscriptions
    }

    fn cancellation(&self, id: u64, reason: &str) -> Option<Bytes> {
        match self.link_kind {
            LinkKind::Stream => Some(legacy::cancelled_notification(id, reason)),
            LinkKind::Http => None,
        }
    }

    fn learn_tools(&self, result: &Raw) {
        if !header::may_have_annotations(result) && self.tool_headers.lock().is_empty() {
            return;
        }
        let Ok((tools, _)) = item::read_items_within::<Tool>(result, self.limits.listing_items) else { return };
        let mut known = self.tool_headers.lock();
        for tool in tools {
            match header::param_headers(&tool.input_schema) {
                Ok(headers) if !headers.is_empty() && known.len() < self.limits.listing_items => {
                    known.insert(tool.name, headers);
                }
                _ => drop(known.remove(&tool.name)),
            }
        }
    }

    /// Rejects a tool whose schema has an invalid `x-mcp-header` annotation.
    fn rejection_reason(&self, tool: &Tool) -> Option<String> {
        match self.link_kind {
            LinkKind::Http => header::param_headers(&tool.input_schema).err().map(|invalid| invalid.to_string()),
            LinkKind::Stream => None,
        }
    }

    fn task_model(&self) -> TaskModel {
        TaskModel::Polled
    }

    fn task_notification(&self) -> &'static str {
        "notifications/tasks"
    }

    fn result_lifetime(&self, result: &Raw) -> Option<Duration> {
        Some(CacheHint::view(result).ttl)
    }

    fn capability_scope(&self) -> CapabilityScope {
        CapabilityScope::PerRequest
    }

    fn change_delivery(&self) -> ChangeDelivery {
        ChangeDelivery::SubscriptionStream
    }

    /// This revision has no `ping`.
    fn ping_method(&self) -> &'static str {
        "server/discover"
    }

    fn completes_in_context(&self) -> bool {
        true
    }

    fn log_level_request(&self, level: LogLevel) -> Option<Request> {
        *self.log_level.lock() = Some(level);
        None
    }
}

impl Modern {
    pub(super) fn new(revision: Revision, link_kind: LinkKind, client: &ClientProfile, limits: Limits) -> Self {
        Self {
            revision,
            link_kind,
            capabilities: client.capabilities.without_root_changes(),
            client_meta: handshake::client_meta(client, revision),
            limits,
            log_level: Mutex::default(),
            tool_headers: Mutex::default(),
        }
    }

    /// The edit that sets the request's `_meta`, with the keys that every request of this era carries.
    fn meta(&self, id: u64, request: &Request) -> Edit<'static> {
        // `client_meta` has none of these keys, so they are added without a lookup.
        let mut keys = Vec::with_capacity(3);
        keys.push(Edit::Add(meta::CLIENT_CAPABILITIES, self.declared(request).0));
        if let Some(level) = request.log_level.or(*self.log_level.lock()).or(request.default_log_level) {
            keys.push(Edit::Add(meta::LOG_LEVEL, Raw::of(level.as_str())));
        }
        if request.progress == Progress::Wanted {
            keys.push(Edit::Add(meta::PROGRESS_TOKEN, Raw::of(&id)));
        }
        let ours = splice::edited(&self.client_meta, &keys);
        request.edit_meta(match request.meta().filter(|theirs| theirs.kind() == JsonKind::Object) {
            Some(theirs) => splice::merged(&theirs, &ours),
            None => ours,
        })
    }

    /// Capabilities that a request declares.
    fn declared(&self, request: &Request) -> ClientCapabilities {
        let given = request.capabilities.as_ref().map(ClientCapabilities::without_root_changes);
        match (request.handover, given) {
            (Handover::Never, None) => self.capabilities.clone(),
            (Handover::Never, Some(given)) => given.without_extension(capability::TASKS),
            (Handover::Allowed | Handover::Wanted(_), given) => {
                given.as_ref().unwrap_or(&self.capabilities).with_extension(capability::TASKS)
            }
        }
    }

    fn headers(&self, request: &Request) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = header::standard(self.revision, request.method(), request.params());
        if request.method() == "tools/call" && !self.tool_headers.lock().is_empty() {
            let name = request.param("name");
            let name = name.as_ref().and_then(Raw::as_str).unwrap_or_default();
            if let Some(annotated) = self.tool_headers.lock().get(&*name) {
                headers.extend(header::from_arguments(annotated, request.param("arguments").as_ref()));
            }
        }
        headers
    }

    /// Parses an `input_required` result; undeclared or too many server requests fail the call.
    fn input_required(&self, request: &Request, result: &Raw) -> InterpretedResponse {
        let state = result.get("requestState");
        if state.as_ref().is_some_and(|state| self.limits.request_state_bytes < state.as_bytes().len()) {
            return InterpretedResponse::TooLarge("requestState", self.limits.request_state_bytes);
        }
        let requests = result.get("inputRequests");
        if requests.is_none() && state.is_none() {
            return InterpretedResponse::Invalid(
                "`input_required` result without `inputRequests` or `requestState`".to_owned(),
            );
        }
        if requests.as_ref().is_some_and(|requests| requests.kind() != JsonKind::Object) {
            return InterpretedResponse::Invalid("`inputRequests` is not an object".to_owned());
        }
        let requests = requests.unwrap_or_else(Raw::empty_object);
        let mut count = 0;
        requests.each_key(|_| count += 1);
        if self.limits.server_requests_per_round < count {
            return InterpretedResponse::TooLarge(
                "number of server requests at once",
                self.limits.server_requests_per_round,
            );
        }
        let members = requests.members();
        let mut keys: Vec<&str> = members.iter().map(|member| member.key.as_str()).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) || keys.contains(&"\u{fffd}") {
            return InterpretedResponse::Invalid(
                "`inputRequests` has a duplicate key or a key that is not valid text".to_owned(),
            );
        }
        let declared = request.capabilities.as_ref().unwrap_or(&self.capabilities);
        let mut details = Vec::new();
        for member in members {
            let method = member.value.get("method").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
            let params = member.value.get("params");
            if let Some(needed) = declared.lacks(&method, params.as_ref()) {
                return InterpretedResponse::Invalid(format!(
                    "the server requested `{method}`, but {needed} was not declared"
                ));
            }
            details.push(ServerRequestDetails {
                // The call assigns the id.
                id: ServerRequestId(0),
                key: Some(member.key),
                method,
                params,
                cause: Cause::Request,
            });
        }
        InterpretedResponse::InputRequired(details, state)
    }
}

/// The newest stateless revision that both sides support, from the data of an error.
pub(super) fn supported(error: &RpcError) -> Option<Revision> {
    let listed = error.data()?.get("supported")?.elements();
    newest(&listed, Era::Modern)
}

/// The newest revision of this era in a list of strings.
pub(super) fn newest(listed: &[Raw], era: Era) -> Option<Revision> {
    Revision::of(era)
        .rev()
        .find(|revision| listed.iter().any(|text| text.as_str().as_deref() == Some(revision.as_str())))
}

/// Builds `inputResponses` from answers by key; `requests` are pairs of key and method. `None` without requests. Only
/// elicitation can be refused in this revision: an error answer becomes a closed form, unless it says that the client does
/// not support the request. Any other refusal, and [`Answer::Unavailable`], fails the call.
pub(super) fn gather_answers(requests: &[(String, String)], answers: Vec<Answer>) -> Result<Option<Raw>, RpcError> {
    let given = |((_, method), answer): (&(String, String), Answer)| match answer {
        Answer::Refused(_) if method == "elicitation/create" && answer.is_missing() => Ok(Answer::closed_form()),
        answer => answer.into_result(),
    };
    let answers = requests.iter().zip(answers).map(given).collect::<Result<Vec<Raw>, RpcError>>()?;
    let by_key = requests.iter().map(|(key, _)| key.as_str()).zip(&answers);
    Ok((!requests.is_empty()).then(|| splice::object(by_key)))
}

#[cfg(test)]
mod tests {
    use super::gather_answers;
    use crate::{exchange::Answer, message::RpcError};

    #[test]
    fn refused_form_is_closed_and_unavailable_handler_fails_the_call() {
        let request = |method: &str| [("k".to_owned(), method.to_owned())];
        let unavailable = || Answer::Unavailable.into_result().unwrap_err();
        let closed =
            gather_answers(&request("elicitation/create"), vec![Answer::Refused(unavailable())]).unwrap().unwrap();
        assert_eq!(closed.to_string(), r#"{"k":{"action":"cancel"}}"#, "even with the error of an unavailable handler");
        let unsupported = Answer::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "not supported"));
        assert!(gather_answers(&request("elicitation/create"), vec![unsupported]).is_err(), "no user cancelled");
        let ended = gather_answers(&request("elicitation/create"), vec![Answer::Unavailable]).unwrap_err();
        assert_eq!(ended.code(), RpcError::INTERNAL);
        assert!(gather_answers(&request("sampling/createMessage"), vec![Answer::Refused(unavailable())]).is_err());
        assert_eq!(gather_answers(&[], Vec::new()).unwrap(), None);
    }
}
