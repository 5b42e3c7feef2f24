//! TimerPool that are used again.
//!
//! An exchange needs one from its first wait on, and few ever go off. To take one out of the runtime's clockwork and
//! put the next one in costs more than the rest of a wait. So an timer that did not go off waits, still running, for the
//! next exchange of the same connection, and is set further ahead only if it goes off too early for that one. A downstream
//! keeps some in the same way for the callers that wait for its first word.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{self, Handle},
    time::{Instant, Sleep},
};

/// TimerPool kept for one connection; one that goes off meanwhile wakes whoever had it last, once and for nothing.
const KEPT: usize = 32;

/// The timers of one connection, or of one downstream.
#[derive(Clone)]
pub(crate) struct TimerPool {
    /// TimerPool belong to a runtime and end with it: elsewhere nothing is kept or taken.
    runtime: runtime::Id,
    // Nothing awaits under this lock.
    kept: Arc<Mutex<Vec<Pin<Box<Sleep>>>>>,
}

/// The timer of one exchange, or of whoever else waits once.
pub(crate) struct PooledTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    timers: Option<TimerPool>,
}

impl PooledTimer {
    /// One that is set when it is first needed.
    pub(crate) fn new(timers: Option<TimerPool>) -> Self {
        Self { sleep: None, timers }
    }

    /// Whether it is this late; if not, wakes then.
    pub(crate) fn poll(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = match &mut self.sleep {
            Some(sleep) => sleep,
            None => {
                self.timers = self.timers.take().filter(TimerPool::are_here);
                let kept = self.timers.as_ref().and_then(|timers| timers.kept.lock().pop());
                self.sleep.insert(kept.unwrap_or_else(|| Box::pin(tokio::time::sleep_until(at))))
            }
        };
        if at < sleep.deadline() {
            sleep.as_mut().reset(at);
        }
        if sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        if sleep.deadline() < at {
            // Set by an exchange that is over: nearly all are over long before one goes off.
            sleep.as_mut().reset(at);
            return sleep.as_mut().poll(context);
        }
        Poll::Ready(())
    }
}

impl TimerPool {
    /// None yet, on this runtime.
    pub(crate) fn new() -> Self {
        Self { runtime: Handle::current().id(), kept: Arc::default() }
    }

    /// What `work` gives, unless it takes longer than this.
    pub(crate) async fn within<T>(&self, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (at, mut timer, mut work) = (Instant::now() + patience, PooledTimer::new(Some(self.clone())), pin!(work));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => timer.poll(at, context).map(|()| None),
        })
        .await
    }

    fn are_here(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.runtime)
    }
}

impl Drop for PooledTimer {
    fn drop(&mut self) {
        let (Some(sleep), Some(timers)) = (self.sleep.take(), &self.timers) else { return };
        let mut kept = timers.kept.lock();
        if kept.len() < KEPT && !sleep.is_elapsed() {
            kept.push(sleep);
        }
    }
}

impl fmt::Debug for TimerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerPool").field("kept", &self.kept.lock().len()).finish()
    }
}

impl fmt::Debug for PooledTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledTimer").field("set", &self.sleep.is_some()).finish()
    }
}
