//! Tasks hosted here: an exchange continues without its caller, who polls for the result.
//!
//! Tasks are in memory and expire. Each belongs to the principal that started it, and their number is limited in total
//! and per principal. A finished task whose end the caller has seen is evicted for a new one of the same principal.

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
    budget::MemoryBudget,
    exchange::{self, Exchange, ExchangeTimeouts},
    json::Raw,
    message::RpcError,
    seal,
    task::{
        Task, TaskDetail, TaskError, TaskPage,
        follow::follow,
        hosted::{HostedTask, HostedTaskFollower},
    },
};

/// Limits and times of hosted tasks.
#[derive(Clone, Copy, Debug)]
pub struct HostedTaskOptions {
    /// Maximum number in total.
    pub tasks: usize,
    /// Maximum number per principal.
    pub tasks_per_caller: usize,
    /// Default and maximum lifetime of a task.
    pub ttl: Duration,
    /// Poll interval suggested to callers.
    pub poll_interval: Duration,
}

/// Tasks hosted in this process. Clones share them.
#[derive(Clone, Debug)]
pub struct HostedTasks {
    inner: Arc<Inner>,
    /// Tasks of other namespaces are not visible here, but count against the same limits.
    namespace: u64,
}

#[derive(Debug)]
struct Inner {
    options: HostedTaskOptions,
    memory: MemoryBudget,
    namespaces: AtomicU64,
    // Nothing awaits under this lock.
    tasks: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    principal: Arc<str>,
    namespace: u64,
    hosted: Arc<HostedTask>,
    /// Whether its caller has seen the end.
    seen: Arc<AtomicBool>,
    _expiry: AbortOnDropHandle<()>,
}

/// Default maximum of tasks per principal; several principals are needed to reach the total.
pub const TASKS_PER_CALLER: usize = 200;
/// Queued events of one exchange that follows a task.
const UNREAD: usize = 64;

impl Default for HostedTaskOptions {
    fn default() -> Self {
        let (ttl, poll_interval) = (Duration::from_secs(3_600), Duration::from_secs(1));
        Self { tasks: 1_000, tasks_per_caller: TASKS_PER_CALLER, ttl, poll_interval }
    }
}

// === impl HostedTasks ===

impl HostedTasks {
    /// An empty set of tasks, whose results are not limited in bytes.
    pub fn new(options: HostedTaskOptions) -> Self {
        Self::charged_to(options, MemoryBudget::default())
    }

    /// An empty set of tasks, whose results are charged to the shares of their principals in `memory`.
    pub fn charged_to(options: HostedTaskOptions, memory: MemoryBudget) -> Self {
        let inner = Inner { options, memory, namespaces: AtomicU64::new(1), tasks: Mutex::default() };
        Self { inner: Arc::new(inner), namespace: 0 }
    }

