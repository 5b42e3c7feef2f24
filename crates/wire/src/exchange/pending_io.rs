//! I/O that is polled by the task that waits for an exchange.
//!
//! A request over HTTP is a POST that must be driven. Most responses are one small body; for those, a separate task and a
//! wake-up between tasks would cost more than everything else. I/O that takes longer, or must continue while the caller does
//! not poll, gets its own task: see [`crate::up::transport::Link::start`].

use std::{
    fmt,
    sync::Arc,
    task::{Context, Waker},
};

use futures_util::future::BoxFuture;

/// I/O to poll while waiting for an exchange. Dropping it aborts the I/O.
pub struct PendingIo {
    work: Option<BoxFuture<'static, ()>>,
    /// Flag and waker of the I/O; without them the I/O uses the waker of the polling task.
    flag: Option<(Arc<dyn ReadyFlag>, Waker)>,
}

/// Readiness flag, set by the waker of the I/O, so that the I/O is polled only when it can make progress.
pub(crate) trait ReadyFlag: Send + Sync {
    /// Returns and clears the flag; registers the task of `context` to be woken when the flag is set next.
    fn take_ready(&self, context: &Context<'_>) -> bool;
}

impl PendingIo {
    /// I/O that has not been polled yet.
    pub fn new(work: BoxFuture<'static, ()>) -> Self {
        Self { work: Some(work), flag: None }
    }

    /// I/O that was polled once with `waker` and continues when `flag` is set.
    pub(crate) fn started(work: BoxFuture<'static, ()>, flag: Arc<dyn ReadyFlag>, waker: Waker) -> Self {
        Self { work: Some(work), flag: Some((flag, waker)) }
    }

    /// No I/O.
    pub(super) fn none() -> Self {
        Self { work: None, flag: None }
    }

    /// Whether the I/O is unfinished.
    pub(super) fn is_pending(&self) -> bool {
        self.work.is_some()
    }

    /// Polls the I/O if it can make progress.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let Some(work) = &mut self.work else { return };
        let polled = match &self.flag {
            Some((flag, _)) if !flag.take_ready(context) => return,
            Some((_, waker)) => work.as_mut().poll(&mut Context::from_waker(waker)),
            None => work.as_mut().poll(context),
        };
        if polled.is_ready() {
            *self = Self::none();
        }
    }
}

impl fmt::Debug for PendingIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingIo").field(&self.is_pending()).finish()
    }
}
