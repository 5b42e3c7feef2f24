//! Chat turns: each is a task that answers one message of the user, or the ends of background tasks, and publishes what
//! happens. One turn at a time in a conversation; all are cancelled and awaited at shutdown. `turns/background.rs` starts
//! turns when tasks have ended.

mod background;
mod branch;
mod publisher;
mod queue;
mod usage;

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolway_agent::{
    Agent, AgentError, AgentEvent, AgentOptions, Answer, AttachError, Attachment, ContextMeter, Conversation,
    ConversationModels, Stop, TaskBoard,
    model::{Message, Model, ModelEvent, Usage},
};
use toolway_host::{Host, record::Records};
use toolway_wire::budget::{Kept, MemoryBudget, OverBudget};
use uuid::Uuid;

use crate::{
    backend::ConsoleBackend, error::ApiError, kept::KeptByConversation, records::ConsoleRecords, ring::EventRing,
};
pub(crate) use background::Resumed;
pub(crate) use branch::BranchOrigin;
use publisher::Publisher;
use queue::Queues;
pub(crate) use queue::UserMessage;
pub(crate) use usage::ConversationUsage;

/// Turns that run at the same time.
const MAX_TURNS: usize = 16;

/// All turns of a console.
pub(crate) struct Turns {
    host: Host,
    backend: Arc<dyn ConsoleBackend>,
    ring: EventRing,
    records: Option<ConsoleRecords>,
    /// Models of the conversations, for servers that ask one.
    models: ConversationModels,
    running: Arc<Running>,
    kept: Arc<KeptByConversation>,
    /// Background tasks of the conversations.
    pub(crate) board: TaskBoard,
    waiting: Arc<Waiting>,
    /// Messages that wait. No await under its lock.
    queues: Arc<Mutex<Queues>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    memory: MemoryBudget,
}

/// The running turns by conversation. No await under its lock.
type Running = Mutex<HashMap<String, Turn>>;

struct Turn {
    cancel: CancellationToken,
    in_progress: Arc<Mutex<InProgress>>,
    /// Messages of the conversation before the turn; `None` until it is loaded.
    messages_before: Option<usize>,
}

/// What a turn has not finished. No await under its lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProgress {
    /// Text of the message in progress.
    pub(crate) partial: String,
    /// Calls in progress as they were published, in their order.
    pub(crate) calls: Vec<Value>,
}

/// How far a turn is.
#[derive(Clone, Debug)]
pub(crate) struct TurnProgress {
    pub(crate) in_progress: InProgress,
    /// Messages of the conversation before the turn; `None` until it is loaded.
    pub(crate) messages_before: Option<usize>,
}

/// The model of a turn, and how it works.
#[derive(Clone, Debug)]
pub(crate) struct TurnSettings {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: AgentOptions,
}

/// Conversations at rest whose background tasks go on.
#[derive(Default)]
struct Waiting {
    /// The settings of their last turns. No await under its lock.
    settings: Mutex<HashMap<String, TurnSettings>>,
    /// Notified at the end of each turn.
    turn_ended: Notify,
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
    in_progress: Arc<Mutex<InProgress>>,
}

impl Drop for ReservedTurn {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

impl Turns {
    /// Needs a runtime.
    pub(crate) fn new(
        host: Host,
        backend: Arc<dyn ConsoleBackend>,
        ring: EventRing,
        records: Option<ConsoleRecords>,
        models: ConversationModels,
        memory: &MemoryBudget,
    ) -> Self {
        let memory = memory.keeping(Kept::Conversation);
        Self {
            board: TaskBoard::new(&host),
            host,
            backend,
            ring,
            records,
            models,
            running: Arc::default(),
            kept: Arc::new(KeptByConversation::new(memory.clone())),
            waiting: Arc::default(),
            queues: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            memory,
        }
    }

    /// A new conversation with this id.
    pub(crate) fn new_conversation(&self, id: Uuid) -> Conversation {
        let log = self.records.as_ref().map(|records| Arc::clone(&records.conversations));
        Conversation::resume(&id.to_string(), Vec::new(), log)
    }

