//! Where a measurement runs.
//!
//! A round trip of ten microseconds is shorter than waking another core, which takes from five to fifty, as the system
//! happens to place two processes. On one core nothing is woken and nothing sleeps: a trip costs what is done for it.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this process, and those it starts from now on, on the first core it may use.
pub(crate) fn on_one_core() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)) {
        one.set(core);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}
