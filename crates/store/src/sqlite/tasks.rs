//! Tasks: one row each, with the id of its call. A task belongs to the process that follows it (`run`), or to none.

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter, types::Value};
pub use toolway_host::task::{TaskFilter, TaskRow, TaskStatus};
use toolway_host::{
    audience::ClientText,
    policy::Surface,
    task::{AnsweredBy, ENDED_WITH_PROCESS, KeptBy, SettledCall, TaskProgress},
};
use uuid::Uuid;

use crate::{
    SqliteReader, StoreError,
    calls::{self, CallRow, Delivery},
    time::{self, Micros},
};

const COLUMNS: &str = "id, remote_id, server, tool, caller, conversation, status, message, done, total, created_at, updated_at, \
                       ttl, poll_interval, kept_by, answered_by, capabilities, run, hosted_for";

/// Surface of the call of a task, which is read only.
const SURFACE: &str = "(SELECT surface FROM calls WHERE calls.id = tasks.id)";

/// Tasks that have not ended.
const OPEN: &str = "status IN ('working', 'input-required')";

/// What is said of a task whose call has failed, if its process could not say more.
pub(crate) const CALL_FAILED: &str = "its call has failed";
/// What is said of a task that no process has followed for as long as calls are kept.
pub(crate) const FORGOTTEN: &str = "no process has followed it for as long as calls are kept";

/// The end of a task whose call another process has recorded.
#[derive(Clone, Debug)]
pub(crate) struct TaskEnd {
    pub(crate) task: TaskRow,
    pub(crate) call: SettledCall,
}

/// Writes a task that a process follows. One that has ended stays as it is.
pub(crate) fn write(task: &TaskRow, connection: &Connection, run: Uuid) -> Result<(), StoreError> {
    let insert = format!(
        "INSERT INTO tasks ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19) \
         ON CONFLICT (id) DO UPDATE SET remote_id = ?2, server = ?3, tool = ?4, status = ?7, message = ?8, done = ?9, total = ?10, updated_at = ?12, \
         ttl = ?13, poll_interval = ?14, kept_by = ?15, run = ?18 WHERE {OPEN}"
    );
    let progress = task.progress;
    connection.prepare_cached(&insert)?.execute(params![
        task.id,
        task.remote_id,
        task.server,
        task.tool,
        task.caller,
        task.conversation,
        task.status.as_str(),
        task.message.as_ref().map(ToString::to_string),
        progress.map(|progress| progress.done),
        progress.and_then(|progress| progress.total),
        task.created_at,
        task.updated_at,
        task.ttl,
        task.poll_interval,
        task.kept_by.as_str(),
        task.answered_by.as_str(),
        task.capabilities,
        task.status.is_open().then_some(run),
        task.hosted_for,
    ])?;
    Ok(())
}

/// Gives a task that no process follows to this one.
pub(crate) fn claim(connection: &Connection, id: Uuid, run: Uuid) -> Result<(), StoreError> {
    let claim = format!("UPDATE tasks SET run = ?2 WHERE id = ?1 AND run IS NULL AND {OPEN}");
    connection.prepare_cached(&claim)?.execute(params![id, run])?;
    Ok(())
}

/// Lets another process claim a task of this one.
pub(crate) fn release(connection: &Connection, id: Uuid, run: Uuid) -> Result<(), StoreError> {
    connection.execute("UPDATE tasks SET run = NULL WHERE id = ?1 AND run = ?2", params![id, run])?;
    Ok(())
}

/// Frees the tasks of a process that has ended. Those whose call has ended, end as it did; those that ran in a process which
/// it had started are lost.
pub(crate) fn abandon(connection: &Connection, run: Uuid) -> Result<(), StoreError> {
    // The error of a call is for the operator; clients read the message of its task.
    let ended = format!(
        "UPDATE tasks SET run = NULL, status = CASE c.state WHEN 'succeeded' THEN 'completed' WHEN 'tool-error' THEN 'completed' \
         WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END, \
         message = CASE WHEN c.state IN ('succeeded', 'tool-error', 'cancelled') THEN tasks.message ELSE ?2 END \
         FROM calls c WHERE c.id = tasks.id AND tasks.run = ?1 AND {OPEN} AND c.state NOT IN ('pending', 'running', 'interrupted')"
    );
    connection.prepare_cached(&ended)?.execute(params![run, CALL_FAILED])?;
    let lost = format!(
        "UPDATE tasks SET run = NULL, status = 'lost', message = ?2, updated_at = ?3 \
         WHERE run = ?1 AND {OPEN} AND kept_by = 'process' RETURNING id, server, tool"
    );
    let mut statement = connection.prepare_cached(&lost)?;
    let mut rows = statement.query(params![run, ENDED_WITH_PROCESS, time::now()])?;
    while let Some(row) = rows.next()? {
        let (task, server): (Uuid, String) = (row.get(0)?, row.get(1)?);
        let tool: String = row.get(2)?;
        tracing::warn!(%task, server, tool, "a task is lost: {ENDED_WITH_PROCESS}");
    }
    connection.prepare_cached(&format!("UPDATE tasks SET run = NULL WHERE run = ?1 AND {OPEN}"))?.execute([run])?;
    Ok(())
}

