//! The caller and the connection of each task: a connection of that caller, or the shared one.
//!
//! A server that sees one credential for all callers may list the tasks of all; this record tells them apart. Callers do
//! not displace each other's tasks: each has a limit, and beyond the common limit the caller with the most tasks loses one.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use tokio::time::{Duration, Instant};

use super::{Caller, caller_connection::CallerConnection};

/// The known tasks of one server, oldest first.
#[derive(Debug, Default)]
pub(super) struct TaskOwners {
    tasks: VecDeque<OwnedTask>,
}

#[derive(Debug)]
struct OwnedTask {
    task: String,
    caller: Caller,
    at: TaskLocation,
}

/// The connection of a task.
#[derive(Debug)]
enum TaskLocation {
    /// The shared connection; the task is kept until this time.
    Shared(Instant),
    /// A connection of the caller.
    Caller(Weak<CallerConnection>),
}

/// Tasks per server.
const MAX_TASKS: usize = 1_024;
/// Tasks per caller; beyond it the oldest is dropped.
const PER_CALLER: usize = 256;
/// The longest time a task is kept.
const MAX_TTL: Duration = Duration::from_secs(24 * 3_600);

impl TaskOwners {
    /// Records a task on a caller connection.
    pub(super) fn keep(&mut self, task: String, connection: &Arc<CallerConnection>, now: Instant) {
        self.push(
            OwnedTask {
                task,
                caller: connection.key.caller.clone(),
                at: TaskLocation::Caller(Arc::downgrade(connection)),
            },
            now,
        );
    }

    /// Records a task on the shared connection.
    pub(super) fn keep_shared(&mut self, task: String, ttl: Option<Duration>, caller: &Caller, now: Instant) {
        // A server may reuse a task id for another caller.
        self.tasks.retain(|kept| kept.task != task || matches!(kept.at, TaskLocation::Caller(_)));
        let until = now + ttl.unwrap_or(MAX_TTL).min(MAX_TTL);
        self.push(OwnedTask { task, caller: caller.clone(), at: TaskLocation::Shared(until) }, now);
    }

    /// The shared connection ended: the next one may reuse the task ids.
    pub(super) fn forget_shared(&mut self) {
        self.tasks.retain(|kept| matches!(kept.at, TaskLocation::Caller(_)));
    }

    /// Forgets a removed caller: a later caller of the same name is another one.
    pub(super) fn forget(&mut self, caller: &Caller) {
        self.tasks.retain(|kept| kept.caller != *caller);
    }

    /// Whether a caller has this task, or any if `None`, in progress.
    pub(super) fn has(&self, caller: &Caller, task: Option<&str>, now: Instant) -> bool {
        let matches = |kept: &OwnedTask| kept.caller == *caller && task.is_none_or(|task| kept.task == task);
        self.tasks.iter().any(|kept| matches(kept) && kept.is_current(now))
    }

    /// The connection of a caller's task.
    pub(super) fn connection(&self, task: &str, caller: &Caller) -> Option<Arc<CallerConnection>> {
        let matches = |kept: &&OwnedTask| kept.task == task && kept.caller == *caller;
        self.tasks.iter().filter(matches).find_map(|kept| match &kept.at {
            TaskLocation::Caller(connection) => connection.upgrade(),
            TaskLocation::Shared(_) => None,
        })
    }

    fn push(&mut self, kept: OwnedTask, now: Instant) {
        self.tasks.retain(|kept| kept.is_current(now));
        if let Some(over_limit) = self.caller_over_limit(&kept.caller) {
            let oldest = self.tasks.iter().position(|known| known.caller == over_limit);
            oldest.and_then(|oldest| self.tasks.remove(oldest));
        }
        self.tasks.push_back(kept);
    }

    fn caller_over_limit(&self, caller: &Caller) -> Option<Caller> {
        let mut counts: HashMap<&Caller, usize> = HashMap::new();
        self.tasks.iter().for_each(|kept| *counts.entry(&kept.caller).or_default() += 1);
        if counts.get(caller).is_some_and(|own| PER_CALLER <= *own) {
            return Some(caller.clone());
        }
        let largest = || counts.iter().max_by_key(|(_, count)| **count).map(|(caller, _)| Caller::clone(caller));
        if MAX_TASKS <= self.tasks.len() { largest() } else { None }
    }
}

impl OwnedTask {
    fn is_current(&self, now: Instant) -> bool {
        match &self.at {
            TaskLocation::Shared(until) => now < *until,
            TaskLocation::Caller(connection) => 0 < connection.strong_count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};

    use super::{Caller, MAX_TASKS, MAX_TTL, PER_CALLER, TaskOwners};

    fn client(name: &impl ToString) -> Caller {
        Caller::Client(name.to_string().into())
    }

    #[test]
    fn callers_do_not_displace_each_others_tasks() {
        let (mut tasks, now, ada, eve) = (TaskOwners::default(), Instant::now(), client(&"ada"), client(&"eve"));
        tasks.keep_shared("hers".to_owned(), None, &ada, now);
        for number in 0..2 * MAX_TASKS {
            tasks.keep_shared(format!("eve-{number}"), None, &eve, now);
        }
        assert!(tasks.has(&ada, Some("hers"), now) && !tasks.has(&eve, Some("hers"), now));
        assert_eq!(tasks.tasks.len(), 1 + PER_CALLER);
        let newest = format!("eve-{}", 2 * MAX_TASKS - 1);
        assert!(tasks.has(&eve, Some(&newest), now) && !tasks.has(&eve, Some("eve-0"), now));
        // With many callers, those with the most tasks lose some.
        for number in 0..MAX_TASKS {
            tasks.keep_shared(format!("task-{number}"), None, &client(&number), now);
        }
        assert_eq!(tasks.tasks.len(), MAX_TASKS);
        assert!(tasks.has(&client(&(MAX_TASKS - 1)), None, now));
    }

    #[test]
    fn expired_and_reused_task_ids_have_no_owner() {
        let (mut tasks, now, ada, eve) = (TaskOwners::default(), Instant::now(), client(&"ada"), client(&"eve"));
        tasks.keep_shared("t1".to_owned(), Some(Duration::from_secs(60)), &ada, now);
        assert!(!tasks.has(&ada, Some("t1"), now + Duration::from_secs(60)));
        tasks.keep_shared("t1".to_owned(), None, &eve, now);
        assert!(tasks.has(&eve, Some("t1"), now) && !tasks.has(&ada, Some("t1"), now));
        assert!(!tasks.has(&eve, None, now + MAX_TTL));
        tasks.keep_shared("t2".to_owned(), None, &ada, now);
        tasks.forget(&ada);
        assert!(!tasks.has(&ada, None, now) && tasks.has(&eve, None, now));
        tasks.forget_shared();
        assert!(!tasks.has(&eve, None, now));
    }
}
