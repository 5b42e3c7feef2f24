//! How long a call has waited for a person. What a person takes to answer is not the time of the tool.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time during which at least one approval request or form of a call waited for an answer. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PersonWait(Arc<Mutex<Waited>>);

#[derive(Debug, Default)]
struct Waited {
    /// Items that wait now.
    open: usize,
    /// When the first of them began to wait.
    since: Option<Instant>,
    /// Time of those that have ended.
    total: Duration,
}

/// One item that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(PersonWait);

impl PersonWait {
    /// The time until now.
    pub fn total(&self) -> Duration {
        let waited = self.0.lock();
        waited.total + waited.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether an item waits now.
    pub(crate) fn is_open(&self) -> bool {
        self.0.lock().since.is_some()
    }

    /// Begins to wait.
    pub(crate) fn begin(&self) -> Waiting {
        let mut waited = self.0.lock();
        waited.open += 1;
        waited.since.get_or_insert_with(Instant::now);
        Waiting(self.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waited = self.0.0.lock();
        waited.open = waited.open.saturating_sub(1);
        if waited.open == 0
            && let Some(since) = waited.since.take()
        {
            waited.total += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::PersonWait;

    #[tokio::test(start_paused = true)]
    async fn two_items_at_the_same_time_are_waited_for_once() {
        let second = Duration::from_secs(1);
        let wait = PersonWait::default();
        tokio::time::advance(second).await;
        assert_eq!(wait.total(), Duration::ZERO);
        let first = wait.begin();
        tokio::time::advance(second).await;
        let other = wait.begin();
        tokio::time::advance(second).await;
        drop(first);
        assert_eq!(wait.total(), second * 2, "one still waits");
        drop(other);
        tokio::time::advance(second).await;
        assert_eq!(wait.total(), second * 2);
    }
}
