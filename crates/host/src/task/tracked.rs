//! The row of a task that this process follows: written when something changes, and once at its end.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolway_config::ServerName;
use toolway_wire::{
    json::Raw,
    message::ClientCapabilities,
    task::{CANCELLED_TASK, Task},
    time,
};

use super::{
    AnsweredBy, KeptBy, TaskLog, TaskProgress, TaskRow, TaskStatus,
    row_writer::{RowWriter, TaskChange},
};
use crate::{
    audience::ClientText,
    call::{CallError, CallOutcome},
    event::{EventSender, TaskEvent},
    record::{CallRecord, redact::Redactor},
};

/// Bytes of a status message that are kept.
const MAX_MESSAGE: usize = 4_096;
/// Largest number of a progress report that is taken over; a longer one is not written out in full on every surface.
const MAX_NUMBER: f64 = 1e15;

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
    writer: RowWriter,
    events: EventSender,
    redactor: Redactor,
    /// The message of the status that was read last.
    stated: Option<String>,
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
        let TaskOrigin { kept_by, answered_by, capabilities, hosted_for } = origin;
        let capabilities = capabilities.map(|declared| declared.0.to_string());
        let row = TaskRow {
            remote_id: task.id.clone(),
            server: call.server.as_ref().map(ToString::to_string).unwrap_or_default(),
            tool: call.tool.clone().unwrap_or_else(|| call.name.clone()),
            caller: call.caller.label(),
            conversation: call.conversation.as_deref().map(str::to_owned),
            surface: Some(call.surface),
            status: task.status.into(),
            ttl: task.ttl.map(time::duration),
            poll_interval: task.poll_interval.map(time::duration),
            hosted_for: hosted_for.as_deref().map(str::to_owned),
            capabilities: capabilities.filter(|declared| declared.len() <= MAX_CAPABILITIES),
            ..TaskRow::begun(call.id.uuid(), kept_by, answered_by)
        };
        let TaskPorts { log, events } = ports;
        let mut tracked = Self { row, writer: RowWriter::new(log), events, redactor, stated: None };
        tracked.set_message(task.message.as_deref());
        let written = tracked.change(TaskChange::State);
        (tracked, written)
    }

    /// A task that another process began and this one has claimed.
    pub(crate) fn adopted(row: TaskRow, ports: TaskPorts, redactor: Redactor) -> Self {
        let TaskPorts { log, events } = ports;
        Self { row, writer: RowWriter::new(log), events, redactor, stated: None }
    }

    /// The call is sent to this server, whose secrets are replaced from here on.
    pub(crate) fn sent(&mut self, server: &ServerName, call: &CallRecord, redactor: Redactor) {
        self.row.server = server.to_string();
        self.row.tool = call.tool.clone().unwrap_or_else(|| call.name.clone());
        self.redactor = redactor;
        drop(self.change(TaskChange::State));
    }

    /// The server continues the call, which was a task for its caller already.
    pub(crate) fn continue_as(&mut self, task: &Task, kept_by: KeptBy) {
        self.row.remote_id.clone_from(&task.id);
        self.row.kept_by = kept_by;
        self.row.poll_interval = task.poll_interval.map(time::duration);
        drop(self.change(TaskChange::State));
    }

    /// Takes over what the server says when it is asked. Its message counts if it is another one than before: progress may
    /// have said more in the meantime.
    pub(crate) fn update(&mut self, task: &Task) {
        let message_before = self.row.message.clone();
        if self.stated != task.message {
            self.stated.clone_from(&task.message);
            self.set_message(task.message.as_deref());
        }
        // Its end is written with its result.
        let status = TaskStatus::from(task.status);
        if status.is_open() && std::mem::replace(&mut self.row.status, status) != status {
            drop(self.change(TaskChange::State));
        } else if message_before != self.row.message {
            drop(self.change(TaskChange::Progress));
        }
    }

    /// Takes over a progress event of the exchange of a task. Without a total its number may be only a count of messages.
    pub(crate) fn progress(&mut self, params: &Raw) {
        let progress = progress_of(params).filter(|progress| progress.total.is_some());
        self.set_progress(progress, params);
    }

    /// Takes over what the server itself reported.
    pub(crate) fn report(&mut self, params: &Raw) {
        self.set_progress(progress_of(params), params);
    }

    fn set_progress(&mut self, progress: Option<TaskProgress>, params: &Raw) {
        let before = (self.row.progress, self.row.message.clone());
        self.row.progress = progress.or(self.row.progress);
        self.set_message(params.get("message").as_ref().and_then(Raw::as_str).as_deref());
        if before != (self.row.progress, self.row.message.clone()) {
            drop(self.change(TaskChange::Progress));
        }
    }

    /// The server waits for an answer, or no longer does.
    pub(crate) fn set_status(&mut self, status: TaskStatus) {
        if std::mem::replace(&mut self.row.status, status) != status {
            drop(self.change(TaskChange::State));
        }
    }

    /// Writes the end of the task, as the outcome of its call says.
    pub(crate) fn end(&mut self, outcome: &CallOutcome) -> BoxFuture<'static, ()> {
        self.close(outcome);
        self.row.updated_at = time::now();
        self.writer.end(&self.row)
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
            self.row.message = Some(why.map(|why| cut(&self.redactor.message(why))));
        }
    }

    /// Lets another process follow the task.
    pub(crate) fn release(&self) {
        self.writer.release(self.row.id);
    }

    /// Cancelled when another process follows the task.
    pub(crate) fn taken(&self) -> CancellationToken {
        self.writer.taken().clone()
    }

    pub(crate) fn log(&self) -> &Arc<dyn TaskLog> {
        &self.writer.log
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    fn set_message(&mut self, message: Option<&str>) {
        if let Some(message) = message {
            // The server addressed it to its client.
            self.row.message = Some(ClientText::complete(cut(&self.redactor.message(message))));
        }
    }

    /// Tells listeners of a change and writes it. The future resolves when it is durable, if it is written now.
    fn change(&mut self, change: TaskChange) -> BoxFuture<'static, ()> {
        self.row.updated_at = time::now();
        self.events.send_task(|| TaskEvent::Changed(Arc::new(self.row.clone())));
        self.writer.change(&self.row, change)
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

/// The number of a progress report, if it has one.
fn progress_of(params: &Raw) -> Option<TaskProgress> {
    let fits = |number: &f64| (-MAX_NUMBER..=MAX_NUMBER).contains(number);
    let number = |key: &str| params.get(key).and_then(|value| value.as_f64()).filter(fits);
    Some(TaskProgress { done: number("progress")?, total: number("total") })
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

    use http::StatusCode;
    use parking_lot::Mutex;
    use serde_json::json;
    use toolway_wire::{error::WireError, json::Raw, time::Micros};
    use uuid::Uuid;

    use super::{
        AnsweredBy, BoxFuture, CallError, CallOutcome, ClientText, EventSender, KeptBy, Redactor, Task, TaskLog,
        TaskPorts, TaskRow, TaskStatus, TrackedTask,
    };
    use crate::{
        audience::OperatorText,
        connection::NotConnected,
        policy::Refusal,
        record::{RecordsError, Repeated},
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
            remote_id: "1".to_owned(),
            server: "jobs".to_owned(),
            ..TaskRow::begun(Uuid::now_v7(), KeptBy::Server, AnsweredBy::Host)
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
            CallError::Wire(WireError::Refused(secret())),
            CallError::Wire(WireError::NoToken(secret())),
            CallError::Wire(WireError::Vault(secret())),
            CallError::Wire(WireError::Redirect { location: secret(), reason: "elsewhere" }),
            CallError::Wire(WireError::Status { status: StatusCode::BAD_GATEWAY, body: secret() }),
            CallError::Wire(WireError::Unauthorized {
                status: StatusCode::UNAUTHORIZED,
                challenges: vec![secret()],
                body: secret(),
            }),
            CallError::NotConnected { server: "jobs".parse().unwrap(), why: not_connected },
        ];
        let repeated = Repeated::Failed { call: Uuid::now_v7(), message: secret() };
        let refused = [Refusal::NotRecorded(secret()), Refusal::LimitUnknown(secret()), Refusal::Repeated(repeated)];
        let refused = refused.map(CallOutcome::Refused);
        for outcome in failed.map(CallOutcome::Failed).into_iter().chain(refused) {
            let mut task = tracked(&Arc::default());
            task.close(&outcome);
            let message = task.row.message.unwrap().to_string();
            let is_told = message.contains("ada") || message.contains("hunter2");
            assert!(!message.is_empty() && !is_told, "{message}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_written_at_a_bounded_rate_and_always_at_the_end() {
        let rows = Arc::<Rows>::default();
        let mut task = tracked(&rows);
        let reports = |from: u32, task: &mut TrackedTask| {
            (from..from + 1_000)
                .for_each(|done| task.report(&Raw::of(&json!({ "progress": done, "total": 10_000, "message": "x" }))));
        };
        let written = || rows.0.lock().iter().map(|row| row.progress.unwrap().done).collect::<Vec<f64>>();
        reports(1, &mut task);
        assert_eq!(written(), [1.0], "the first");
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        assert_eq!(written(), [1.0, 1_000.0], "the newest, after a pause, without another report");
        for from in [2_000, 3_000, 4_000] {
            reports(from, &mut task);
            tokio::time::sleep(Duration::from_millis(1_000)).await;
        }
        assert!(written().len() <= 4, "{:?}", written());
        task.set_status(TaskStatus::InputRequired);
        assert_eq!(rows.0.lock().last().unwrap().status, TaskStatus::InputRequired, "a state is written at once");
        task.end(&CallOutcome::Cancelled).await;
        let count = rows.0.lock().len();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let last = rows.0.lock().last().cloned().unwrap();
        assert_eq!((last.status, last.progress.map(|it| it.done)), (TaskStatus::Cancelled, Some(4_999.0)));
        assert_eq!(rows.0.lock().len(), count, "nothing is written after the end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_left_is_written_before_another_process_may_follow_it() {
        let rows = Arc::<Rows>::default();
        let mut task = tracked(&rows);
        (1..=3).for_each(|done| task.report(&Raw::of(&json!({ "progress": done }))));
        task.release();
        let count = rows.0.lock().len();
        assert_eq!(rows.0.lock().last().unwrap().progress.unwrap().done, 3.0);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rows.0.lock().len(), count);
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_says_nothing_new_does_not_hide_what_progress_said() {
        let rows = Arc::<Rows>::default();
        let mut task = tracked(&rows);
        let read = |message: &str| Task { message: Some(message.to_owned()), ..Task::new("1", None, None) };
        let said = |task: &TrackedTask| task.row.message.clone().unwrap().to_string();
        task.update(&read("painting"));
        task.report(&Raw::of(&json!({ "progress": 3, "total": 9, "message": "third wall" })));
        task.update(&read("painting"));
        assert_eq!(said(&task), "third wall");
        // What no surface can show is not taken over.
        task.report(&Raw::of(&json!({ "progress": 1e300, "total": "all" })));
        task.update(&read("drying"));
        assert_eq!((said(&task), task.row.progress.unwrap().done), ("drying".to_owned(), 3.0));
    }
}
