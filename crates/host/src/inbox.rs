//! Everything that waits for a person: approval requests of policy, and forms, URLs and sampling requests of servers.
//!
//! | part | file |
//! |---|---|
//! | items and answers | `inbox/item.rs` |
//! | clients of a gateway that wait | `inbox/waiting.rs` |
//! | forms of servers, as fields | `inbox/form.rs` |
//! | the port that answers | `inbox/answerer.rs` |
//! | arguments and warnings of an approval | `inbox/approval_rows.rs` |
//!
//! An item waits for the first answer: of the [`Answerer`] of this process, or of another surface through
//! [`Inbox::answer`]. It ends unanswered when it expires or when its call ends. It blocks only its own call. What servers
//! sent is charged to the byte budget while it waits.

pub mod answerer;
pub mod approval_rows;
pub mod form;
pub mod item;
pub(crate) mod opened_urls;
pub mod parked;
pub(crate) mod waiting;

use std::{collections::BTreeMap, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use toolway_wire::budget::{Charge, Kept, MemoryBudget};

pub use answerer::{Answerer, ElicitationModes, InboxAnswerer, NoAnswerer};
pub use form::{FieldKind, FieldProblem, Form, FormField, FormOption, TextFormat};
pub use item::{
    ApprovalDetails, ElicitationAnswer, InboxAnswer, InboxContent, InboxItem, InboxRecord, ItemOrigin, SamplingAnswer,
};
pub use parked::{ParkError, ParkedAnswer, ParkedRequest};

use crate::{call::Caller, record::CallRecorder};

/// How long an item waits.
pub const ITEM_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Items that wait at the same time.
const MAX_ITEMS: usize = 1_000;
/// Items of one server that wait at the same time.
const MAX_ITEMS_OF_A_SERVER: usize = 200;
/// Items of one caller that wait at the same time: a quarter of those of a server, so that no caller takes the places of
/// all others.
const MAX_ITEMS_OF_A_CALLER: usize = 50;
/// Bytes of these items.
const MAX_BYTES_OF_A_CALLER: usize = 16 * 1024 * 1024;
/// About what an item costs besides its content.
const ITEM_COST: usize = 1_024;

/// The waiting items of a host. Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    shared: Arc<Shared>,
}

struct Shared {
    // No await under this lock.
    items: Mutex<BTreeMap<String, WaitingItem>>,
    changes: watch::Sender<u64>,
    recorder: Option<Arc<dyn CallRecorder>>,
    memory: MemoryBudget,
}

struct WaitingItem {
    item: Arc<InboxItem>,
    answer: oneshot::Sender<InboxAnswer>,
    charge: Charge,
}

/// Why an answer was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No item with this id waits: it was answered, has expired, or never existed.
    #[error("no inbox item `{0}` is waiting; it may have been answered elsewhere or have expired")]
    NotWaiting(String),
    /// The answer does not fit the kind of the item.
    #[error("the item `{id}` is of kind `{kind}`, which cannot be answered like this")]
    WrongKind {
        /// Id of the item.
        id: String,
        /// Kind of the item.
        kind: &'static str,
    },
    /// An approval for the conversation of a call that has none.
    #[error("the call of the item `{0}` belongs to no conversation or session; approve it once or always")]
    NoConversation(String),
    /// An answer of a model that would be approved for longer.
    #[error("the answer of a model is sent once; the item `{0}` cannot be answered for longer")]
    NoTerm(String),
    /// An approval for longer that does not cover the call itself.
    #[error("the scope does not cover the call of the item `{0}`")]
    NotCovered(String),
    /// An approval of any host that would be saved.
    #[error(
        "any host is approved for a conversation only; approve the host of the item `{0}`, or add it to `policy.hosts`"
    )]
    AnyHostForGood(String),
    /// Values of a form are invalid.
    #[error("invalid values: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    InvalidForm(Vec<FieldProblem>),
}

/// Removes an item when its wait ends, also by being dropped.
struct Place<'a> {
    inbox: &'a Inbox,
    item: Arc<InboxItem>,
    outcome: Option<(&'static str, String)>,
}

// === impl Inbox ===

impl Inbox {
    pub(crate) fn new(recorder: Option<Arc<dyn CallRecorder>>, memory: MemoryBudget) -> Self {
        let (changes, _) = watch::channel(0);
        Self { shared: Arc::new(Shared { items: Mutex::default(), changes, recorder, memory }) }
    }

    /// The waiting items, oldest first.
    pub fn list(&self) -> Vec<Arc<InboxItem>> {
        self.shared.items.lock().values().map(|waiting| Arc::clone(&waiting.item)).collect()
    }

    /// A waiting item.
    pub fn find(&self, id: &str) -> Option<Arc<InboxItem>> {
        self.shared.items.lock().get(id).map(|waiting| Arc::clone(&waiting.item))
    }

