//! The loop: a request to the model, its tool calls in parallel, the next request.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::StreamExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolway_config::{PolicyMode, ServerName};
use toolway_host::{Host, policy::Surface};
use toolway_model::{
    Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, Part, Role, StopReason, ToolCall, Usage,
};

use crate::{
    answer_schema::AnswerSchema,
    budget::{Budget, Spent, Stop},
    calls,
    conversation::Conversation,
    event::{AgentEvent, MadeCall},
    kept::KeptResults,
    system::SystemPrompt,
    tools::{self, AdaptedTools, Offer, ToolSet, Visible},
};

/// An agent: a host, a model, and how they work together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(crate) host: Host,
    model: Arc<dyn Model>,
    pub(crate) options: AgentOptions,
    pub(crate) kept: Arc<KeptResults>,
    adapted: Arc<AdaptedTools>,
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
    /// JSON Schema that the answer must match. The model is asked again, twice at most, if it does not.
    pub answer_schema: Option<Arc<AnswerSchema>>,
    /// Mode of policy for its calls; `None`: the configured one.
    pub mode: Option<PolicyMode>,
}

/// The tools on offer to a model.
#[derive(Clone, Debug)]
pub struct OfferedTools {
    /// Their names, in the order of the request.
    pub names: Vec<String>,
    /// Why tools are not offered, one sentence each.
    pub left_out: Vec<String>,
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

/// Beginning of what the model is told about an answer that does not match its schema.
pub(crate) const CORRECTION: &str = "Your answer does not match the JSON Schema:";
/// Corrections of an answer that does not match its schema.
const CORRECTIONS: u32 = 2;
/// Messages with calls that may be cut at the limit of output tokens before the answer ends.
const CUT_MESSAGES: u32 = 3;

/// Sees what happens. It must not block.
pub type Observer<'a> = &'a mut (dyn FnMut(AgentEvent) + Send);

/// What ends an answer early: the user, or the time limit.
pub(crate) struct Interrupt {
    cancel: CancellationToken,
    deadline: Option<Instant>,
}

/// One message of the model, whole or as far as it came.
struct Reply {
    message: Message,
    usage: Usage,
    end: Result<StopReason, Stop>,
}

impl Agent {
    /// An agent on a host.
    pub fn new(host: Host, model: Arc<dyn Model>, options: AgentOptions) -> Self {
        Self { host, model, options, kept: Arc::default(), adapted: Arc::default() }
    }

    /// The same agent with another model.
    #[must_use]
    pub fn with_model(&self, model: Arc<dyn Model>) -> Self {
        Self { model, ..self.clone() }
    }

    /// The same agent with the long results of earlier turns.
    #[must_use]
    pub fn with_kept_results(&self, kept: Arc<KeptResults>) -> Self {
        Self { kept, ..self.clone() }
    }

    /// The same agent with another mode of policy for its calls.
    #[must_use]
    pub fn with_mode(&self, mode: PolicyMode) -> Self {
        let mut agent = self.clone();
        agent.options.mode = Some(mode);
        agent
    }

    /// Mode of policy for its calls; `None`: the configured one.
    pub fn mode(&self) -> Option<PolicyMode> {
        self.options.mode
    }

    /// The model.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// What the model of this agent is offered now, as the next request would have it.
    pub fn offered_tools(&self) -> OfferedTools {
        let ToolSet { definitions, left_out } = self.tools();
        OfferedTools { names: definitions.into_iter().map(|tool| tool.name).collect(), left_out }
    }

    fn tools(&self) -> ToolSet {
        let visible = Visible(self.options.servers.clone());
        let offer = Offer {
            vendor: self.model.vendor(),
            window: self.model.context_window(),
            visible: &visible,
            resources: self.options.resources,
            prompts: self.options.prompts,
        };
        ToolSet::of(&self.host, &self.adapted, offer)
    }

