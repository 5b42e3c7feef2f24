//! The write port of tasks. What reads them: [`Records`](crate::record::Records).

use futures_util::future::BoxFuture;
use toolway_wire::time::Micros;
use uuid::Uuid;

use super::{StoredTask, TaskRow};
use crate::record::{CallBody, CallState, RecordsError};

/// Writes tasks durably. All methods submit their write before they return; a future only waits for its commit.
pub trait TaskLog: Send + Sync {
    /// Writes a task that this process follows. A task that has ended stays as it is.
    fn write(&self, task: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>>;

    /// Takes a task that has not ended and that no process follows. Returns whether this process follows it now.
    fn claim(&self, id: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>>;

    /// Tasks that have not ended and that no living process follows. Those that ended with their process are closed first.
    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>>;

    /// One task with the end of its call.
    fn find(&self, id: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>>;

    /// The newest tasks that the gateway hosted for a client of this identity before a time, newest first.
    fn hosted_for(
        &self,
        identity: &str,
        before: Micros,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>>;

    /// Lets another process claim a task that this one followed.
    fn release(&self, id: Uuid);

    /// Writes the end of a task whose call another process has recorded, and the end of that call.
    fn settle(&self, task: &TaskRow, call: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>>;
}

/// How the call of a task ended.
#[derive(Clone, Debug)]
pub struct SettledCall {
    /// The state in which it ended.
    pub state: CallState,
    /// Redacted error message; `None` if it succeeded.
    pub error: Option<String>,
    /// Its result, as it is kept.
    pub body: CallBody,
    /// Bytes of the result.
    pub result_bytes: usize,
}

/// Keeps nothing: tasks are known to the process that follows them only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTaskLog;

impl TaskLog for NoTaskLog {
    fn write(&self, _: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }

    fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
        Box::pin(async { Ok(false) })
    }

    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
        Box::pin(async { Ok(None) })
    }

    fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn release(&self, _: Uuid) {}

    fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }
}