    /// Checks that the model of a turn takes these attachments.
    pub(crate) fn check(&self, settings: &TurnSettings, attachments: &[Attachment]) -> Result<(), AttachError> {
        self.agent(settings).check_attachments(attachments)
    }

    /// What the next request of a conversation would fill of a model's context window.
    pub(crate) fn meter(&self, settings: &TurnSettings, conversation: &Conversation) -> ContextMeter {
        self.agent(settings).context(conversation)
    }

    /// An agent that works as these settings say.
    pub(crate) fn agent(&self, settings: &TurnSettings) -> Agent {
        let TurnSettings { model, options } = settings.clone();
        let agent = Agent::new(self.host.clone(), model, options).with_tasks(self.board.clone());
        agent.with_conversation_models(self.models.clone())
    }

    /// Loads a stored conversation with its background tasks. Its turn must be reserved.
    pub(crate) async fn load(&self, id: Uuid) -> Result<Option<Conversation>, ApiError> {
        let Some(ConsoleRecords { records, conversations, .. }) = &self.records else { return Ok(None) };
        if records.conversation(id).await?.is_none() {
            return Ok(None);
        }
        let messages = stored_messages(&**records, id).await?;
        self.board.resume(&**records, id, &messages).await?;
        let notes = records.conversation_notes(id).await?;
        let resumed = Conversation::resume(&id.to_string(), messages, Some(Arc::clone(conversations)));
        Ok(Some(resumed.with_notes(&notes)))
    }

    /// Reads a stored conversation, without its tasks.
    pub(crate) async fn read(&self, id: Uuid) -> Result<Option<Conversation>, ApiError> {
        let Some(ConsoleRecords { records, .. }) = &self.records else { return Ok(None) };
        if records.conversation(id).await?.is_none() {
            return Ok(None);
        }
        let messages = stored_messages(&**records, id).await?;
        let notes = records.conversation_notes(id).await?;
        Ok(Some(Conversation::resume(&id.to_string(), messages, None).with_notes(&notes)))
    }

    /// Reserves the turn of a conversation, before its messages are read.
    pub(crate) fn reserve(&self, id: &str) -> Result<ReservedTurn, NotStarted> {
        let cancel = self.stop.child_token();
        let in_progress = Arc::new(Mutex::new(InProgress::default()));
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
        running.insert(
            id.to_owned(),
            Turn { cancel: cancel.clone(), in_progress: Arc::clone(&in_progress), messages_before: None },
        );
        Ok(ReservedTurn { running: Arc::clone(&self.running), id: id.to_owned(), cancel, in_progress })
    }

    /// Starts a turn of a conversation, which is charged to the byte budget until the turn has ended. Without a message, the
    /// model is told of background tasks that have ended, and goes on.
    pub(crate) fn start(
        &self,
        reserved: ReservedTurn,
        mut conversation: Conversation,
        message: Option<UserMessage>,
        settings: TurnSettings,
    ) -> Result<(), NotStarted> {
        let begun = message.as_ref().map(UserMessage::view);
        let messages = message.map(|message| message.messages(&conversation)).unwrap_or_default();
        let seen = conversation.seen_urls();
        let mut of_seen = seen.bytes();
        let loaded = message_bytes(&messages) + message_bytes(conversation.messages()) + of_seen;
        let mut charge = self.memory.charge(loaded).map_err(NotStarted::OverBudget)?;
        let id = reserved.id.clone();
        if let Some(turn) = self.running.lock().get_mut(&id) {
            turn.messages_before = Some(conversation.messages().len());
        }
        let cancel = reserved.cancel.clone();
        let all_kept = Arc::clone(&self.kept);
        let kept = self.kept.take(&id);
        let publisher = Publisher::new(self, settings.model.name(), id, Arc::clone(&reserved.in_progress));
        let agent = self.agent(&settings).with_kept_results(Arc::clone(&kept));
        let records = self.records.clone();
        let queues = Arc::clone(&self.queues);
        let board = self.board.clone();
        let waiting = Arc::clone(&self.waiting);
        self.tasks.spawn(async move {
            if let Some(begun) = begun {
                publisher.publish("begin", begun);
            }
            let mut used = Usage::default();
            let mut observe = |event: AgentEvent| {
                if let AgentEvent::Usage(usage) = &event {
                    used = *usage;
                }
                let more = seen.bytes().saturating_sub(of_seen);
                of_seen += more;
                if let Err(error) = charge.grow(event_bytes(&event) + more) {
                    cancel.cancel();
                    publisher.publish("notice", json!({ "text": format!("the answer was stopped: {error}") }));
                }
                publisher.event(event);
            };
            let answered = agent.answer(&mut conversation, messages, &cancel, &mut observe).await;
            let total = keep_usage(records.as_ref(), &publisher, &used).await;
            publisher.context(&agent.context(&conversation), total);
            if !goes_on(&answered) {
                queue::hold(&queues, &publisher);
            }
            // Before the last event: a page may send the next message at once.
            all_kept.put(&publisher.id, kept);
            waiting.keep(&publisher.id, &board, settings);
            drop(reserved);
            publisher.end(answered);
            waiting.turn_ended.notify_one();
        });
        Ok(())
    }

