//! Tasks that are kept here: an exchange goes on without its caller, and its caller comes back to look.
//!
//! They live as long as this value and no longer than their time. Each belongs to whoever began it, and nobody has more
//! than a bound; one that is over and was looked at since gives way to a new one of the same caller.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::{Caller, Tasks};
use crate::{
    exchange::{self, Exchange, ExchangeTimeouts},
    json::Raw,
    message::RpcError,
    seal,
    task::{
        Depth, Task, TaskPage, Unanswered,
        hosted::{Follower, Hosted},
        watch::see_through,
    },
};

/// How tasks are kept.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    /// How many at once.
    pub tasks: usize,
    /// How many of one caller.
    pub tasks_per_caller: usize,
    /// How long each, where its caller does not say, and at most.
    pub time: Duration,
    /// How often to look at one.
    pub poll: Duration,
}

/// Tasks that are kept here. Clones keep the same ones.
#[derive(Clone, Debug)]
pub struct HostedTasks {
    inner: Arc<Inner>,
    /// Tasks of another shelf are unknown here, and count all the same.
    shelf: u64,
}

#[derive(Debug)]
struct Inner {
    keeping: Keeping,
    shelves: AtomicU64,
    // Nothing awaits under this lock.
    tasks: Mutex<HashMap<String, Kept>>,
}

#[derive(Debug)]
struct Kept {
    principal: Arc<str>,
    shelf: u64,
    hosted: Arc<Hosted>,
    /// Its end was seen.
    seen: Arc<AtomicBool>,
    _expiry: AbortOnDropHandle<()>,
}

/// Tasks of one caller: it takes several to fill what there is for all.
pub const TASKS_PER_CALLER: usize = 200;
/// Happenings of one exchange that wait for whoever follows a task.
const UNREAD: usize = 64;

impl Default for Keeping {
    fn default() -> Self {
        let (time, poll) = (Duration::from_secs(3_600), Duration::from_secs(1));
        Self { tasks: 1_000, tasks_per_caller: TASKS_PER_CALLER, time, poll }
    }
}

// === impl HostedTasks ===

impl HostedTasks {
    /// Keeps tasks this way.
    pub fn new(keeping: Keeping) -> Self {
        Self { inner: Arc::new(Inner { keeping, shelves: AtomicU64::new(1), tasks: Mutex::default() }), shelf: 0 }
    }

