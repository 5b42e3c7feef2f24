//! CPU affinity of a measurement.
//!
//! Waking another core takes 5 to 50 µs, depending on the placement of two processes, which is longer than a round trip of
//! 10 µs. On one core no wake-ups are measured.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins this process, and those it starts later, to the first core it may use.
pub(crate) fn pin_to_one_core() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)) {
        one.set(core);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}
