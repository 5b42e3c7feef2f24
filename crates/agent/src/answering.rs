//! One answer: a request to the model, its tool calls in parallel, the next request, until the model is done, the user
//! cancels, or a budget is used up. `agent` says what the model is told before; `calls` makes the calls of one message.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolway_host::tallies::ModelTokens;
use toolway_model::{
    Message, ModelError, ModelErrorKind, ModelEvent, ModelRequest, Part, Role, SentRequest, StopReason, ToolCall, Usage,
};

use crate::{
    agent::{Agent, AgentError, Answer, Observer},
    budget::{Spent, Stop},
    calls,
    compacting::{Compacted, Compacting, Need},
    context::{ContextMeter, Measure},
    conversation::Conversation,
    event::{AgentEvent, MadeCall},
    system::SystemPrompt,
    tools::ToolSet,
};

/// Beginning of what the model is told about an answer that does not match its schema.
pub(crate) const CORRECTION: &str = "Your answer does not match the JSON Schema:";
/// Corrections of an answer that does not match its schema.
const CORRECTIONS: u32 = 2;
/// Messages with calls that may be cut at the limit of output tokens before the answer ends.
const CUT_MESSAGES: u32 = 3;

/// An answer that has begun.
pub(crate) struct Answering<'a> {
    agent: &'a Agent,
    conversation: &'a mut Conversation,
    told: Told,
    interrupt: Interrupt,
    observe: Observer<'a>,
    spent: Spent,
    calls: Vec<MadeCall>,
    /// Corrections that the model was asked for.
    corrections: u32,
    /// Messages that were cut at the limit of output tokens.
    cut: u32,
    /// The last answer, before a correction of it.
    answered: String,
    /// Tokens that servers had used in the conversation before this answer.
    sampled_before: u64,
    /// Whether the vendor refused the last request for its length.
    was_too_long: bool,
    /// Requests that were sent and are not kept yet.
    sent: Vec<SentRequest>,
}

/// What the model is told besides the conversation.
pub(crate) struct Told {
    pub(crate) tools: ToolSet,
    pub(crate) system: SystemPrompt,
}

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
    /// Tokens of the request, estimated.
    asked: u64,
}

/// A message of the model that an error ended.
struct CutReply {
    said: Message,
    error: ModelError,
}

