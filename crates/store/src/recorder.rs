//! The store as the host's recorder and as its saved approvals.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::ServerName;
use toolway_host::{
    call::CallId,
    conversation::{
        ConversationHead, ConversationLog, ConversationMessage, ConversationNote, StoredConversation, StoredMessage,
    },
    inbox::InboxRecord,
    policy::{
        Baseline, Baselines, CallDays, DayTaken, DayUse, RuleId, SavedApproval, SavedApprovalError, SavedApprovals,
        SeenDigest, SeenItem, StoredApproval,
    },
    record::{
        AuditNote, CallBody, CallRecord, CallRecorder, CallRow, CallState, IdempotencyKey, InboxRow, KeyClaim,
        KeyHolder, OpenState, RecorderUsage, RecordsError, Requirement, StoredCall,
    },
    sampling::{SamplingEnd, SamplingLedger, SamplingQuotas, SamplingUse, quota::Reservation},
    task::{SettledCall, StoredTask, TaskFilter, TaskLog, TaskRow},
};
use uuid::Uuid;

use crate::{
    Reader, Store, StoreError, StoreUsage, approvals::Refusals, audit::AuditEvent, sampling::Reserve, store::Freshness,
    time,
};

/// Writes the host's records to a store.
#[derive(Clone, Debug)]
pub struct StoreRecorder {
    store: Store,
    requirement: Requirement,
    /// The surface on which approvals of this process are saved.
    surface: &'static str,
    // No await under this lock.
    refusals: Arc<Mutex<KnownRefusals>>,
}

/// Items for which a refusal was saved, as far as they are known.
#[derive(Debug, Default)]
struct KnownRefusals {
    /// How many answers this process has saved.
    saves: u64,
    /// What was read last, and when that began.
    read: Option<(Instant, Refusals)>,
    /// When a call last began to read them again. One reads for all: a reader is a connection and a thread.
    reading: Option<Instant>,
}

/// How long the items with saved refusals are taken as known. Another process may save one meanwhile.
const REFUSALS_AGE: Duration = Duration::from_secs(1);
/// The same while another call reads them again.
const REFUSALS_AGE_WHILE_READ: Duration = Duration::from_secs(3);

/// Tasks without a process that are read at once.
const MAX_UNCLAIMED: usize = 1_000;

impl StoreRecorder {
    /// A recorder for one host.
    pub fn new(store: Store, requirement: Requirement, surface: &'static str) -> Self {
        Self { store, requirement, surface, refusals: Arc::default() }
    }

    /// The store that it writes to.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl CallRecorder for StoreRecorder {
    fn requirement(&self) -> Requirement {
        self.requirement
    }

