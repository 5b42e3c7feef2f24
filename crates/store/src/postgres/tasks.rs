//! Tasks: one row each, with the id of its call. A task belongs to the process that follows it (`run`), or to none.

use deadpool_postgres::Object;
use tokio_postgres::Row;
use toolway_host::{
    audience::ClientText,
    policy::Surface,
    task::{ENDED_WITH_PROCESS, TaskProgress},
};
use uuid::Uuid;

use super::{
    batch::Filling,
    calls,
    pipeline::{self, Conditions, Value, limit, maybe, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    calls::CallRow,
    tasks::{CALL_FAILED, FORGOTTEN, TaskEnd, TaskFilter, TaskRow, TaskStatus, answered_by, ended_call, kept_by},
    time::{self, Micros},
};

const COLUMNS: &str = "id, remote_id, server, tool, caller, conversation, status, message, done, total, created_at, updated_at, \
     ttl, poll_interval, kept_by, answered_by, capabilities, run, hosted_for";

/// Surface of the call of a task, which is read only.
const SURFACE: &str = "(SELECT surface FROM calls WHERE calls.id = tasks.id)";

/// Tasks that have not ended.
const OPEN: &str = "tasks.status IN ('working', 'input-required')";

/// The call of a task is ended by the process that follows it.
const WITH_TASK: &str = "UPDATE calls SET run = $2 WHERE id = $1 AND run <> $2 AND state IN ('pending', 'running') \
                         AND EXISTS (SELECT 1 FROM tasks WHERE tasks.id = $1 AND tasks.run = $2)";

/// Writes a task that a process follows. One that has ended stays as it is, and so does one that another process follows.
pub(super) async fn write<'a>(filling: &mut Filling<'a>, task: &'a TaskRow) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO tasks ({COLUMNS}) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, \
         CASE WHEN $20 THEN $18::uuid END, $19) \
         ON CONFLICT (id) DO UPDATE SET remote_id = excluded.remote_id, server = excluded.server, tool = excluded.tool, \
         status = excluded.status, message = excluded.message, done = excluded.done, total = excluded.total, \
         updated_at = excluded.updated_at, ttl = excluded.ttl, poll_interval = excluded.poll_interval, \
         kept_by = excluded.kept_by, run = excluded.run WHERE {OPEN} AND (tasks.run IS NULL OR tasks.run = $18)"
    );
    let progress = task.progress;
    let run = filling.run;
    let values: Vec<Value<'a>> = vec![
        Box::new(task.id),
        Box::new(text(&task.remote_id)),
        Box::new(text(&task.server)),
        Box::new(text(&task.tool)),
        Box::new(text(&task.caller)),
        Box::new(maybe(task.conversation.as_deref())),
        Box::new(task.status.as_str()),
        Box::new(task.message.as_ref().map(|message| text(&message.to_string()).into_owned())),
        Box::new(progress.map(|progress| progress.done)),
        Box::new(progress.and_then(|progress| progress.total)),
        Box::new(task.created_at),
        Box::new(task.updated_at),
        Box::new(task.ttl),
        Box::new(task.poll_interval),
        Box::new(task.kept_by.as_str()),
        Box::new(task.answered_by.as_str()),
        Box::new(maybe(task.capabilities.as_deref())),
        Box::new(run),
        Box::new(maybe(task.hosted_for.as_deref())),
        Box::new(task.status.is_open()),
    ];
    filling.send_task(task.id, &sql, values).await?;
    filling.send(WITH_TASK, vec![Box::new(task.id), Box::new(run)]).await
}

/// Whether a task goes on at another process.
pub(super) async fn is_followed_elsewhere(client: &Object, id: Uuid, run: Uuid) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM tasks WHERE id = $1 AND run <> $2 AND {OPEN}");
    Ok(!pipeline::rows(client, &sql, &[Box::new(id), Box::new(run)]).await?.is_empty())
}

