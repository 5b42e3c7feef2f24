//! A cluster of ten gateways in simulated time: the steps of each member against the simulated store, with a network that
//! delays and loses, processes that sleep and are killed, and a clock of the store that jumps.
//!
//! One thread takes happenings from a queue in the order of their times, so that a seed decides everything. What must never
//! happen is checked by `invariants` at each step; that all ends well, once the faults have ended, is checked here.
//! `TOOLWAY_CLUSTER_SEED` repeats one seed, `TOOLWAY_TEST_LONG=1` runs ten thousand.

mod calls;
mod invariants;
mod keeper;
mod node;
mod world;

use world::World;

/// Seeds of a run: many, or one that is repeated.
fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = std::env::var_os("TOOLWAY_CLUSTER_SEED") {
        let seed = seed.to_str().unwrap().parse().unwrap();
        return seed..seed + 1;
    }
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 0..10_000 } else { 0..200 }
}

/// Says which seed has failed, since the test that panics does not know it.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    #[expect(clippy::print_stdout, reason = "a failed test is repeated with its seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("repeat with TOOLWAY_CLUSTER_SEED={}", self.0);
        }
    }
}

#[test]
fn no_server_has_two_processes_and_no_call_is_settled_twice() {
    let mut seen = world::Seen::default();
    for seed in seeds() {
        let _says_seed = SeedOnPanic(seed);
        let mut world = World::new(seed);
        world.run_with_faults();
        world.heal();
        world.check_that_all_is_settled();
        seen.add(&world.seen());
    }
    // A simulation in which nothing happens proves nothing.
    if 10 < seeds().count() {
        seen.assert_that_much_happened();
    }
}
