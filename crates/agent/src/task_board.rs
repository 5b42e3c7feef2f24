//! The background tasks of all conversations of a host: which are open, which have ended, and what the model was told.
//!
//! A task's end is kept here until the next turn of its conversation gives it to the model. A surface whose model is idle
//! starts a turn by itself, a bounded number of times without a message of the user.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use toolway_host::{
    Host,
    call::{CallError, CallOutcome},
    event::TaskEvent,
    task::{TaskRow, TaskStatus},
};
use toolway_model::{Message, ResultPart};
use toolway_wire::budget::{Charge, Kept};
use uuid::Uuid;

use crate::{content::Structured, kept::KeptResults, result, task_block};

/// Turns that a conversation starts by itself without a message of the user.
pub const SELF_STARTED_TURNS: u32 = 3;
/// Ends of tasks that are kept of one conversation. The model is told to look at further ones.
const MAX_ENDED: usize = 64;

/// The background tasks of a host's conversations. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TaskBoard {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Host,
    state: Arc<Mutex<Conversations>>,
    changed: watch::Sender<()>,
    _listener: AbortOnDropHandle<()>,
}

/// Conversations by id. No await under its lock.
type Conversations = HashMap<String, ConversationTasks>;

/// The tasks of one conversation.
#[derive(Debug, Default)]
struct ConversationTasks {
    open: BTreeMap<Uuid, Arc<TaskRow>>,
    /// Tasks whose first result for the model was "started".
    started: BTreeMap<Uuid, Canceller>,
    /// Ended, and not given to the model.
    ended: Vec<EndedTask>,
    /// Turns since the last message of the user.
    self_started: u32,
}

/// Who has cancelled a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Canceller {
    None,
    User,
    Model,
}

/// A task that has ended.
#[derive(Clone, Debug)]
pub struct EndedTask {
    /// The task at its end.
    pub row: Arc<TaskRow>,
    /// How it ended.
    pub end: TaskEnd,
    /// Its result or its error, for the model.
    pub content: Vec<ResultPart>,
    /// What it is charged for until the model has it.
    pub(crate) _charge: Option<Arc<Charge>>,
}

/// How a task ended, as the model is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// With a result.
    Completed,
    /// With a result that reports an error.
    ToolError,
    /// With an error.
    Failed,
    /// The user cancelled it.
    CancelledByUser,
    /// Cancelled, but not by the user or the model.
    Cancelled,
    /// Its end is not known.
    Lost,
}

impl TaskEnd {
    pub(crate) const ALL: [Self; 6] =
        [Self::Completed, Self::ToolError, Self::Failed, Self::CancelledByUser, Self::Cancelled, Self::Lost];

    /// The end in words, after the name of the task.
    pub fn words(self) -> &'static str {
        match self {
            Self::Completed => "has completed",
            Self::ToolError => "has completed with an error of the tool",
            Self::Failed => "has failed",
            Self::CancelledByUser => "was cancelled by the user",
            Self::Cancelled => "was cancelled",
            Self::Lost => "is lost: whether it had an effect is not known",
        }
    }

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ToolError => "tool-error",
            Self::Failed => "failed",
            Self::CancelledByUser | Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }

    fn of(outcome: &CallOutcome, canceller: Canceller) -> Self {
        match outcome {
            CallOutcome::Answered(_) if outcome.is_tool_error() => Self::ToolError,
            CallOutcome::Answered(_) | CallOutcome::HandedOff(_) => Self::Completed,
            CallOutcome::Cancelled if canceller == Canceller::User => Self::CancelledByUser,
            CallOutcome::Cancelled => Self::Cancelled,
            CallOutcome::Failed(CallError::TaskLost { .. }) => Self::Lost,
            CallOutcome::Failed(_) | CallOutcome::Refused(_) | CallOutcome::TimedOut { .. } => Self::Failed,
        }
    }
}