    /// Another shelf: what is kept there is found only there, within the same bounds.
    #[must_use]
    pub fn another_shelf(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), shelf: self.inner.shelves.fetch_add(1, Ordering::Relaxed) }
    }

    /// How many are kept, on all shelves.
    pub fn count(&self) -> usize {
        self.inner.tasks.lock().len()
    }

    /// Ends those of a caller, on all shelves: what is under way is cancelled on the other side.
    pub fn let_go(&self, principal: &str) {
        self.end(|kept| *kept.principal == *principal);
    }

    /// Ends those on this shelf.
    pub fn clear(&self) {
        self.end(|kept| kept.shelf == self.shelf);
    }

    fn end(&self, such: impl Fn(&Kept) -> bool) {
        let mut tasks = self.inner.tasks.lock();
        let ended: Vec<_> = tasks.extract_if(|_, kept| such(kept)).collect();
        drop(tasks);
        ended.iter().for_each(|(_, kept)| kept.hosted.cancel());
    }

    /// Keeps an exchange as a task of this caller's; it exists when this returns. The caller may want it kept for less
    /// than the usual time, not for more.
    pub fn keep(&self, exchange: Exchange, time: Option<Duration>, caller: &Caller) -> Result<Task, RpcError> {
        let full = |message: &str| RpcError::new(RpcError::INTERNAL, message);
        let id = seal::random_token().map_err(|error| full(&error.to_string()))?;
        let keeping = self.inner.keeping;
        let time = time.unwrap_or(keeping.time).min(keeping.time);
        let task = Task::begun(&id, Some(time), Some(keeping.poll));
        let mut tasks = self.inner.tasks.lock();
        let own = tasks.values().filter(|kept| kept.principal == caller.principal).count();
        if keeping.tasks <= tasks.len() || keeping.tasks_per_caller <= own {
            let spared = spare(&tasks, &caller.principal).ok_or_else(|| full(too_many(&keeping, own)))?;
            tasks.remove(&spared);
        }
        let expiry = tokio::runtime::Handle::current().spawn(self.expiry(id.clone(), time));
        let kept = Kept {
            principal: Arc::clone(&caller.principal),
            shelf: self.shelf,
            seen: Arc::default(),
            hosted: Hosted::keep(task.clone(), exchange),
            _expiry: AbortOnDropHandle::new(expiry),
        };
        tasks.insert(id, kept);
        Ok(task)
    }

    /// Whether a task of this caller's is kept under this name.
    pub fn keeps(&self, id: &str, caller: &Caller) -> bool {
        self.find(id, caller).is_ok()
    }

    fn expiry(&self, id: String, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let inner = Arc::downgrade(&self.inner);
        async move {
            tokio::time::sleep(time).await;
            let expired = inner.upgrade().and_then(|inner| inner.tasks.lock().remove(&id));
            // Whoever follows it hears of its end.
            if let Some(kept) = expired {
                kept.hosted.cancel();
            }
        }
    }

    fn find(&self, id: &str, caller: &Caller) -> Result<Arc<Hosted>, Unanswered> {
        self.with(id, caller, |kept| Arc::clone(&kept.hosted))
    }

    fn with<T>(&self, id: &str, caller: &Caller, look: impl FnOnce(&Kept) -> T) -> Result<T, Unanswered> {
        let tasks = self.inner.tasks.lock();
        let kept = tasks.get(id).filter(|kept| kept.principal == caller.principal && kept.shelf == self.shelf);
        kept.map(look).ok_or_else(|| Unanswered::unknown(id))
    }
}

/// The task of this caller that can be spared first: it is over, its end was seen, and nothing of it changed for longest.
fn spare(tasks: &HashMap<String, Kept>, principal: &str) -> Option<String> {
    let own = tasks.iter().filter(|(_, kept)| *kept.principal == *principal && kept.seen.load(Ordering::Relaxed));
    let over = own.map(|(id, kept)| (kept.hosted.seen(), id)).filter(|(task, _)| task.status.is_over());
    over.min_by(|(one, _), (other, _)| one.updated.cmp(&other.updated)).map(|(_, id)| id.clone())
}

fn too_many(keeping: &Keeping, own: usize) -> &'static str {
    match keeping.tasks_per_caller <= own {
        true => "too many tasks of yours are kept already; look at the results of those that are over, or cancel some",
        false => "too many tasks are kept already",
    }
}

