//! How long an exchange may take: an idle clock wound up by every sign of life, and a total. Both stand still while
//! a question is open, because then it is the caller's turn.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::TimeoutKind;

/// The time one exchange is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTimeouts {
    /// Longest silence.
    pub idle: Option<Duration>,
    /// Longest duration in all.
    pub total: Option<Duration>,
}

/// The two clocks of one exchange.
#[derive(Debug)]
pub(super) struct ExchangeClock {
    terms: ExchangeTimeouts,
    /// When the total runs out, moved by each pause.
    started: Instant,
    last_sign: Instant,
    paused: Option<Instant>,
}

impl ExchangeTimeouts {
    /// Calls, reads and prompts: five minutes of silence, thirty in all.
    pub fn call() -> Self {
        Self { idle: Some(Duration::from_secs(300)), total: Some(Duration::from_secs(1_800)) }
    }

    /// Lists and handshakes: a minute.
    pub fn list() -> Self {
        Self { idle: Some(Duration::from_secs(60)), total: Some(Duration::from_secs(300)) }
    }

    /// As long as it takes.
    pub fn unbounded() -> Self {
        Self { idle: None, total: None }
    }
}

impl ExchangeClock {
    pub(super) fn new(terms: ExchangeTimeouts) -> Self {
        let now = Instant::now();
        Self { terms, started: now, last_sign: now, paused: None }
    }

    /// The server showed a sign of life.
    pub(super) fn record_activity(&mut self) {
        self.last_sign = Instant::now();
    }

    pub(super) fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
    }

    pub(super) fn resume(&mut self) {
        if let Some(since) = self.paused.take() {
            let now = Instant::now();
            self.started += now - since;
            self.last_sign = now;
        }
    }

    /// The total, where it has run out; none while paused.
    pub(super) fn overdue(&self) -> Option<Duration> {
        let total = self.terms.total.filter(|_| self.paused.is_none())?;
        (self.started + total <= Instant::now()).then_some(total)
    }

    /// Which clock runs out first, and when; none while paused.
    pub(super) fn deadline(&self) -> Option<(Instant, TimeoutKind, Duration)> {
        if self.paused.is_some() {
            return None;
        }
        let idle = self.terms.idle.map(|limit| (self.last_sign + limit, TimeoutKind::Idle, limit));
        let total = self.terms.total.map(|limit| (self.started + limit, TimeoutKind::Total, limit));
        match (idle, total) {
            (Some(idle), Some(total)) => Some(if total.0 < idle.0 { total } else { idle }),
            (one, other) => one.or(other),
        }
    }
}
