//! A spinner for slow operations; only on a terminal.

use std::{pin::pin, time::Duration};

use tokio::time::{Instant, interval_at};

use super::Output;

/// Operations shorter than this show no spinner.
pub(crate) const DELAY: Duration = Duration::from_secs(1);
/// Time between frames.
pub(crate) const INTERVAL: Duration = Duration::from_millis(120);
/// Frames of the spinner.
pub(crate) const FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// Runs `work` and shows a spinner with `line` meanwhile.
pub(crate) async fn while_waiting<T>(line: &str, work: impl Future<Output = T>, output: &mut Output) -> T {
    let mut work = pin!(work);
    let mut beat = interval_at(Instant::now() + DELAY, INTERVAL);
    for frame in FRAMES.iter().cycle() {
        tokio::select! {
            done = &mut work => return done,
            _ = beat.tick() => output.progress(&format!("{frame} {line}")),
        }
    }
    work.await
}
