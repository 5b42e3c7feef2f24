//! Connections for queries of one process: few, kept open and used again. What a query reads is in the files of its subject.
//!
//! SQLite keeps the descriptor of a closed connection open while another connection of the process has a lock on the file,
//! and the writer always has one. So the process holds as many descriptors as it ever had connections at once, and that
//! number needs a bound.

use std::{fmt, sync::Arc};

use parking_lot::{Condvar, Mutex};

use crate::{Reader, StoreError, store::Place};

/// Connections for queries that are open at once; a further query waits.
pub(crate) const MOST: usize = 4;

/// Kept connections for queries.
pub(crate) struct Readers {
    place: Arc<Place>,
    // Nothing blocks under this lock.
    state: Mutex<ReadersState>,
    freed: Condvar,
}

#[derive(Default)]
struct ReadersState {
    idle: Vec<Reader>,
    busy: usize,
}

/// The right to use one of the connections. Dropped, it makes room for the next query.
struct ReaderTurn<'a> {
    readers: &'a Readers,
}

// === impl Readers ===

impl Readers {
    pub(crate) fn new(place: Arc<Place>) -> Self {
        Self { place, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Runs a query. Blocks. The connection of a query that failed is closed.
    pub(crate) fn run<T>(&self, query: impl FnOnce(&Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut state = self.state.lock();
        self.freed.wait_while(&mut state, |state| state.busy == MOST);
        state.busy += 1;
        let kept = state.idle.pop();
        drop(state);

        let _turn = ReaderTurn { readers: self };
        let reader = kept.map_or_else(|| self.place.reader().map(Reader::from), Ok)?;
        let found = query(&reader)?;
        reader.release_memory();
        self.state.lock().idle.push(reader);
        Ok(found)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Readers").field("idle", &state.idle.len()).field("busy", &state.busy).finish_non_exhaustive()
    }
}

// === impl ReaderTurn ===

impl Drop for ReaderTurn<'_> {
    fn drop(&mut self) {
        self.readers.state.lock().busy -= 1;
        self.readers.freed.notify_one();
    }
}