impl EndedTask {
    /// A task that ended while no process had its conversation, with the text of its record.
    pub(crate) fn of_record(row: TaskRow, text: String, host: &Host) -> Self {
        let end = match row.status {
            TaskStatus::Completed | TaskStatus::Working | TaskStatus::InputRequired => TaskEnd::Completed,
            TaskStatus::Failed => TaskEnd::Failed,
            TaskStatus::Cancelled => TaskEnd::Cancelled,
            TaskStatus::Lost => TaskEnd::Lost,
        };
        Self::charged(Arc::new(row), end, vec![ResultPart::Text { text }], host)
    }

    /// The result is replaced if it does not fit the byte budget.
    fn charged(row: Arc<TaskRow>, end: TaskEnd, content: Vec<ResultPart>, host: &Host) -> Self {
        let bytes = content.iter().map(|part| match part {
            ResultPart::Text { text } => text.len(),
            ResultPart::Image(image) => image.data.len(),
            ResultPart::Audio(audio) => audio.data.len(),
        });
        match host.memory().keeping(Kept::Conversation).charge(bytes.sum()) {
            Ok(charge) => Self { row, end, content, _charge: Some(Arc::new(charge)) },
            Err(error) => {
                let text = format!("the result is not kept: {error}; the user can read it with `toolway tasks result`");
                Self { row, end, content: vec![ResultPart::Text { text }], _charge: None }
            }
        }
    }
}

impl TaskBoard {
    /// The tasks of a host from now on. Needs a runtime.
    pub fn new(host: &Host) -> Self {
        let state = Arc::<Mutex<Conversations>>::default();
        let changed = watch::Sender::new(());
        let mut events = host.listen_tasks();
        let followed = Arc::clone(&state);
        let announced = changed.clone();
        let redacting = host.clone();
        let listener = tokio::runtime::Handle::current().spawn(async move {
            while let Some(event) = events.next().await {
                let kept = match event {
                    TaskEvent::Changed(row) => keep_open(&mut followed.lock(), row),
                    TaskEvent::Ended { task, outcome } => {
                        let structured = Structured::of(&redacting.catalog(), &task.tool);
                        let redactor = redacting.redactor();
                        let content = result::whole(&outcome, str::to_owned, structured, &redactor).content;
                        keep_end(&redacting, &mut followed.lock(), task, &outcome, content)
                    }
                    TaskEvent::Missed(count) => {
                        tracing::warn!(count, "changes of tasks were missed; `toolway tasks` has them");
                        None
                    }
                };
                if kept.is_some() {
                    announced.send_replace(());
                }
            }
        });
        let listener = AbortOnDropHandle::new(listener);
        Self { shared: Arc::new(Shared { host: host.clone(), state, changed, _listener: listener }) }
    }

