//! How a batch of writes becomes one transaction.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use uuid::Uuid;

use crate::{
    StoreError, approvals,
    audit::{self, kind},
    baselines, call_days,
    calls::{self, CallRow, CallStatements, RowChange},
    chain::{Contents, Link},
    client_roots, conversations, database, inbox, journal, keys,
    retention::store_event,
    rollup,
    runs::{self, DeadRun},
    sampling, settlements,
    tasks::{self, TaskEnd},
    time,
    usage::{AddedUsage, CallerUsage},
    write::{Write, end_contents, of_calls, write_details},
};

/// A batch of writes by one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) run: Uuid,
    pub(crate) writes: &'a [&'a Write],
    /// Generation of the journal up to which everything is in this batch or was committed before.
    pub(crate) journal: Option<i64>,
}

/// Applies a batch in one transaction. Either all of it is committed or nothing.
pub(crate) fn apply(connection: &mut Connection, batch: Batch<'_>) -> Result<(), StoreError> {
    in_transaction(connection, batch, |applying| applying.all(batch.run, batch.writes))
}

/// Applies the writes of a batch that can be applied, in one transaction, so that the journal and the database agree also
/// if the process is killed meanwhile. Returns the result of each; an error of the file or the transaction fails all.
pub(crate) fn apply_each(
    connection: &mut Connection,
    batch: Batch<'_>,
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    in_transaction(connection, batch, |applying| {
        batch.writes.iter().map(|write| applying.alone(batch.run, write)).collect()
    })
}

fn in_transaction<'a, T>(
    connection: &mut Connection,
    batch: Batch<'a>,
    fill: impl FnOnce(&mut Applying<'_, 'a>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Other processes append too: the head is read under the write lock.
    let first = Link::read(&transaction, "head")?;
    let mut applying = Applying { connection: &transaction, head: first, sums: Sums::default() };
    let filled = fill(&mut applying)?;
    let Applying { head, sums, .. } = applying;
    sums.rollups.write(&transaction)?;
    sums.usage.write(&transaction)?;
    if head != first {
        head.write(&transaction, "head")?;
    }
    if let Some(generation) = batch.journal {
        journal::mark_applied(&transaction, batch.run, generation)?;
    }
    transaction.commit()?;
    Ok(filled)
}

/// A transaction that is being filled.
struct Applying<'c, 'a> {
    connection: &'c Connection,
    head: Link,
    sums: Sums<'a>,
}

/// What is added once for all writes of a transaction.
#[derive(Default)]
struct Sums<'a> {
    rollups: rollup::Pending<'a>,
    usage: AddedUsage<'a>,
}

