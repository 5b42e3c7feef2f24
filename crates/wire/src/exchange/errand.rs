//! Work that whoever waits for an exchange does meanwhile.
//!
//! A request over HTTP is a POST that somebody has to drive. Most are answered by one small body; for those a task of
//! its own, and a wake from task to task, costs more than everything else. What takes longer, or may have to go on while
//! nobody looks, is not left to this: see [`crate::up::transport::Link::start`].

use std::{
    fmt,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

/// Something to be done while waiting; let go, it is given up.
pub(crate) struct Errand(Option<BoxFuture<'static, ()>>);

impl Errand {
    /// This is to be done.
    pub(crate) fn new(work: BoxFuture<'static, ()>) -> Self {
        Self(Some(work))
    }

    /// Nothing is to be done.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Whether something is left to do.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Goes on with it, as far as it goes at the moment.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        if let Some(work) = &mut self.0
            && let Poll::Ready(()) = work.as_mut().poll(context)
        {
            self.0 = None;
        }
    }
}

impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Errand").field(&self.is_open()).finish()
    }
}