/// Whether there are tasks that no process has followed since a time.
pub(crate) fn any_forgotten(connection: &Connection, from: Micros) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM tasks WHERE run IS NULL AND {OPEN} AND updated_at < ?");
    Ok(connection.prepare_cached(&sql)?.exists([from])?)
}

/// Ends the oldest tasks that no process has followed since a time, at most `limit`, and returns their calls, which end
/// with them.
pub(crate) fn forget_before(connection: &Connection, from: Micros, limit: i64) -> Result<Vec<CallRow>, StoreError> {
    let lost = format!(
        "UPDATE tasks SET status = 'lost', message = ?2 WHERE id IN \
         (SELECT id FROM tasks WHERE run IS NULL AND {OPEN} AND updated_at < ?1 ORDER BY id LIMIT ?3) RETURNING id"
    );
    let mut statement = connection.prepare_cached(&lost)?;
    let ids = statement.query_map(params![from, FORGOTTEN, limit], |row| row.get(0))?;
    let ids: Vec<Uuid> = ids.collect::<Result<_, _>>()?;
    let ended: Result<Vec<_>, StoreError> = ids.iter().map(|id| calls::interrupt_one(connection, *id)).collect();
    Ok(ended?.into_iter().flatten().collect())
}

/// The call of a task at its end; `None` if it has ended already.
pub(crate) fn settled(connection: &Connection, end: &TaskEnd) -> Result<Option<CallRow>, StoreError> {
    Ok(calls::open_call(connection, end.task.id)?.map(|call| ended_call(end, call)))
}

/// A call that was open, at the end of its task.
pub(crate) fn ended_call(end: &TaskEnd, call: CallRow) -> CallRow {
    let SettledCall { state, error, result_bytes, .. } = &end.call;
    let took = time::now().saturating_sub(call.started_at).saturating_sub(call.waited).max(0);
    let result_bytes = i64::try_from(*result_bytes).unwrap_or(i64::MAX);
    // What the server said about the task is its answer.
    let outcome = if end.task.status == TaskStatus::Lost { Delivery::Unknown } else { Delivery::Answered };
    let outcome = Some(outcome);
    CallRow { state: *state, outcome, error: error.clone(), result_bytes, duration: Some(took), ..call }
}

impl SqliteReader {
    /// Tasks that match, newest first.
    pub fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRow>, StoreError> {
        let mut conditions: Vec<String> = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let texts = [("server", &filter.server), ("conversation", &filter.conversation)];
        for (column, value) in texts.into_iter().filter_map(|(column, value)| Some((column, value.clone()?))) {
            conditions.push(format!("{column} = ?"));
            values.push(value.into());
        }
        conditions.extend(filter.is_open.map(|open| if open { OPEN.to_owned() } else { format!("NOT {OPEN}") }));
        conditions.extend(filter.unclaimed.then(|| "run IS NULL".to_owned()));
        values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
        let conditions = conditions.join(" AND ");
        let sql = format!("SELECT {COLUMNS}, {SURFACE} FROM tasks WHERE {conditions} ORDER BY id DESC LIMIT ?");
        self.rows(&sql, params_from_iter(values), row)
    }

    /// The newest tasks that were hosted for a client before a time.
    pub fn tasks_hosted_for(&self, identity: &str, before: Micros, limit: usize) -> Result<Vec<TaskRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, {SURFACE} FROM tasks WHERE hosted_for = ? AND created_at < ? ORDER BY id DESC LIMIT ?"
        );
        self.rows(&sql, params![identity, before, i64::try_from(limit).unwrap_or(i64::MAX)], row)
    }

    /// One task.
    pub fn task(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS}, {SURFACE} FROM tasks WHERE id = ?");
        Ok(self.connection.prepare_cached(&sql)?.query_row([id], row).optional()?)
    }
}

/// Who keeps a task, by its word.
pub(crate) fn kept_by(word: &str) -> KeptBy {
    if word == KeptBy::Server.as_str() { KeptBy::Server } else { KeptBy::Process }
}

/// Who answers the requests of a task, by its word.
pub(crate) fn answered_by(word: &str) -> AnsweredBy {
    if word == AnsweredBy::Client.as_str() { AnsweredBy::Client } else { AnsweredBy::Host }
}

fn row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    let status: String = row.get(6)?;
    let done: Option<f64> = row.get(8)?;
    let total = row.get(9)?;
    let kept_by: String = row.get(14)?;
    let answered_by: String = row.get(15)?;
    Ok(TaskRow {
        id: row.get(0)?,
        remote_id: row.get(1)?,
        server: row.get(2)?,
        tool: row.get(3)?,
        caller: row.get(4)?,
        conversation: row.get(5)?,
        surface: row.get::<_, Option<String>>(19)?.as_deref().and_then(Surface::parse),
        // A status of a later version is shown as a failure rather than hiding the task.
        status: status.parse().unwrap_or(TaskStatus::Failed),
        message: row.get::<_, Option<String>>(7)?.map(ClientText::stored),
        progress: done.map(|done| TaskProgress { done, total }),
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
        ttl: row.get(12)?,
        poll_interval: row.get(13)?,
        kept_by: self::kept_by(&kept_by),
        answered_by: self::answered_by(&answered_by),
        capabilities: row.get(16)?,
        process: row.get(17)?,
        hosted_for: row.get(18)?,
    })
}
