//! How long to wait before dialling again: 1 to 30 seconds, doubling, with a share of chance so that servers that went
//! down together do not come back together.

use std::time::Duration;

/// The waits of one server. With the same seed they are the same.
#[derive(Clone, Debug)]
pub struct Backoff {
    random: u64,
    failures: u32,
}

/// The shortest wait.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest.
pub const LONGEST: Duration = Duration::from_secs(30);
/// Failures in a row after which a server is said to go round in circles.
pub const LOOP: u32 = 3;

impl Backoff {
    /// The waits that follow from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { random: seed, failures: 0 }
    }

    /// One more failure; how long to wait after it.
    pub fn fail(&mut self) -> Duration {
        let doubled = SHORTEST.saturating_mul(1 << self.failures.min(5)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // Between half of it and all of it, and never less than the shortest.
        doubled.mul_f64(0.5 + self.chance() / 2.0).max(SHORTEST)
    }

    /// It went well: the next failure is the first again.
    pub fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A number from 0 to 1 (splitmix64).
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half is enough, and a float holds it exactly.
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, LONGEST, SHORTEST};

    #[test]
    fn waits_grow_to_their_bound_and_stay_within_it() {
        for seed in 0..200 {
            let mut backoff = Backoff::seeded(seed);
            let waits: Vec<Duration> = (0..12).map(|_| backoff.fail()).collect();
            assert!(waits.iter().all(|wait| (SHORTEST..=LONGEST).contains(wait)), "{seed}: {waits:?}");
            assert!(LONGEST / 2 <= waits[11], "{seed}: {waits:?}");
            assert!(waits[0] < Duration::from_secs(2));
        }
    }

    #[test]
    fn the_seed_decides_and_success_begins_anew() {
        let waits = |seed| {
            let mut backoff = Backoff::seeded(seed);
            [backoff.fail(), backoff.fail(), backoff.fail(), backoff.fail()]
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8), "servers do not come back in step");

        let mut backoff = Backoff::seeded(7);
        (0..9).for_each(|_| assert!(SHORTEST <= backoff.fail()));
        backoff.succeed();
        assert_eq!(backoff.failures(), 0);
        assert!(backoff.fail() < Duration::from_secs(2));
    }
}
