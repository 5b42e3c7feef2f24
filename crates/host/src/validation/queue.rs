//! Checks that nothing waits for: one task takes them from a queue and makes them off the runtime.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use toolway_wire::json::Raw;

use super::{
    Noted, ToolCheck, Validation, ValidationReport,
    check::{Checked, Quoting},
    problems,
};

/// Checks that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    // No await under this lock.
    waiting: Mutex<Vec<Job>>,
    /// Bytes of the values that wait.
    bytes: AtomicUsize,
    /// Whether a thread takes from the queue.
    is_running: AtomicBool,
}

/// One check.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) check: ToolCheck,
    pub(super) structured: Option<Raw>,
    pub(super) noted: Noted,
}

/// Bytes of a value that is checked after its call.
const LARGEST: usize = 256 * 1024;
/// Bytes of all values that wait.
const WAITING_BYTES: usize = 4 * 1024 * 1024;
/// Checks that wait.
const WAITING: usize = 1_024;

impl Queue {
    /// Adds a check; `false` if it is too large, or if there is no room.
    pub(super) fn push(validation: &Arc<Validation>, job: Job) -> bool {
        let (queue, bytes) = (&validation.queue, job.bytes());
        let is_small = |raw: &Option<Raw>| raw.as_ref().is_none_or(|raw| raw.as_bytes().len() <= LARGEST);
        if !is_small(&job.check.arguments) || !is_small(&job.structured) {
            return false;
        }
        if WAITING_BYTES < queue.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes {
            queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        {
            let mut waiting = queue.waiting.lock();
            if WAITING <= waiting.len() {
                queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
                return false;
            }
            waiting.push(job);
        }
        if !queue.is_running.swap(true, Ordering::AcqRel) {
            let validation = Arc::clone(validation);
            // Ends by itself when the queue is empty. The process does not wait for it.
            drop(tokio::task::spawn_blocking(move || validation.work()));
        }
        true
    }
}

impl Validation {
    /// Makes all checks that wait.
    fn work(&self) {
        loop {
            let jobs = std::mem::take(&mut *self.queue.waiting.lock());
            for job in jobs {
                let bytes = job.bytes();
                // Without this, a defect in the check of one schema would end all later checks.
                if catch_unwind(AssertUnwindSafe(|| self.check_job(job))).is_err() {
                    tracing::error!("a check of arguments or results failed");
                }
                self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            self.queue.is_running.store(false, Ordering::Release);
            // A check that was added before the flag was cleared started no thread.
            if self.queue.waiting.lock().is_empty() || self.queue.is_running.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    fn check_job(&self, Job { check, structured, noted }: Job) {
        let found = |what: Checked, value: Option<&Raw>| {
            value
                .map(|value| problems(self.schemas.check_now(&check, what, value, Quoting::Masked)))
                .unwrap_or_default()
        };
        let arguments = found(Checked::Arguments, check.arguments.as_ref());
        let result = found(Checked::Result, structured.as_ref());
        self.keep(&check, ValidationReport { arguments, result }, noted);
    }
}

impl Job {
    fn bytes(&self) -> usize {
        let values = [&self.check.arguments, &self.structured];
        values.into_iter().flatten().map(|raw| raw.as_bytes().len()).sum()
    }
}