impl<'a> Answering<'a> {
    pub(crate) fn new(
        agent: &'a Agent,
        conversation: &'a mut Conversation,
        told: Told,
        cancel: &CancellationToken,
        observe: Observer<'a>,
    ) -> Self {
        let spent = Spent::new(agent.options.budget);
        let interrupt = Interrupt::new(cancel, &spent);
        let sampled_before = agent.host.sampling_in(conversation.id()).tokens;
        Self {
            agent,
            conversation,
            told,
            interrupt,
            observe,
            spent,
            calls: Vec::new(),
            corrections: 0,
            cut: 0,
            answered: String::new(),
            sampled_before,
            was_too_long: false,
            sent: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<Answer, AgentError> {
        let stop = loop {
            if let Some(stop) = self.take_step().await? {
                break stop;
            }
        };
        let text = Some(last_text(self.conversation)).filter(|text| !text.is_empty()).unwrap_or(self.answered);
        Ok(Answer { text, stop, turns: self.spent.turns, calls: self.calls, usage: self.spent.usage })
    }

    /// One request and the calls of its message. Returns why the answer ends, or `None` if the model goes on.
    async fn take_step(&mut self) -> Result<Option<Stop>, AgentError> {
        self.conversation.check_own()?;
        // Also before the first request, while resources were read.
        if self.interrupt.cancel.is_cancelled() {
            return Ok(Some(Stop::Cancelled));
        }
        let sampled = self.agent.host.sampling_in(self.conversation.id()).tokens;
        self.spent.sampled = sampled.saturating_sub(self.sampled_before);
        if let Some(stop) = self.spent.exhausted() {
            return Ok(Some(stop));
        }
        if let Err(Ok(stop)) = self.compact(Need::Limit).await {
            return Ok(Some(stop));
        }
        if let Some(stop) = self.spent.exhausted() {
            return Ok(Some(stop));
        }
        self.spent.turns += 1;
        let request = self.request();
        let asked = self.ask(request.clone()).await;
        for sent in std::mem::take(&mut self.sent) {
            self.conversation.keep_request(&request, &sent).await;
        }
        let was_too_long = std::mem::replace(&mut self.was_too_long, false);
        let reply = match asked {
            Ok(reply) => reply,
            Err(CutReply { said, error }) if error.kind == ModelErrorKind::ContextExceeded && !was_too_long => {
                return match self.compact(Need::Refused).await {
                    Ok(Some(_)) => {
                        self.was_too_long = true;
                        Ok(None)
                    }
                    Err(Ok(stop)) => Ok(Some(stop)),
                    Ok(None) | Err(Err(_)) => {
                        self.conversation.push_partial(said).await;
                        Err(error.into())
                    }
                };
            }
            // Keep the answer that was to be corrected instead of failing.
            Err(CutReply { error, .. }) if self.corrections > 0 => {
                tracing::warn!(%error, "the model did not correct its answer");
                return Ok(Some(Stop::Done));
            }
            Err(CutReply { said, error }) => {
                self.conversation.push_partial(said).await;
                return Err(error.into());
            }
        };
        let wanted: Vec<ToolCall> = reply.message.tool_calls().cloned().collect();
        let reason = match self.keep(reply).await {
            Ok(reason) => reason,
            Err(stop) => return Ok(Some(stop)),
        };
        // No call is made whose message is not stored.
        self.conversation.check_own()?;
        if wanted.is_empty() {
            return Ok(self.end_or_correct(&reason).await);
        }
        Ok(self.make_calls(&wanted, &reason).await)
    }

    /// Adds a message of the model to the conversation and to what is spent. Returns why the message ended.
    async fn keep(&mut self, reply: Reply) -> Result<StopReason, Stop> {
        let ended = self.conversation.push_reply(reply.message, reply.end).await;
        let used = ModelTokens { input: reply.usage.input_tokens, output: reply.usage.output_tokens };
        self.agent.host.count_model_tokens(self.agent.model().name(), used);
        let estimated = reply.asked;
        self.spent.add(reply.usage, || estimated);
        if reply.usage.input_tokens > 0 {
            let measure = Measure { estimated, reported: reply.usage.input_tokens };
            self.conversation.measure(self.agent.model().name(), measure);
        }
        (self.observe)(AgentEvent::Usage(self.spent.usage));
        ended
    }

    /// After a message without calls: asks for a correction of an answer that does not match its schema.
    async fn end_or_correct(&mut self, reason: &StopReason) -> Option<Stop> {
        match reason {
            StopReason::MaxTokens => return Some(Stop::MaxOutput),
            StopReason::Refused => return Some(Stop::Refused),
            StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other(_) => {}
        }
        self.answered = last_text(self.conversation);
        let may_correct = self.corrections < CORRECTIONS && self.spent.exhausted().is_none();
        let correction = if may_correct { self.correction() } else { None };
        let Some(correction) = correction else { return Some(Stop::Done) };
        self.conversation.push(correction).await;
        self.corrections += 1;
        None
    }

    /// Makes the calls of a message; those of a message that was cut are refused.
    async fn make_calls(&mut self, wanted: &[ToolCall], reason: &StopReason) -> Option<Stop> {
        let results = if *reason == StopReason::MaxTokens {
            self.cut += 1;
            calls::refuse_cut(wanted, self.observe)
        } else {
            let Self { agent, conversation, told, interrupt, observe, spent, .. } = self;
            agent.host.bound_sampling(conversation.id(), spent.remaining_tokens());
            agent.models.use_for(conversation.id(), agent.model());
            agent.call_all(wanted, &told.tools, spent, conversation, interrupt, *observe).await
        };
        let (made, results): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        // A token may have been replaced meanwhile.
        self.conversation.keep_as(&self.agent.host);
        self.conversation.push_results(&made, results).await;
        self.calls.extend(made);
        if self.interrupt.cancel.is_cancelled() {
            return Some(Stop::Cancelled);
        }
        (self.cut >= CUT_MESSAGES).then_some(Stop::MaxOutput)
    }

    /// Leaves out older turns as far as needed. A failed summary is not the end of an answer.
    async fn compact(&mut self, need: Need) -> Result<Option<Compacted>, Result<Stop, ModelError>> {
        let frame = self.agent.frame_of(&self.told.system, &self.told.tools);
        let Self { agent, conversation, interrupt, spent, .. } = self;
        let compacting = Compacting { agent, conversation, frame, interrupt, spent };
        let compacted = compacting.run(need).await;
        match &compacted {
            Ok(Some(compacted)) => (self.observe)(AgentEvent::Compacted(*compacted)),
            Err(Err(error)) => tracing::warn!(%error, "older turns were not summarised"),
            Ok(None) | Err(Ok(_)) => {}
        }
        compacted
    }

    fn request(&self) -> ModelRequest {
        let options = &self.agent.options;
        ModelRequest {
            system: self.told.system.text.clone(),
            messages: self.conversation.view(),
            tools: self.told.tools.definitions.clone(),
            max_tokens: options.max_output,
            answer_schema: options.answer_schema.as_ref().map(|schema| schema.schema().clone()),
            ..ModelRequest::default()
        }
    }

    /// What the model is told if its answer does not match the schema.
    fn correction(&self) -> Option<Message> {
        let problem = self.agent.options.answer_schema.as_ref()?.check(&self.answered).err()?;
        tracing::warn!(%problem, "the answer does not match the schema; asking the model again");
        let text = format!("{CORRECTION} {problem}. Answer again, with the JSON value only.");
        Some(Message::user(text))
    }

    /// One request to the model. The message is not in the conversation yet.
    async fn ask(&mut self, request: ModelRequest) -> Result<Reply, CutReply> {
        let model = Arc::clone(self.agent.model());
        let frame = self.agent.frame_of(&self.told.system, &self.told.tools);
        let asked = ContextMeter::of(model.context_window(), frame, &request.messages, false, None).used;
        let mut stream = model.stream(request);
        let mut usage = Usage::default();
        let mut said = String::new();
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                stop = self.interrupt.triggered() => {
                    return Ok(Reply { message: partial(said), usage, end: Err(stop), asked });
                }
            };
            match event {
                Some(Ok(ModelEvent::End { reason, message })) => {
                    return Ok(Reply { message, usage, end: Ok(reason), asked });
                }
                Some(Ok(ModelEvent::Sent(sent))) => self.sent.push(sent),
                Some(Ok(event)) => {
                    match &event {
                        ModelEvent::Usage(figures) => usage = *figures,
                        ModelEvent::Text(text) => said.push_str(text),
                        _ => {}
                    }
                    (self.observe)(AgentEvent::Model(event));
                }
                Some(Err(error)) => return Err(CutReply { said: partial(said), error }),
                None => {
                    let error = ModelError::new(model.name(), ModelErrorKind::Cut);
                    return Err(CutReply { said: partial(said), error });
                }
            }
        }
    }
}

impl Interrupt {
    pub(crate) fn new(cancel: &CancellationToken, spent: &Spent) -> Self {
        Self { cancel: cancel.clone(), deadline: spent.deadline() }
    }

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
    Message { role: Role::Assistant, parts, raw: None, task: None, attached: None }
}

/// Text of the model's last message.
fn last_text(conversation: &Conversation) -> String {
    let last = conversation.messages().iter().rfind(|message| !message.text().is_empty());
    last.filter(|message| message.role == Role::Assistant).map(Message::text).unwrap_or_default()
}
