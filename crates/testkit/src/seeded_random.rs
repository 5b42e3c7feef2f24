//! Reproducible random numbers for randomized tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// Random numbers that depend only on the seed.
#[derive(Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Uses the seed in this variable, or a new one. The seed is printed, so that a failed test can be repeated.
    #[expect(clippy::print_stdout, reason = "a failed test is repeated with its seed")]
    #[expect(clippy::unwrap_used, reason = "the seed must be a number")]
    pub fn seeded_by(variable: &str) -> Self {
        let given = std::env::var_os(variable).map(|seed| seed.to_str().unwrap().parse().unwrap());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 | 1);
        let seed = given.unwrap_or_else(now);
        println!("seed {seed}");
        Self(seed)
    }

    /// Uses this seed.
    pub fn of(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Next number, less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