    /// A receiver that is notified of every change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.changed.subscribe()
    }

    /// Whether a task of a conversation goes on: its first result was "started", and its end is not known yet.
    /// True also before its first state was heard, for which [`Self::open`] has nothing.
    pub fn has_open(&self, conversation: &str) -> bool {
        let state = self.shared.state.lock();
        state.get(conversation).is_some_and(ConversationTasks::has_open)
    }

    /// The open tasks of a conversation whose first result was "started", as far as their state was heard.
    pub fn open(&self, conversation: &str) -> Vec<Arc<TaskRow>> {
        let state = self.shared.state.lock();
        let Some(tasks) = state.get(conversation) else { return Vec::new() };
        tasks.open.values().filter(|row| tasks.started.contains_key(&row.id)).cloned().collect()
    }

    /// Whether an idle conversation should start a turn by itself: a task has ended, and it has not done so too often.
    pub fn wants_turn(&self, conversation: &str) -> bool {
        let state = self.shared.state.lock();
        state.get(conversation).is_some_and(|tasks| tasks.has_news() && tasks.self_started < SELF_STARTED_TURNS)
    }

    /// Turns that a conversation may still start by itself.
    pub fn turns_left(&self, conversation: &str) -> u32 {
        let state = self.shared.state.lock();
        SELF_STARTED_TURNS - state.get(conversation).map_or(0, |tasks| tasks.self_started).min(SELF_STARTED_TURNS)
    }

    /// Cancels a task of a conversation for the user. Returns whether there is such a task; its end is told to the model.
    pub fn cancel(&self, conversation: &str, id: Uuid) -> bool {
        self.cancel_as(conversation, id, Canceller::User)
    }

    /// Takes up a task that an earlier process of the conversation started.
    pub(crate) fn resume_open(&self, row: TaskRow) {
        let Some(conversation) = row.conversation.clone() else { return };
        let mut state = self.shared.state.lock();
        let tasks = state.entry(conversation).or_default();
        tasks.started.entry(row.id).or_insert(Canceller::None);
        tasks.open.entry(row.id).or_insert_with(|| Arc::new(row));
    }

    /// Takes up a task that has ended while no process had the conversation. The model is told with the next turn.
    pub(crate) fn resume_ended(&self, ended: EndedTask) {
        let Some(conversation) = ended.row.conversation.clone() else { return };
        let mut state = self.shared.state.lock();
        let tasks = state.entry(conversation).or_default();
        tasks.started.entry(ended.row.id).or_insert(Canceller::None);
        tasks.open.remove(&ended.row.id);
        // What this process saw itself has more than the record.
        if tasks.ended.iter().all(|known| known.row.id != ended.row.id) {
            tasks.ended.push(ended);
        }
    }

    /// The conversations that have open tasks, or ended ones that the model was not told of.
    pub fn conversations(&self) -> Vec<String> {
        self.shared.state.lock().keys().cloned().collect()
    }

    /// Whether something is left to tell the model: a task is open, or its end was not given to it.
    pub fn is_busy(&self, conversation: &str) -> bool {
        let state = self.shared.state.lock();
        state.get(conversation).is_some_and(|tasks| !tasks.started.is_empty())
    }

    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    /// Forgets a conversation.
    pub fn forget(&self, conversation: &str) {
        self.shared.state.lock().remove(conversation);
    }

    pub(crate) fn cancel_for_model(&self, conversation: &str, id: Uuid) -> bool {
        self.cancel_as(conversation, id, Canceller::Model)
    }

    fn cancel_as(&self, conversation: &str, id: Uuid, canceller: Canceller) -> bool {
        let is_known = {
            let mut state = self.shared.state.lock();
            let started = state.get_mut(conversation).and_then(|tasks| tasks.started.get_mut(&id));
            started.map(|by| *by = canceller).is_some()
        };
        is_known && self.shared.host.cancel_task(id)
    }

    /// A call was answered with "started".
    pub(crate) fn start(&self, conversation: &str, id: Uuid) {
        let mut state = self.shared.state.lock();
        state.entry(conversation.to_owned()).or_default().started.insert(id, Canceller::None);
        drop(state);
        // It may have ended before.
        self.shared.changed.send_replace(());
    }

    /// A call that waited for its task was answered with its end.
    pub(crate) fn forget_call(&self, conversation: &str, id: Uuid) {
        let mut state = self.shared.state.lock();
        let Some(tasks) = state.get_mut(conversation) else { return };
        tasks.open.remove(&id);
        tasks.ended.retain(|ended| ended.row.id != id);
    }

    /// What the model is told about one task.
    pub(crate) fn describe(&self, conversation: &str, id: Uuid) -> Option<String> {
        let state = self.shared.state.lock();
        let tasks = state.get(conversation)?;
        if let Some(row) = tasks.open.get(&id) {
            return Some(describe(row));
        }
        let ended = tasks.ended.iter().find(|ended| ended.row.id == id)?;
        Some(format!(
            "task {id} of `{}` {}; its result follows in a message of its own",
            ended.row.tool,
            ended.end.words()
        ))
    }

    /// Begins a turn: takes the ends that the model is to be told of, each as a message of its own.
    pub(crate) fn begin_turn(&self, conversation: &str, by: TurnBy, kept: &KeptResults, page: usize) -> Vec<GivenTask> {
        let mut state = self.shared.state.lock();
        let Some(tasks) = state.get_mut(conversation) else { return Vec::new() };
        tasks.self_started = match by {
            TurnBy::User => 0,
            TurnBy::Itself => tasks.self_started + 1,
        };
        let ended = tasks.take_news();
        drop(state);
        ended.into_iter().map(|task| GivenTask::new(task, kept, page)).collect()
    }
}