/// Gives a task that no process follows to this one.
pub(super) async fn claim(filling: &mut Filling<'_>, id: Uuid) -> Result<(), StoreError> {
    let claim = format!("UPDATE tasks SET run = $2 WHERE id = $1 AND run IS NULL AND {OPEN}");
    let run = filling.run;
    filling.send(&claim, vec![Box::new(id), Box::new(run)]).await?;
    filling.send(WITH_TASK, vec![Box::new(id), Box::new(run)]).await
}

/// Lets another process claim a task of this one.
pub(super) async fn release(filling: &mut Filling<'_>, id: Uuid) -> Result<(), StoreError> {
    let run = filling.run;
    filling.send("UPDATE tasks SET run = NULL WHERE id = $1 AND run = $2", vec![Box::new(id), Box::new(run)]).await
}

/// Writes the end of a task and of its call.
pub(super) async fn end<'a>(filling: &mut Filling<'a>, end: &'a TaskEnd) -> Result<(), StoreError> {
    // A task that no process followed may be ended by the one that has found its end.
    let own = "UPDATE calls SET run = $2 WHERE id = $1 AND run <> $2 AND state IN ('pending', 'running') \
               AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = $1 AND tasks.run <> $2)";
    pipeline::execute(filling.client, own, vec![Box::new(end.task.id), Box::new(filling.run)]).await?;
    if let Some(open) = calls::open_call(filling.client, end.task.id).await? {
        let call = ended_call(end, open);
        let values = calls::values(&call, filling.run, None, end.call.body.result.as_deref());
        if 0 < pipeline::execute(filling.client, calls::WRITE, values).await? {
            filling.end_call(call);
        }
    }
    write(filling, &end.task).await
}

