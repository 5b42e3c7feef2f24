//! The row of a task that this process follows: written when something changes, and once at its end.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use toolway_config::ServerName;
use toolway_wire::{
    json::Raw,
    message::ClientCapabilities,
    task::{CANCELLED_TASK, Task},
    time,
};

use super::{AnsweredBy, KeptBy, TaskLog, TaskProgress, TaskRow, TaskStatus};
use crate::{
    audience::ClientText,
    call::{CallError, CallOutcome},
    event::{EventSender, TaskEvent},
    record::{CallRecord, redact::Redactor},
};

/// Bytes of a status message that are kept.
const MAX_MESSAGE: usize = 4_096;
/// Bytes of a task id that are kept. A task with a longer one is not stored.
const MAX_REMOTE_ID: usize = 4_096;

/// Changes of a task that are written within [`WRITE_WINDOW`]; a server may report more than a store should write. Its end is
/// always written.
const WRITES: u32 = 20;
const WRITE_WINDOW: Duration = Duration::from_secs(10);

/// Bytes of the capabilities of a caller that are kept.
const MAX_CAPABILITIES: usize = 16 * 1024;

/// What is known of a task besides what its server says.
#[derive(Clone, Debug)]
pub(crate) struct TaskOrigin {
    pub(crate) kept_by: KeptBy,
    pub(crate) answered_by: AnsweredBy,
    pub(crate) capabilities: Option<ClientCapabilities>,
    /// Identity of the client for which the gateway hosts the task.
    pub(crate) hosted_for: Option<Arc<str>>,
}

/// A task that this process follows. Dropping it before its end leaves the row open.
pub(crate) struct TrackedTask {
    pub(crate) row: TaskRow,
    log: Arc<dyn TaskLog>,
    events: EventSender,
    redactor: Redactor,
    /// Changes written since the window began.
    writes: u32,
    window: Instant,
}

impl TrackedTask {
    /// The task of a call. The future resolves when its row is written.
    pub(crate) fn begin(
        task: &Task,
        call: &CallRecord,
        origin: TaskOrigin,
        ports: TaskPorts,
        redactor: Redactor,
    ) -> (Self, BoxFuture<'static, ()>) {
        let now = time::now();
        let row = TaskRow {
            id: call.id.uuid(),
            remote_id: task.id.clone(),
            server: call.server.as_ref().map(ToString::to_string).unwrap_or_default(),
            tool: call.tool.clone().unwrap_or_else(|| call.name.clone()),
            caller: call.caller.label(),
            conversation: call.conversation.as_deref().map(str::to_owned),
            status: task.status.into(),
            message: None,
            progress: None,
            created_at: now,
            updated_at: now,
            ttl: task.ttl.map(time::duration),
            poll_interval: task.poll_interval.map(time::duration),
            kept_by: origin.kept_by,
            answered_by: origin.answered_by,
            hosted_for: origin.hosted_for.as_deref().map(str::to_owned),
            capabilities: origin
                .capabilities
                .map(|declared| declared.0.to_string())
                .filter(|it| it.len() <= MAX_CAPABILITIES),
            process: None,
        };
        let TaskPorts { log, events } = ports;
        let mut tracked = Self { row, log, events, redactor, writes: 0, window: Instant::now() };
        tracked.set_message(task.message.as_deref());
        let written = tracked.write();
        (tracked, written)
    }

    /// A task that another process began and this one has claimed.
    pub(crate) fn adopted(row: TaskRow, ports: TaskPorts, redactor: Redactor) -> Self {
        let TaskPorts { log, events } = ports;
        Self { row, log, events, redactor, writes: 0, window: Instant::now() }
    }

    /// The call is sent to this server, whose secrets are replaced from here on.
    pub(crate) fn sent(&mut self, server: &ServerName, call: &CallRecord, redactor: Redactor) {
        self.row.server = server.to_string();
        self.row.tool = call.tool.clone().unwrap_or_else(|| call.name.clone());
        self.redactor = redactor;
        drop(self.write());
    }

    /// The server continues the call, which was a task for its caller already.
    pub(crate) fn continue_as(&mut self, task: &Task, kept_by: KeptBy) {
        self.row.remote_id.clone_from(&task.id);
        self.row.kept_by = kept_by;
        self.row.poll_interval = task.poll_interval.map(time::duration);
        drop(self.write());
    }

