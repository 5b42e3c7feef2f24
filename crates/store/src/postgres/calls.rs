//! Calls: one row each, from its beginning to its end, with arguments and result in a table of their own.

use std::cmp::Reverse;

use deadpool_postgres::Object;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    pipeline::{self, Conditions, Value, limit, maybe, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    calls::{CallBody, CallFilter, CallRow, CallState, Delivery, StoredCall, first_id_at},
    tasks::TaskStatus,
};

/// Columns in the order of [`row`].
pub(super) const COLUMNS: &str = "calls.id, calls.started_at, calls.duration, calls.caller, calls.surface, calls.kind, calls.name, \
     calls.server, calls.tool, calls.state, calls.rule, calls.approved_by, calls.error, calls.conversation, \
     calls.argument_bytes, calls.result_bytes, calls.server_requests, calls.waited, calls.outcome, calls.idempotent, \
     (SELECT status FROM tasks WHERE tasks.id = calls.id), calls.prepared, calls.code, calls.from_cache";

/// Inserts a call, or updates what changes between its beginning and its end, and adds what is known of its body. A call that
/// has ended stays as it is, unless it was only found open while its process was registered. A call that another process has
/// closed or follows stays as it is too: it was told how it ended.
pub(super) const WRITE: &str = "\
    WITH written AS (\
        INSERT INTO calls (run, id, started_at, duration, caller, surface, kind, name, server, tool, state, rule, \
            approved_by, error, conversation, argument_bytes, result_bytes, server_requests, waited, outcome, idempotent, \
            prepared, code, from_cache) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24) \
        ON CONFLICT (id) DO UPDATE SET duration = excluded.duration, server = excluded.server, tool = excluded.tool, \
            state = excluded.state, rule = excluded.rule, approved_by = excluded.approved_by, error = excluded.error, \
            result_bytes = excluded.result_bytes, server_requests = excluded.server_requests, waited = excluded.waited, \
            outcome = excluded.outcome, idempotent = excluded.idempotent, prepared = excluded.prepared, \
            code = excluded.code, from_cache = excluded.from_cache \
            WHERE calls.run = excluded.run AND (calls.state IN ('pending', 'running') \
            OR (calls.state = 'interrupted' AND excluded.state NOT IN ('pending', 'running'))) \
        RETURNING id, caller), \
    body AS (\
        INSERT INTO bodies (call, caller, bytes, arguments, result) \
        SELECT id, caller, coalesce(octet_length($25::text), 0) + coalesce(octet_length($26::text), 0), $25, $26 \
        FROM written WHERE $25 IS NOT NULL OR $26 IS NOT NULL \
        ON CONFLICT (call) DO UPDATE SET arguments = coalesce(excluded.arguments, bodies.arguments), \
            result = coalesce(excluded.result, bodies.result), \
            bytes = coalesce(octet_length(coalesce(excluded.arguments, bodies.arguments)), 0) \
                + coalesce(octet_length(coalesce(excluded.result, bodies.result)), 0)) \
    SELECT 1 FROM written";

/// Calls whose ids are searched for an end before all others.
const NEWEST: usize = 10_000;

/// The values of [`WRITE`]. `arguments`: those of this write or of an earlier one.
pub(super) fn values<'a>(
    call: &'a CallRow,
    run: Uuid,
    arguments: Option<&'a str>,
    result: Option<&'a str>,
) -> Vec<Value<'a>> {
    vec![
        Box::new(run),
        Box::new(call.id),
        Box::new(call.started_at),
        Box::new(call.duration),
        Box::new(text(&call.caller)),
        Box::new(text(&call.surface)),
        Box::new(text(&call.kind)),
        Box::new(text(&call.name)),
        Box::new(maybe(call.server.as_deref())),
        Box::new(maybe(call.tool.as_deref())),
        Box::new(call.state.as_str()),
        Box::new(maybe(call.rule.as_deref())),
        Box::new(maybe(call.approved_by.as_deref())),
        Box::new(maybe(call.error.as_deref())),
        Box::new(maybe(call.conversation.as_deref())),
        Box::new(call.argument_bytes),
        Box::new(call.result_bytes),
        Box::new(call.server_requests),
        Box::new(call.waited),
        Box::new(call.outcome.map(Delivery::as_str)),
        Box::new(call.idempotent),
        Box::new(call.prepared),
        Box::new(maybe(call.code.as_deref())),
        Box::new(call.from_cache),
        Box::new(maybe(arguments)),
        Box::new(maybe(result)),
    ]
}