/// Frees the tasks of a process that has ended, or gives them to `heir`. Those whose call has ended, end as it did; those that
/// ran in a process which it had started are lost. Returns those that go on.
pub(super) async fn abandon(client: &Object, run: Uuid, heir: Option<Uuid>) -> Result<Vec<Uuid>, StoreError> {
    // The error of a call is for the operator; clients read the message of its task.
    let ended = format!(
        "UPDATE tasks SET run = NULL, status = CASE c.state WHEN 'succeeded' THEN 'completed' WHEN 'tool-error' THEN 'completed' \
         WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END, \
         message = CASE WHEN c.state IN ('succeeded', 'tool-error', 'cancelled') THEN tasks.message ELSE $2 END \
         FROM calls c WHERE c.id = tasks.id AND tasks.run = $1 AND {OPEN} AND c.state NOT IN ('pending', 'running', 'interrupted')"
    );
    pipeline::execute(client, &ended, vec![Box::new(run), Box::new(CALL_FAILED)]).await?;
    let lost = format!(
        "UPDATE tasks SET run = NULL, status = 'lost', message = $2, updated_at = $3 \
         WHERE run = $1 AND {OPEN} AND kept_by = 'process' RETURNING id, server, tool"
    );
    let values: [Value<'_>; 3] = [Box::new(run), Box::new(ENDED_WITH_PROCESS), Box::new(time::now())];
    for row in pipeline::rows(client, &lost, &values).await? {
        let (task, server): (Uuid, String) = (row.try_get(0)?, row.try_get(1)?);
        let tool: String = row.try_get(2)?;
        tracing::warn!(%task, server, tool, "a task is lost: {ENDED_WITH_PROCESS}");
    }
    let free = format!("UPDATE tasks SET run = $2 WHERE run = $1 AND {OPEN} RETURNING id");
    let rows = pipeline::rows(client, &free, &[Box::new(run), Box::new(heir)]).await?;
    let tasks: Vec<Uuid> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if let Some(heir) = heir {
        let calls = "UPDATE calls SET run = $1 WHERE id = ANY($2)";
        pipeline::execute(client, calls, vec![Box::new(heir), Box::new(tasks.clone())]).await?;
    }
    Ok(tasks)
}

/// Ends the oldest tasks that no process has followed since a time, at most `most`, and returns their calls, which end
/// with them.
pub(super) async fn forget_before(client: &Object, from: Micros, most: i64) -> Result<Vec<CallRow>, StoreError> {
    let lost = format!(
        "UPDATE tasks SET status = 'lost', message = $2 WHERE id IN \
         (SELECT id FROM tasks WHERE run IS NULL AND {OPEN} AND updated_at < $1 ORDER BY id LIMIT $3) RETURNING id"
    );
    let values: [Value<'_>; 3] = [Box::new(from), Box::new(FORGOTTEN), Box::new(most)];
    let mut calls = Vec::new();
    for row in pipeline::rows(client, &lost, &values).await? {
        calls.extend(calls::interrupt_one(client, row.try_get(0)?).await?);
    }
    Ok(calls)
}

impl PostgresReader {
    pub(crate) async fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRow>, StoreError> {
        let mut conditions = Conditions::default();
        let texts = [("server = ?", &filter.server), ("conversation = ?", &filter.conversation)];
        texts.into_iter().filter_map(|(term, value)| Some((term, value.as_deref()?))).for_each(|(term, value)| {
            conditions.add(term, text(value));
        });
        match filter.is_open {
            Some(true) => conditions.fixed(OPEN),
            Some(false) => conditions.fixed(format!("NOT {OPEN}")),
            None => {}
        }
        if filter.unclaimed {
            conditions.fixed("run IS NULL");
        }
        let most = conditions.mark(limit(filter.limit));
        let sql =
            format!("SELECT {COLUMNS}, {SURFACE} FROM tasks WHERE {} ORDER BY id DESC LIMIT {most}", conditions.sql());
        self.rows(&sql, &conditions.values).await?.iter().map(row).collect()
    }

    pub(crate) async fn tasks_hosted_for(
        &self,
        identity: &str,
        before: Micros,
        most: usize,
    ) -> Result<Vec<TaskRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, {SURFACE} FROM tasks WHERE hosted_for = $1 AND created_at < $2 ORDER BY id DESC LIMIT $3"
        );
        let values: [Value<'_>; 3] = [Box::new(text(identity)), Box::new(before), Box::new(limit(most))];
        self.rows(&sql, &values).await?.iter().map(row).collect()
    }

    pub(crate) async fn task(&self, id: Uuid) -> Result<Option<TaskRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS}, {SURFACE} FROM tasks WHERE id = $1");
        self.rows(&sql, &[Box::new(id)]).await?.first().map(row).transpose()
    }
}

fn row(row: &Row) -> Result<TaskRow, StoreError> {
    let status: String = row.try_get(6)?;
    let done: Option<f64> = row.try_get(8)?;
    let total = row.try_get(9)?;
    Ok(TaskRow {
        id: row.try_get(0)?,
        remote_id: row.try_get(1)?,
        server: row.try_get(2)?,
        tool: row.try_get(3)?,
        caller: row.try_get(4)?,
        conversation: row.try_get(5)?,
        surface: row.try_get::<_, Option<String>>(19)?.as_deref().and_then(Surface::parse),
        // A status of a later version is shown as a failure rather than hiding the task.
        status: status.parse().unwrap_or(TaskStatus::Failed),
        message: row.try_get::<_, Option<String>>(7)?.map(ClientText::stored),
        progress: done.map(|done| TaskProgress { done, total }),
        created_at: row.try_get(10)?,
        updated_at: row.try_get(11)?,
        ttl: row.try_get(12)?,
        poll_interval: row.try_get(13)?,
        kept_by: kept_by(&row.try_get::<_, String>(14)?),
        answered_by: answered_by(&row.try_get::<_, String>(15)?),
        capabilities: row.try_get(16)?,
        process: row.try_get(17)?,
        hosted_for: row.try_get(18)?,
    })
}