    fn write(
        &self,
        call: &CallRecord,
        state: OpenState,
        body: CallBody,
    ) -> BoxFuture<'static, Result<(), RecordsError>> {
        let state = match state {
            OpenState::Pending => CallState::Pending,
            OpenState::Running => CallState::Running,
        };
        written(self.store.write_call(row(call, state, None), body))
    }

    fn end(&self, call: &CallRecord, body: CallBody) -> BoxFuture<'static, Result<(), RecordsError>> {
        let row = row(call, call.state, Some(call.duration()));
        written(self.store.end_call(row, body))
    }

    fn claim_key(&self, claim: KeyClaim) -> BoxFuture<'static, Result<KeyHolder, RecordsError>> {
        let store = self.store.clone();
        let claimed = store.claim_key(claim.clone());
        Box::pin(async move {
            claimed.await?;
            Ok(store.query(Freshness::Committed, move |reader| reader.key_holder(&claim)).await?)
        })
    }

    fn find_key(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Option<StoredCall>, RecordsError>> {
        let store = self.store.clone();
        Box::pin(async move { Ok(store.query(Freshness::Submitted, move |reader| reader.call_under(&key)).await?) })
    }

    fn release_key(&self, call: CallId) {
        drop(self.store.release_key(call.uuid()));
    }

    fn note(&self, note: AuditNote) {
        let event = AuditEvent {
            at: time::now(),
            kind: note.kind,
            caller: note.caller,
            server: note.server.map(|server| server.to_string()),
            subject: note.subject,
            call: note.call.map(|call| call.uuid()),
            details: note.details.to_string(),
        };
        // The writer counts and logs what it cannot write.
        drop(self.store.append_audit(event));
    }

    fn usage(&self) -> Option<RecorderUsage> {
        // A store in memory has no files.
        self.store.path()?;
        let StoreUsage { bytes, removed_bodies, removed_calls } = self.store.usage();
        let max_bytes = self.store.limits().max_bytes;
        Some(RecorderUsage { bytes, max_bytes, removed_bodies, removed_calls })
    }

    fn inbox(&self, item: InboxRecord) {
        let Ok(id) = item.id.parse() else { return };
        let (answer, answered_by) = item.outcome.unzip();
        let row = InboxRow {
            id,
            created_at: time::micros(item.created_at),
            expires_at: time::micros(item.expires_at),
            kind: item.kind.to_owned(),
            server: Some(item.server.to_string()),
            caller: item.caller.unwrap_or_default(),
            call: item.call.map(|call| call.uuid()),
            text: item.text,
            ended_at: answer.map(|_| time::now()),
            answer: answer.map(str::to_owned),
            answered_by: answered_by.filter(|by| !by.is_empty()),
        };
        drop(self.store.write_inbox(row));
    }
}

impl TaskLog for StoreRecorder {
    fn write(&self, task: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
        written(self.store.write_task(task.clone()))
    }

    fn claim(&self, id: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
        let claimed = self.store.claim_task(id);
        Box::pin(async move { Ok(claimed.await?) })
    }

    fn find(&self, id: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
        let store = self.store.clone();
        let read = move |reader: &Reader| {
            let Some(row) = reader.task(id)? else { return Ok(None) };
            let call = reader.call(id)?;
            Ok(Some(StoredTask { row, result: call.and_then(|call| call.body.result) }))
        };
        Box::pin(async move { Ok(store.query(Freshness::Submitted, read).await?) })
    }

    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        let store = self.store.clone();
        Box::pin(async move {
            let recovering = store.clone();
            let recovered = tokio::task::spawn_blocking(move || recovering.recover()).await;
            recovered.unwrap_or(Err(StoreError::Closed))?;
            let filter =
                TaskFilter { is_open: Some(true), unclaimed: true, limit: MAX_UNCLAIMED, ..TaskFilter::default() };
            Ok(store.query(Freshness::Submitted, move |reader| reader.tasks(&filter)).await?)
        })
    }

    fn hosted_for(
        &self,
        identity: &str,
        before: time::Micros,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        let store = self.store.clone();
        let identity = identity.to_owned();
        let read = move |reader: &Reader| reader.tasks_hosted_for(&identity, before, limit);
        Box::pin(async move { Ok(store.query(Freshness::Submitted, read).await?) })
    }

    fn release(&self, id: Uuid) {
        // The writer counts and logs what it cannot write.
        drop(self.store.release_task(id));
    }

    fn settle(&self, task: &TaskRow, call: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
        written(self.store.end_task(task.clone(), call))
    }
}

impl SavedApprovals for StoreRecorder {
    fn of_item<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SavedApproval>, SavedApprovalError>> {
        let (name, tool) = (server.to_string(), tool.to_owned());
        Box::pin(async move {
            let read = move |reader: &Reader| Ok((reader.approvals_of(&name, &tool)?, reader.refusals()?));
            let (begun, saves) = (Instant::now(), self.refusals.lock().saves);
            let (found, refusals) = self.store.query(Freshness::Committed, read).await.map_err(RecordsError::from)?;
            self.refusals.lock().keep(begun, saves, refusals);
            Ok(found.into_iter().map(|stored| stored.approval).collect())
        })
    }

