//! Number of cases and random seed of property tests. The seed is printed on failure, so that a run can be repeated.

use std::{
    env,
    hash::{BuildHasher, Hasher, RandomState},
};

use proptest::test_runner::{Config, RngSeed};

/// Factor by which `TOOLWAY_TEST_LONG` multiplies the number of cases.
const LONG: u32 = 40;

/// Configuration of a property test: `PROPTEST_CASES` cases (default 256, forty times as many with
/// `TOOLWAY_TEST_LONG`), seeded from `PROPTEST_RNG_SEED` or at random.
#[expect(clippy::print_stderr, reason = "the test harness shows it only when the test fails")]
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
    eprintln!("to repeat these {} cases: PROPTEST_RNG_SEED={seed}", config.cases);
    config
}
