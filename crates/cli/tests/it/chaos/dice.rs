//! Chance with a seed: what is chosen in one run can be chosen again in another.

use std::time::{SystemTime, UNIX_EPOCH};

/// One player's throws.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

/// Where the seed comes from, if from anywhere.
const VARIABLE: &str = "TOOLWAY_CHAOS_SEED";

/// The seed of this run, printed so that the run can be told again.
pub(super) fn seed() -> u64 {
    let given = std::env::var_os(VARIABLE).and_then(|seed| seed.to_str()?.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = given.unwrap_or_else(now);
    print(&format!("{VARIABLE}={seed} tells this story again"));
    seed
}

#[expect(clippy::print_stderr, reason = "shown when the story fails, and to whoever runs it alone")]
pub(super) fn print(line: &str) {
    eprintln!("{line}");
}

impl Dice {
    /// The dice of one player; each has its own.
    pub(super) fn of(seed: u64, player: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ player.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// One of these.
    pub(super) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(u64::try_from(of.len()).unwrap());
        &of[usize::try_from(index).unwrap()]
    }
}
