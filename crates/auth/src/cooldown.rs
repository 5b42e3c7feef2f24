//! A pause for whoever does not answer, or says no: for a while everybody who comes gets the answer that the last one got.
//!
//! Whoever waits behind a request looks here when its turn comes, so that of many who wait for one that hangs, one asks.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last failure, as long as it counts.
#[derive(Debug)]
pub(crate) struct Rest<E> {
    // Nothing awaits under this lock.
    last: Mutex<Option<(Instant, E)>>,
}

/// Whoever said no is not asked again before.
pub(crate) const AFTER_NO: Duration = Duration::from_secs(30);
/// Whoever could not be reached, did not answer, or said something strange.
pub(crate) const AFTER_FAILURE: Duration = Duration::from_secs(5);

impl<E: Clone> Rest<E> {
    /// The last failure, while it counts.
    pub(crate) fn check(&self) -> Result<(), E> {
        match &*self.last.lock() {
            Some((until, error)) if Instant::now() < *until => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// For so long, this is the answer.
    pub(crate) fn begin(&self, lasts: Duration, error: E) {
        *self.last.lock() = Some((Instant::now() + lasts, error));
    }
}

impl<E> Default for Rest<E> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}
