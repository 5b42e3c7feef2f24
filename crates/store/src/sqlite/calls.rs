//! Calls: one row each, from its beginning to its end, with arguments and result in a table of their own.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params, params_from_iter, types::Value};
pub use toolway_host::record::{CallBody, CallFilter, CallRow, CallState, Delivery, StoredCall};
use uuid::Uuid;

use crate::{SqliteReader, StoreError, tasks::TaskStatus, time::Micros};

/// Columns in the order of [`row`].
const COLUMNS: &str = "id, started_at, duration, caller, surface, kind, name, server, tool, state, rule, approved_by, \
                       error, conversation, argument_bytes, result_bytes, server_requests, waited, outcome, idempotent, \
                        (SELECT status FROM tasks WHERE tasks.id = calls.id), prepared, code, from_cache";

/// Inserts a call that has no row.
const INSERT: &str = "INSERT INTO calls (run, id, started_at, duration, caller, surface, kind, name, server, tool, state, rule, \
     approved_by, error, conversation, argument_bytes, result_bytes, server_requests, waited, outcome, idempotent, \
     prepared, code, from_cache) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";

/// Updates what changes between the beginning of a call and its end. A call that has ended stays as it is, unless it was only
/// found open.
const UPDATE: &str = "UPDATE calls SET duration = ?2, server = ?3, tool = ?4, state = ?5, rule = ?6, approved_by = ?7, error = ?8, \
     result_bytes = ?9, server_requests = ?10, waited = ?11, outcome = ?12, idempotent = ?13, prepared = ?14, code = ?15, \
     from_cache = ?16 \
     WHERE id = ?1 AND (state IN ('pending', 'running') \
     OR (state = 'interrupted' AND ?5 NOT IN ('pending', 'running')))";

const INSERT_BODY: &str = "INSERT INTO bodies (call, caller, bytes, arguments, result) VALUES (?, ?, ?, ?, ?) \
     ON CONFLICT (call) DO NOTHING";

/// Adds to what was known of a body. A trigger counts the difference of its bytes.
const UPDATE_BODY: &str = "UPDATE bodies SET arguments = coalesce(?2, arguments), result = coalesce(?3, result), \
     bytes = coalesce(octet_length(coalesce(?2, arguments)), 0) + coalesce(octet_length(coalesce(?3, result)), 0) \
     WHERE call = ?1";

/// What a write did to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowChange {
    /// There is one row more.
    Added,
    Updated,
    Nothing,
}

/// The statements that write calls, prepared once for a batch.
pub(crate) struct CallStatements<'c> {
    connection: &'c Connection,
    rows: CachedStatement<'c>,
    bodies: CachedStatement<'c>,
}

impl<'c> CallStatements<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self, StoreError> {
        let (rows, bodies) = (connection.prepare_cached(INSERT)?, connection.prepare_cached(INSERT_BODY)?);
        Ok(Self { connection, rows, bodies })
    }

    /// Inserts a row, or updates what changes between the beginning of a call and its end.
    pub(crate) fn write(&mut self, call: &CallRow, run: Uuid) -> Result<RowChange, StoreError> {
        let added = self.rows.execute(params![
            run,
            call.id,
            call.started_at,
            call.duration,
            call.caller,
            call.surface,
            call.kind,
            call.name,
            call.server,
            call.tool,
            call.state.as_str(),
            call.rule,
            call.approved_by,
            call.error,
            call.conversation,
            call.argument_bytes,
            call.result_bytes,
            call.server_requests,
            call.waited,
            call.outcome.map(Delivery::as_str),
            call.idempotent,
            call.prepared,
            call.code,
            call.from_cache,
        ])?;
        if 0 < added {
            return Ok(RowChange::Added);
        }
        let updated = self.connection.prepare_cached(UPDATE)?.execute(params![
            call.id,
            call.duration,
            call.server,
            call.tool,
            call.state.as_str(),
            call.rule,
            call.approved_by,
            call.error,
            call.result_bytes,
            call.server_requests,
            call.waited,
            call.outcome.map(Delivery::as_str),
            call.idempotent,
            call.prepared,
            call.code,
            call.from_cache,
        ])?;
        Ok(if 0 < updated { RowChange::Updated } else { RowChange::Nothing })
    }

    /// Adds what is known of a body to what was written before. `arguments`: those of this write or of an earlier one.
    /// Returns the bytes of a body that was added.
    pub(crate) fn write_body(
        &mut self,
        call: &CallRow,
        arguments: Option<&str>,
        result: Option<&str>,
    ) -> Result<i64, StoreError> {
        if arguments.is_none() && result.is_none() {
            return Ok(0);
        }
        let bytes = arguments.map_or(0, str::len) + result.map_or(0, str::len);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if 0 < self.bodies.execute(params![call.id, call.caller, bytes, arguments, result])? {
            return Ok(bytes);
        }
        self.connection.prepare_cached(UPDATE_BODY)?.execute(params![call.id, arguments, result])?;
        Ok(0)
    }
}

