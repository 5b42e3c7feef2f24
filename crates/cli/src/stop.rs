//! What stops a command early: Ctrl-C and `--timeout`.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::report::Report;

/// Waits for Ctrl-C and the timeout of a command.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupted: CancellationToken,
    deadline: Option<(Instant, Duration)>,
    _watching: AbortOnDropHandle<()>,
}

impl Stop {
    /// Starts waiting. Without a limit there is no timeout.
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

    /// Resolves with the reason when the command has to stop.
    pub(crate) async fn triggered(&self) -> Report {
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

    /// Resolves on Ctrl-C.
    pub(crate) async fn interrupted(&self) -> Report {
        self.interrupted.cancelled().await;
        Report::interrupted()
    }

    /// The output of `work`, unless the command has to stop first; then `work` is dropped.
    pub(crate) async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, Report> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            report = self.triggered() => Err(report),
        }
    }
}
