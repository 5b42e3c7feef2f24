//! Exponential backoff for redials, by default from 1 to 30 seconds (`reconnect`), with jitter, so that servers that failed at the same time do not
//! retry at the same time.

use std::time::Duration;

/// Backoff of one server. The same seed gives the same waits.
#[derive(Clone, Debug)]
pub struct Backoff {
    state: u64,
    failures: u32,
}

/// Failures in a row after which a server counts as crash-looping.
pub const LOOP: u32 = 3;

/// Maximum number of doublings of the shortest delay.
const DOUBLINGS: u32 = 30;

impl Backoff {
    /// Creates a backoff whose jitter follows from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed, failures: 0 }
    }

    /// Counts a failure; returns how long to wait, between the shortest and the longest delay.
    pub fn fail(&mut self, (shortest, longest): (Duration, Duration)) -> Duration {
        let doubled = shortest.saturating_mul(1 << self.failures.min(DOUBLINGS)).min(longest);
        self.failures = self.failures.saturating_add(1);
        // Jitter: between half and all of it, but at least the shortest wait.
        doubled.mul_f64(0.5 + self.random() / 2.0).max(shortest)
    }

    /// Resets the count after a success.
    pub fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Number of failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A random number from 0 to 1 (splitmix64).
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // A float holds the upper half exactly.
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    const SHORTEST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(30);
    const DELAYS: (Duration, Duration) = (SHORTEST, LONGEST);

    #[test]
    fn waits_grow_up_to_the_limit() {
        for seed in 0..200 {
            let mut backoff = Backoff::seeded(seed);
            let waits: Vec<Duration> = (0..12).map(|_| backoff.fail(DELAYS)).collect();
            assert!(waits.iter().all(|wait| (SHORTEST..=LONGEST).contains(wait)), "{seed}: {waits:?}");
            assert!(LONGEST / 2 <= waits[11], "{seed}: {waits:?}");
            assert!(waits[0] < Duration::from_secs(2));
        }
    }

    #[test]
    fn configured_delays_replace_the_default_ones() {
        let (shortest, longest) = (Duration::from_millis(50), Duration::from_secs(600));
        let mut backoff = Backoff::seeded(7);
        let waits: Vec<Duration> = (0..20).map(|_| backoff.fail((shortest, longest))).collect();
        assert!(waits[0] == shortest && waits[1] <= 2 * shortest, "{waits:?}");
        assert!((longest / 2..=longest).contains(&waits[19]), "{waits:?}");
    }

    #[test]
    fn waits_depend_on_the_seed_and_success_resets_them() {
        let waits = |seed| {
            let mut backoff = Backoff::seeded(seed);
            [(); 4].map(|()| backoff.fail(DELAYS))
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8), "servers do not retry in step");

        let mut backoff = Backoff::seeded(7);
        (0..9).for_each(|_| assert!(SHORTEST <= backoff.fail(DELAYS)));
        backoff.succeed();
        assert_eq!(backoff.failures(), 0);
        assert!(backoff.fail(DELAYS) < Duration::from_secs(2));
    }
}