    /// Takes over what the server says now.
    pub(crate) fn update(&mut self, task: &Task) {
        let before = (self.row.status, self.row.message.clone());
        // Its end is written with its result.
        let status = TaskStatus::from(task.status);
        if status.is_open() {
            self.row.status = status;
        }
        self.set_message(task.message.as_deref());
        if before != (self.row.status, self.row.message.clone()) {
            drop(self.write());
        }
    }

    /// Takes over a progress notification.
    pub(crate) fn progress(&mut self, params: &Raw) {
        let number = |key: &str| params.get(key).and_then(|value| value.as_f64());
        // Without a total it is only a count of messages.
        let progress = number("total").zip(number("progress"));
        let progress = progress.map(|(total, done)| TaskProgress { done, total: Some(total) });
        let before = (self.row.progress, self.row.message.clone());
        self.row.progress = progress.or(self.row.progress);
        self.set_message(params.get("message").as_ref().and_then(Raw::as_str).as_deref());
        if before != (self.row.progress, self.row.message.clone()) {
            drop(self.write());
        }
    }

    /// The server waits for an answer, or no longer does.
    pub(crate) fn set_status(&mut self, status: TaskStatus) {
        if std::mem::replace(&mut self.row.status, status) != status {
            drop(self.write());
        }
    }

    /// Writes the end of the task, as the outcome of its call says.
    pub(crate) fn end(&mut self, outcome: &CallOutcome) -> BoxFuture<'static, ()> {
        self.close(outcome);
        self.write()
    }

    /// Tells listeners that the task has ended.
    pub(crate) fn announce_end(&self, outcome: &CallOutcome) {
        self.events
            .send_task(|| TaskEvent::Ended { task: Arc::new(self.row.clone()), outcome: Arc::new(outcome.clone()) });
    }

    /// Sets the end of the task without writing it.
    pub(crate) fn close(&mut self, outcome: &CallOutcome) {
        self.row.status = status_of(outcome);
        if let (TaskStatus::Failed | TaskStatus::Lost, Some(why)) = (self.row.status, outcome.for_client()) {
            self.row.message = Some(why.map(|why| cut(&self.redactor.text(why))));
        }
    }

    /// Lets another process follow the task.
    pub(crate) fn release(&self) {
        self.log.release(self.row.id);
    }

    pub(crate) fn log(&self) -> &Arc<dyn TaskLog> {
        &self.log
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    fn set_message(&mut self, message: Option<&str>) {
        if let Some(message) = message {
            // The server addressed it to its client.
            self.row.message = Some(ClientText::complete(cut(&self.redactor.text(message))));
        }
    }

    fn write(&mut self) -> BoxFuture<'static, ()> {
        self.row.updated_at = time::now();
        if self.row.status.is_open() {
            self.events.send_task(|| TaskEvent::Changed(Arc::new(self.row.clone())));
            if WRITE_WINDOW < self.window.elapsed() {
                self.writes = 0;
                self.window = Instant::now();
            }
            self.writes += 1;
            if WRITES < self.writes {
                return Box::pin(std::future::ready(()));
            }
        }
        if MAX_REMOTE_ID < self.row.remote_id.len() {
            tracing::warn!(task = %self.row.id, "a task id of the server is too long; the task is not stored");
            return Box::pin(std::future::ready(()));
        }
        let id = self.row.id;
        let written = self.log.write(&self.row);
        Box::pin(async move {
            if let Err(error) = written.await {
                tracing::error!(task = %id, %error, "the task is not recorded");
            }
        })
    }
}

/// Where rows of tasks go.
#[derive(Clone)]
pub(crate) struct TaskPorts {
    pub(crate) log: Arc<dyn TaskLog>,
    pub(crate) events: EventSender,
}

/// The state of a task whose call has this outcome.
fn status_of(outcome: &CallOutcome) -> TaskStatus {
    match outcome {
        CallOutcome::Answered(_) | CallOutcome::HandedOff(_) => TaskStatus::Completed,
        CallOutcome::Cancelled => TaskStatus::Cancelled,
        CallOutcome::Failed(CallError::Server(error)) if error.message() == CANCELLED_TASK => TaskStatus::Cancelled,
        // It is known that it did not happen.
        CallOutcome::Refused(_) | CallOutcome::Failed(CallError::NotConnected { .. }) => TaskStatus::Failed,
        CallOutcome::Failed(CallError::Server(_)) => TaskStatus::Failed,
        CallOutcome::Failed(_) | CallOutcome::TimedOut { .. } => TaskStatus::Lost,
    }
}

