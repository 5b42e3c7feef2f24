//! What each caller has in the database, for retention: counted in memory, and added once per commit.
//!
//! Triggers count what is removed, and what a body grows by.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use crate::StoreError;

const ADD: &str = "INSERT INTO caller_usage (caller, calls, body_bytes) VALUES (?, ?, ?) \
     ON CONFLICT (caller) DO UPDATE SET calls = calls + excluded.calls, body_bytes = body_bytes + excluded.body_bytes";

/// What one batch of writes adds, by caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedUsage<'a>(BTreeMap<&'a str, CallerUsage>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallerUsage {
    pub(crate) calls: i64,
    pub(crate) body_bytes: i64,
}

impl<'a> AddedUsage<'a> {
    pub(crate) fn count(&mut self, caller: &'a str, added: CallerUsage) {
        let sum = self.0.entry(caller).or_default();
        sum.calls += added.calls;
        sum.body_bytes = sum.body_bytes.saturating_add(added.body_bytes);
    }

    /// Adds the counts of other writes.
    pub(crate) fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(caller, added)| self.count(caller, added));
    }

    pub(crate) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        for (caller, CallerUsage { calls, body_bytes }) in &self.0 {
            connection.prepare_cached(ADD)?.execute(params![caller, calls, body_bytes])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use uuid::Uuid;

    use crate::{
        batch::{self, Batch},
        calls::{CallBody, CallRow, CallState},
        database,
        write::Write,
    };

    fn call(caller: &str) -> CallRow {
        CallRow {
            id: Uuid::now_v7(),
            started_at: 0,
            duration: None,
            waited: 0,
            prepared: None,
            caller: caller.to_owned(),
            surface: "gateway".to_owned(),
            kind: "tool".to_owned(),
            name: "files__read".to_owned(),
            server: Some("files".to_owned()),
            tool: None,
            state: CallState::Running,
            outcome: None,
            idempotent: false,
            from_cache: false,
            rule: None,
            approved_by: None,
            error: None,
            code: None,
            conversation: None,
            argument_bytes: 0,
            result_bytes: 0,
            server_requests: 0,
            task: None,
        }
    }

    fn begun(call: &CallRow) -> Write {
        Write::Call(Box::new(call.clone()), CallBody { arguments: Some("{\"a\":1}".to_owned()), result: None })
    }

    fn ended(call: &CallRow) -> Write {
        let end = CallRow { state: CallState::Succeeded, duration: Some(1), ..call.clone() };
        Write::CallEnd(Box::new(end), CallBody { arguments: None, result: Some("{\"content\":[]}".to_owned()) })
    }

    /// What each caller has, as it was counted, and as the rows say.
    fn counted(connection: &Connection) -> [Vec<(String, i64, i64)>; 2] {
        let counted = "SELECT caller, calls, body_bytes FROM caller_usage ORDER BY caller";
        let rows = "SELECT c.caller, count(*), coalesce(sum(octet_length(arguments)), 0) + coalesce(sum(octet_length(result)), 0) \
                    FROM calls c LEFT JOIN bodies b ON b.call = c.id GROUP BY c.caller ORDER BY c.caller";
        [counted, rows].map(|sql| {
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        })
    }

    #[test]
    fn what_callers_have_is_what_their_rows_say() {
        let mut connection = database::open_memory(":memory:").unwrap();
        let run = Uuid::now_v7();
        let at_once = call("client:quiet");
        let in_two_commits = call("client:loud");
        let open = call("client:loud");
        let batches = [
            vec![begun(&at_once), begun(&in_two_commits), ended(&at_once)],
            vec![ended(&in_two_commits), begun(&open), ended(&in_two_commits)],
        ];
        for batch in &batches {
            let writes: Vec<&Write> = batch.iter().collect();
            batch::apply(&mut connection, Batch { run, writes: &writes, journal: None }).unwrap();
            let [counted, rows] = counted(&connection);
            assert_eq!(counted, rows);
        }
        // One by one, as where a write cannot be applied.
        let again = [ended(&at_once), ended(&open), begun(&call("client:late"))];
        let writes: Vec<&Write> = again.iter().collect();
        batch::apply_each(&mut connection, Batch { run, writes: &writes, journal: None }).unwrap();
        let [counted, rows] = counted(&connection);
        assert_eq!(counted, rows);
        assert_eq!(counted.len(), 3);
    }
}