/// Removes calls that began before a time and have ended.
pub(crate) fn remove_before(connection: &Connection, before: Micros) -> Result<(), StoreError> {
    let first = first_id_at(before);
    let open = "(SELECT id FROM calls WHERE state IN ('pending', 'running'))";
    connection.execute(&format!("DELETE FROM bodies WHERE call < ? AND call NOT IN {open}"), params![first])?;
    connection.execute("DELETE FROM calls WHERE id < ? AND state NOT IN ('pending', 'running')", params![first])?;
    connection.execute(
        "DELETE FROM tasks WHERE id < ?1 AND id NOT IN (SELECT id FROM calls WHERE id < ?1)",
        params![first],
    )?;
    Ok(())
}

/// Closes the open calls of a process that has ended, and returns them. One that is pending was not sent: that it is
/// running is written before. Calls whose task another process can follow stay open.
pub(crate) fn interrupt(connection: &Connection, run: Uuid) -> Result<Vec<CallRow>, StoreError> {
    let has_task = "EXISTS (SELECT 1 FROM tasks WHERE tasks.id = calls.id AND status IN ('working', 'input-required'))";
    let mut statement = connection.prepare(&format!(
        "UPDATE calls SET state = 'interrupted', outcome = iif(state = 'pending', 'not-sent', 'unknown') \
         WHERE run = ? AND state IN ('pending', 'running') AND NOT {has_task} RETURNING {COLUMNS}"
    ))?;
    Ok(statement.query_map([run], row)?.collect::<Result<_, _>>()?)
}

/// Closes one open call, and returns it; `None` if it is not open.
pub(crate) fn interrupt_one(connection: &Connection, id: Uuid) -> Result<Option<CallRow>, StoreError> {
    let sql = format!(
        "UPDATE calls SET state = 'interrupted', outcome = 'unknown' \
         WHERE id = ? AND state IN ('pending', 'running') RETURNING {COLUMNS}"
    );
    Ok(connection.prepare_cached(&sql)?.query_row([id], row).optional()?)
}

/// A call that has not ended, or was only found open.
pub(crate) fn open_call(connection: &Connection, id: Uuid) -> Result<Option<CallRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM calls WHERE id = ? AND state IN ('pending', 'running', 'interrupted')");
    Ok(connection.prepare_cached(&sql)?.query_row([id], row).optional()?)
}

/// Calls whose ids are searched for an end before all others.
const NEWEST: usize = 10_000;

impl SqliteReader {
    /// Calls that match, newest first.
    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<CallRow>, StoreError> {
        match &filter.caller {
            Some(kind) if !kind.contains(':') => self.calls_of_kind(filter, kind),
            caller => self.calls_of(filter, caller.as_deref(), None),
        }
    }

    /// Calls of all callers of a kind. The index of callers has the calls of each in order; a range over several callers
    /// would have to be sorted as a whole.
    fn calls_of_kind(&self, filter: &CallFilter, kind: &str) -> Result<Vec<CallRow>, StoreError> {
        // `:` is followed by `;` in ASCII: all names of one kind.
        let end = format!("{kind};");
        let mut next =
            self.connection.prepare_cached("SELECT min(caller) FROM calls WHERE caller >= ? AND caller < ?")?;
        let mut from = kind.to_owned();
        let mut found: Vec<CallRow> = Vec::new();
        while let Some(caller) = next.query_row([&from, &end], |row| row.get::<_, Option<String>>(0))? {
            let after = found.last().filter(|_| filter.limit <= found.len()).map(|call| call.id);
            found.extend(self.calls_of(filter, Some(&caller), after)?);
            found.sort_by_key(|call| std::cmp::Reverse(call.id));
            found.truncate(filter.limit);
            // The smallest text above the name.
            from = caller + "\0";
        }
        Ok(found)
    }

    /// Calls of one caller, or of all; with `after`, only those newer than that call.
    fn calls_of(
        &self,
        filter: &CallFilter,
        caller: Option<&str>,
        after: Option<Uuid>,
    ) -> Result<Vec<CallRow>, StoreError> {
        let mut conditions: Vec<String> = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        if !filter.states.is_empty() {
            // A term that repeats the partial index lets SQLite use it.
            let succeeded = filter.states.contains(&CallState::Succeeded);
            let marks = vec!["?"; filter.states.len()].join(", ");
            let hint = if succeeded { "" } else { " AND state <> 'succeeded'" };
            conditions.push(format!("state IN ({marks}){hint}"));
            values.extend(filter.states.iter().map(|state| Value::from(state.as_str().to_owned())));
        }
        let texts = [
            ("server", filter.server.as_deref()),
            ("tool", filter.tool.as_deref()),
            ("conversation", filter.conversation.as_deref()),
            ("caller", caller),
        ];
        for (column, value) in texts.into_iter().filter_map(|(column, value)| Some((column, value?))) {
            conditions.push(format!("{column} = ?"));
            values.push(value.to_owned().into());
        }
        // Ids begin with milliseconds, so the primary key bounds the scan.
        let ids = [
            (">=", filter.since.map(first_id_at)),
            ("<", filter.before.map(|id| id.as_bytes().to_vec())),
            (">", after.map(|id| id.as_bytes().to_vec())),
        ];
        for (comparison, id) in ids.into_iter().filter_map(|(comparison, id)| Some((comparison, id?))) {
            conditions.push(format!("id {comparison} ?"));
            values.push(id.into());
        }
        values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
        let conditions = conditions.join(" AND ");
        let sql = format!("SELECT {COLUMNS} FROM calls WHERE {conditions} ORDER BY id DESC LIMIT ?");
        self.rows(&sql, params_from_iter(values), row)
    }

