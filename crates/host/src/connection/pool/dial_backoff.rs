//! Lines that cannot be had: a server that refuses a further connection, or ends it at once, is given time.

use tokio::time::{Duration, Instant};

use crate::connection::{
    backoff::{self, Backoff},
    state::NotConnected,
};

/// What went wrong with the lines of a server lately.
#[derive(Debug)]
pub(super) struct Trouble {
    backoff: Backoff,
    /// No line is dialled before, and why.
    last: Option<(Instant, NotConnected)>,
}

/// What whoever wants a line dialled does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Goes on.
    No,
    /// Waits a moment first.
    For(Duration),
    /// Takes no for an answer: it goes round in circles.
    Refused(NotConnected),
}

impl Trouble {
    pub(super) fn seeded(seed: u64) -> Self {
        Self { backoff: Backoff::seeded(seed), last: None }
    }

    pub(super) fn fail(&mut self, why: NotConnected, now: Instant) {
        let pause = self.backoff.fail();
        self.last = Some((now + pause, why));
    }

    pub(super) fn succeed(&mut self) {
        self.backoff.succeed();
        self.last = None;
    }

    /// What went wrong last.
    pub(super) fn last(&self) -> Option<NotConnected> {
        self.last.as_ref().map(|(_, why)| why.clone())
    }

    pub(super) fn rest(&self, now: Instant) -> Rest {
        let failures = self.backoff.failures();
        match &self.last {
            Some((until, why)) if now < *until && backoff::LOOP <= failures => {
                let because = format!("it fails again and again ({failures} times in a row): {}", why.because);
                Rest::Refused(NotConnected { because, ..why.clone() })
            }
            Some((until, _)) if now < *until => Rest::For(*until - now),
            _ => Rest::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};

    use super::{Rest, Trouble};
    use crate::{connection::NotConnected, whose_move::WhoseMove};

    #[test]
    fn it_is_given_time_then_refused_then_tried_again() {
        let mut trouble = Trouble::seeded(7);
        let now = Instant::now();
        let why = || NotConnected { because: "no licence".into(), whose_move: WhoseMove::Server, error: None };
        assert_eq!(trouble.rest(now), Rest::No);
        trouble.fail(why(), now);
        assert_eq!(trouble.rest(now), Rest::For(Duration::from_secs(1)));
        trouble.fail(why(), now);
        trouble.fail(why(), now);
        let Rest::Refused(refused) = trouble.rest(now) else { panic!("refused") };
        assert_eq!(refused.because, "it fails again and again (3 times in a row): no licence");
        assert_eq!(trouble.rest(now + Duration::from_secs(30)), Rest::No);
        trouble.succeed();
        assert_eq!(trouble.rest(now), Rest::No);
    }
}