    /// A new namespace: its tasks are found only there, within the same limits.
    #[must_use]
    pub fn new_namespace(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), namespace: self.inner.namespaces.fetch_add(1, Ordering::Relaxed) }
    }

    /// Number of tasks in all namespaces.
    pub fn count(&self) -> usize {
        self.inner.tasks.lock().len()
    }

    /// Ends the tasks of a principal in all namespaces; running ones are cancelled upstream.
    pub fn cancel_all_of(&self, principal: &str) {
        self.end(|entry| *entry.principal == *principal);
    }

    /// Ends the tasks of this namespace.
    pub fn clear(&self) {
        self.end(|entry| entry.namespace == self.namespace);
    }

    fn end(&self, such: impl Fn(&Entry) -> bool) {
        let mut tasks = self.inner.tasks.lock();
        let ended: Vec<_> = tasks.extract_if(|_, entry| such(entry)).collect();
        drop(tasks);
        ended.iter().for_each(|(_, entry)| entry.hosted.cancel());
    }

    /// Starts a task of this caller from an exchange. `time` shortens the default lifetime, but cannot extend it.
    pub fn start(&self, exchange: Exchange, time: Option<Duration>, caller: &Caller) -> Result<Task, RpcError> {
        let failed = |error: seal::NoRandomness| RpcError::new(RpcError::INTERNAL, &error.to_string());
        self.start_as(seal::random_token().map_err(failed)?, exchange, time, caller)
    }

    /// The same with an id, which no other task has.
    pub fn start_as(
        &self,
        id: String,
        exchange: Exchange,
        time: Option<Duration>,
        caller: &Caller,
    ) -> Result<Task, RpcError> {
        let full = |message: &str| RpcError::new(RpcError::INTERNAL, message);
        let options = self.inner.options;
        let time = time.unwrap_or(options.ttl).min(options.ttl);
        let task = Task::new(&id, Some(time), Some(options.poll_interval));
        let mut tasks = self.inner.tasks.lock();
        let own = tasks.values().filter(|entry| entry.principal == caller.principal).count();
        if options.tasks <= tasks.len() || options.tasks_per_caller <= own {
            let evicted = find_evictable(&tasks, &caller.principal).ok_or_else(|| full(too_many(&options, own)))?;
            tasks.remove(&evicted);
        }
        let expiry = tokio::runtime::Handle::current().spawn(self.expiry(id.clone(), time));
        let entry = Entry {
            principal: Arc::clone(&caller.principal),
            namespace: self.namespace,
            seen: Arc::default(),
            hosted: HostedTask::start(task.clone(), exchange, self.inner.memory.of_principal(&caller.principal)),
            _expiry: AbortOnDropHandle::new(expiry),
        };
        tasks.insert(id, entry);
        Ok(task)
    }

    /// Whether this caller has a task with this id.
    pub fn contains(&self, id: &str, caller: &Caller) -> bool {
        self.find(id, caller).is_ok()
    }

    fn expiry(&self, id: String, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let inner = Arc::downgrade(&self.inner);
        async move {
            tokio::time::sleep(time).await;
            let expired = inner.upgrade().and_then(|inner| inner.tasks.lock().remove(&id));
            // Followers receive its end.
            if let Some(entry) = expired {
                entry.hosted.cancel();
            }
        }
    }

    fn find(&self, id: &str, caller: &Caller) -> Result<Arc<HostedTask>, TaskError> {
        self.with(id, caller, |entry| Arc::clone(&entry.hosted))
    }

    fn with<T>(&self, id: &str, caller: &Caller, look: impl FnOnce(&Entry) -> T) -> Result<T, TaskError> {
        let tasks = self.inner.tasks.lock();
        let entry =
            tasks.get(id).filter(|entry| entry.principal == caller.principal && entry.namespace == self.namespace);
        entry.map(look).ok_or_else(|| TaskError::unknown(id))
    }
}

/// The task of this principal to evict: finished, its end seen, unchanged for the longest time.
fn find_evictable(tasks: &HashMap<String, Entry>, principal: &str) -> Option<String> {
    let own = tasks.iter().filter(|(_, entry)| *entry.principal == *principal && entry.seen.load(Ordering::Relaxed));
    let over = own.map(|(id, entry)| (entry.hosted.snapshot(), id)).filter(|(task, _)| task.status.is_finished());
    over.min_by(|(one, _), (other, _)| one.updated.cmp(&other.updated)).map(|(_, id)| id.clone())
}

fn too_many(options: &HostedTaskOptions, own: usize) -> &'static str {
    match options.tasks_per_caller <= own {
        true => "too many tasks for this client; fetch the results of finished tasks or cancel some",
        false => "too many tasks; try again later",
    }
}

impl Tasks for HostedTasks {
    fn get<'a>(
        &'a self,
        id: &'a str,
        _depth: TaskDetail,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Task, TaskError>> {
        let seen = self.with(id, caller, |entry| {
            let task = entry.hosted.snapshot();
            entry.seen.fetch_or(task.status.is_finished(), Ordering::Relaxed);
            task
        });
        Box::pin(future::ready(seen))
    }