impl<'a> Applying<'_, 'a> {
    /// Applies one write, or nothing of it. The outer error is one of the file.
    fn alone(&mut self, run: Uuid, write: &'a Write) -> Result<Result<(), StoreError>, StoreError> {
        let head = self.head;
        let sums = std::mem::take(&mut self.sums);
        self.connection.execute_batch("SAVEPOINT alone")?;
        match self.all(run, &[write]) {
            Err(error) if error.is_of_file() => Err(error),
            Err(error) => {
                self.connection.execute_batch("ROLLBACK TO alone; RELEASE alone")?;
                self.head = head;
                self.sums = sums;
                Ok(Err(error))
            }
            Ok(()) => {
                self.connection.execute_batch("RELEASE alone")?;
                let of_write = std::mem::replace(&mut self.sums, sums);
                self.sums.rollups.add(of_write.rollups);
                self.sums.usage.add(of_write.usage);
                Ok(Ok(()))
            }
        }
    }

    fn all(&mut self, run: Uuid, batch: &[&'a Write]) -> Result<(), StoreError> {
        let of_calls = of_calls(batch);
        let mut statements = CallStatements::prepare(self.connection)?;
        let mut entries = self.connection.prepare_cached(audit::APPEND)?;
        let mut details = Vec::new();
        for (index, write) in batch.iter().enumerate() {
            match write {
                Write::Call(call, body) | Write::CallEnd(call, body) => {
                    let of_call = of_calls.get(&call.id).filter(|of_call| of_call.last == index);
                    let Some(of_call) = of_call else { continue };
                    let change = statements.write(call, run)?;
                    // A call ends once.
                    if change == RowChange::Nothing {
                        continue;
                    }
                    let body_bytes = statements.write_body(call, of_call.arguments, body.result.as_deref())?;
                    let calls = i64::from(change == RowChange::Added);
                    self.sums.usage.count(&call.caller, CallerUsage { calls, body_bytes });
                    if matches!(write, Write::CallEnd(..)) {
                        write_details(call, &mut details);
                        self.head = end_contents(call, &details).append(&mut entries, self.head)?;
                        self.sums.rollups.count(call);
                    }
                }
                other => self.one(run, other)?,
            }
        }
        Ok(())
    }

    /// Applies a write that is not of a call.
    fn one(&mut self, run: Uuid, write: &'a Write) -> Result<(), StoreError> {
        let connection = self.connection;
        match write {
            Write::Call(..) | Write::CallEnd(..) => {}
            Write::Audit(event) => self.head = event.append(connection, self.head)?,
            Write::SaveApproval(approval) => approvals::write(approval, connection)?,
            Write::Baselines(seen) => baselines::write(connection, seen)?,
            Write::ApprovalHolds(id, holds) => approvals::write_holds(connection, *id, *holds)?,
            Write::RemoveApproval(id) => {
                connection.execute("DELETE FROM approvals WHERE id = ?", [id])?;
            }
            Write::Inbox(item) => inbox::write(item, connection)?,
            Write::Session(change) => change.apply(connection, run)?,
            Write::ClientRoots(list) => client_roots::write(connection, list)?,
            Write::Task(task) => tasks::write(task, connection, run)?,
            Write::ClaimTask(id) => tasks::claim(connection, *id, run)?,
            Write::ReleaseTask(id) => tasks::release(connection, *id, run)?,
            Write::TaskEnd(end) => self.end_task(run, end)?,
            Write::Conversation(conversation) => conversations::write(conversation, connection)?,
            Write::Message(conversation, message) => conversations::write_message(message, connection, *conversation)?,
            Write::Note(conversation, note) => conversations::write_note(note, connection, *conversation)?,
            Write::DeleteConversation(id) => conversations::delete(connection, *id)?,
            Write::ClaimKey(claim) => keys::claim(connection, claim)?,
            Write::ReleaseKey(call) => keys::release(connection, *call)?,
            Write::Settle(settlement) => settlements::write(connection, settlement)?,
            Write::ReserveSampling(reserve) => sampling::reserve(connection, reserve)?,
            Write::SettleSampling(id, end) => sampling::settle(connection, *id, end)?,
            Write::TakeOfDay(wanted) => call_days::take(connection, wanted)?,
            Write::GiveBackOfDay(call) => call_days::give_back(connection, *call)?,
            Write::Prune(step) => {
                for event in step.apply(connection)? {
                    self.head = event.append(connection, self.head)?;
                }
            }
            Write::Dropped(dropped) => {
                calls::remove_before(connection, dropped.before)?;
                dropped.counts.write(connection)?;
                if 0 < dropped.uncounted {
                    tracing::info!(calls = dropped.uncounted, "the statistics in memory lack the oldest calls");
                }
            }
            Write::Recover(dead) => self.recover(dead)?,
        }
        Ok(())
    }

    /// Writes the end of a task and of its call.
    fn end_task(&mut self, run: Uuid, end: &'a TaskEnd) -> Result<(), StoreError> {
        let connection = self.connection;
        if let Some(call) = tasks::settled(connection, end)? {
            let mut statements = CallStatements::prepare(connection)?;
            if statements.write(&call, run)? != RowChange::Nothing {
                let body_bytes = statements.write_body(&call, None, end.call.body.result.as_deref())?;
                self.sums.usage.count(&end.task.caller, CallerUsage { calls: 0, body_bytes });
                self.append_end(&call, kind::CALL)?;
                self.sums.rollups.count_owned(call);
            }
        }
        tasks::write(&end.task, connection, run)
    }

    /// Appends the audit entry of a call's end.
    fn append_end(&mut self, call: &CallRow, kind: &'static str) -> Result<(), StoreError> {
        let mut entries = self.connection.prepare_cached(audit::APPEND)?;
        let mut details = Vec::new();
        write_details(call, &mut details);
        let contents = end_contents(call, &details);
        let at = if kind == kind::RECOVERY { time::now() } else { contents.at };
        self.head = Contents { at, kind, ..contents }.append(&mut entries, self.head)?;
        Ok(())
    }

    /// Applies what a process that has ended acknowledged and did not commit, and closes its open calls.
    fn recover(&mut self, dead: &'a DeadRun) -> Result<(), StoreError> {
        // Another process may have done all of it since the journal was read.
        if !runs::is_registered(self.connection, dead.id)? {
            return Ok(());
        }
        let applied = journal::applied(self.connection, dead.id)?;
        let generations = dead.journal.generations.iter().filter(|(generation, _)| applied < *generation);
        for write in generations.flat_map(|(_, writes)| writes) {
            // Each write is applied by itself: one that fails does not undo the others.
            if let Err(error) = self.alone(dead.id, write)? {
                tracing::error!(%error, "a record of a process that was killed cannot be applied and is lost");
            }
        }
        tasks::abandon(self.connection, dead.id)?;
        for call in calls::interrupt(self.connection, dead.id)? {
            self.append_end(&call, kind::RECOVERY)?;
        }
        runs::forget(self.connection, dead.id)
    }
}

/// Begins the audit log of a database that replaces a corrupt one with an entry that names that file. Every process that
/// opens the file does so before it writes anything else.
pub(crate) fn begin_log(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    if Link::read(connection, "head")?.seq != 0 {
        return Ok(());
    }
    let Some(replaced) = database::set_aside_files(path).pop() else { return Ok(()) };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let head = Link::read(&transaction, "head")?;
    if head.seq == 0 {
        let event = store_event(Some(replaced.display().to_string()), &serde_json::json!({ "change": "replaced" }));
        event.append(&transaction, head)?.write(&transaction, "head")?;
    }
    transaction.commit()?;
    Ok(())
}
