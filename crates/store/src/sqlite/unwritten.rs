//! Ends of calls that could not be written, because the disk was full or another process held the lock. They are kept in
//! memory without their bodies and written when the store can write again. What is left when the process ends is found
//! open by the next one and closed as interrupted.

use std::{collections::VecDeque, time::Duration};

use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    batch::{self, Batch},
    calls::{CallBody, CallRow},
    write::Write,
};

/// Maximum number of ends kept in memory. The records of further calls stay open until this process ends.
const MAX_ENDS: usize = 10_000;
/// Maximum number of ends in one transaction.
const BATCH: usize = 1_000;
/// Time between two attempts while nothing else is written.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Ends that wait for the store to recover, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    ends: VecDeque<Box<CallRow>>,
}

impl Unwritten {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Keeps a write whose transaction failed, if it is the end of a call.
    pub(crate) fn keep(&mut self, write: Write) {
        if let (Write::CallEnd(call, _), true) = (write, self.ends.len() < MAX_ENDS) {
            self.ends.push_back(call);
        }
    }

    /// Writes what waits, as far as that succeeds.
    pub(crate) fn write(&mut self, connection: &mut Connection, run: Uuid) {
        while !self.ends.is_empty() {
            let batch: Vec<Write> =
                self.ends.iter().take(BATCH).map(|call| Write::CallEnd(call.clone(), CallBody::default())).collect();
            let writes: Vec<&Write> = batch.iter().collect();
            // Each end is applied by itself: one that fails does not undo the others.
            let Ok(results) = batch::apply_each(connection, Batch { run, writes: &writes, journal: None }) else {
                return;
            };
            let failed = results.iter().filter_map(|result| result.as_ref().err());
            failed.for_each(|error| tracing::error!(%error, "the end of a call is not recorded"));
            tracing::info!(calls = batch.len(), "recorded ends of calls that could not be written before");
            self.ends.drain(..batch.len());
        }
    }
}
