//! A task that an earlier process of the gateway hosted: its state and result are those of the store.
//!
//! A call that its server continues is followed by this process; any other one ended with the process that made it.

use std::{
    fmt,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use toolway_host::{
    Host,
    call::CallId,
    record::RecordsError,
    task::{self, TaskRow, TaskStatus},
};
use toolway_wire::{
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome},
    json::Raw,
    message::RpcError,
    task::{CANCELLED_TASK, Task, TaskContent, TaskError, TaskStatus as WireStatus},
    time,
};

use super::{tasks::hosted_task_gone, uris::PublicUris};

/// Poll interval suggested to callers, and time between two looks for one that waits.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A task in the store.
pub(super) struct StoredTask {
    pub(super) host: Host,
    pub(super) call: CallId,
    /// Converts URIs of the server; `None` if the server is served under its own names.
    pub(super) uris: Option<PublicUris>,
}

/// An exchange that ends with the outcome of a future.
struct Ending(Option<BoxFuture<'static, Outcome>>);

/// The exchange of a future, without events before its outcome.
pub(super) fn ending_with(outcome: impl Future<Output = Outcome> + Send + 'static) -> Exchange {
    Exchange::through(Ending(Some(Box::pin(outcome))))
}

/// The state of a stored task for its caller, without its content and its id.
pub(super) fn state_of(row: &TaskRow) -> Task {
    let micros = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or_default());
    let status = match row.status {
        TaskStatus::Working | TaskStatus::InputRequired => WireStatus::Working,
        TaskStatus::Cancelled => WireStatus::Cancelled,
        TaskStatus::Failed | TaskStatus::Lost => WireStatus::Failed,
        TaskStatus::Completed => WireStatus::Completed,
    };
    Task {
        status,
        message: row.message.as_ref().map(ToString::to_string),
        created: time::rfc3339(row.created_at),
        updated: time::rfc3339(row.updated_at),
        ..Task::new("", row.ttl.map(micros), Some(POLL_INTERVAL))
    }
}

impl StoredTask {
    /// Its present state, with its result.
    pub(super) async fn task(&self) -> Result<Task, TaskError> {
        let found = self.host.stored_task(self.call.uuid()).await;
        let found = found.map_err(|error| self.unreadable(&error))?.ok_or_else(hosted_task_gone)?;
        let task = state_of(&found.row);
        let (status, content) = self.end_of(found);
        Ok(Task { status, content, ..task })
    }

    /// Cancels it, if this process follows it.
    pub(super) async fn cancel(&self) -> Result<Task, TaskError> {
        let id = self.call.uuid();
        self.host.cancel_task(id);
        while self.host.follows_task(id) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.task().await
    }

    /// Waits for its end.
    pub(super) fn follow(self) -> Exchange {
        let waiting = async move {
            loop {
                match self.task().await {
                    Ok(Task { content: TaskContent::Result(result), .. }) => return Outcome::Answered(result),
                    Ok(Task { content: TaskContent::Error(error), .. }) => return Outcome::Refused(error),
                    Ok(task) if task.status.is_finished() => {
                        return Outcome::Refused(RpcError::new(RpcError::INTERNAL, CANCELLED_TASK));
                    }
                    Ok(_) => tokio::time::sleep(POLL_INTERVAL).await,
                    Err(problem) => return problem.into(),
                }
            }
        };
        ending_with(waiting)
    }

    /// The error for clients. That of the store names files of the operator.
    fn unreadable(&self, error: &RecordsError) -> TaskError {
        tracing::error!(task = %self.call, %error, "a stored task cannot be read");
        TaskError::Refused(RpcError::new(RpcError::INTERNAL, "the stored task cannot be read now; ask again later"))
    }

    fn end_of(&self, found: task::StoredTask) -> (WireStatus, TaskContent) {
        let error = |message: &str| TaskContent::Error(RpcError::new(RpcError::INTERNAL, message));
        let why = found.row.message.map_or_else(|| "its call has failed".to_owned(), |message| message.to_string());
        match found.row.status {
            TaskStatus::Working | TaskStatus::InputRequired => (WireStatus::Working, TaskContent::Nothing),
            TaskStatus::Cancelled => (WireStatus::Cancelled, TaskContent::Nothing),
            TaskStatus::Failed => (WireStatus::Failed, error(&why)),
            TaskStatus::Lost => (WireStatus::Failed, error(&format!("the task is lost: {why}"))),
            TaskStatus::Completed => match found.result.and_then(|result| Raw::parse(result).ok()) {
                Some(result) if result.get("toolway").is_none() => {
                    let public = self.uris.as_ref().zip(found.row.server.parse().ok());
                    let result = match public {
                        Some((uris, server)) => uris.to_public(result, &server),
                        None => result,
                    };
                    (WireStatus::Completed, TaskContent::Result(result))
                }
                _ => (WireStatus::Failed, error("the task is completed, but its result was not kept")),
            },
        }
    }
}

impl ExchangeInterceptor for Ending {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        let Some(waiting) = &mut self.0 else { return Poll::Ready(None) };
        let outcome = std::task::ready!(waiting.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(Some(ExchangeEvent::Ended(outcome)))
    }

    fn cancel(&mut self, _reason: &str) {
        if self.0.is_some() {
            self.0 = Some(Box::pin(std::future::ready(Outcome::Cancelled)));
        }
    }

    fn missed(&self) -> u64 {
        0
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ending")
    }
}
