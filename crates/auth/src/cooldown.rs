//! A pause after a failed request: callers get the last error until it is over.
//!
//! Callers that waited for a request check here when it is their turn, so that only one request is sent to a host that
//! hangs.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last failure, until its pause is over.
#[derive(Debug)]
pub(crate) struct Cooldown<E> {
    // Nothing awaits under this lock.
    last: Mutex<Option<(Instant, E)>>,
}

/// Pause after the authorization server refused a request.
pub(crate) const AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// Pause after a host was unavailable or its response was invalid.
pub(crate) const AFTER_FAILURE: Duration = Duration::from_secs(5);

impl<E: Clone> Cooldown<E> {
    /// Returns the last failure if its pause is not over.
    pub(crate) fn check(&self) -> Result<(), E> {
        match &*self.last.lock() {
            Some((until, error)) if Instant::now() < *until => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Starts a pause with this error.
    pub(crate) fn start(&self, duration: Duration, error: E) {
        *self.last.lock() = Some((Instant::now() + duration, error));
    }
}

impl<E> Default for Cooldown<E> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}
