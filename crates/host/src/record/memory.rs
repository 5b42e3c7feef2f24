//! The default call log: the last calls, in memory, and no more of them than a bound.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use super::{CallLog, CallRecord};

/// Keeps the last calls as long as the process lives.
#[derive(Debug)]
pub struct MemoryCallLog {
    most: usize,
    // Nothing awaits under this lock.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Arc<CallRecord>>,
    forgotten: u64,
}

/// Records kept where nothing is said: a few hundred kilobytes.
pub const KEPT_RECORDS: usize = 1_000;

impl MemoryCallLog {
    /// A log of at most so many calls.
    pub fn keeping(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// The calls that are kept, oldest first.
    pub fn records(&self) -> Vec<Arc<CallRecord>> {
        self.kept.lock().records.iter().cloned().collect()
    }

    /// How many older ones gave way.
    pub fn forgotten(&self) -> u64 {
        self.kept.lock().forgotten
    }
}

impl Default for MemoryCallLog {
    fn default() -> Self {
        Self::keeping(KEPT_RECORDS)
    }
}

impl CallLog for MemoryCallLog {
    fn append(&self, record: Arc<CallRecord>) {
        let mut kept = self.kept.lock();
        kept.records.push_back(record);
        while self.most < kept.records.len() {
            kept.records.pop_front();
            kept.forgotten += 1;
        }
    }
}
