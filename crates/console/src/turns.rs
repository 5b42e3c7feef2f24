//! Chat turns: each is a task that answers one message of the user and publishes what happens. One turn at a time in a
//! conversation; all are cancelled and awaited at shutdown.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolway_agent::{
    Agent, AgentError, AgentEvent, AgentOptions, Answer, CallProgress, Conversation, EndedCall, EndedTask, StartedCall,
    model::{Message, Model, ModelError, ModelErrorKind, ModelEvent, ResultPart, Usage},
};
use toolway_host::{Host, conversation::ConversationLog, visible::StreamedText};
use toolway_wire::budget::{Kept, MemoryBudget, OverBudget};

use crate::{kept::KeptByConversation, ring::EventRing, view::conversation::contents};

/// Turns that run at the same time.
const MAX_TURNS: usize = 16;
/// Bytes of an answer in progress that a second page gets.
const MAX_PARTIAL: usize = 256 * 1024;
/// Bytes of a result in an event; the stored conversation has the rest.
const MAX_RESULT: usize = 64 * 1024;
/// Bytes of the images of a result in an event; the stored conversation has the rest.
const MAX_IMAGES: usize = 5 * 1024 * 1024 + 512 * 1024;
/// Bytes of other text of a server in an event.
const MAX_TEXT: usize = 4 * 1024;

/// All turns of a console.
pub(crate) struct Turns {
    host: Host,
    ring: EventRing,
    pub(crate) log: Option<Arc<dyn ConversationLog>>,
    running: Arc<Running>,
    kept: Arc<KeptByConversation>,
    tasks: TaskTracker,
    stop: CancellationToken,
    memory: MemoryBudget,
}

/// The running turns by conversation. No await under its lock.
type Running = Mutex<HashMap<String, Turn>>;

struct Turn {
    cancel: CancellationToken,
    /// Text of the message in progress.
    partial: Arc<Mutex<String>>,
}

/// Why a turn does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// The conversation has a turn.
    Busy,
    /// Too many turns run.
    TooMany,
    /// The console shuts down.
    Stopping,
    /// The conversation does not fit the byte budget.
    OverBudget(OverBudget),
}

/// The place of a turn of a conversation, until it is dropped, also by a panic. What is read of the conversation while it
/// is held does not change.
pub(crate) struct ReservedTurn {
    running: Arc<Running>,
    id: String,
    cancel: CancellationToken,
    partial: Arc<Mutex<String>>,
}

impl Drop for ReservedTurn {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

impl Turns {
    pub(crate) fn new(
        host: Host,
        ring: EventRing,
        log: Option<Arc<dyn ConversationLog>>,
        memory: &MemoryBudget,
    ) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let memory = memory.keeping(Kept::Conversation);
        let kept = Arc::new(KeptByConversation::new(memory.clone()));
        Self { host, ring, log, running: Arc::default(), kept, tasks, stop, memory }
    }

    /// Reserves the turn of a conversation, before its messages are read.
    pub(crate) fn reserve(&self, id: &str) -> Result<ReservedTurn, NotStarted> {
        let (cancel, partial) = (self.stop.child_token(), Arc::new(Mutex::new(String::new())));
        let mut running = self.running.lock();
        if self.stop.is_cancelled() {
            return Err(NotStarted::Stopping);
        }
        if running.contains_key(id) {
            return Err(NotStarted::Busy);
        }
        if MAX_TURNS <= running.len() {
            return Err(NotStarted::TooMany);
        }
        running.insert(id.to_owned(), Turn { cancel: cancel.clone(), partial: Arc::clone(&partial) });
        Ok(ReservedTurn { running: Arc::clone(&self.running), id: id.to_owned(), cancel, partial })
    }

