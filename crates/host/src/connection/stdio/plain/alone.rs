//! A process alone, where there are no groups: it is ended, and what it started is not found.

use std::{ffi::OsString, io};

use tokio::{
    process::{Child, Command},
    runtime, select,
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{connection::environment::Environment, keeper::HowEnded};

/// `CREATE_NO_WINDOW`, as the system spells it.
#[cfg(windows)]
const NO_WINDOW: u32 = 0x0800_0000;

/// A process, in the hands of a task that sees it to its end.
#[derive(Debug)]
pub(super) struct Alone {
    ended: watch::Receiver<Option<HowEnded>>,
    to_end: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Alone {
    /// What the system would start, or what it would not find.
    pub(super) fn file_of(command: &str, environment: &Environment) -> OsString {
        #[cfg(windows)]
        return super::lookup::find(command, environment);
        #[cfg(not(windows))]
        return command.into();
    }

    /// A console of its own would flash up, and what is typed into ours is not for it.
    pub(super) fn set_apart(command: &mut Command) {
        #[cfg(windows)]
        command.creation_flags(NO_WINDOW);
    }

    #[expect(clippy::unnecessary_wraps, reason = "a group can fail to be made")]
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let ((tell, ended), to_end) = (watch::channel(None), CancellationToken::new());
        let task = runtime::Handle::current().spawn(see_to_its_end(child, to_end.clone(), tell));
        Ok(Self { ended, to_end, _task: AbortOnDropHandle::new(task) })
    }

    /// The process has ended; how, where the system says.
    pub(super) async fn ended(&self) -> Option<HowEnded> {
        self.ended.clone().wait_for(Option::is_some).await.ok().and_then(|how| *how)
    }

    /// There is nothing to ask with: whoever does not leave when its input ends is ended.
    pub(super) fn ask(&self) {}

    /// Ends the process.
    pub(super) fn kill(&self) {
        self.to_end.cancel();
    }

    /// Waits for its end.
    pub(super) async fn reap(&self) {
        self.ended().await;
    }
}

/// Dropped half-way, the child is killed with it.
async fn see_to_its_end(mut child: Child, to_end: CancellationToken, tell: watch::Sender<Option<HowEnded>>) {
    let status = select! {
        status = child.wait() => status,
        () = to_end.cancelled() => {
            if let Err(error) = child.start_kill() {
                tracing::debug!(%error, "the process could not be ended");
            }
            child.wait().await
        }
    };
    let status = status.ok().and_then(|status| status.code());
    tell.send_replace(Some(HowEnded::new(status, None)));
}
