//! The loop: a request to the model, its tool calls in parallel, the next request.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures_util::{StreamExt, future::join_all};
use parking_lot::Mutex;
use serde_json::Value;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallOutcome, CallRequest, Caller, Target, VisibleServers},
    catalog::Origin,
    policy::{Refusal, Surface},
};
use toolway_model::{
    Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, StopReason, ToolCall, ToolResult, Usage,
};
use toolway_wire::json::Raw;

use crate::{
    budget::{Budget, Spent, Stop},
    builtin::Builtin,
    conversation::Conversation,
    result, system,
    tools::{ToolSet, Visible, Wanted},
};

/// Bytes of long results that are kept for `read_result`.
const MAX_KEPT: usize = 64 * 1024 * 1024;

/// An agent: a host, a model, and how they work together.
#[derive(Debug)]
pub struct Agent {
    host: Host,
    model: Arc<dyn Model>,
    options: AgentOptions,
    /// Long results, by id. No await under this lock.
    kept: Mutex<HashMap<String, String>>,
}

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The surface it works for: `Chat`, `Run` or `Console`.
    pub surface: Surface,
    /// The user's system prompt.
    pub system: String,
    /// The servers it sees; `None`: all.
    pub servers: Option<BTreeSet<ServerName>>,
    /// Limits of one answer.
    pub budget: Budget,
    /// Limit of output tokens of one request; `None`: the model's.
    pub max_output: Option<u64>,
    /// Whether the model gets a tool to read resources.
    pub resources: bool,
    /// Whether the model gets a tool to get prompts.
    pub prompts: bool,
    /// JSON Schema that the answer must match.
    pub answer_schema: Option<Value>,
}

/// Something that happens while an agent answers.
#[derive(Clone, Debug)]
pub enum AgentEvent<'a> {
    /// An event of the model.
    Model(&'a ModelEvent),
    /// A tool is left out, with the reason.
    LeftOut(&'a str),
    /// A call begins.
    CallStarted(&'a ToolCall),
    /// A call has ended.
    CallEnded(&'a MadeCall, &'a ToolResult),
}

/// A call that was made for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeCall {
    /// Name as the model knows it.
    pub name: String,
    /// How it ended.
    pub state: CallState,
    /// Id in the records; `None` if it was not made.
    pub call_id: Option<String>,
}

/// How a call ended, as far as an agent's caller acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// With a result.
    Succeeded,
    /// With a result that reports an error.
    ToolError,
    /// Refused by policy, a user or a limit.
    Refused,
    /// Refused because no user could be asked.
    ApproverUnavailable,
    /// Failed, timed out or cancelled.
    Failed,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Text of the last message.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// Requests to the model.
    pub turns: u32,
    /// Calls in the order they were asked for.
    pub calls: Vec<MadeCall>,
    /// Tokens of all requests.
    pub usage: Usage,
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AgentError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl CallState {
    /// The word for scripts, as in call records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::ToolError => "tool-error",
            Self::Refused | Self::ApproverUnavailable => "refused",
            Self::Failed => "failed",
        }
    }

    fn of(outcome: &CallOutcome) -> Self {
        match outcome {
            CallOutcome::Answered(_) if outcome.is_tool_error() => Self::ToolError,
            CallOutcome::Answered(_) | CallOutcome::HandedOff(_) => Self::Succeeded,
            CallOutcome::Refused(Refusal::ApproverUnavailable { .. }) => Self::ApproverUnavailable,
            CallOutcome::Refused(_) => Self::Refused,
            CallOutcome::Failed(_) | CallOutcome::Cancelled | CallOutcome::TimedOut { .. } => Self::Failed,
        }
    }
}

impl Agent {
    /// An agent on a host.
    pub fn new(host: Host, model: Arc<dyn Model>, options: AgentOptions) -> Self {
        Self { host, model, options, kept: Mutex::default() }
    }