    fn save<'a>(&'a self, approval: SavedApproval) -> BoxFuture<'a, Result<(), SavedApprovalError>> {
        let saved = self.store.save_approval(StoredApproval { approval, created_by: self.surface.to_owned() });
        Box::pin(async move {
            let written = saved.await.map_err(|error| RecordsError::from(error).into());
            self.refusals.lock().forget();
            written
        })
    }

    fn may_refuse(&self, server: &ServerName, tool: &str) -> bool {
        self.refusals.lock().may_contain(server.as_str(), tool)
    }
}

impl Baselines for StoreRecorder {
    fn digests<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<Vec<SeenDigest>, RecordsError>> {
        let name = server.as_str().to_owned();
        Box::pin(
            async move { Ok(self.store.query(Freshness::Committed, move |reader| reader.seen_digests(&name)).await?) },
        )
    }

    fn find<'a>(
        &'a self,
        server: &'a ServerName,
        item: &'a SeenItem,
    ) -> BoxFuture<'a, Result<Option<Baseline>, RecordsError>> {
        let name = server.as_str().to_owned();
        let item = item.clone();
        Box::pin(async move {
            Ok(self.store.query(Freshness::Committed, move |reader| reader.baseline(&name, &item)).await?)
        })
    }

    fn save(&self, baselines: Vec<Baseline>) -> BoxFuture<'_, Result<(), RecordsError>> {
        let saved = self.store.save_baselines(baselines);
        Box::pin(async move { saved.await.map_err(RecordsError::from) })
    }
}

impl SamplingLedger for StoreRecorder {
    fn reserve(
        &self,
        wanted: SamplingUse,
        quotas: SamplingQuotas,
    ) -> BoxFuture<'static, Result<Reservation, RecordsError>> {
        let reserve = Reserve { wanted, quotas };
        let written = self.store.reserve_sampling(reserve.clone());
        let store = self.store.clone();
        Box::pin(async move {
            written.await?;
            Ok(store.query(Freshness::Committed, move |reader| reader.reservation(&reserve)).await?)
        })
    }

    fn settle(&self, id: Uuid, end: SamplingEnd) {
        // The writer counts and logs what it cannot write; the reservation then stays.
        drop(self.store.settle_sampling(id, end));
    }
}

impl CallDays for StoreRecorder {
    fn take(&self, wanted: DayUse) -> BoxFuture<'static, Result<DayTaken, RecordsError>> {
        let written = self.store.take_of_day(wanted.clone());
        let store = self.store.clone();
        Box::pin(async move {
            written.await?;
            Ok(store.query(Freshness::Committed, move |reader| reader.day_taken(&wanted)).await?)
        })
    }

    fn give_back(&self, call: Uuid) {
        // The writer counts and logs what it cannot write; the call then counts.
        drop(self.store.give_back_of_day(call));
    }

    fn used(&self, at: SystemTime) -> BoxFuture<'static, Result<BTreeMap<String, u64>, RecordsError>> {
        let store = self.store.clone();
        Box::pin(async move { Ok(store.query(Freshness::Submitted, move |reader| reader.calls_of_day(at)).await?) })
    }
}

impl KnownRefusals {
    /// Keeps what was read, unless an answer was saved since the reading began: it may not be among it.
    fn keep(&mut self, begun: Instant, saves: u64, refusals: Refusals) {
        if self.saves == saves {
            self.read = Some((begun, refusals));
            self.reading = None;
        }
    }

    /// An answer was saved.
    fn forget(&mut self) {
        self.saves += 1;
        self.read = None;
        self.reading = None;
    }

