//! A process's standard error, heard to its end; and the sentence in which its last words stand.

use std::time::Duration;

use tokio::{io::AsyncRead, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{connection::last_words::LastWords, keeper::HowEnded};

/// Hears one process.
#[derive(Debug)]
pub(super) struct Hearing {
    last_words: LastWords,
    /// Nobody holds the stream any more: neither the process nor what it started.
    silent: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

/// How long a process that closed its output may take to end before it is said to go on.
const ENDING: Duration = Duration::from_secs(1);
/// How long the last lines of a process that ended may take to come in.
const LAST_LINES: Duration = Duration::from_millis(200);

impl Hearing {
    pub(super) fn new(last_words: LastWords, stream: impl AsyncRead + Send + Unpin + 'static) -> Self {
        last_words.forget();
        let (hearing, silent) = (last_words.clone().hear(stream), CancellationToken::new());
        let at_end = silent.clone().drop_guard();
        let task = tokio::runtime::Handle::current().spawn(async move {
            hearing.await;
            drop(at_end);
        });
        Self { last_words, silent, _task: AbortOnDropHandle::new(task) }
    }

    /// Resolves when nobody can say anything any more.
    pub(super) async fn silence(&self) {
        self.silent.cancelled().await;
    }

    /// What became of a process whose output has ended. `ended` says how it did, unless it was ended by us.
    pub(super) async fn epitaph(&self, ended: impl Future<Output = Result<HowEnded, &'static str>>) -> String {
        let how = match timeout(ENDING, ended).await {
            Ok(how) => {
                // Something it started may hold its standard error for longer; its own lines are in by then.
                drop(timeout(LAST_LINES, self.silence()).await);
                how.iter().for_each(|how| self.last_words.note_end(*how));
                how.map_or_else(str::to_owned, |how| how.to_string())
            }
            Err(_) => "it closed its output but goes on running".to_owned(),
        };
        let how = match self.last_words.stray() {
            Some(stray) => format!("{how}; its standard output is no MCP: \"{stray}\""),
            None => how,
        };
        match self.last_words.quote() {
            Some(words) => format!("{how}; its last words: {words}"),
            None => how,
        }
    }
}
