//! Backoff for caller connections: after failed dials and early losses, the next dial waits or is refused.

use tokio::time::{Duration, Instant};
use toolway_config::server::Reconnect;

use crate::{
    audience::OperatorText,
    connection::{
        backoff::{self, Backoff},
        state::NotConnected,
    },
};

/// Recent failures of the caller connections of one server.
#[derive(Debug)]
pub(super) struct DialBackoff {
    backoff: Backoff,
    /// Shortest and longest delay.
    delays: (Duration, Duration),
    /// The earliest time of the next dial, and the last failure.
    last: Option<(Instant, NotConnected)>,
}

/// What a call does that needs a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DialDecision {
    /// Dials now.
    Dial,
    /// Waits this long, then decides again.
    Wait(Duration),
    /// Fails at once, after too many failures in a row.
    Refuse(NotConnected),
}

impl DialBackoff {
    pub(super) fn seeded(seed: u64) -> Self {
        Self { backoff: Backoff::seeded(seed), delays: Reconnect::default().delays(), last: None }
    }

    /// Sets the delays of further failures.
    pub(super) fn set_delays(&mut self, delays: (Duration, Duration)) {
        self.delays = delays;
    }

    pub(super) fn fail(&mut self, why: NotConnected, now: Instant) {
        let pause = self.backoff.fail(self.delays);
        self.last = Some((now + pause, why));
    }

    pub(super) fn succeed(&mut self) {
        self.backoff.succeed();
        self.last = None;
    }

    /// The last failure.
    pub(super) fn last(&self) -> Option<NotConnected> {
        self.last.as_ref().map(|(_, why)| why.clone())
    }

    pub(super) fn decide(&self, now: Instant) -> DialDecision {
        let failures = self.backoff.failures();
        match &self.last {
            Some((until, why)) if now < *until && backoff::LOOP <= failures => {
                let often = |text: &str| format!("failed {failures} times in a row: {text}");
                let because = OperatorText::new(often(why.because.as_str()));
                let for_client = why.for_client.clone().map(often);
                DialDecision::Refuse(NotConnected { because, for_client, ..why.clone() })
            }
            Some((until, _)) if now < *until => DialDecision::Wait(*until - now),
            _ => DialDecision::Dial,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};

    use super::{DialBackoff, DialDecision};
    use crate::{connection::NotConnected, whose_move::WhoseMove};

    #[test]
    fn dials_wait_then_are_refused_then_permitted_again() {
        let mut dial_backoff = DialBackoff::seeded(7);
        let now = Instant::now();
        let why = || NotConnected::known("no licence", WhoseMove::Server);
        assert_eq!(dial_backoff.decide(now), DialDecision::Dial);
        dial_backoff.fail(why(), now);
        assert_eq!(dial_backoff.decide(now), DialDecision::Wait(Duration::from_secs(1)));
        dial_backoff.fail(why(), now);
        dial_backoff.fail(why(), now);
        let DialDecision::Refuse(refused) = dial_backoff.decide(now) else { panic!("refused") };
        assert_eq!(refused.because.as_str(), "failed 3 times in a row: no licence");
        assert_eq!(dial_backoff.decide(now + Duration::from_secs(30)), DialDecision::Dial);
        dial_backoff.succeed();
        assert_eq!(dial_backoff.decide(now), DialDecision::Dial);
    }
}