    /// Whether a refusal may be saved for an item. Where that is not known, the call that is told so reads them again.
    fn may_contain(&mut self, server: &str, tool: &str) -> bool {
        let is_being_read = self.reading.is_some_and(|began| began.elapsed() < REFUSALS_AGE);
        let most = if is_being_read { REFUSALS_AGE_WHILE_READ } else { REFUSALS_AGE };
        match &self.read {
            Some((read, known)) if read.elapsed() < most => {
                known.iter().any(|(of, refused)| of == server && refused == tool)
            }
            _ => {
                self.reading = Some(Instant::now());
                true
            }
        }
    }
}

/// The result of a write, with the error of the port.
fn written(
    write: impl Future<Output = Result<(), StoreError>> + Send + 'static,
) -> BoxFuture<'static, Result<(), RecordsError>> {
    Box::pin(async move { Ok(write.await?) })
}

/// The id of a conversation.
fn conversation_id(id: &str) -> Result<Uuid, RecordsError> {
    id.parse().map_err(|_| RecordsError::Invalid("the id of a conversation is not a UUID"))
}

fn row(call: &CallRecord, state: CallState, duration: Option<Duration>) -> CallRow {
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    CallRow {
        id: call.id.uuid(),
        started_at: time::micros(call.started_at),
        duration: duration.map(time::duration),
        waited: time::duration(call.waited),
        prepared: call.prepared.map(time::duration),
        caller: call.caller.label(),
        surface: call.surface.as_str().to_owned(),
        kind: call.kind.as_str().to_owned(),
        name: call.name.clone(),
        server: call.server.as_ref().map(|server| server.as_str().to_owned()),
        tool: call.tool.clone(),
        state,
        outcome: call.outcome,
        idempotent: call.idempotent,
        from_cache: call.from_cache,
        rule: call.rule.as_ref().map(RuleId::label),
        approved_by: call.approved_by.as_deref().map(str::to_owned),
        error: call.message.clone(),
        code: call.code.map(str::to_owned),
        conversation: call.conversation.as_deref().map(str::to_owned),
        argument_bytes: size(call.argument_bytes),
        result_bytes: size(call.result_bytes),
        server_requests: i64::from(call.server_requests),
        task: None,
    }
}

impl ConversationLog for StoreRecorder {
    fn put(&self, head: &ConversationHead) -> BoxFuture<'static, Result<(), RecordsError>> {
        let id = match conversation_id(&head.id) {
            Ok(id) => id,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let now = time::now();
        let conversation = StoredConversation {
            id,
            started_at: now,
            updated_at: now,
            title: head.title.clone(),
            model: head.model.clone(),
            surface: head.surface.to_owned(),
        };
        written(self.store.write_conversation(conversation))
    }

    fn append(&self, conversation: &str, message: ConversationMessage) -> BoxFuture<'static, Result<(), RecordsError>> {
        let id = match conversation_id(conversation) {
            Ok(id) => id,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let message = StoredMessage {
            seq: i64::try_from(message.seq).unwrap_or(i64::MAX),
            at: time::now(),
            role: message.role.to_owned(),
            text: message.text,
            body: message.body,
        };
        written(self.store.write_message(id, message))
    }

    fn keep(&self, conversation: &str, note: ConversationNote) -> BoxFuture<'static, Result<(), RecordsError>> {
        match conversation_id(conversation) {
            Ok(id) => written(self.store.write_note(id, note)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{KnownRefusals, Refusals};

    #[test]
    fn what_was_read_before_an_answer_was_saved_says_nothing_about_it() {
        let mut known = KnownRefusals::default();
        let (begun, saves) = (Instant::now(), known.saves);
        assert!(known.may_contain("notes", "write"), "nothing was read");
        known.keep(begun, saves, Refusals::default());
        assert!(!known.may_contain("notes", "write"));
        // A refusal is saved while another call reads.
        let saves = known.saves;
        known.forget();
        known.keep(begun, saves, Refusals::default());
        assert!(known.may_contain("notes", "write"));
        known.keep(begun, known.saves, Refusals::from([("notes".to_owned(), "write".to_owned())]));
        assert!(known.may_contain("notes", "write") && !known.may_contain("notes", "move"));
    }
}