    /// Answers one message of the user. Everything that happened stays in the conversation, also if this fails or its
    /// future is dropped.
    pub async fn answer(
        &self,
        conversation: &mut Conversation,
        text: &str,
        observe: &mut (dyn FnMut(AgentEvent<'_>) + Send),
    ) -> Result<Answer, AgentError> {
        conversation.begin(text, self.model.name(), self.options.surface.as_str()).await;
        conversation.push(Message::user(text)).await;
        let visible = Visible(self.options.servers.clone());
        let (wire, options) = (self.model.wire(), &self.options);
        let tools = ToolSet::of(&self.host, wire, &visible, options.resources, options.prompts);
        tools.left_out.iter().for_each(|reason| observe(AgentEvent::LeftOut(reason)));
        let is_visible = |server: &str| server.parse().is_ok_and(|server| visible.covers(&server));
        let system = system::prompt(&self.host, &options.system, is_visible);
        let mut spent = Spent::new(options.budget);
        let mut calls = Vec::new();
        let stop = loop {
            if let Some(stop) = spent.exhausted() {
                break stop;
            }
            spent.turns += 1;
            let request = ModelRequest {
                system: system.clone(),
                messages: conversation.messages().to_vec(),
                tools: tools.definitions.clone(),
                max_tokens: options.max_output,
                answer_schema: options.answer_schema.clone(),
            };
            let (reason, message, usage) = self.ask(request, observe).await?;
            spent.usage += usage;
            let wanted: Vec<ToolCall> = message.tool_calls().cloned().collect();
            conversation.push(message).await;
            match reason {
                _ if !wanted.is_empty() => {}
                StopReason::MaxTokens => break Stop::MaxOutput,
                StopReason::Refused => break Stop::Refused,
                StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other(_) => break Stop::Done,
            }
            let results = self.call_all(&wanted, &tools, &mut spent, conversation.id(), observe).await;
            let (made, results): (Vec<MadeCall>, Vec<ToolResult>) = results.into_iter().unzip();
            calls.extend(made);
            conversation.push(Message::tool_results(results)).await;
        };
        let text = conversation.messages().iter().rfind(|message| !message.text().is_empty());
        let text = text.filter(|message| message.role == toolway_model::Role::Assistant).map(Message::text);
        Ok(Answer { text: text.unwrap_or_default(), stop, turns: spent.turns, calls, usage: spent.usage })
    }

    /// One request to the model.
    async fn ask(
        &self,
        request: ModelRequest,
        observe: &mut (dyn FnMut(AgentEvent<'_>) + Send),
    ) -> Result<(StopReason, Message, Usage), ModelError> {
        let mut stream = self.model.stream(request);
        let mut usage = Usage::default();
        while let Some(event) = stream.next().await {
            let event = event?;
            observe(AgentEvent::Model(&event));
            match event {
                ModelEvent::Usage(figures) => usage = figures,
                ModelEvent::End { reason, message } => return Ok((reason, message, usage)),
                _ => {}
            }
        }
        Err(ModelError::new(self.model.name(), ModelErrorKind::Cut))
    }

    /// Makes the calls of one message concurrently; their results have the order of the calls.
    async fn call_all(
        &self,
        wanted: &[ToolCall],
        tools: &ToolSet,
        spent: &mut Spent,
        conversation: &Arc<str>,
        observe: &mut (dyn FnMut(AgentEvent<'_>) + Send),
    ) -> Vec<(MadeCall, ToolResult)> {
        let allowed: Vec<Result<(), String>> = wanted.iter().map(|call| spent.count_call(call)).collect();
        wanted.iter().for_each(|call| observe(AgentEvent::CallStarted(call)));
        let calls = wanted.iter().zip(allowed).map(|(call, allowed)| async move {
            match allowed {
                Ok(()) => self.call(call, tools, conversation).await,
                Err(why) => not_made(call, why),
            }
        });
        let all = join_all(calls);
        let results = match spent.remaining_time() {
            Some(left) => match tokio::time::timeout(left, all).await {
                Ok(results) => results,
                Err(_) => wanted.iter().map(|call| not_made(call, "the time is over".to_owned())).collect(),
            },
            None => all.await,
        };
        results.iter().for_each(|(made, result)| observe(AgentEvent::CallEnded(made, result)));
        results
    }

    async fn call(&self, call: &ToolCall, tools: &ToolSet, conversation: &Arc<str>) -> (MadeCall, ToolResult) {
        let Some(wanted) = tools.find(&call.name) else {
            return not_made(call, format!("unknown tool `{}`", call.name));
        };
        if !call.arguments.is_object() {
            return not_made(call, format!("the arguments are not a JSON object: {}", call.arguments));
        }
        let target = match wanted {
            Wanted::Tool(name) => Ok((Target::Tool(name), Some(Raw::of(&call.arguments)))),
            Wanted::Builtin(Builtin::ReadResult) => return self.read_result(call),
            Wanted::Builtin(builtin) => target_of(builtin, &call.arguments),
        };
        let (target, arguments) = match target {
            Ok(target) => target,
            Err(why) => return not_made(call, why),
        };
        let visible = self.options.servers.clone().map_or(VisibleServers::All, |servers| servers.into_iter().collect());
        let request = CallRequest {
            surface: self.options.surface,
            conversation: Some(Arc::clone(conversation)),
            arguments,
            visible,
            ..CallRequest::new(Caller::Agent(Arc::clone(conversation)), target)
        };
        let relay = self.host.open(request);
        let id = relay.id().to_string();
        let outcome = relay.outcome().await;
        let shown = result::show(&call.id, &call.name, &outcome, &id);
        if let Some(rest) = shown.rest {
            self.keep(&id, rest);
        }
        (MadeCall { name: call.name.clone(), state: CallState::of(&outcome), call_id: Some(id) }, shown.result)
    }

    /// Keeps a long result. When all of them exceed the bound, the earlier ones are dropped.
    fn keep(&self, id: &str, rest: String) {
        let mut kept = self.kept.lock();
        if kept.values().map(String::len).sum::<usize>() + rest.len() > MAX_KEPT {
            kept.clear();
        }
        if rest.len() <= MAX_KEPT {
            kept.insert(id.to_owned(), rest);
        }
    }

    fn read_result(&self, call: &ToolCall) -> (MadeCall, ToolResult) {
        let id = call.arguments["id"].as_str().unwrap_or_default();
        let offset =
            call.arguments["offset"].as_u64().and_then(|offset| usize::try_from(offset).ok()).unwrap_or_default();
        let Some(text) = self.kept.lock().get(id).map(|whole| result::page(whole, offset, id)) else {
            return not_made(call, format!("there is no cut result `{id}`"));
        };
        let content = vec![toolway_model::ResultPart::Text { text }];
        let result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), content, is_error: false };
        (MadeCall { name: call.name.clone(), state: CallState::Succeeded, call_id: None }, result)
    }
}

/// The target of one of the agent's own tools.
fn target_of(builtin: Builtin, arguments: &Value) -> Result<(Target, Option<Raw>), String> {
    let text = |key: &str| arguments[key].as_str().ok_or_else(|| format!("`{key}` must be a string"));
    let server = text("server_id")?.parse().map_err(|_| "`server_id` is not a server".to_owned())?;
    match builtin {
        Builtin::ReadResource => Ok((Target::ResourceOf(Origin { server, raw_name: text("uri")?.to_owned() }), None)),
        Builtin::GetPrompt | Builtin::ReadResult => {
            let raw_name = text("prompt_name")?.to_owned();
            let given = arguments.get("arguments").filter(|given| given.is_object()).map(Raw::of);
            Ok((Target::PromptOf(Origin { server, raw_name }), given))
        }
    }
}

/// The result of a call that the agent did not make.
fn not_made(call: &ToolCall, why: String) -> (MadeCall, ToolResult) {
    let made = MadeCall { name: call.name.clone(), state: CallState::Failed, call_id: None };
    (made, result::error(&call.id, &call.name, why))
}
