//! The steps to end processes: stdin closed, SIGTERM, SIGKILL. Decides by time only; the caller sends the signals.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::ShutdownTimeouts;

/// Processes being ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Termination {
    step: Step,
    /// When the next step is due.
    until: Instant,
    after_sigterm: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Stdin is closed.
    Closed,
    /// SIGTERM was sent.
    Terminated,
    /// SIGKILL is sent until no process is left.
    Killed,
}

/// How soon to check again whether killed processes are gone.
const RECHECK: Duration = Duration::from_millis(10);
/// The same after [`UNUSUALLY_LONG`]: a process hangs in the kernel.
const RECHECK_LATER: Duration = Duration::from_secs(1);
const UNUSUALLY_LONG: Duration = Duration::from_secs(3);

/// SIGTERM at once, for processes that do not notice a closed stdin.
pub(super) const AT_ONCE: ShutdownTimeouts =
    ShutdownTimeouts { after_close: Duration::ZERO, ..ShutdownTimeouts::AT_EXIT };

// === impl Termination ===

impl Termination {
    pub(super) fn new(timeouts: ShutdownTimeouts, now: Instant) -> Self {
        Self { step: Step::Closed, until: now + timeouts.after_close, after_sigterm: timeouts.after_sigterm }
    }

    /// Shortens the timeouts, if the new ones are shorter.
    pub(super) fn shortened(self, timeouts: ShutdownTimeouts, now: Instant) -> Self {
        let until = self.until.min(Self::new(timeouts, now).until);
        Self { until, after_sigterm: self.after_sigterm.min(timeouts.after_sigterm), ..self }
    }

    /// The signal that is due now, if any.
    pub(super) fn due(&mut self, now: Instant) -> Option<Signal> {
        if now < self.until && self.step != Step::Killed {
            return None;
        }
        match self.step {
            Step::Closed => {
                *self = Self { step: Step::Terminated, until: now + self.after_sigterm, ..*self };
                Some(Signal::TERM)
            }
            Step::Terminated => {
                *self = Self { step: Step::Killed, until: now, ..*self };
                Some(Signal::KILL)
            }
            Step::Killed => Some(Signal::KILL),
        }
    }

    /// When to call [`Self::due`] again.
    pub(super) fn next(&self, now: Instant) -> Instant {
        match self.step {
            Step::Closed | Step::Terminated => self.until,
            Step::Killed if self.until + UNUSUALLY_LONG < now => now + RECHECK_LATER,
            Step::Killed => now + RECHECK,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::process::Signal;

    use super::{ShutdownTimeouts, Termination};

    #[test]
    fn sigterm_is_sent_once_and_sigkill_repeatedly() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut termination = Termination::new(ShutdownTimeouts::AT_EXIT, began);
        assert_eq!(termination.due(at(499)), None);
        assert_eq!(termination.next(at(499)), at(500));
        assert_eq!(termination.due(at(500)), Some(Signal::TERM));
        assert_eq!(termination.due(at(999)), None);
        assert_eq!(termination.due(at(1000)), Some(Signal::KILL));
        assert_eq!(termination.due(at(1001)), Some(Signal::KILL));
        assert_eq!(termination.next(at(1001)), at(1011));
        assert_eq!(termination.next(at(9000)), at(10_000));
    }

    #[test]
    fn timeouts_can_be_shortened_but_not_extended() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut shortened =
            Termination::new(ShutdownTimeouts::LONG_LIVED, began).shortened(ShutdownTimeouts::AT_EXIT, at(100));
        assert_eq!(shortened.due(at(600)), Some(Signal::TERM));
        assert_eq!(shortened.due(at(1100)), Some(Signal::KILL));
        let same = Termination::new(ShutdownTimeouts::AT_EXIT, began).shortened(ShutdownTimeouts::LONG_LIVED, at(100));
        assert_eq!(same.next(at(100)), at(500));
    }
}
