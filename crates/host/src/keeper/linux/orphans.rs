//! Ends the orphans of a killed keeper. They are children of this process then, because it is a child subreaper too.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use super::{
    mark::Mark,
    process_snapshot::{Process, ProcessSnapshot},
    termination::{AT_ONCE, Termination},
};

/// Time between two checks.
const RECHECK: Duration = Duration::from_millis(20);
/// After this time, remaining processes hang in the kernel.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Ends all descendants of an ended keeper. Blocks until they are gone.
pub(super) fn end(keeper: i32) {
    let (me, own, began) = (getpid().as_raw_nonzero().get(), Mark::own(), Instant::now());
    let mut termination = Termination::new(AT_ONCE, began);
    while began.elapsed() < MAX_WAIT {
        let Ok(snapshot) = ProcessSnapshot::take() else { return };
        // Other children of this program carry no mark, or that of the program itself. A keeper that is starting a
        // program carries a mark with its own id.
        let is_orphan = |child: &&Process| {
            let mark = Mark::of(child.pid).filter(|mark| mark.keeper() != child.pid.unsigned_abs());
            child.session == keeper || (mark.is_some() && mark != own)
        };
        let orphans: Vec<i32> = snapshot.children_of(me).filter(is_orphan).map(|process| process.pid).collect();
        if orphans.is_empty() {
            return;
        }
        if let Some(signal) = termination.due(Instant::now()) {
            snapshot.descendants(orphans.iter().copied()).iter().for_each(|process| process.signal(signal));
        }
        // Reaps those that have ended, without waiting for the others.
        orphans.into_iter().filter_map(Pid::from_raw).for_each(|pid| _ = waitpid(Some(pid), WaitOptions::NOHANG));
        thread::sleep(RECHECK);
    }
    tracing::warn!(keeper, "a process of a killed keeper did not end");
}
