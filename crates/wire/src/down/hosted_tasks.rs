//! Tasks that are kept here: an exchange goes on without its caller, and its caller comes back to look.
//!
//! They live as long as this value and no longer than their time. Each belongs to whoever began it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::{Caller, Tasks};
use crate::{
    exchange::{self, Exchange, Terms},
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
    /// How long each, where its caller does not say, and at most.
    pub time: Duration,
    /// How often to look at one.
    pub poll: Duration,
}

/// Tasks that are kept here. Clones keep the same ones.
#[derive(Clone, Debug)]
pub struct HostedTasks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    keeping: Keeping,
    // Nothing awaits under this lock.
    tasks: Mutex<HashMap<String, Kept>>,
}

#[derive(Debug)]
struct Kept {
    principal: Arc<str>,
    hosted: Arc<Hosted>,
    _expiry: AbortOnDropHandle<()>,
}

/// Happenings of one exchange that wait for whoever follows a task.
const UNREAD: usize = 64;

impl Default for Keeping {
    fn default() -> Self {
        Self { tasks: 1_000, time: Duration::from_secs(3_600), poll: Duration::from_secs(1) }
    }
}

// === impl HostedTasks ===

impl HostedTasks {
    /// Keeps tasks this way.
    pub fn new(keeping: Keeping) -> Self {
        Self { inner: Arc::new(Inner { keeping, tasks: Mutex::default() }) }
    }

    /// Keeps an exchange as a task of this caller's; it exists when this returns. The caller may want it kept for less
    /// than the usual time, not for more.
    pub fn keep(&self, exchange: Exchange, time: Option<Duration>, caller: &Caller) -> Result<Task, RpcError> {
        let full = |message: &str| RpcError::new(RpcError::INTERNAL, message);
        let id = seal::random_word().map_err(|error| full(&error.to_string()))?;
        let keeping = self.inner.keeping;
        let time = time.unwrap_or(keeping.time).min(keeping.time);
        let task = Task::begun(&id, Some(time), Some(keeping.poll));
        let mut tasks = self.inner.tasks.lock();
        if keeping.tasks <= tasks.len() {
            return Err(full("too many tasks are kept already"));
        }
        let expiry = tokio::runtime::Handle::current().spawn(self.expiry(id.clone(), time));
        let kept = Kept {
            principal: Arc::clone(&caller.principal),
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
            drop(expired);
        }
    }

    fn find(&self, id: &str, caller: &Caller) -> Result<Arc<Hosted>, Unanswered> {
        let tasks = self.inner.tasks.lock();
        let kept = tasks.get(id).filter(|kept| kept.principal == caller.principal);
        kept.map(|kept| Arc::clone(&kept.hosted)).ok_or_else(|| Unanswered::unknown(id))
    }
}

impl Tasks for HostedTasks {
    fn look<'a>(&'a self, id: &'a str, _depth: Depth, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        Box::pin(future::ready(self.find(id, caller).map(|hosted| hosted.seen())))
    }

    fn see_through(&self, id: &str, caller: &Caller) -> Exchange {
        let hosted = match self.find(id, caller) {
            Ok(hosted) => hosted,
            Err(problem) => return Exchange::ended(problem.into()),
        };
        let (exchange, feed) = exchange::pair(Terms::unbounded(), UNREAD);
        let follower = Follower::new(hosted);
        // It ends with its exchange: when the caller leaves, nobody follows the task any more.
        tokio::runtime::Handle::current().spawn(async move { see_through(&follower, &feed).await });
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
        let own = tasks.values().filter(|kept| kept.principal == caller.principal);
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
        exchange::{AskId, Cause, Outcome, Question, Terms, pair},
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

    fn question(id: u64, key: Option<&str>) -> Question {
        let method = "roots/list".to_owned();
        Question { id: AskId(id), key: key.map(str::to_owned), method, params: None, cause: Cause::Request }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_kept_for_its_time_and_then_its_work_is_cancelled() {
        let (tasks, ada) = (HostedTasks::new(Keeping::default()), ada());
        let (exchange, feed) = pair(Terms::unbounded(), 8);
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
        let [(one, _feed), (other, turned_away)] = [pair(Terms::unbounded(), 8), pair(Terms::unbounded(), 8)];
        let kept = tasks.keep(one, Some(Duration::MAX), &ada).unwrap();
        assert_eq!(kept.keeps, Some(Duration::from_secs(60)));
        assert!(tasks.keep(other, None, &ada).is_err());
        assert!(turned_away.is_cancelled());
    }

    #[tokio::test]
    async fn no_key_is_used_twice_in_the_life_of_a_task() {
        let (tasks, ada) = (HostedTasks::new(Keeping::default()), ada());
        let (exchange, feed) = pair(Terms::unbounded(), 8);
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