    /// Starts a turn of a conversation, which is charged to the byte budget until the turn has ended.
    pub(crate) fn start(
        &self,
        reserved: ReservedTurn,
        mut conversation: Conversation,
        text: String,
        model: Arc<dyn Model>,
        options: AgentOptions,
    ) -> Result<(), NotStarted> {
        let seen = conversation.seen_urls();
        let mut of_seen = seen.bytes();
        let loaded = text.len() + conversation_bytes(&conversation) + of_seen;
        let mut charge = self.memory.charge(loaded).map_err(NotStarted::OverBudget)?;
        let (id, cancel, partial) = (reserved.id.clone(), reserved.cancel.clone(), Arc::clone(&reserved.partial));
        let (all_kept, kept) = (Arc::clone(&self.kept), self.kept.take(&id));
        let publisher =
            Publisher { ring: self.ring.clone(), id, partial, text: Mutex::default(), reasoning: Mutex::default() };
        let agent = Agent::new(self.host.clone(), model, options).with_kept_results(Arc::clone(&kept));
        self.tasks.spawn(async move {
            let mut observe = |event: AgentEvent| {
                let more = seen.bytes().saturating_sub(of_seen);
                of_seen += more;
                if let Err(error) = charge.grow(event_bytes(&event) + more) {
                    cancel.cancel();
                    publisher.publish("notice", json!({ "text": format!("the answer was stopped: {error}") }));
                }
                publisher.event(event);
            };
            let messages = vec![Message::user(text)];
            let answered = agent.answer(&mut conversation, messages, &cancel, &mut observe).await;
            // Before the last event: a page may send the next message at once.
            all_kept.put(&publisher.id, kept);
            drop(reserved);
            publisher.end(answered);
        });
        Ok(())
    }

    /// Cancels the turn of a conversation; returns whether there was one.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let running = self.running.lock();
        running.get(id).inspect(|turn| turn.cancel.cancel()).is_some()
    }

    /// The text of the message in progress; `None` if no turn runs.
    pub(crate) fn partial(&self, id: &str) -> Option<String> {
        self.running.lock().get(id).map(|turn| turn.partial.lock().clone())
    }

    /// Cancels all turns and starts no more.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Waits until all turns have ended.
    pub(crate) async fn wait(&self) {
        self.stop();
        self.tasks.wait().await;
    }
}

/// Publishes the events of one turn.
struct Publisher {
    ring: EventRing,
    id: String,
    partial: Arc<Mutex<String>>,
    /// Pieces of the answer that are not complete. No await under these locks.
    text: Mutex<StreamedText>,
    reasoning: Mutex<StreamedText>,
}

impl Publisher {
    fn publish(&self, kind: &str, mut event: Value) {
        event["conversation"] = json!(self.id);
        event["type"] = json!(kind);
        self.ring.publish("chat", &event);
    }

    /// Publishes a piece of text that is complete.
    fn publish_text(&self, kind: &str, text: &str) {
        if !text.is_empty() {
            self.publish(kind, json!({ "text": text }));
        }
    }

    /// Publishes the rest of texts that have ended.
    fn finish_texts(&self) {
        let reasoning = self.reasoning.lock().finish();
        self.publish_text("reasoning", &reasoning);
        let text = self.text.lock().finish();
        self.publish_text("text", &text);
    }

    fn event(&self, event: AgentEvent) {
        if !matches!(event, AgentEvent::Model(ModelEvent::Text(_) | ModelEvent::Reasoning(_))) {
            self.finish_texts();
        }
        match event {
            AgentEvent::Model(ModelEvent::Text(text)) => {
                let mut partial = self.partial.lock();
                if partial.len() + text.len() <= MAX_PARTIAL {
                    partial.push_str(&text);
                }
                drop(partial);
                let complete = self.text.lock().push(&text);
                self.publish_text("text", &complete);
            }
            AgentEvent::Model(ModelEvent::Reasoning(text)) => {
                let complete = self.reasoning.lock().push(&text);
                self.publish_text("reasoning", &complete);
            }
            AgentEvent::Model(_) => {}
            AgentEvent::Usage(usage) => {
                self.partial.lock().clear();
                self.publish("usage", usage_view(&usage));
            }
            AgentEvent::CallStarted(StartedCall { call, tool, call_id }) => {
                let (arguments, id) = (call.arguments_value(), call.id);
                self.publish("call", json!({ "id": id, "name": tool, "arguments": arguments, "callId": call_id }));
            }
            AgentEvent::CallProgress(progress) => {
                let CallProgress { id, progress, total, message } = progress;
                let message = message.as_deref().map(cut);
                self.publish("progress", json!({ "id": id, "progress": progress, "total": total, "text": message }));
            }
            AgentEvent::CallEnded(ended) => self.publish("result", result_view(&ended)),
            AgentEvent::TaskEnded(task) => self.publish("task", task_view(&task)),
            AgentEvent::LeftOut(reason) => self.publish("notice", json!({ "text": reason })),
        }
    }