    /// Cancels the turn of a conversation; returns whether there was one.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let running = self.running.lock();
        running.get(id).inspect(|turn| turn.cancel.cancel()).is_some()
    }

    /// How far the turn of a conversation is; `None` if no turn runs.
    pub(crate) fn progress(&self, id: &str) -> Option<TurnProgress> {
        let running = self.running.lock();
        let Turn { in_progress, messages_before, .. } = running.get(id)?;
        Some(TurnProgress { in_progress: in_progress.lock().clone(), messages_before: *messages_before })
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

/// Whether messages that wait are sent after an answer.
fn goes_on(answered: &Result<Answer, AgentError>) -> bool {
    answered.as_ref().is_ok_and(|answer| answer.stop != Stop::Cancelled)
}

/// Adds what a turn used to the note of its conversation.
async fn keep_usage(records: Option<&ConsoleRecords>, publisher: &Publisher, used: &Usage) -> ConversationUsage {
    let cost = publisher.cost(used);
    let id = publisher.id.parse().ok();
    let Some((stores, id)) = records.zip(id) else { return ConversationUsage::default().plus(used, cost) };
    let notes = stores.records.conversation_notes(id).await.unwrap_or_default();
    let total = ConversationUsage::of_notes(&notes).plus(used, cost);
    if let Err(error) = stores.conversations.keep(&publisher.id, total.note()).await {
        tracing::warn!(%error, "the usage of a conversation is not kept");
    }
    total
}

/// The messages of a stored conversation.
async fn stored_messages(records: &dyn Records, id: Uuid) -> Result<Vec<Message>, ApiError> {
    let stored = records.messages(id).await?;
    let messages: Result<Vec<Message>, _> = stored.iter().map(|message| serde_json::from_str(&message.body)).collect();
    messages.map_err(|error| ApiError::internal(format!("a stored message cannot be read: {error}")))
}

/// Bytes of messages that are loaded.
fn message_bytes(messages: &[Message]) -> usize {
    messages.iter().map(|message| serde_json::to_vec(message).map_or(0, |text| text.len())).sum()
}

/// Bytes that a conversation grows by.
fn event_bytes(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::Model(ModelEvent::Text(text) | ModelEvent::Reasoning(text)) => text.len(),
        AgentEvent::CallStarted(started) => started.call.arguments.to_string().len(),
        AgentEvent::CallEnded(ended) => serde_json::to_vec(&ended.result).map_or(0, |text| text.len()),
        AgentEvent::TaskEnded(task) => serde_json::to_vec(&task.content).map_or(0, |text| text.len()),
        AgentEvent::Attached(attached) => attached.bytes,
        AgentEvent::Model(_)
        | AgentEvent::Usage(_)
        | AgentEvent::CallProgress(_)
        | AgentEvent::LeftOut(_)
        | AgentEvent::Compacted(_) => 0,
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("running", &self.running.lock().len()).finish_non_exhaustive()
    }
}
