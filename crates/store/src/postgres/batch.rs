//! How a batch of writes becomes one transaction.
//!
//! Statements are sent without waiting for each other, in two groups: the writes and the lock of the head of the audit chain;
//! then the entries that follow that head, the counts, the new head and the commit. So a batch waits for the database three
//! times, however many writes it has, and holds the head only in the last.

use deadpool_postgres::Object;
use futures_util::future::BoxFuture;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    approvals, audit, baselines, call_days, calls, client_roots, conversations, inbox, keys,
    pipeline::{self, Value},
    rollup, runs, sampling, sessions, settlements, tasks,
};
use crate::{
    StoreError,
    audit::{AuditEvent, kind},
    calls::{CallRow, CallState},
    chain::Link,
    rollup::Pending,
    time,
    write::{self, Write, of_calls},
};

/// An advisory lock of a transaction: it makes one writer of all for what is counted against a limit.
struct Lock {
    key: i64,
    is_needed_by: fn(&Write) -> bool,
}

/// Said where a call belongs to another process.
const CLOSED: &str = "another process has closed this call";

/// Taken at the beginning and in this order, so that no two transactions wait for each other.
const LOCKS: [Lock; 3] = [
    Lock { key: 0x746f_6f6c_0001, is_needed_by: |write| matches!(write, Write::ClaimKey(_)) },
    Lock {
        key: 0x746f_6f6c_0002,
        is_needed_by: |write| matches!(write, Write::TakeOfDay(_) | Write::GiveBackOfDay(_)),
    },
    Lock { key: 0x746f_6f6c_0003, is_needed_by: |write| matches!(write, Write::ReserveSampling(_)) },
];

/// A transaction that is being filled.
pub(super) struct Filling<'a> {
    pub(super) client: &'a Object,
    pub(super) run: Uuid,
    steps: Vec<Step<'a>>,
    effects: Effects,
}

/// What follows from the writes, once for all of them.
#[derive(Default)]
struct Effects {
    entries: Vec<AuditEvent>,
    rollups: Pending<'static>,
    /// Calls whose end came after another process had closed them.
    closed: Vec<Uuid>,
}

/// What was sent or noted, in order.
enum Step<'a> {
    Sent(BoxFuture<'a, Result<u64, StoreError>>),
    /// The row of a call.
    Call {
        result: BoxFuture<'a, Result<u64, StoreError>>,
        call: &'a CallRow,
        has_end: bool,
    },
    /// The row of a task.
    Task {
        result: BoxFuture<'a, Result<u64, StoreError>>,
        id: Uuid,
    },
    /// A statement that must change a row, and why its write fails if it does not.
    Required {
        result: BoxFuture<'a, Result<u64, StoreError>>,
        otherwise: StoreError,
    },
    /// The registration of this process, which must be there.
    Fence(BoxFuture<'a, Result<u64, StoreError>>),
    Entry(Box<AuditEvent>),
}

/// Applies a batch in one transaction. Either all of it is committed or nothing. Returns the
/// result of each: an end that came too late is an audit event, and its caller is told.
pub(super) async fn apply(
    client: &Object,
    run: Uuid,
    writes: &[&Write],
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    let mut filling = Filling::new(client, run);
    let filled = async {
        filling.begin(writes).await?;
        filling.all(writes).await?;
        let head =
            if writes.iter().any(|write| may_append(write)) { Some(audit::lock_head(client).await?) } else { None };
        filling.settle().await?;
        filling.commit(head).await.map(|()| filling.results(writes, writes.iter().map(|_| Ok(())).collect()))
    };
    let filled = filled.await;
    undo_if_failed(client, filled).await
}

/// Applies the writes of a batch that can be applied, in one transaction. Returns the result of each; an error of the
/// database or the transaction fails all.
pub(super) async fn apply_each(
    client: &Object,
    run: Uuid,
    writes: &[&Write],
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    let mut filling = Filling::new(client, run);
    let filled = async {
        filling.begin(writes).await?;
        filling.settle().await?;
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            results.push(filling.alone(write).await?);
        }
        filling.commit(None).await.map(|()| filling.results(writes, results))
    };
    let filled = filled.await;
    undo_if_failed(client, filled).await
}

/// Ends the transaction of a batch that failed.
pub(super) async fn undo_if_failed<T>(client: &Object, filled: Result<T, StoreError>) -> Result<T, StoreError> {
    if let Err(error) = &filled
        && !error.is_disconnection()
    {
        client.batch_execute("ROLLBACK").await?;
    }
    filled
}

/// Whether a write may add entries to the audit log.
fn may_append(write: &Write) -> bool {
    matches!(write, Write::CallEnd(..) | Write::Audit(_) | Write::TaskEnd(_) | Write::Recover(_))
}

impl<'a> Filling<'a> {
    pub(super) fn new(client: &'a Object, run: Uuid) -> Self {
        Self { client, run, steps: Vec::new(), effects: Effects::default() }
    }