    /// The last event.
    fn end(&self, answered: Result<Answer, AgentError>) {
        self.finish_texts();
        match answered {
            Ok(answer) => self.publish("end", json!({ "stopReason": answer.stop.as_str(), "turns": answer.turns })),
            Err(AgentError::Model(error)) => {
                self.publish("error", json!({ "message": error.to_string(), "hint": hint(&error) }));
            }
        }
    }
}

/// Bytes of a conversation that is loaded.
fn conversation_bytes(conversation: &Conversation) -> usize {
    let message = |message: &Message| serde_json::to_vec(message).map_or(0, |text| text.len());
    conversation.messages().iter().map(message).sum()
}

/// Bytes that a conversation grows by.
fn event_bytes(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::Model(ModelEvent::Text(text) | ModelEvent::Reasoning(text)) => text.len(),
        AgentEvent::CallStarted(started) => started.call.arguments.to_string().len(),
        AgentEvent::CallEnded(ended) => serde_json::to_vec(&ended.result).map_or(0, |text| text.len()),
        AgentEvent::TaskEnded(task) => serde_json::to_vec(&task.content).map_or(0, |text| text.len()),
        AgentEvent::Model(_) | AgentEvent::Usage(_) | AgentEvent::CallProgress(_) | AgentEvent::LeftOut(_) => 0,
    }
}

fn usage_view(usage: &Usage) -> Value {
    let Usage { input_tokens, output_tokens, cached_tokens, .. } = usage;
    json!({ "inputTokens": input_tokens, "outputTokens": output_tokens, "cachedTokens": cached_tokens })
}

fn result_view(ended: &EndedCall) -> Value {
    let (text, images) = contents(&ended.result, MAX_IMAGES);
    let text = &text[..text.floor_char_boundary(MAX_RESULT)];
    let problem = ended.problem.as_ref().map(|problem| cut(problem.as_str()));
    json!({
        "id": ended.result.call_id,
        "name": ended.made.name,
        "state": ended.made.state.as_str(),
        "callId": ended.made.call_id,
        "text": text,
        "images": images,
        "problem": problem,
        "durationMs": ended.duration.as_secs_f64() * 1_000.0,
        "waitedMs": ended.waited.as_secs_f64() * 1_000.0,
    })
}

/// A background task of which the model is told that it has ended.
fn task_view(task: &EndedTask) -> Value {
    let texts = task.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let text = &text[..text.floor_char_boundary(MAX_RESULT)];
    json!({ "id": task.row.id, "name": task.row.tool, "state": task.end.as_str(), "text": text })
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// What to do about a model that failed.
fn hint(error: &ModelError) -> Option<&'static str> {
    Some(match error.kind {
        ModelErrorKind::Unauthorized { .. } => "check the key of the model; `toolway models` lists them",
        ModelErrorKind::Unreachable { .. } => "check the address of the model and the network",
        ModelErrorKind::RateLimited | ModelErrorKind::Unavailable { .. } | ModelErrorKind::Cut => "try again later",
        ModelErrorKind::ContextExceeded => "start a new conversation",
        _ => return None,
    })
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("running", &self.running.lock().len()).finish_non_exhaustive()
    }
}