/// What begins a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnBy {
    /// A message of the user.
    User,
    /// The end of a task.
    Itself,
}

/// The end of a task, and the message with which the model is told.
pub(crate) struct GivenTask {
    pub(crate) task: EndedTask,
    pub(crate) message: Message,
}

impl GivenTask {
    fn new(task: EndedTask, kept: &KeptResults, page: usize) -> Self {
        let (content, rest) = result::cut(task.content.clone(), &task.row.id.to_string(), page);
        if let Some(rest) = rest {
            kept.keep(&task.row.id.to_string(), rest);
        }
        let message = task_block::message(&task, content);
        Self { task, message }
    }
}

impl ConversationTasks {
    fn has_open(&self) -> bool {
        self.started.keys().any(|id| self.ended.iter().all(|ended| ended.row.id != *id))
    }

    fn has_news(&self) -> bool {
        self.ended.iter().any(|ended| self.started.contains_key(&ended.row.id))
    }

    fn take_news(&mut self) -> Vec<EndedTask> {
        let started = &self.started;
        let (news, others) = std::mem::take(&mut self.ended)
            .into_iter()
            .partition::<Vec<_>, _>(|ended| started.contains_key(&ended.row.id));
        self.ended = others;
        for ended in &news {
            self.started.remove(&ended.row.id);
        }
        news
    }
}

/// A task and how far it is, on one line.
pub fn describe(row: &TaskRow) -> String {
    let progress = row.progress.map(|progress| match progress.total {
        Some(total) if 0.0 < total => format!(", {:.0} %", 100.0 * progress.done / total),
        _ => format!(", {}", progress.done),
    });
    let message = row.message.as_ref().map(|message| format!(": {message}"));
    let TaskRow { id, tool, status, .. } = row;
    format!("task {id} of `{tool}` is {status}{}{}", progress.unwrap_or_default(), message.unwrap_or_default())
}

/// Keeps the state of an open task; `None` if it belongs to no conversation.
fn keep_open(state: &mut Conversations, row: Arc<TaskRow>) -> Option<()> {
    let conversation = row.conversation.clone()?;
    state.entry(conversation).or_default().open.insert(row.id, row);
    Some(())
}

/// Keeps the end of a task; `None` if it belongs to no conversation.
fn keep_end(
    host: &Host,
    state: &mut Conversations,
    row: Arc<TaskRow>,
    outcome: &CallOutcome,
    content: Vec<ResultPart>,
) -> Option<()> {
    let tasks = state.entry(row.conversation.clone()?).or_default();
    tasks.open.remove(&row.id);
    // Its record may have been found before its end was heard.
    tasks.ended.retain(|known| known.row.id != row.id);
    let canceller = tasks.started.get(&row.id).copied().unwrap_or(Canceller::None);
    let end = TaskEnd::of(outcome, canceller);
    if canceller == Canceller::Model && end == TaskEnd::Cancelled {
        // The model was told when it cancelled the task.
        tasks.started.remove(&row.id);
        return Some(());
    }
    if MAX_ENDED <= tasks.ended.len() {
        tracing::warn!(task = %row.id, "too many tasks of a conversation have ended; the model is not told of this one");
        tasks.started.remove(&row.id);
        return Some(());
    }
    tasks.ended.push(EndedTask::charged(row, end, content, host));
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use toolway_host::task::{AnsweredBy, KeptBy, TaskRow, TaskStatus};
    use uuid::Uuid;

    pub(crate) fn row(conversation: &str) -> Arc<TaskRow> {
        Arc::new(TaskRow {
            tool: "jobs__long".to_owned(),
            conversation: Some(conversation.to_owned()),
            status: TaskStatus::Completed,
            ..TaskRow::begun(Uuid::now_v7(), KeptBy::Process, AnsweredBy::Host)
        })
    }
}
