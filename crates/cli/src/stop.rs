//! What can end a command before its answer: the keyboard, and the time it was given.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::report::Report;

/// Watches the keyboard and the clock from the moment a command begins.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupted: CancellationToken,
    deadline: Option<(Instant, Duration)>,
    _watching: AbortOnDropHandle<()>,
}

impl Stop {
    /// Begins to watch; without a limit the clock never runs out.
    pub(crate) fn watch(limit: Option<Duration>) -> Self {
        let interrupted = CancellationToken::new();
        let token = interrupted.clone();
        let watching = tokio::runtime::Handle::current().spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                token.cancel();
            }
        });
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        Self { interrupted, deadline, _watching: AbortOnDropHandle::new(watching) }
    }

    /// Resolves when the command has to end; says why.
    pub(crate) async fn happens(&self) -> Report {
        let time_is_up = async {
            match self.deadline {
                Some((at, limit)) => {
                    tokio::time::sleep_until(at).await;
                    Report::timed_out(limit)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.interrupted.cancelled() => Report::interrupted(),
            report = time_is_up => report,
        }
    }

    /// Resolves when the person at the keyboard has had enough.
    pub(crate) async fn interrupted(&self) -> Report {
        self.interrupted.cancelled().await;
        Report::interrupted()
    }

    /// What `work` gives, unless the command has to end first; then the work is dropped.
    pub(crate) async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, Report> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            report = self.happens() => Err(report),
        }
    }
}