    fn follow(&self, id: &str, caller: &Caller) -> Exchange {
        let followed = self.with(id, caller, |entry| (Arc::clone(&entry.hosted), Arc::clone(&entry.seen)));
        let (hosted, seen) = match followed {
            Ok(followed) => followed,
            Err(problem) => return Exchange::ended(problem.into()),
        };
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        let follower = HostedTaskFollower::new(hosted);
        // Ends with its exchange, that is when the caller leaves.
        tokio::runtime::Handle::current()
            .spawn(async move { seen.fetch_or(follow(&follower, &feed).await, Ordering::Relaxed) });
        exchange
    }

    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), TaskError>> {
        Box::pin(future::ready(self.find(id, caller).map(|hosted| hosted.take(&answers))))
    }

    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>> {
        Box::pin(future::ready(self.find(id, caller).map(|hosted| {
            hosted.cancel();
            hosted.snapshot()
        })))
    }

    fn wait_for_change<'a>(&'a self, seen: &'a Task, caller: &'a Caller) -> BoxFuture<'a, ()> {
        let Ok(hosted) = self.find(&seen.id, caller) else { return Box::pin(future::ready(())) };
        // Two changes within one clock tick look alike; then the poll interval applies.
        let other = |task: &Task| task.status != seen.status || task.updated != seen.updated;
        Box::pin(async move { drop(hosted.until(seen.interval(), other).await) })
    }

    fn list<'a>(&'a self, _from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, TaskError>> {
        let tasks = self.inner.tasks.lock();
        let own =
            tasks.values().filter(|entry| entry.principal == caller.principal && entry.namespace == self.namespace);
        let mut tasks: Vec<Task> = own.map(|entry| entry.hosted.snapshot()).collect();
        tasks.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        Box::pin(future::ready(Ok(TaskPage { tasks, next: None })))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use serde_json::json;

    use super::{Caller, HostedTaskOptions, HostedTasks, TaskDetail, Tasks};
    use crate::{
        budget::MemoryBudget,
        exchange::{Cause, Exchange, ExchangeTimeouts, Outcome, ServerRequestDetails, ServerRequestId, pair},
        json::Raw,
        message::ClientCapabilities,
        revision::Revision,
        task::{TaskContent, TaskStatus},
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

    /// Many, because the driver of a task runs on another thread at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tasks_of_calls_that_have_ended_already_end() {
        const TASKS: usize = 5_000;
        let tasks = HostedTasks::new(HostedTaskOptions {
            tasks: TASKS,
            tasks_per_caller: TASKS,
            ..HostedTaskOptions::default()
        });
        for _ in 0..TASKS {
            let ended = Exchange::ended(Outcome::Answered(Raw::of(&json!({}))));
            let task = tasks.start(ended, None, &ada()).unwrap();
            let outcome = tokio::time::timeout(Duration::from_secs(20), tasks.follow(&task.id, &ada()).outcome()).await;
            assert!(matches!(outcome, Ok(Outcome::Answered(_))), "{outcome:?}");
            tasks.clear();
        }
    }

    fn question(id: u64, key: Option<&str>) -> ServerRequestDetails {
        let method = "roots/list".to_owned();
        ServerRequestDetails {
            id: ServerRequestId(id),
            key: key.map(str::to_owned),
            method,
            params: None,
            cause: Cause::Request,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn task_expires_and_its_work_is_cancelled() {
        let (tasks, ada) = (HostedTasks::new(HostedTaskOptions::default()), ada());
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let task = tasks.start(exchange, Some(Duration::from_secs(5)), &ada).unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(tasks.get(&task.id, TaskDetail::Full, &ada).await.is_ok());
        feed.cancelled().await;
        assert!(tasks.get(&task.id, TaskDetail::Full, &ada).await.is_err());
    }

    #[tokio::test]
    async fn results_are_charged_as_long_as_they_are_kept() {
        let memory = MemoryBudget::new(1_000);
        let (tasks, ada) = (HostedTasks::charged_to(HostedTaskOptions::default(), memory.clone()), ada());
        let result = Raw::of(&json!({ "text": "x".repeat(300) }));
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
            let id = tasks.start(exchange, None, &ada).unwrap().id;
            feed.end(Outcome::Answered(result.clone()));
            let hosted = tasks.find(&id, &ada).unwrap();
            ends.push(hosted.until(Duration::from_secs(60), |task| task.status.is_finished()).await);
        }
        assert_eq!([ends[0].status, ends[1].status], [TaskStatus::Completed, TaskStatus::Failed]);
        let TaskContent::Error(error) = &ends[1].content else { panic!("{ends:?}") };
        assert!(error.message().starts_with("the result cannot be kept: memory budget exhausted"), "{error}");
        assert_eq!(memory.used(), result.as_bytes().len());
        tasks.cancel_all_of("ada");
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn tasks_are_limited_in_number_and_lifetime() {
        let options = HostedTaskOptions { tasks: 1, ttl: Duration::from_secs(60), ..HostedTaskOptions::default() };
        let (tasks, ada) = (HostedTasks::new(options), ada());
        let [(one, _feed), (other, turned_away)] =
            [pair(ExchangeTimeouts::unbounded(), 8), pair(ExchangeTimeouts::unbounded(), 8)];
        let entry = tasks.start(one, Some(Duration::MAX), &ada).unwrap();
        assert_eq!(entry.ttl, Some(Duration::from_secs(60)));
        assert!(tasks.start(other, None, &ada).is_err());
        assert!(turned_away.is_cancelled());
    }

    #[tokio::test]
    async fn tasks_per_principal_are_limited_and_seen_ones_are_evicted() {
        let options = HostedTaskOptions { tasks: 10, tasks_per_caller: 2, ..HostedTaskOptions::default() };
        let (tasks, ada) = (HostedTasks::new(options), ada());
        let namespace = tasks.new_namespace();
        let (one, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let first = tasks.start(one, None, &ada).unwrap().id;
        let (other, _feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let second = namespace.start(other, None, &ada).unwrap().id;
        assert!(tasks.get(&second, TaskDetail::Full, &ada).await.is_err(), "it is in another namespace");
        let more = || pair(ExchangeTimeouts::unbounded(), 8).0;
        let ben = Caller { principal: Arc::from("ben"), ..ada.clone() };
        assert!(tasks.start(more(), None, &ben).is_ok());
        let refused = tasks.start(more(), None, &ada).unwrap_err();
        assert!(refused.message().contains("too many tasks for this client"), "{refused}");
        // Finished, but its caller has not seen the end: it stays.
        feed.end(Outcome::Answered(Raw::empty_object()));
        while tasks.list(None, &ada).await.unwrap().tasks[0].status != TaskStatus::Completed {
            tokio::task::yield_now().await;
        }
        assert!(tasks.start(more(), None, &ada).is_err());
        while tasks.get(&first, TaskDetail::Full, &ada).await.unwrap().status != TaskStatus::Completed {
            tokio::task::yield_now().await;
        }
        assert!(tasks.start(more(), None, &ada).is_ok());
        assert!(tasks.get(&first, TaskDetail::Full, &ada).await.is_err());
        assert_eq!(tasks.count(), 3);
    }

    #[tokio::test]
    async fn end_counts_as_seen_only_by_a_follower_that_stayed() {
        let options = HostedTaskOptions { tasks_per_caller: 1, ..HostedTaskOptions::default() };
        let (tasks, ada) = (HostedTasks::new(options), ada());
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let id = tasks.start(exchange, None, &ada).unwrap().id;
        drop(tasks.follow(&id, &ada));
        feed.end(Outcome::Answered(Raw::empty_object()));
        while tasks.list(None, &ada).await.unwrap().tasks[0].status != TaskStatus::Completed {
            tokio::task::yield_now().await;
        }
        let more = || tasks.start(pair(ExchangeTimeouts::unbounded(), 8).0, None, &ada);
        assert!(more().is_err(), "its result is kept until the caller has seen it");
        assert!(matches!(tasks.follow(&id, &ada).outcome().await, Outcome::Answered(_)));
        tokio::task::yield_now().await;
        assert!(more().is_ok(), "it was seen");
    }

    #[tokio::test]
    async fn expelled_principal_loses_its_tasks_in_all_namespaces() {
        let (tasks, ada) = (HostedTasks::new(HostedTaskOptions::default()), ada());
        let ben = Caller { principal: Arc::from("ben"), ..ada.clone() };
        let feeds = [tasks.clone(), tasks.new_namespace()].map(|namespace| {
            let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
            namespace.start(exchange, None, &ada).unwrap();
            feed
        });
        let (exchange, bens) = pair(ExchangeTimeouts::unbounded(), 8);
        tasks.start(exchange, None, &ben).unwrap();
        let emptied = tasks.new_namespace();
        let (exchange, cleared) = pair(ExchangeTimeouts::unbounded(), 8);
        emptied.start(exchange, None, &ben).unwrap();
        emptied.clear();
        cleared.cancelled().await;
        tasks.cancel_all_of("ada");
        for feed in feeds {
            feed.cancelled().await;
        }
        assert!(!bens.is_cancelled());
        assert_eq!(tasks.count(), 1);
    }

    #[tokio::test]
    async fn server_request_keys_are_unique_within_a_task() {
        let (tasks, ada) = (HostedTasks::new(HostedTaskOptions::default()), ada());
        let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
        let id = tasks.start(exchange, None, &ada).unwrap().id;
        let mut keys = Vec::new();
        for (number, key) in [(1, Some("same")), (2, Some("same")), (3, None)] {
            let answer = feed.ask(question(number, key));
            let asked = loop {
                let task = tasks.get(&id, TaskDetail::Full, &ada).await.unwrap();
                match task.content {
                    TaskContent::Requests(asked) => break asked,
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
        while tasks.get(&id, TaskDetail::Status, &ada).await.unwrap().status != TaskStatus::Cancelled {
            tokio::task::yield_now().await;
        }
    }
}
