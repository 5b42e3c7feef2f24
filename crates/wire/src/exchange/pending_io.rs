//! Work that whoever waits for an exchange does meanwhile.
//!
//! A request over HTTP is a POST that somebody has to drive. Most are answered by one small body; for those a task of
//! its own, and a wake from task to task, costs more than everything else. What takes longer, or may have to go on while
//! nobody looks, is not left to this: see [`crate::up::transport::Link::start`].

use std::{
    fmt,
    sync::Arc,
    task::{Context, Waker},
};

use futures_util::future::BoxFuture;

/// Something to be done while waiting; let go, it is given up.
pub struct PendingIo {
    work: Option<BoxFuture<'static, ()>>,
    /// Rings when it can go on; where there is none, the task is woken itself.
    flag: Option<(Arc<dyn ReadyFlag>, Waker)>,
}

/// Stands between work and the task that does it, and is rung as that work's waker.
pub(crate) trait ReadyFlag: Send + Sync {
    /// Whether it has rung since it was last asked; the task that asks is woken when it rings next.
    fn take_ready(&self, context: &Context<'_>) -> bool;
}

impl PendingIo {
    /// This is to be done.
    pub fn new(work: BoxFuture<'static, ()>) -> Self {
        Self { work: Some(work), flag: None }
    }

    /// This has begun and goes on when the flag rings.
    pub(crate) fn started(work: BoxFuture<'static, ()>, flag: Arc<dyn ReadyFlag>, waker: Waker) -> Self {
        Self { work: Some(work), flag: Some((flag, waker)) }
    }

    /// Nothing is to be done.
    pub(super) fn none() -> Self {
        Self { work: None, flag: None }
    }

    /// Whether something is left to do.
    pub(super) fn is_open(&self) -> bool {
        self.work.is_some()
    }

    /// Goes on with it, as far as it goes at the moment.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let Some(work) = &mut self.work else { return };
        let looked = match &self.flag {
            Some((flag, _)) if !flag.take_ready(context) => return,
            Some((_, waker)) => work.as_mut().poll(&mut Context::from_waker(waker)),
            None => work.as_mut().poll(context),
        };
        if looked.is_ready() {
            *self = Self::none();
        }
    }
}

impl fmt::Debug for PendingIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingIo").field(&self.is_open()).finish()
    }
}
