//! A sign of life while something takes its time; nowhere but on a terminal.

use std::{pin::pin, time::Duration};

use tokio::time::{Instant, interval_at};

use super::Output;

/// What is done by then shows no sign.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How often the sign moves.
pub(crate) const BEAT: Duration = Duration::from_millis(120);
/// The sign.
pub(crate) const FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// What `work` gives; meanwhile `line` is shown, with a sign that moves.
pub(crate) async fn while_waiting<T>(line: &str, work: impl Future<Output = T>, output: &mut Output) -> T {
    let mut work = pin!(work);
    let mut beat = interval_at(Instant::now() + PATIENCE, BEAT);
    for frame in FRAMES.iter().cycle() {
        tokio::select! {
            done = &mut work => return done,
            _ = beat.tick() => output.progress(&format!("{frame} {line}")),
        }
    }
    work.await
}
