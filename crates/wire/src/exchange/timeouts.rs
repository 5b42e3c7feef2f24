//! Timeouts of an exchange: an idle timeout, restarted by every event, and a total timeout. Both are paused while a
//! server request is open, because the caller has to answer first.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::TimeoutKind;

/// Timeouts of one exchange; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTimeouts {
    /// Longest time without an event.
    pub idle: Option<Duration>,
    /// Longest duration of the exchange, pauses excluded.
    pub total: Option<Duration>,
}

/// Measures both timeouts of one exchange.
#[derive(Debug)]
pub(super) struct ExchangeClock {
    timeouts: ExchangeTimeouts,
    /// Start of the total timeout; moved forward by each pause.
    started: Instant,
    last_activity: Instant,
    paused: Option<Instant>,
}

impl ExchangeTimeouts {
    /// For calls, reads and prompts: five minutes idle, thirty minutes in total.
    pub fn call() -> Self {
        Self { idle: Some(Duration::from_secs(300)), total: Some(Duration::from_secs(1_800)) }
    }

    /// For lists and handshakes: one minute idle, five minutes in total.
    pub fn list() -> Self {
        Self { idle: Some(Duration::from_secs(60)), total: Some(Duration::from_secs(300)) }
    }

    /// No timeouts.
    pub fn unbounded() -> Self {
        Self { idle: None, total: None }
    }
}

impl ExchangeClock {
    pub(super) fn new(timeouts: ExchangeTimeouts) -> Self {
        let now = Instant::now();
        Self { timeouts, started: now, last_activity: now, paused: None }
    }

    /// Restarts the idle timeout.
    pub(super) fn record_activity(&mut self) {
        self.last_activity = Instant::now();
    }

    pub(super) fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
    }

    pub(super) fn resume(&mut self) {
        if let Some(since) = self.paused.take() {
            let now = Instant::now();
            self.started += now - since;
            self.last_activity = now;
        }
    }

    /// Returns the total timeout if it has expired; `None` while paused.
    pub(super) fn overdue(&self) -> Option<Duration> {
        let total = self.timeouts.total.filter(|_| self.paused.is_none())?;
        (self.started + total <= Instant::now()).then_some(total)
    }

    /// Returns the timeout that expires first, and when; `None` while paused.
    pub(super) fn deadline(&self) -> Option<(Instant, TimeoutKind, Duration)> {
        if self.paused.is_some() {
            return None;
        }
        let idle = self.timeouts.idle.map(|limit| (self.last_activity + limit, TimeoutKind::Idle, limit));
        let total = self.timeouts.total.map(|limit| (self.started + limit, TimeoutKind::Total, limit));
        match (idle, total) {
            (Some(idle), Some(total)) => Some(if total.0 < idle.0 { total } else { idle }),
            (one, other) => one.or(other),
        }
    }
}