/// The beginning of a text, within the bound.
fn cut(text: &str) -> String {
    let end = (0..=MAX_MESSAGE.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text[..end].to_owned()
}

impl fmt::Debug for TrackedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedTask").field("row", &self.row).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use parking_lot::Mutex;
    use serde_json::json;
    use toolway_wire::{error::WireError, json::Raw, time::Micros};
    use uuid::Uuid;

    use super::{
        AnsweredBy, BoxFuture, CallError, CallOutcome, ClientText, EventSender, KeptBy, Redactor, TaskLog, TaskPorts,
        TaskRow, TaskStatus, TrackedTask,
    };
    use crate::{
        audience::OperatorText,
        connection::NotConnected,
        policy::Refusal,
        record::RecordsError,
        task::{SettledCall, StoredTask},
        whose_move::WhoseMove,
    };

    /// Keeps every row that is written.
    #[derive(Default)]
    struct Rows(Mutex<Vec<TaskRow>>);

    impl TaskLog for Rows {
        fn write(&self, task: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
            self.0.lock().push(task.clone());
            Box::pin(std::future::ready(Ok(())))
        }

        fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
            Box::pin(std::future::ready(Ok(true)))
        }

        fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }

        fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
            Box::pin(std::future::ready(Ok(None)))
        }

        fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }

        fn release(&self, _: Uuid) {}

        fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn tracked(rows: &Arc<Rows>) -> TrackedTask {
        let row = TaskRow {
            id: Uuid::now_v7(),
            remote_id: "1".to_owned(),
            server: "jobs".to_owned(),
            tool: "jobs__paint".to_owned(),
            caller: "terminal".to_owned(),
            conversation: None,
            status: TaskStatus::Working,
            message: None,
            progress: None,
            created_at: 0,
            updated_at: 0,
            ttl: None,
            poll_interval: None,
            kept_by: KeptBy::Server,
            answered_by: AnsweredBy::Host,
            hosted_for: None,
            capabilities: None,
            process: None,
        };
        let ports = TaskPorts { log: rows.clone(), events: EventSender::new() };
        TrackedTask::adopted(row, ports, Redactor::default())
    }

    #[test]
    fn the_message_of_a_task_has_no_text_for_operators() {
        let secret = || "password=hunter2 in /home/ada".to_owned();
        let not_connected = NotConnected {
            because: OperatorText::new(secret()),
            for_client: ClientText::of_code("ended"),
            whose_move: WhoseMove::Caller,
            error: None,
        };
        let failed = [
            CallError::Wire(WireError::Ended(secret())),
            CallError::Wire(WireError::Unreachable { target: secret(), reason: secret() }),
            CallError::Wire(WireError::Protocol(secret())),
            CallError::NotConnected { server: "jobs".parse().unwrap(), why: not_connected },
        ];
        let refused = CallOutcome::Refused(Refusal::NotRecorded(secret()));
        for outcome in failed.map(CallOutcome::Failed).into_iter().chain([refused]) {
            let mut task = tracked(&Arc::default());
            task.close(&outcome);
            let message = task.row.message.unwrap().to_string();
            assert!(!message.is_empty() && !message.contains("ada"), "{message}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_written_at_a_bounded_rate_and_always_at_the_end() {
        let rows = Arc::<Rows>::default();
        let mut task = tracked(&rows);
        let report = |count: u32, task: &mut TrackedTask| {
            (0..count).for_each(|done| task.progress(&Raw::of(&json!({ "progress": done, "total": 1_000 }))));
            rows.0.lock().len()
        };
        assert_eq!(report(1_000, &mut task), 20, "in ten seconds");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(report(1_000, &mut task), 40);
        task.end(&CallOutcome::Cancelled).await;
        let last = rows.0.lock().last().cloned().unwrap();
        assert_eq!((last.status, last.progress.map(|it| it.done)), (TaskStatus::Cancelled, Some(999.0)));
    }
}
