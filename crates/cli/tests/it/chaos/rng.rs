//! Seeded random numbers, so that a run can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// Random number generator.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng(u64);

/// Variable with the seed.
const VARIABLE: &str = "TOOLWAY_CHAOS_SEED";

/// The seed of this run, printed so that the run can be repeated.
pub(crate) fn seed() -> u64 {
    let given = std::env::var_os(VARIABLE).and_then(|seed| seed.to_str()?.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = given.unwrap_or_else(now);
    print(&format!("{VARIABLE}={seed} tells this story again"));
    seed
}

#[expect(clippy::print_stderr, reason = "shown when the test fails or runs alone")]
pub(crate) fn print(line: &str) {
    eprintln!("{line}");
}

impl SeededRng {
    /// An independent generator for each number.
    pub(crate) fn of(seed: u64, player: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ player.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A random element.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(u64::try_from(of.len()).unwrap());
        &of[usize::try_from(index).unwrap()]
    }
}
