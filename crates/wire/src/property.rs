//! How often a property is tried, and from which seed: said when it fails, so that the failure can be had again.

use std::{
    env,
    hash::{BuildHasher, Hasher, RandomState},
};

use proptest::test_runner::{Config, RngSeed};

/// How many times more cases the long run has.
const LONG: u32 = 40;

/// `PROPTEST_CASES` or 256 of them, forty times as many with `TOOLWAY_TEST_LONG`; from `PROPTEST_RNG_SEED` or anew.
#[expect(clippy::print_stderr, reason = "the harness keeps it and shows it only when the test fails")]
pub(crate) fn cases() -> Config {
    let mut config = Config::default();
    if env::var_os("TOOLWAY_TEST_LONG").is_some() {
        config.cases = config.cases.saturating_mul(LONG);
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().build_hasher().finish(),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    eprintln!("to try the same {} cases again: PROPTEST_RNG_SEED={seed}", config.cases);
    config
}
