//! How fast changes go out: the first at once, those within a moment after it as one more.
//!
//! A server that changes a hundred tools one by one makes two announcements, not a hundred, and one that changes a
//! single tool is heard without delay. The clock comes in as a value; nothing here sleeps but [`Pace::due`].

use std::time::Duration;

use tokio::time::{self, Instant};

/// Changes within this time after an announcement are announced together.
pub const WINDOW: Duration = Duration::from_millis(200);

/// Whether something may be announced now, or is to wait.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    state: State,
}

/// What to do about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Say it now.
    Now,
    /// It is said together with others when [`Pace::due`] comes.
    Later,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Nothing was said lately.
    #[default]
    Quiet,
    /// Something was said; what comes before this moment waits for it.
    Spoken { until: Instant },
    /// Something waits for this moment.
    Gathering { until: Instant },
}

// === impl Pace ===

impl Pace {
    /// Something changed.
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

    /// When what waits is to be announced; `None` where nothing waits.
    pub fn due_at(&self) -> Option<Instant> {
        match self.state {
            State::Gathering { until } => Some(until),
            State::Quiet | State::Spoken { .. } => None,
        }
    }

    /// Whether what waited is to be announced now; then it no longer waits.
    pub fn release(&mut self, now: Instant) -> bool {
        let is_due = self.due_at().is_some_and(|until| until <= now);
        if is_due {
            self.state = State::Spoken { until: now + WINDOW };
        }
        is_due
    }

    /// Waits until something is to be announced: for ever, where nothing waits.
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

    use super::{Announce, Pace, WINDOW};

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn the_first_goes_out_at_once_and_the_next_ones_as_one_more() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.changed(start), Announce::Now);
        assert_eq!(pace.due_at(), None);
        for millis in [1, 50, 199] {
            assert_eq!(pace.changed(after(start, millis)), Announce::Later);
        }
        assert_eq!(pace.due_at(), Some(start + WINDOW));
        assert!(!pace.release(after(start, 199)));
        assert!(pace.release(after(start, 200)));
        assert!(!pace.release(after(start, 201)), "only once");
    }

    #[test]
    fn a_stream_of_changes_is_announced_once_a_window() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut said = 0;
        for millis in 0..=1_000 {
            said += usize::from(pace.release(after(start, millis)));
            said += usize::from(pace.changed(after(start, millis)) == Announce::Now);
        }
        assert_eq!(said, 6, "at 0 and then every 200 ms");
    }

    #[test]
    fn a_quiet_time_begins_anew() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.changed(start), Announce::Now);
        assert_eq!(pace.changed(after(start, 200)), Announce::Now);
        // Nobody released what waited in time; the change that comes then takes it along.
        assert_eq!(pace.changed(after(start, 250)), Announce::Later);
        assert_eq!(pace.changed(after(start, 900)), Announce::Now);
        assert_eq!(pace.due_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_when_it_is_due() {
        let mut pace = Pace::default();
        let start = Instant::now();
        assert_eq!(pace.changed(start), Announce::Now);
        assert!(tokio::time::timeout(Duration::from_secs(60), pace.due()).await.is_err(), "nothing waits");
        let start = Instant::now();
        assert_eq!(pace.changed(start), Announce::Now);
        assert_eq!(pace.changed(start), Announce::Later);
        pace.due().await;
        assert_eq!(start.elapsed(), WINDOW);
        assert!(pace.release(Instant::now()));
    }
}
