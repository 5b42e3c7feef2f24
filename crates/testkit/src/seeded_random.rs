//! Choices of stories that take some: they come again with the same seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers that come again with the same seed.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// With the seed that this variable names, or a new one. It is printed, so that a story that failed can be told again.
    #[expect(clippy::print_stdout, reason = "a story that failed is told again with its seed")]
    #[expect(clippy::unwrap_used, reason = "whoever names a seed writes a number")]
    pub fn seeded_by(variable: &str) -> Self {
        let given = std::env::var_os(variable).map(|seed| seed.to_str().unwrap().parse().unwrap());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 | 1);
        let seed = given.unwrap_or_else(now);
        println!("seed {seed}");
        Self(seed)
    }

    /// The next one, below this.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