    /// Answers a message of the user, or the messages of a prompt. Everything that happened stays in the conversation:
    /// also if this fails, is cancelled, or its future is dropped, when only the model's unfinished message is lost.
    pub async fn answer(
        &self,
        conversation: &mut Conversation,
        messages: Vec<Message>,
        cancel: &CancellationToken,
        observe: Observer<'_>,
    ) -> Result<Answer, AgentError> {
        let (tools, system) = self.begin(conversation, messages, observe).await;
        let mut spent = Spent::new(self.options.budget);
        let interrupt = Interrupt { cancel: cancel.clone(), deadline: spent.deadline() };
        let (mut made_calls, mut corrections, mut cut, mut answered) = (Vec::new(), 0, 0, String::new());
        let stop = loop {
            if let Some(stop) = spent.exhausted() {
                break stop;
            }
            spent.turns += 1;
            let request = ModelRequest {
                system: system.clone(),
                messages: conversation.messages().to_vec(),
                tools: tools.definitions.clone(),
                max_tokens: self.options.max_output,
                answer_schema: self.options.answer_schema.as_ref().map(|schema| schema.schema().clone()),
            };
            let reply = match self.ask(request, &interrupt, observe).await {
                Ok(reply) => reply,
                // The answer that was to be corrected is worth more than this error.
                Err((_, error)) if corrections > 0 => {
                    tracing::warn!(%error, "the model did not correct its answer");
                    break Stop::Done;
                }
                Err((partial, error)) => {
                    conversation.push_partial(partial).await;
                    return Err(error.into());
                }
            };
            let wanted: Vec<ToolCall> = reply.message.tool_calls().cloned().collect();
            let ended = conversation.push_reply(reply.message, reply.end).await;
            spent.add(reply.usage, || conversation.tokens() + tools.tokens() + tools::tokens_of(system.len()));
            observe(AgentEvent::Usage(spent.usage));
            let reason = match ended {
                Ok(reason) => reason,
                Err(stop) => break stop,
            };
            let is_cut = reason == StopReason::MaxTokens;
            cut += u32::from(is_cut);
            match reason {
                _ if !wanted.is_empty() => {}
                StopReason::MaxTokens => break Stop::MaxOutput,
                StopReason::Refused => break Stop::Refused,
                StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other(_) => {
                    answered = last_text(conversation);
                    let may_correct = corrections < CORRECTIONS && spent.exhausted().is_none();
                    let correction = if may_correct { self.correction(&answered) } else { None };
                    let Some(correction) = correction else { break Stop::Done };
                    conversation.push(correction).await;
                    corrections += 1;
                    continue;
                }
            }
            let results = if is_cut {
                calls::refuse_cut(&wanted, observe)
            } else {
                self.call_all(&wanted, &tools, &mut spent, conversation, &interrupt, observe).await
            };
            let (made, results): (Vec<_>, Vec<_>) = results.into_iter().unzip();
            // A token may have been replaced meanwhile.
            conversation.keep_as(&self.host);
            conversation.push_results(&made, results).await;
            made_calls.extend(made);
            if cancel.is_cancelled() {
                break Stop::Cancelled;
            }
            if cut >= CUT_MESSAGES {
                break Stop::MaxOutput;
            }
        };
        let text = Some(last_text(conversation)).filter(|text| !text.is_empty()).unwrap_or(answered);
        Ok(Answer { text, stop, turns: spent.turns, calls: made_calls, usage: spent.usage })
    }

    /// What the model is told if its answer does not match the schema.
    fn correction(&self, answer: &str) -> Option<Message> {
        let problem = self.options.answer_schema.as_ref()?.check(answer).err()?;
        tracing::warn!(%problem, "the answer does not match the schema; asking the model again");
        let text = format!("{CORRECTION} {problem}. Answer again, with the JSON value only.");
        Some(Message::user(text))
    }

    /// Adds the user's messages; returns the tools on offer and the system prompt.
    async fn begin(
        &self,
        conversation: &mut Conversation,
        messages: Vec<Message>,
        observe: Observer<'_>,
    ) -> (ToolSet, String) {
        conversation.keep_as(&self.host);
        conversation.close_open_calls().await;
        let title = messages.iter().map(Message::text).find(|text| !text.is_empty()).unwrap_or_default();
        conversation.begin(&title, self.model.name(), self.options.surface.as_str()).await;
        for message in messages {
            conversation.push(message).await;
        }
        let tools = self.tools();
        let visible = Visible(self.options.servers.clone());
        tools.left_out.iter().for_each(|reason| observe(AgentEvent::LeftOut(reason.clone())));
        let system = SystemPrompt::new(&self.host, &self.options.system, conversation.id(), &visible);
        system.left_out.iter().for_each(|reason| observe(AgentEvent::LeftOut(reason.clone())));
        (tools, self.host.redactor().plain(&system.text).into_owned())
    }

    /// One request to the model. An error comes with what the model said before.
    async fn ask(
        &self,
        request: ModelRequest,
        interrupt: &Interrupt,
        observe: Observer<'_>,
    ) -> Result<Reply, (Message, ModelError)> {
        let mut stream = self.model.stream(request);
        let (mut usage, mut said) = (Usage::default(), String::new());
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                stop = interrupt.triggered() => return Ok(Reply { message: partial(said), usage, end: Err(stop) }),
            };
            match event {
                Some(Ok(ModelEvent::End { reason, message })) => return Ok(Reply { message, usage, end: Ok(reason) }),
                Some(Ok(event)) => {
                    match &event {
                        ModelEvent::Usage(figures) => usage = *figures,
                        ModelEvent::Text(text) => said.push_str(text),
                        _ => {}
                    }
                    observe(AgentEvent::Model(event));
                }
                Some(Err(error)) => return Err((partial(said), error)),
                None => return Err((partial(said), ModelError::new(self.model.name(), ModelErrorKind::Cut))),
            }
        }
    }
}

impl Interrupt {
    /// Resolves when the answer must end.
    pub(crate) async fn triggered(&self) -> Stop {
        let time_is_over = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancel.cancelled() => Stop::Cancelled,
            () = time_is_over => Stop::MaxTime,
        }
    }
}

/// The text of a message that did not become complete. Its calls are not made.
fn partial(text: String) -> Message {
    let parts = if text.is_empty() { Vec::new() } else { vec![Part::Text { text }] };
    Message { role: Role::Assistant, parts, raw: None }
}

/// Text of the model's last message.
fn last_text(conversation: &Conversation) -> String {
    let last = conversation.messages().iter().rfind(|message| !message.text().is_empty());
    last.filter(|message| message.role == Role::Assistant).map(Message::text).unwrap_or_default()
}
