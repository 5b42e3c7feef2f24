//! The way to an end: left alone, asked, made. Only time decides here; who is signalled is the caller's business.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Patience;

/// Somebody is on the way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    step: Step,
    /// When the next step is due.
    until: Instant,
    when_asked: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Its input is closed.
    Left,
    /// It has SIGTERM.
    Asked,
    /// It gets SIGKILL, until nothing of it is left.
    Made,
}

/// How soon to look again whether the killed are gone.
const AGAIN: Duration = Duration::from_millis(10);
/// The same once it takes unusually long: something hangs in the kernel.
const AGAIN_LATER: Duration = Duration::from_secs(1);
const UNUSUALLY_LONG: Duration = Duration::from_secs(3);

/// For what nobody waits for: it is asked at once.
pub(super) const AT_ONCE: Patience = Patience { to_leave: Duration::ZERO, ..Patience::AT_EXIT };

// === impl Ending ===

impl Ending {
    pub(super) fn new(patience: Patience, now: Instant) -> Self {
        Self { step: Step::Left, until: now + patience.to_leave, when_asked: patience.when_asked }
    }

    /// The same, or sooner.
    pub(super) fn hurried(self, patience: Patience, now: Instant) -> Self {
        let until = self.until.min(Self::new(patience, now).until);
        Self { until, when_asked: self.when_asked.min(patience.when_asked), ..self }
    }

    /// The signal that is due, if one is.
    pub(super) fn due(&mut self, now: Instant) -> Option<Signal> {
        if now < self.until && self.step != Step::Made {
            return None;
        }
        match self.step {
            Step::Left => {
                *self = Self { step: Step::Asked, until: now + self.when_asked, ..*self };
                Some(Signal::TERM)
            }
            Step::Asked => {
                *self = Self { step: Step::Made, until: now, ..*self };
                Some(Signal::KILL)
            }
            Step::Made => Some(Signal::KILL),
        }
    }

    /// When to call [`Self::due`] again.
    pub(super) fn next(&self, now: Instant) -> Instant {
        match self.step {
            Step::Left | Step::Asked => self.until,
            Step::Made if self.until + UNUSUALLY_LONG < now => now + AGAIN_LATER,
            Step::Made => now + AGAIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::process::Signal;

    use super::{Ending, Patience};

    #[test]
    fn who_stays_is_asked_once_and_then_killed_again_and_again() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut ending = Ending::new(Patience::AT_EXIT, began);
        assert_eq!(ending.due(at(499)), None);
        assert_eq!(ending.next(at(499)), at(500));
        assert_eq!(ending.due(at(500)), Some(Signal::TERM));
        assert_eq!(ending.due(at(999)), None);
        assert_eq!(ending.due(at(1000)), Some(Signal::KILL));
        assert_eq!(ending.due(at(1001)), Some(Signal::KILL));
        assert_eq!(ending.next(at(1001)), at(1011));
        assert_eq!(ending.next(at(9000)), at(10_000));
    }

    #[test]
    fn an_ending_can_be_hurried_and_never_slowed() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut hurried = Ending::new(Patience::LONG_LIVED, began).hurried(Patience::AT_EXIT, at(100));
        assert_eq!(hurried.due(at(600)), Some(Signal::TERM));
        assert_eq!(hurried.due(at(1100)), Some(Signal::KILL));
        let same = Ending::new(Patience::AT_EXIT, began).hurried(Patience::LONG_LIVED, at(100));
        assert_eq!(same.next(at(100)), at(500));
    }
}
