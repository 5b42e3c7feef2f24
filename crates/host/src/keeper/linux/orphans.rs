//! What a killed keeper leaves behind is ours by then: we are a child subreaper too. It is ended here.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use super::{
    census::{Census, Process},
    ending::{AT_ONCE, Ending},
    mark::Mark,
};

/// How soon to look again.
const AGAIN: Duration = Duration::from_millis(20);
/// What has not ended by then hangs in the kernel; we cannot do more.
const AT_MOST: Duration = Duration::from_secs(10);

/// Ends everything that descends from this keeper, which has ended. Waits for it.
pub(super) fn end(keeper: i32) {
    let (me, own, began) = (getpid().as_raw_nonzero().get(), Mark::own(), Instant::now());
    let mut ending = Ending::new(AT_ONCE, began);
    while began.elapsed() < AT_MOST {
        let Ok(census) = Census::take() else { return };
        // What the program itself has started carries no mark, or the one it carries itself. A keeper that is about
        // to start something carries one with its own number.
        let is_left = |child: &&Process| {
            let mark = Mark::of(child.pid).filter(|mark| mark.keeper() != child.pid.unsigned_abs());
            child.session == keeper || (mark.is_some() && mark != own)
        };
        let left: Vec<i32> = census.children_of(me).filter(is_left).map(|process| process.pid).collect();
        if left.is_empty() {
            return;
        }
        if let Some(signal) = ending.due(Instant::now()) {
            census.descent(left.iter().copied()).iter().for_each(|process| process.signal(signal));
        }
        // Those that have ended are seen to; the others are not waited for here.
        left.into_iter().filter_map(Pid::from_raw).for_each(|pid| _ = waitpid(Some(pid), WaitOptions::NOHANG));
        thread::sleep(AGAIN);
    }
    tracing::warn!(keeper, "something that a killed keeper left does not end");
}