/// Closes one open call, and returns it; `None` if it is not open.
pub(super) async fn interrupt_one(client: &Object, id: Uuid) -> Result<Option<CallRow>, StoreError> {
    let sql = format!(
        "UPDATE calls SET state = 'interrupted', outcome = 'unknown' \
         WHERE id = $1 AND state IN ('pending', 'running') RETURNING {COLUMNS}"
    );
    pipeline::rows(client, &sql, &[Box::new(id)]).await?.first().map(row).transpose()
}

/// Closes the open calls of a process that has ended, and returns them. One that is pending was not sent: that it is
/// running is written before. Calls whose task another process can follow stay open.
pub(super) async fn interrupt(client: &Object, run: Uuid) -> Result<Vec<CallRow>, StoreError> {
    let sql = format!(
        "UPDATE calls SET state = 'interrupted', \
         outcome = CASE state WHEN 'pending' THEN 'not-sent' ELSE 'unknown' END \
         WHERE run = $1 AND state IN ('pending', 'running') AND NOT EXISTS \
         (SELECT 1 FROM tasks WHERE tasks.id = calls.id AND status IN ('working', 'input-required')) RETURNING {COLUMNS}"
    );
    pipeline::rows(client, &sql, &[Box::new(run)]).await?.iter().map(row).collect()
}

/// Whether a call was not ended by the process that made it.
pub(super) async fn has_no_end(client: &Object, id: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM calls WHERE id = $1 AND state IN ('pending', 'running', 'interrupted')";
    Ok(!pipeline::rows(client, sql, &[Box::new(id)]).await?.is_empty())
}

/// A call that has not ended, or was only found open.
pub(super) async fn open_call(client: &Object, id: Uuid) -> Result<Option<CallRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM calls WHERE id = $1 AND state IN ('pending', 'running', 'interrupted') FOR UPDATE"
    );
    pipeline::rows(client, &sql, &[Box::new(id)]).await?.first().map(row).transpose()
}

impl PostgresReader {
    pub(crate) async fn calls(&self, filter: &CallFilter) -> Result<Vec<CallRow>, StoreError> {
        match &filter.caller {
            Some(kind) if !kind.contains(':') => self.calls_of_kind(filter, kind).await,
            caller => self.calls_of(filter, caller.as_deref(), None).await,
        }
    }

    /// Calls of all callers of a kind. The index of callers has the calls of each in order; a range over several callers
    /// would have to be sorted as a whole.
    async fn calls_of_kind(&self, filter: &CallFilter, kind: &str) -> Result<Vec<CallRow>, StoreError> {
        // `:` is followed by `;` in ASCII: all names of one kind.
        let end = format!("{kind};");
        let mut from = kind.to_owned();
        let mut found: Vec<CallRow> = Vec::new();
        let mut term = "caller >= $1";
        loop {
            let next = format!("SELECT min(caller) FROM calls WHERE {term} AND caller < $2");
            let rows = self.rows(&next, &[Box::new(from.clone()), Box::new(end.clone())]).await?;
            let Some(caller) = rows.first().map(|row| row.try_get::<_, Option<String>>(0)).transpose()?.flatten()
            else {
                return Ok(found);
            };
            let after = found.last().filter(|_| filter.limit <= found.len()).map(|call| call.id);
            found.extend(self.calls_of(filter, Some(&caller), after).await?);
            found.sort_by_key(|call| Reverse(call.id));
            found.truncate(filter.limit);
            (from, term) = (caller, "caller > $1");
        }
    }

    /// Calls of one caller, or of all; with `after`, only those newer than that call.
    async fn calls_of(
        &self,
        filter: &CallFilter,
        caller: Option<&str>,
        after: Option<Uuid>,
    ) -> Result<Vec<CallRow>, StoreError> {
        let mut conditions = Conditions::default();
        if !filter.states.is_empty() {
            // A term that repeats the partial index lets Postgres use it.
            if !filter.states.contains(&CallState::Succeeded) {
                conditions.fixed("state <> 'succeeded'");
            }
            conditions.add("state = ANY(?)", filter.states.iter().map(|state| state.as_str()).collect::<Vec<_>>());
        }
        let texts = [
            ("server = ?", filter.server.as_deref()),
            ("tool = ?", filter.tool.as_deref()),
            ("conversation = ?", filter.conversation.as_deref()),
            ("caller = ?", caller),
        ];
        texts.into_iter().filter_map(|(term, value)| Some((term, value?))).for_each(|(term, value)| {
            conditions.add(term, text(value).into_owned());
        });
        // Ids begin with milliseconds, so the primary key bounds the scan.
        let since = filter.since.and_then(|since| Uuid::from_slice(&first_id_at(since)).ok());
        let ids = [("id >= ?", since), ("id < ?", filter.before), ("id > ?", after)];
        ids.into_iter().filter_map(|(term, id)| Some((term, id?))).for_each(|(term, id)| conditions.add(term, id));
        let most = conditions.mark(limit(filter.limit));
        let sql = format!("SELECT {COLUMNS} FROM calls WHERE {} ORDER BY id DESC LIMIT {most}", conditions.sql());
        self.rows(&sql, &conditions.values).await?.iter().map(row).collect()
    }

