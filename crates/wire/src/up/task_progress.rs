//! Progress of calls that became tasks: in a session, a server goes on to report it with the token of the call.
//!
//! Only the newest report of each task is kept, within bounds: a report may be missed, never queued.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    budget::{Charge, Kept, MemoryBudget},
    json::Raw,
};

/// Tasks of one connection whose progress is kept; beyond it the oldest are forgotten.
const MAX_TASKS: usize = 256;
/// Bytes of a report; a longer one is ignored.
const MAX_REPORT: usize = 8 * 1024;
/// Bytes of a task id; progress of a task with a longer one is ignored.
const MAX_ID: usize = 4 * 1024;

/// The calls of one connection that became tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskProgress {
    // Nothing awaits under this lock.
    tasks: Mutex<VecDeque<ReportedTask>>,
}

#[derive(Debug)]
struct ReportedTask {
    /// Progress token of the call.
    token: u64,
    id: String,
    newest: watch::Sender<Option<Raw>>,
    charge: Charge,
}

impl TaskProgress {
    /// A call became a task. Without memory left, its progress is not reported.
    pub(crate) fn begin(&self, token: u64, id: &str, memory: &MemoryBudget) {
        if MAX_ID < id.len() {
            return;
        }
        let Ok(charge) = memory.keeping(Kept::Connection).charge(id.len() + size_of::<ReportedTask>()) else { return };
        let task = ReportedTask { token, id: id.to_owned(), newest: watch::Sender::new(None), charge };
        let mut tasks = self.tasks.lock();
        if MAX_TASKS <= tasks.len() {
            tasks.pop_front();
        }
        tasks.push_back(task);
    }

    /// Takes a report; false if its token belongs to no task.
    pub(crate) fn report(&self, token: u64, params: Raw) -> bool {
        let mut tasks = self.tasks.lock();
        let Some(task) = tasks.iter_mut().find(|task| task.token == token) else { return false };
        let bytes = params.as_bytes().len();
        if bytes <= MAX_REPORT && task.charge.set(task.id.len() + size_of::<ReportedTask>() + bytes).is_ok() {
            task.newest.send_replace(Some(params));
        }
        true
    }

    /// The reports about a task, from the newest on; `None` if no call of this connection became it.
    pub(crate) fn of(&self, id: &str) -> Option<watch::Receiver<Option<Raw>>> {
        let tasks = self.tasks.lock();
        // A server may use an id again.
        let mut reports = tasks.iter().rev().find(|task| task.id == id)?.newest.subscribe();
        reports.mark_changed();
        Some(reports)
    }

    /// A task has ended.
    pub(crate) fn end(&self, id: &str) {
        self.tasks.lock().retain(|task| task.id != id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kept, MAX_REPORT, MAX_TASKS, MemoryBudget, Raw, TaskProgress};

    #[test]
    fn only_the_newest_report_of_a_bounded_number_of_tasks_is_kept() {
        let (tasks, memory) = (TaskProgress::default(), MemoryBudget::new(1024 * 1024));
        let report = |done: u64| Raw::of(&json!({ "progress": done }));
        tasks.begin(7, "a", &memory);
        assert!(!tasks.report(8, report(1)), "the token of no task");
        assert!((1..1_000).all(|done| tasks.report(7, report(done))));
        assert!(tasks.report(7, Raw::of(&json!({ "progress": 1_000, "message": "x".repeat(MAX_REPORT) }))));
        let newest = tasks.of("a").unwrap().borrow_and_update().clone().unwrap();
        assert_eq!(newest.get("progress").and_then(|done| done.as_f64()), Some(999.0), "the long one is ignored");
        (0..2 * MAX_TASKS as u64).for_each(|number| tasks.begin(100 + number, &number.to_string(), &memory));
        assert!(tasks.of("a").is_none() && tasks.of("511").is_some());
        assert!(memory.used_by(Kept::Connection) < 256 * 1024, "{}", memory.used_by(Kept::Connection));
        (0..2 * MAX_TASKS).for_each(|number| tasks.end(&number.to_string()));
        assert_eq!(memory.used(), 0);
    }
}
