//! The writes that say that a call has begun and is not sent.

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;

use super::RecordsError;

/// What was written of a call before it was sent. Most calls are sent at once, and have none of it.
#[derive(Default)]
pub(super) struct PendingWrites {
    // Nothing awaits under this lock.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_begun: bool,
    /// Those whose results were not asked for.
    writes: Vec<BoxFuture<'static, Result<(), RecordsError>>>,
}

impl PendingWrites {
    /// Notes a write that was handed to the recorder.
    pub(super) fn note(&self, write: BoxFuture<'static, Result<(), RecordsError>>) {
        let mut state = self.state.lock();
        state.is_begun = true;
        state.writes.push(write);
    }

    /// Whether there was a write.
    pub(super) fn is_begun(&self) -> bool {
        self.state.lock().is_begun
    }

    /// Whether a write was committed, so that the record says that the call is not sent.
    pub(super) async fn is_committed(&self) -> bool {
        let writes = std::mem::take(&mut self.state.lock().writes);
        join_all(writes).await.iter().any(Result::is_ok)
    }
}