    pub(crate) async fn call(&self, id: Uuid) -> Result<Option<StoredCall>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, bodies.arguments, bodies.result FROM calls LEFT JOIN bodies ON bodies.call = calls.id \
             WHERE calls.id = $1"
        );
        let rows = self.rows(&sql, &[Box::new(id)]).await?;
        let stored = |found: &Row| {
            let body = CallBody { arguments: found.try_get(24)?, result: found.try_get(25)? };
            Ok(StoredCall { row: row(found)?, body })
        };
        rows.first().map(stored).transpose()
    }

    pub(crate) async fn calls_with_arguments(
        &self,
        filter: &CallFilter,
        max_bytes: usize,
    ) -> Result<Vec<StoredCall>, StoreError> {
        let mut found = Vec::new();
        let mut bytes = 0;
        for row in self.calls(filter).await? {
            let rows = self.rows("SELECT arguments FROM bodies WHERE call = $1", &[Box::new(row.id)]).await?;
            let arguments = rows.first().map(|row| row.try_get::<_, Option<String>>(0)).transpose()?.flatten();
            bytes += arguments.as_ref().map_or(0, String::len);
            found.push(StoredCall { row, body: CallBody { arguments, result: None } });
            if max_bytes < bytes {
                break;
            }
        }
        Ok(found)
    }

    pub(crate) async fn find_calls(&self, digits: &str) -> Result<Vec<Uuid>, StoreError> {
        let digits: String = digits.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) || digits.len() > 32 {
            return Ok(Vec::new());
        }
        // An index of ends would cost every call; the user looks for one now and then.
        let newest = format!("(SELECT id FROM calls ORDER BY id DESC LIMIT {NEWEST}) AS newest");
        for calls in [newest.as_str(), "calls"] {
            let sql = format!(
                "SELECT id FROM {calls} WHERE right(replace(id::text, '-', ''), length($1)) = $1 ORDER BY id DESC LIMIT 10"
            );
            let found = self.ids(&sql, &[Box::new(digits.clone())]).await?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let bound = |fill: &str| u128::from_str_radix(&format!("{digits}{}", fill.repeat(32 - digits.len())), 16);
        let (Ok(low), Ok(high)) = (bound("0"), bound("f")) else { return Ok(Vec::new()) };
        let range: [Value<'_>; 2] = [Box::new(Uuid::from_u128(low)), Box::new(Uuid::from_u128(high))];
        self.ids("SELECT id FROM calls WHERE id BETWEEN $1 AND $2 ORDER BY id DESC LIMIT 10", &range).await
    }

    async fn ids(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Uuid>, StoreError> {
        self.rows(sql, values).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}

pub(super) fn row(row: &Row) -> Result<CallRow, StoreError> {
    let state: String = row.try_get(9)?;
    let outcome: Option<String> = row.try_get(18)?;
    let task: Option<String> = row.try_get(20)?;
    Ok(CallRow {
        id: row.try_get(0)?,
        started_at: row.try_get(1)?,
        duration: row.try_get(2)?,
        caller: row.try_get(3)?,
        surface: row.try_get(4)?,
        kind: row.try_get(5)?,
        name: row.try_get(6)?,
        server: row.try_get(7)?,
        tool: row.try_get(8)?,
        // A state of a later version is shown as a failure rather than hiding the call.
        state: state.parse().unwrap_or(CallState::Failed),
        rule: row.try_get(10)?,
        approved_by: row.try_get(11)?,
        error: row.try_get(12)?,
        conversation: row.try_get(13)?,
        argument_bytes: row.try_get(14)?,
        result_bytes: row.try_get(15)?,
        server_requests: row.try_get(16)?,
        waited: row.try_get(17)?,
        // The same of an outcome: what it means is not known here.
        outcome: outcome.map(|word| word.parse().unwrap_or(Delivery::Unknown)),
        idempotent: row.try_get(19)?,
        task: task.map(|status| status.parse().unwrap_or(TaskStatus::Failed)),
        prepared: row.try_get(21)?,
        code: row.try_get(22)?,
        from_cache: row.try_get(23)?,
    })
}