    /// Begins the transaction, with the locks that these writes need.
    pub(super) async fn begin(&mut self, writes: &[&Write]) -> Result<(), StoreError> {
        self.steps.push(Step::Sent(pipeline::send_raw(self.client, "BEGIN").await));
        for lock in LOCKS.iter().filter(|lock| writes.iter().any(|write| (lock.is_needed_by)(write))) {
            self.send("SELECT pg_advisory_xact_lock($1)", vec![Box::new(lock.key)]).await?;
        }
        let fence = pipeline::send(self.client, runs::FENCE, vec![Box::new(self.run)]).await?;
        self.steps.push(Step::Fence(fence));
        Ok(())
    }

    /// Sends a statement.
    pub(super) async fn send(&mut self, sql: &str, values: Vec<Value<'a>>) -> Result<(), StoreError> {
        let result = pipeline::send(self.client, sql, values).await?;
        self.steps.push(Step::Sent(result));
        Ok(())
    }

    /// Sends the statement that writes the row of a task, which changes it if no other process follows the task.
    pub(super) async fn send_task(&mut self, id: Uuid, sql: &str, values: Vec<Value<'a>>) -> Result<(), StoreError> {
        let result = pipeline::send(self.client, sql, values).await?;
        self.steps.push(Step::Task { result, id });
        Ok(())
    }

    /// Sends a statement that must change a row.
    pub(super) async fn require(
        &mut self,
        sql: &str,
        values: Vec<Value<'a>>,
        otherwise: StoreError,
    ) -> Result<(), StoreError> {
        let result = pipeline::send(self.client, sql, values).await?;
        self.steps.push(Step::Required { result, otherwise });
        Ok(())
    }

    /// Notes an entry of the audit log.
    pub(super) fn append(&mut self, event: AuditEvent) {
        self.steps.push(Step::Entry(Box::new(event)));
    }

    /// Counts a call that has ended, and notes its entry.
    pub(super) fn end_call(&mut self, call: CallRow) {
        self.append(end_event(&call));
        self.effects.rollups.count_owned(call);
    }