    /// Answers a waiting item. Only the first answer counts; an invalid one leaves the item waiting.
    pub fn answer(&self, id: &str, answer: InboxAnswer) -> Result<(), AnswerError> {
        let mut items = self.shared.items.lock();
        let waiting = items.get(id).ok_or_else(|| AnswerError::NotWaiting(id.to_owned()))?;
        waiting.item.check(&answer)?;
        let Some(waiting) = items.remove(id) else { return Err(AnswerError::NotWaiting(id.to_owned())) };
        drop(items);
        waiting.answer.send(answer).map_err(|_| AnswerError::NotWaiting(id.to_owned()))
    }

    /// Ends the items of a caller that has gone, at once: another caller may get its name before its calls have ended.
    pub(crate) fn withdraw_of(&self, caller: &Caller) {
        let is_theirs = |waiting: &mut WaitingItem| waiting.item.caller.as_ref() == Some(caller);
        let theirs: Vec<_> = self.shared.items.lock().extract_if(.., |_, waiting| is_theirs(waiting)).collect();
        // A call that has ended meanwhile takes no answer.
        theirs.into_iter().for_each(|(_, waiting)| drop(waiting.answer.send(InboxAnswer::Unavailable)));
    }

    /// A number that changes whenever an item appears or ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Adds an item and waits for the first answer: from `answers`, from [`Inbox::answer`], or none in time.
    pub(crate) async fn wait<'a>(
        &'a self,
        item: InboxItem,
        answers: impl FnOnce(Arc<InboxItem>) -> futures_util::future::BoxFuture<'a, InboxAnswer>,
    ) -> InboxAnswer {
        let item = Arc::new(item);
        let Some((receiver, place)) = self.add(&item) else {
            tracing::warn!(server = %item.server, "too many or too large inbox items are waiting; this one is not answered");
            return InboxAnswer::Unavailable;
        };
        self.answered(&item, receiver, place, answers).await
    }

    /// Waits for the first answer to an item that has its place.
    async fn answered<'a>(
        &'a self,
        item: &Arc<InboxItem>,
        receiver: oneshot::Receiver<InboxAnswer>,
        mut place: Place<'a>,
        answers: impl FnOnce(Arc<InboxItem>) -> futures_util::future::BoxFuture<'a, InboxAnswer>,
    ) -> InboxAnswer {
        // The port is called inside the future, so that a panic before its first await is caught, too.
        let asked = Arc::clone(item);
        let answered = AssertUnwindSafe(async move { answers(asked).await }).catch_unwind();
        let answer = tokio::select! {
            biased;
            Ok(answer) = receiver => answer,
            answer = answered => answer.unwrap_or_else(|_| {
                tracing::error!("the answerer of the inbox panicked; the item is not answered");
                InboxAnswer::Unavailable
            }),
            () = tokio::time::sleep(ITEM_LIFETIME) => InboxAnswer::Unavailable,
        };
        let answer = match item.check(&answer) {
            Ok(()) => answer,
            Err(error) => {
                tracing::error!(%error, "the answerer of the inbox gave an unusable answer");
                InboxAnswer::Unavailable
            }
        };
        place.outcome = Some(answer.summary());
        answer
    }

    fn add(&self, item: &Arc<InboxItem>) -> Option<(oneshot::Receiver<InboxAnswer>, Place<'_>)> {
        let (answer, receiver) = oneshot::channel();
        let share = self.shared.memory.of_server(item.server.as_str()).keeping(Kept::Inbox);
        let share = match item.caller.as_ref().and_then(Caller::client) {
            Some(principal) => share.of_principal(principal),
            None => share,
        };
        let charge = share.charge(ITEM_COST + item.content.kept_bytes()).ok()?;
        let mut items = self.shared.items.lock();
        let of_server = items.values().filter(|waiting| waiting.item.server == item.server).count();
        let is_theirs = |waiting: &&WaitingItem| item.caller.is_some() && waiting.item.caller == item.caller;
        let of_caller = items.values().filter(is_theirs).count();
        let bytes_of_caller: usize = items.values().filter(is_theirs).map(|waiting| waiting.charge.bytes()).sum();
        // A parked item brings its id along.
        let is_taken = items.contains_key(&item.id);
        if is_taken
            || items.len() >= MAX_ITEMS
            || of_server >= MAX_ITEMS_OF_A_SERVER
            || of_caller >= MAX_ITEMS_OF_A_CALLER
            || bytes_of_caller + charge.bytes() > MAX_BYTES_OF_A_CALLER
        {
            return None;
        }
        items.insert(item.id.clone(), WaitingItem { item: Arc::clone(item), answer, charge });
        drop(items);
        self.report(item, None);
        Some((receiver, Place { inbox: self, item: Arc::clone(item), outcome: None }))
    }

    fn report(&self, item: &InboxItem, outcome: Option<(&'static str, String)>) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.inbox(InboxRecord::of(item, outcome));
        }
        self.shared.changes.send_modify(|number| *number = number.wrapping_add(1));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.inbox.shared.items.lock().remove(&self.item.id);
        let withdrawn = || ("withdrawn", "the call ended".to_owned());
        let outcome = self.outcome.take().unwrap_or_else(withdrawn);
        self.inbox.report(&self.item, Some(outcome));
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("waiting", &self.shared.items.lock().len()).finish()
    }
}