    /// One call with its body.
    pub fn call(&self, id: Uuid) -> Result<Option<StoredCall>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM calls WHERE id = ?");
        let Some(found) = self.connection.prepare_cached(&sql)?.query_row([id], row).optional()? else {
            return Ok(None);
        };
        let mut statement = self.connection.prepare_cached("SELECT arguments, result FROM bodies WHERE call = ?")?;
        let body = statement.query_row([id], |row| Ok(CallBody { arguments: row.get(0)?, result: row.get(1)? }));
        Ok(Some(StoredCall { row: found, body: body.optional()?.unwrap_or_default() }))
    }

    /// Calls with their arguments and without their results, newest first; no further one after their arguments have this many
    /// bytes together.
    pub fn calls_with_arguments(&self, filter: &CallFilter, max_bytes: usize) -> Result<Vec<StoredCall>, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT arguments FROM bodies WHERE call = ?")?;
        let mut found = Vec::new();
        let mut bytes = 0;
        for row in self.calls(filter)? {
            let arguments: Option<String> = statement.query_row([row.id], |row| row.get(0)).optional()?.flatten();
            bytes += arguments.as_ref().map_or(0, String::len);
            found.push(StoredCall { row, body: CallBody { arguments, result: None } });
            if max_bytes < bytes {
                break;
            }
        }
        Ok(found)
    }

    /// The calls whose id, written as text, ends with these digits, or else begins with them; newest first, at most ten. The
    /// ends of the newest calls, which lists show, are searched before all others.
    pub fn find_calls(&self, digits: &str) -> Result<Vec<Uuid>, StoreError> {
        let digits: String = digits.chars().filter(|c| *c != '-').collect();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) || digits.len() > 32 {
            return Ok(Vec::new());
        }
        // An index of ends would cost every call; the user looks for one now and then.
        let newest = format!("(SELECT id FROM calls ORDER BY id DESC LIMIT {NEWEST})");
        for calls in [newest.as_str(), "calls"] {
            let ending = "substr(hex(id), -length(?1)) = ?1";
            let sql = format!("SELECT id FROM {calls} WHERE {ending} ORDER BY id DESC LIMIT 10");
            let found: Vec<Uuid> = self.rows(&sql, [digits.to_ascii_uppercase()], |row| row.get(0))?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let bound = |fill: &str| u128::from_str_radix(&format!("{digits}{}", fill.repeat(32 - digits.len())), 16);
        let (Ok(low), Ok(high)) = (bound("0"), bound("f")) else { return Ok(Vec::new()) };
        let range = params![Uuid::from_u128(low), Uuid::from_u128(high)];
        self.rows("SELECT id FROM calls WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 10", range, |row| row.get(0))
    }
}

/// Calls that meet a condition without parameters, newest first.
pub(crate) fn rows_where(reader: &SqliteReader, condition: &str, limit: usize) -> Result<Vec<CallRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM calls WHERE {condition} ORDER BY id DESC LIMIT ?");
    reader.rows(&sql, [i64::try_from(limit).unwrap_or(i64::MAX)], row)
}

/// The smallest id of a call begun at this time.
pub(crate) fn first_id_at(at: Micros) -> Vec<u8> {
    let millis = u64::try_from(at / 1_000).unwrap_or_default();
    let mut id = millis.to_be_bytes()[2..].to_vec();
    id.resize(16, 0);
    id
}

fn row(row: &Row<'_>) -> rusqlite::Result<CallRow> {
    let state: String = row.get(9)?;
    let outcome: Option<String> = row.get(18)?;
    Ok(CallRow {
        id: row.get(0)?,
        started_at: row.get(1)?,
        duration: row.get(2)?,
        caller: row.get(3)?,
        surface: row.get(4)?,
        kind: row.get(5)?,
        name: row.get(6)?,
        server: row.get(7)?,
        tool: row.get(8)?,
        // A state of a later version is shown as a failure rather than hiding the call.
        state: state.parse().unwrap_or(CallState::Failed),
        // The same of an outcome: what it means is not known here.
        outcome: outcome.map(|word| word.parse().unwrap_or(Delivery::Unknown)),
        idempotent: row.get(19)?,
        rule: row.get(10)?,
        approved_by: row.get(11)?,
        error: row.get(12)?,
        conversation: row.get(13)?,
        argument_bytes: row.get(14)?,
        result_bytes: row.get(15)?,
        server_requests: row.get(16)?,
        waited: row.get(17)?,
        task: row.get::<_, Option<String>>(20)?.map(|status| status.parse().unwrap_or(TaskStatus::Failed)),
        prepared: row.get(21)?,
        code: row.get(22)?,
        from_cache: row.get(23)?,
    })
}
