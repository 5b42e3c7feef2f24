//! Reads the stderr of a process to its end, and describes how the process ended.

use std::time::Duration;

use tokio::{io::AsyncRead, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{connection::stderr_tail::StderrTail, keeper::ProcessExit};

/// Reads the stderr of one process.
#[derive(Debug)]
pub(super) struct StderrReader {
    stderr_tail: StderrTail,
    /// Cancelled when the stream ends: neither the process nor a child of it holds it.
    ended: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

/// How long a process that closed stdout may take to exit before it is reported as running.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the last lines of an exited process may take to arrive.
const LAST_LINES: Duration = Duration::from_millis(200);

impl StderrReader {
    pub(super) fn new(stderr_tail: StderrTail, stream: impl AsyncRead + Send + Unpin + 'static) -> Self {
        stderr_tail.forget();
        let (reading, ended) = (stderr_tail.clone().read(stream), CancellationToken::new());
        let at_end = ended.clone().drop_guard();
        let task = tokio::runtime::Handle::current().spawn(async move {
            reading.await;
            drop(at_end);
        });
        Self { stderr_tail, ended, _task: AbortOnDropHandle::new(task) }
    }

    /// Resolves when the stream has ended.
    pub(super) async fn end(&self) {
        self.ended.cancelled().await;
    }

    /// Describes what happened to a process whose stdout has ended. `ended` resolves to how it exited, or to a description.
    pub(super) async fn exit_reason(&self, ended: impl Future<Output = Result<ProcessExit, &'static str>>) -> String {
        let how = match timeout(EXIT_TIMEOUT, ended).await {
            Ok(how) => {
                // A child of it may hold stderr for longer; its own lines have arrived by then.
                drop(timeout(LAST_LINES, self.end()).await);
                how.iter().for_each(|how| self.stderr_tail.set_exit(*how));
                how.map_or_else(str::to_owned, |how| how.to_string())
            }
            Err(_) => "the server closed stdout but is still running".to_owned(),
        };
        let how = match self.stderr_tail.stray() {
            Some(stray) => {
                format!("{how}; the server printed non-MCP text on stdout: \"{stray}\" (logs belong on stderr)")
            }
            None => how,
        };
        match self.stderr_tail.quote() {
            Some(output) => format!("{how}; last stderr output: {output}"),
            None => how,
        }
    }
}
