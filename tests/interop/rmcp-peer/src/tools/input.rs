//! Tools that send server requests.
//!
//! A handshake client gets the request during the call, and the call waits. In 2026-07-28 the call ends with the
//! request, and the client calls again with the answer and the state it was given.
#![expect(deprecated, reason = "the SDK marks sampling and roots as deprecated; clients still use them")]

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateMessageRequest,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, ErrorData, InputRequest, InputRequests, InputRequiredResult,
    ListRootsRequest, ListRootsResult, SamplingMessage,
};
use rmcp::service::ServiceError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::text;
use crate::server::{Context, is_modern};

pub(super) async fn ask(call: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let requested_schema = ElicitationSchema::builder().required_string("name").build();
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "What is your name?".to_owned(),
        requested_schema: requested_schema.map_err(|error| ErrorData::internal_error(error, None))?,
    };
    let reply = match Asking::new(call, context, "name", ClientCapabilities::builder().enable_elicitation().build())? {
        Asking::Answered(reply) => Ok(reply),
        Asking::Later(question) => return Ok(question.put(InputRequest::Elicitation(ElicitRequest::new(form)))),
        Asking::Now => unless_cancelled(context, context.peer.create_elicitation(form)).await?,
        Asking::Unable => return Ok(unable()),
    };
    Ok(greeting(reply).into())
}

fn greeting(reply: Result<ElicitResult, ServiceError>) -> CallToolResult {
    match reply {
        Ok(ElicitResult { action: ElicitationAction::Accept, content, .. }) => {
            match content.as_ref().and_then(|content| content.get("name")).and_then(Value::as_str) {
                Some(name) => text(format!("hello {name}")),
                None => failure("accepted without a name"),
            }
        }
        Ok(_) => text("declined"),
        Err(error) => failure(error.to_string()),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Sample {
    prompt: String,
}

pub(super) async fn sample(
    call: &CallToolRequestParams,
    Sample { prompt }: &Sample,
    context: &Context,
) -> Result<CallToolResponse, ErrorData> {
    let request = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    let reply = match Asking::new(call, context, "sample", ClientCapabilities::builder().enable_sampling().build())? {
        Asking::Answered(reply) => Ok(reply),
        Asking::Later(question) => {
            return Ok(question.put(InputRequest::CreateMessage(CreateMessageRequest::new(request))));
        }
        Asking::Now => unless_cancelled(context, context.peer.create_message(request)).await?,
        Asking::Unable => return Ok(unable()),
    };
    Ok(quote(reply).into())
}

fn quote(reply: Result<CreateMessageResult, ServiceError>) -> CallToolResult {
    match reply {
        Ok(reply) => match reply.message.content.first().and_then(|block| block.as_text()) {
            Some(said) => text(format!("{} said {}", reply.model, said.text)),
            None => failure("sampled something else than text"),
        },
        Err(error) => failure(error.to_string()),
    }
}

pub(super) async fn roots(call: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let reply = match Asking::new(call, context, "roots", ClientCapabilities::builder().enable_roots().build())? {
        Asking::Answered(reply) => Ok(reply),
        Asking::Later(question) => return Ok(question.put(InputRequest::ListRoots(ListRootsRequest::default()))),
        Asking::Now => unless_cancelled(context, context.peer.list_roots()).await?,
        Asking::Unable => return Ok(unable()),
    };
    Ok(uris(reply).into())
}

fn uris(reply: Result<ListRootsResult, ServiceError>) -> CallToolResult {
    match reply {
        Ok(reply) => text(reply.roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join("\n")),
        Err(error) => failure(error.to_string()),
    }
}

/// How a server request is sent to this client.
enum Asking<T> {
    /// It was sent before, and this call contains the answer.
    Answered(T),
    /// As the result of this call.
    Later(Question),
    /// In the middle of this call.
    Now,
    /// The handshake client did not declare the capability.
    Unable,
}

struct Question {
    key: &'static str,
    state: String,
}

// === impl Asking ===

impl<T: DeserializeOwned> Asking<T> {
    fn new(
        call: &CallToolRequestParams,
        context: &Context,
        key: &'static str,
        needed: ClientCapabilities,
    ) -> Result<Self, ErrorData> {
        let able = context.client_capabilities().is_some_and(|has| covers(&has, &needed));
        if !is_modern(context) {
            return Ok(if able { Self::Now } else { Self::Unable });
        }
        let question = Question::new(call, key);
        match call.input_responses.as_ref() {
            Some(_) if call.request_state.as_ref() != Some(&question.state) => {
                Err(ErrorData::invalid_params("requestState is not what was given", None))
            }
            Some(responses) if responses.contains_key(key) => serde_json::from_value(responses[key].clone())
                .map(Self::Answered)
                .map_err(|error| ErrorData::invalid_params(format!("inputResponses.{key}: {error}"), None)),
            // No matching answer yet: send the request, perhaps again.
            _ if able => Ok(Self::Later(question)),
            _ => Err(ErrorData::missing_required_client_capability(needed)),
        }
    }
}

// === impl Question ===

impl Question {
    /// The state is difficult to forward on purpose: it must be returned unchanged, to the same tool.
    fn new(call: &CallToolRequestParams, key: &'static str) -> Self {
        Self { key, state: format!("{} \"q/+=.\"\t\u{e9}\u{1f511}", call.name) }
    }

    fn put(self, request: InputRequest) -> CallToolResponse {
        let requests = InputRequests::from([(self.key.to_owned(), request)]);
        InputRequiredResult::new(Some(requests), Some(self.state)).into()
    }
}

/// Whether the capabilities `has` include the needed ones.
fn covers(has: &ClientCapabilities, needed: &ClientCapabilities) -> bool {
    // An empty elicitation capability means forms.
    let forms = has.elicitation.as_ref().is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
    (needed.elicitation.is_none() || forms)
        && (needed.sampling.is_none() || has.sampling.is_some())
        && (needed.roots.is_none() || has.roots.is_some())
}

async fn unless_cancelled<T>(
    context: &Context,
    reply: impl Future<Output = Result<T, ServiceError>>,
) -> Result<Result<T, ServiceError>, ErrorData> {
    tokio::select! {
        reply = reply => Ok(reply),
        () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
    }
}

fn unable() -> CallToolResponse {
    failure("the client cannot be asked this").into()
}

fn failure(message: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}