    async fn all(&mut self, writes: &[&'a Write]) -> Result<(), StoreError> {
        let of_calls = of_calls(writes);
        for (index, write) in writes.iter().enumerate() {
            match write {
                Write::Call(call, body) | Write::CallEnd(call, body) => {
                    let of_call = of_calls.get(&call.id).filter(|of_call| of_call.last == index);
                    let Some(of_call) = of_call else { continue };
                    let values = calls::values(call, self.run, of_call.arguments, body.result.as_deref());
                    let result = pipeline::send(self.client, calls::WRITE, values).await?;
                    self.steps.push(Step::Call { result, call, has_end: of_call.has_end });
                }
                other => self.one(other).await?,
            }
        }
        Ok(())
    }

    /// Applies a write that is not of a call.
    async fn one(&mut self, write: &'a Write) -> Result<(), StoreError> {
        match write {
            Write::Call(..) | Write::CallEnd(..) => Ok(()),
            Write::Audit(event) => {
                self.append((**event).clone());
                Ok(())
            }
            Write::SaveApproval(approval) => approvals::write(self, approval).await,
            Write::Baselines(seen) => baselines::write(self.client, seen).await,
            Write::ApprovalHolds(id, holds) => approvals::write_holds(self, *id, *holds).await,
            Write::RemoveApproval(id) => self.send("DELETE FROM approvals WHERE id = $1", vec![Box::new(*id)]).await,
            Write::Inbox(item) => inbox::write(self, item).await,
            Write::Session(change) => sessions::write(self, change).await,
            Write::ClientRoots(list) => client_roots::write(self, list).await,
            Write::Task(task) => tasks::write(self, task).await,
            Write::ClaimTask(id) => tasks::claim(self, *id).await,
            Write::ReleaseTask(id) => tasks::release(self, *id).await,
            Write::TaskEnd(end) => tasks::end(self, end).await,
            Write::Conversation(conversation) => conversations::write(self, conversation).await,
            Write::Message(conversation, message) => conversations::write_message(self, *conversation, message).await,
            Write::Note(conversation, note) => conversations::write_note(self, *conversation, note).await,
            Write::DeleteConversation(id) => conversations::delete(self, *id).await,
            Write::ClaimKey(claim) => keys::claim(self, claim).await,
            Write::ReleaseKey(call) => keys::release(self, *call).await,
            Write::Settle(settlement) => settlements::write(self, settlement).await,
            Write::ReserveSampling(reserve) => sampling::reserve(self, reserve).await,
            Write::SettleSampling(id, end) => sampling::settle(self, *id, end).await,
            Write::TakeOfDay(wanted) => call_days::take(self, wanted).await,
            Write::GiveBackOfDay(call) => call_days::give_back(self, *call).await,
            Write::Recover(dead) => {
                let ending = if dead.id == self.run { runs::Ending::Own } else { runs::Ending::Expired };
                runs::settle(self, dead.id, ending, None).await.map(drop)
            }
            Write::Prune(_) | Write::Dropped(_) => Err(StoreError::Invalid("this write is of a file")),
        }
    }

    /// Applies one write, or nothing of it. The outer error is one of the database.
    async fn alone(&mut self, write: &&'a Write) -> Result<Result<(), StoreError>, StoreError> {
        self.client.batch_execute("SAVEPOINT alone").await?;
        let before = std::mem::take(&mut self.effects);
        let applied = match self.all(&[write]).await {
            Ok(()) => self.settle().await,
            Err(error) => Err(error),
        };
        let of_write = std::mem::replace(&mut self.effects, before);
        match applied {
            Ok(()) => {
                self.client.batch_execute("RELEASE alone").await?;
                self.effects.entries.extend(of_write.entries);
                self.effects.rollups.add(of_write.rollups);
                self.effects.closed.extend(of_write.closed);
                Ok(Ok(()))
            }
            Err(error) if error.is_of_file() => Err(error),
            Err(error) => {
                self.steps.clear();
                self.client.batch_execute("ROLLBACK TO alone; RELEASE alone").await?;
                Ok(Err(error))
            }
        }
    }

    /// The results of writes that were committed.
    fn results(&self, writes: &[&Write], mut results: Vec<Result<(), StoreError>>) -> Vec<Result<(), StoreError>> {
        for (write, result) in writes.iter().zip(&mut results) {
            if let Write::CallEnd(call, _) = write
                && self.effects.closed.contains(&call.id)
            {
                *result = Err(StoreError::NotOwned(CLOSED));
            }
        }
        results
    }

    /// Waits for everything that was sent.
    pub(super) async fn settle(&mut self) -> Result<(), StoreError> {
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Fence(registered) => {
                    if registered.await? == 0 {
                        return Err(StoreError::Expired);
                    }
                }
                Step::Required { result, otherwise } => {
                    if result.await? == 0 {
                        return Err(otherwise);
                    }
                }
                Step::Entry(event) => self.effects.entries.push(*event),
                Step::Sent(result) => drop(result.await?),
                Step::Call { result, call, has_end } => {
                    let is_written = 0 < result.await?;
                    self.written(call, has_end, is_written).await?;
                }
                Step::Task { result, id } => {
                    if result.await? == 0 && tasks::is_followed_elsewhere(self.client, id, self.run).await? {
                        return Err(StoreError::NotOwned("another process follows this task"));
                    }
                }
            }
        }
        Ok(())
    }

    /// What follows from the row of a call. A call ends once; what is not recorded as sent is not sent.
    async fn written(&mut self, call: &CallRow, has_end: bool, is_written: bool) -> Result<(), StoreError> {
        match (has_end, is_written) {
            (true, true) => {
                self.effects.entries.push(end_event(call));
                self.effects.rollups.count_owned(call.clone());
            }
            // It belongs to another process, or was closed by one that has said how.
            (true, false) if calls::has_no_end(self.client, call.id).await? => {
                self.effects.entries.push(recovery_event(call));
                self.effects.closed.push(call.id);
            }
            (false, false) if call.state == CallState::Running && calls::has_no_end(self.client, call.id).await? => {
                return Err(StoreError::NotOwned(CLOSED));
            }
            (true | false, _) => {}
        }
        Ok(())
    }

    /// Appends the entries after the head, adds the counts, and commits. `head`: the query that locks it, if it was sent.
    pub(super) async fn commit(
        &mut self,
        head: Option<BoxFuture<'a, Result<Vec<Row>, StoreError>>>,
    ) -> Result<(), StoreError> {
        let Effects { entries, rollups, closed } = std::mem::take(&mut self.effects);
        self.effects.closed = closed;
        if !entries.is_empty() {
            let head = match head {
                Some(head) => head.await?,
                None => audit::lock_head(self.client).await?.await?,
            };
            let first: Link = audit::head(&head)?;
            let appended = audit::Appended::after(first, &entries);
            self.send(audit::APPEND, appended.values()).await?;
            rollup::write(self, &rollups).await?;
            let Link { seq, hash } = appended.head;
            self.send(audit::WRITE_END, vec![Box::new(seq), Box::new(hash.to_vec()), Box::new("head")]).await?;
        }
        self.steps.push(Step::Sent(pipeline::send_raw(self.client, "COMMIT").await));
        self.settle().await
    }
}

/// The audit entry of a call's end.
fn end_event(call: &CallRow) -> AuditEvent {
    let event = write::recovery_event(call);
    AuditEvent { at: call.ended_at().unwrap_or(call.started_at), kind: kind::CALL, ..event }
}

/// The audit entry of a call that was found open.
pub(super) fn recovery_event(call: &CallRow) -> AuditEvent {
    AuditEvent { at: time::now(), ..write::recovery_event(call) }
}
