//! Throttles announcements of changes: the first is sent at once, those shortly after it are combined into one.
//!
//! A server that changes a hundred tools one by one causes two announcements, and a single change is announced without
//! delay. The current time is a parameter; only [`Throttle::due`] sleeps.

use std::time::Duration;

use tokio::time::{self, Instant};

/// Time after an announcement within which changes are combined.
pub const WINDOW: Duration = Duration::from_millis(200);

/// Decides whether a change is announced now or later.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    state: State,
}

/// When to announce a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Announce it now.
    Now,
    /// Announce it with others when [`Throttle::due`] resolves.
    Later,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// No recent announcement.
    #[default]
    Quiet,
    /// A recent announcement; changes before `until` are delayed.
    Spoken { until: Instant },
    /// Changes wait for `until`.
    Gathering { until: Instant },
}

// === impl Throttle ===

impl Throttle {
    /// Registers a change.
    pub fn changed(&mut self, now: Instant) -> Announce {
        match self.state {
            State::Spoken { until } | State::Gathering { until } if now < until => {
                self.state = State::Gathering { until };
                Announce::Later
            }
            State::Quiet | State::Spoken { .. } | State::Gathering { .. } => {
                self.state = State::Spoken { until: now + WINDOW };
                Announce::Now
            }
        }
    }

    /// Time of the next announcement; `None` if no change waits.
    pub fn due_at(&self) -> Option<Instant> {
        match self.state {
            State::Gathering { until } => Some(until),
            State::Quiet | State::Spoken { .. } => None,
        }
    }

    /// Whether waiting changes are due; marks them as announced if so.
    pub fn release(&mut self, now: Instant) -> bool {
        let is_due = self.due_at().is_some_and(|until| until <= now);
        if is_due {
            self.state = State::Spoken { until: now + WINDOW };
        }
        is_due
    }

    /// Waits until the next announcement is due; never resolves if no change waits.
    pub async fn due(&self) {
        match self.due_at() {
            Some(until) => time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Announce, Throttle, WINDOW};

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn first_change_is_announced_at_once_and_the_next_ones_together() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.changed(start), Announce::Now);
        assert_eq!(throttle.due_at(), None);
        for millis in [1, 50, 199] {
            assert_eq!(throttle.changed(after(start, millis)), Announce::Later);
        }
        assert_eq!(throttle.due_at(), Some(start + WINDOW));
        assert!(!throttle.release(after(start, 199)));
        assert!(throttle.release(after(start, 200)));
        assert!(!throttle.release(after(start, 201)), "only once");
    }

    #[test]
    fn stream_of_changes_is_announced_once_per_window() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut said = 0;
        for millis in 0..=1_000 {
            said += usize::from(throttle.release(after(start, millis)));
            said += usize::from(throttle.changed(after(start, millis)) == Announce::Now);
        }
        assert_eq!(said, 6, "at 0 and then every 200 ms");
    }

    #[test]
    fn change_after_the_window_is_announced_at_once() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.changed(start), Announce::Now);
        assert_eq!(throttle.changed(after(start, 200)), Announce::Now);
        // The waiting change was not released in time; the next change includes it.
        assert_eq!(throttle.changed(after(start, 250)), Announce::Later);
        assert_eq!(throttle.changed(after(start, 900)), Announce::Now);
        assert_eq!(throttle.due_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn due_resolves_at_the_end_of_the_window() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.changed(start), Announce::Now);
        assert!(tokio::time::timeout(Duration::from_secs(60), throttle.due()).await.is_err(), "nothing waits");
        let start = Instant::now();
        assert_eq!(throttle.changed(start), Announce::Now);
        assert_eq!(throttle.changed(start), Announce::Later);
        throttle.due().await;
        assert_eq!(start.elapsed(), WINDOW);
        assert!(throttle.release(Instant::now()));
    }
}
