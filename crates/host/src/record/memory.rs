//! The default call log: the last calls, in memory, limited in number and in size. Names and messages come from remote
//! parties, so a limit on the number alone would not bound the memory.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use super::{CallLog, CallRecord};

/// Keeps the records of the last calls in memory.
#[derive(Debug)]
pub struct MemoryCallLog {
    most: usize,
    most_bytes: usize,
    // Nothing awaits under this lock.
    kept: Mutex<KeptRecords>,
}

#[derive(Debug, Default)]
struct KeptRecords {
    records: VecDeque<Arc<CallRecord>>,
    bytes: usize,
    forgotten: u64,
}

/// Default maximum number of records, usually a few hundred kilobytes.
pub const KEPT_RECORDS: usize = 1_000;
/// Default maximum size of all records in bytes: more than a thousand records of usual size.
pub const KEPT_BYTES: usize = 4 * 1024 * 1024;

impl MemoryCallLog {
    /// Creates a log of at most `most` calls and [`KEPT_BYTES`].
    pub fn keeping(most: usize) -> Self {
        Self { most, most_bytes: KEPT_BYTES, kept: Mutex::default() }
    }

    /// Sets the maximum size of all records in bytes.
    #[must_use]
    pub fn of_bytes(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    /// Returns the stored records, oldest first.
    pub fn records(&self) -> Vec<Arc<CallRecord>> {
        self.kept.lock().records.iter().cloned().collect()
    }

    /// Number of older records that were dropped.
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
        kept.bytes += weight(&record);
        kept.records.push_back(record);
        while self.most < kept.records.len() || self.most_bytes < kept.bytes {
            let Some(oldest) = kept.records.pop_front() else { break };
            kept.bytes -= weight(&oldest);
            kept.forgotten += 1;
        }
    }
}

/// Size of a record in bytes, including its strings.
fn weight(record: &CallRecord) -> usize {
    let texts = [Some(&record.name), record.raw_name.as_ref(), record.message.as_ref()];
    size_of::<CallRecord>() + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::SystemTime};

    use super::{CallLog, CallRecord, KEPT_RECORDS, MemoryCallLog, weight};
    use crate::{
        call::{CallId, CallKind, Caller},
        policy::Surface,
        record::CallState,
    };

    fn record(number: u64, name: &str) -> Arc<CallRecord> {
        Arc::new(CallRecord {
            id: CallId::from_u128(u128::from(number)),
            caller: Caller::Terminal,
            surface: Surface::Call,
            conversation: None,
            kind: CallKind::Tool,
            name: name.to_owned(),
            server: None,
            raw_name: None,
            tool: None,
            started_at: SystemTime::UNIX_EPOCH,
            sent_after: std::time::Duration::ZERO,
            prepared: None,
            waited: std::time::Duration::ZERO,
            took: std::time::Duration::ZERO,
            state: CallState::Succeeded,
            outcome: None,
            idempotent: false,
            from_cache: false,
            message: None,
            code: None,
            rule: None,
            approved_by: None,
            argument_bytes: 0,
            result_bytes: 0,
            server_requests: 0,
            progress: 0,
        })
    }

    #[test]
    fn oldest_records_are_dropped_beyond_number_and_size() {
        let log = MemoryCallLog::keeping(2);
        (0..3).for_each(|number| log.append(record(number, "short")));
        assert_eq!((log.records().len(), log.forgotten()), (2, 1));

        let long = "x".repeat(10_000);
        let log = MemoryCallLog::keeping(KEPT_RECORDS).of_bytes(3 * weight(&record(0, &long)));
        (0..5).for_each(|number| log.append(record(number, &long)));
        let kept: Vec<u64> = log.records().iter().map(|record| record.id.as_u128() as u64).collect();
        assert_eq!((kept, log.forgotten()), (vec![2, 3, 4], 2));
        log.append(record(5, "short"));
        assert_eq!(log.records().len(), 3);
        log.append(record(6, &"x".repeat(100_000)));
        assert!(log.records().is_empty(), "a record larger than the limit is not stored");
    }
}