impl Tasks for HostedTasks {
    fn look<'a>(&'a self, id: &'a str, _depth: Depth, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        let seen = self.with(id, caller, |kept| {
            let task = kept.hosted.seen();
            kept.seen.fetch_or(task.status.is_over(), Ordering::Relaxed);
            task
        });
        Box::pin(future::ready(seen))
    }

    fn see_through(&self, id: &str, caller: &Caller) -> Exchange {
        let followed = self.with(id, caller, |kept| (Arc::clone(&kept.hosted), Arc::clone(&kept.seen)));
        let (hosted, seen) = match followed {
            Ok(followed) => followed,
            Err(problem) => return Exchange::ended(problem.into()),
        };
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        let follower = Follower::new(hosted);
        // It ends with its exchange: when the caller leaves, nobody follows the task any more.
        tokio::runtime::Handle::current()
            .spawn(async move { seen.fetch_or(see_through(&follower, &feed).await, Ordering::Relaxed) });
        exchange
    }

    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(future::ready(self.find(id, caller).map(|hosted| hosted.take(&answers))))
    }

    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        Box::pin(future::ready(self.find(id, caller).map(|hosted| {
            hosted.cancel();
            hosted.seen()
        })))
    }

    fn changed<'a>(&'a self, seen: &'a Task, caller: &'a Caller) -> BoxFuture<'a, ()> {
        let Ok(hosted) = self.find(&seen.id, caller) else { return Box::pin(future::ready(())) };
        // Two changes within one tick of the clock look alike; then it is the interval that tells.
        let other = |task: &Task| task.status != seen.status || task.updated != seen.updated;
        Box::pin(async move { drop(hosted.until(seen.interval(), other).await) })
    }

    fn list<'a>(&'a self, _from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, Unanswered>> {
        let tasks = self.inner.tasks.lock();
        let own = tasks.values().filter(|kept| kept.principal == caller.principal && kept.shelf == self.shelf);
        let mut tasks: Vec<Task> = own.map(|kept| kept.hosted.seen()).collect();
        tasks.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        Box::pin(future::ready(Ok(TaskPage { tasks, next: None })))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use serde_json::json;

    use super::{Caller, Depth, HostedTasks, Keeping, Tasks};
    use crate::{
        exchange::{ServerRequestId, Cause, Outcome, ServerRequestDetails, ExchangeTimeouts, pair},
        json::Raw,
        message::ClientCapabilities,
        revision::Revision,
        task::{Inside, Status},
    };

    fn ada() -> Caller {
        let capabilities = ClientCapabilities::none();
        Caller {
            revision: Revision::NEWEST_MODERN,
            capabilities,
            info: None,
            principal: Arc::from("ada"),
            session: None,
        }
    }

    fn question(id: u64, key: Option<&str>) -> ServerRequestDetails {
        let method = "roots/list".to_owned();
        ServerRequestDetails { id: ServerRequestId(id), key: key.map(str::to_owned), method, params: None, cause: Cause::Request }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_kept_for_its_time_and_then_its_work_is_cancelled() {
        let (tasks, ada) = (HostedTasks::new(Keeping::default()), ada());
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let task = tasks.keep(exchange, Some(Duration::from_secs(5)), &ada).unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(tasks.look(&task.id, Depth::Whole, &ada).await.is_ok());
        feed.cancelled().await;
        assert!(tasks.look(&task.id, Depth::Whole, &ada).await.is_err());
    }

    #[tokio::test]
    async fn tasks_are_bounded_in_number_and_in_time() {
        let keeping = Keeping { tasks: 1, time: Duration::from_secs(60), ..Keeping::default() };
        let (tasks, ada) = (HostedTasks::new(keeping), ada());
        let [(one, _feed), (other, turned_away)] = [pair(ExchangeTimeouts::unbounded(), 8), pair(ExchangeTimeouts::unbounded(), 8)];
        let kept = tasks.keep(one, Some(Duration::MAX), &ada).unwrap();
        assert_eq!(kept.keeps, Some(Duration::from_secs(60)));
        assert!(tasks.keep(other, None, &ada).is_err());
        assert!(turned_away.is_cancelled());
    }

    #[tokio::test]
    async fn nobody_has_more_than_its_own_and_what_was_looked_at_gives_way() {
        let keeping = Keeping { tasks: 10, tasks_per_caller: 2, ..Keeping::default() };
        let (tasks, ada) = (HostedTasks::new(keeping), ada());
        let shelf = tasks.another_shelf();
        let (one, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let first = tasks.keep(one, None, &ada).unwrap().id;
        let (other, _feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let second = shelf.keep(other, None, &ada).unwrap().id;
        assert!(tasks.look(&second, Depth::Whole, &ada).await.is_err(), "it is on another shelf");
        let more = || pair(ExchangeTimeouts::unbounded(), 8).0;
        let ben = Caller { principal: Arc::from("ben"), ..ada.clone() };
        assert!(tasks.keep(more(), None, &ben).is_ok());
        let refused = tasks.keep(more(), None, &ada).unwrap_err();
        assert!(refused.message().contains("too many tasks of yours"), "{refused}");
        // Over, and nobody has looked: it stays.
        feed.end(Outcome::Answered(Raw::empty_object()));
        while tasks.list(None, &ada).await.unwrap().tasks[0].status != Status::Completed {
            tokio::task::yield_now().await;
        }
        assert!(tasks.keep(more(), None, &ada).is_err());
        while tasks.look(&first, Depth::Whole, &ada).await.unwrap().status != Status::Completed {
            tokio::task::yield_now().await;
        }
        assert!(tasks.keep(more(), None, &ada).is_ok());
        assert!(tasks.look(&first, Depth::Whole, &ada).await.is_err());
        assert_eq!(tasks.count(), 3);
    }

    #[tokio::test]
    async fn an_end_is_seen_by_whoever_stays_until_then_and_not_by_whoever_left() {
        let keeping = Keeping { tasks_per_caller: 1, ..Keeping::default() };
        let (tasks, ada) = (HostedTasks::new(keeping), ada());
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let id = tasks.keep(exchange, None, &ada).unwrap().id;
        drop(tasks.see_through(&id, &ada));
        feed.end(Outcome::Answered(Raw::empty_object()));
        while tasks.list(None, &ada).await.unwrap().tasks[0].status != Status::Completed {
            tokio::task::yield_now().await;
        }
        let more = || tasks.keep(pair(ExchangeTimeouts::unbounded(), 8).0, None, &ada);
        assert!(more().is_err(), "its result is still there for whoever comes back");
        assert!(matches!(tasks.see_through(&id, &ada).outcome().await, Outcome::Answered(_)));
        tokio::task::yield_now().await;
        assert!(more().is_ok(), "it was seen");
    }

    #[tokio::test]
    async fn whoever_is_sent_away_keeps_no_task_on_any_shelf() {
        let (tasks, ada) = (HostedTasks::new(Keeping::default()), ada());
        let ben = Caller { principal: Arc::from("ben"), ..ada.clone() };
        let feeds = [tasks.clone(), tasks.another_shelf()].map(|shelf| {
            let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
            shelf.keep(exchange, None, &ada).unwrap();
            feed
        });
        let (exchange, bens) = pair(ExchangeTimeouts::unbounded(), 8);
        tasks.keep(exchange, None, &ben).unwrap();
        let emptied = tasks.another_shelf();
        let (exchange, cleared) = pair(ExchangeTimeouts::unbounded(), 8);
        emptied.keep(exchange, None, &ben).unwrap();
        emptied.clear();
        cleared.cancelled().await;
        tasks.let_go("ada");
        for feed in feeds {
            feed.cancelled().await;
        }
        assert!(!bens.is_cancelled());
        assert_eq!(tasks.count(), 1);
    }

    #[tokio::test]
    async fn no_key_is_used_twice_in_the_life_of_a_task() {
        let (tasks, ada) = (HostedTasks::new(Keeping::default()), ada());
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let id = tasks.keep(exchange, None, &ada).unwrap().id;
        let mut keys = Vec::new();
        for (number, key) in [(1, Some("same")), (2, Some("same")), (3, None)] {
            let answer = feed.ask(question(number, key));
            let asked = loop {
                let task = tasks.look(&id, Depth::Whole, &ada).await.unwrap();
                match task.inside {
                    Inside::Asks(asked) => break asked,
                    _ => tokio::task::yield_now().await,
                }
            };
            let key = asked[0].key.clone().unwrap();
            let answers = Raw::of(&json!({ key.clone(): {} }));
            tasks.answer(&id, answers, &ada).await.unwrap();
            answer.await;
            keys.push(key);
        }
        assert_eq!(keys, ["same", "ask-1", "ask-2"]);
        feed.end(Outcome::Cancelled);
        while tasks.look(&id, Depth::Status, &ada).await.unwrap().status != Status::Cancelled {
            tokio::task::yield_now().await;
        }
    }
}
