//! A pool of reusable timers.
//!
//! Every exchange needs a timer as soon as it waits, and few timers ever fire. Registering and deregistering a timer costs
//! more than the rest of a wait. A timer that did not fire is therefore returned to the pool, still running, for the next
//! exchange of the same connection, and is reset only if it fires too early for that one. The downstream side has pools
//! of its own for its clients' timeouts.

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

/// Largest number of timers in one pool. A pooled timer that fires causes one spurious wake-up of its last user.
const KEPT: usize = 32;

/// The timers of one connection, or of one downstream.
#[derive(Clone)]
pub(crate) struct TimerPool {
    /// Timers belong to this runtime; on another runtime the pool is not used.
    runtime: runtime::Id,
    // No await under this lock.
    kept: Arc<Mutex<Vec<Pin<Box<Sleep>>>>>,
}

/// The timer of one exchange; returns to its pool when dropped.
pub(crate) struct PooledTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    timers: Option<TimerPool>,
}

impl PooledTimer {
    /// Creates a timer that is taken from the pool at the first poll.
    pub(crate) fn new(timers: Option<TimerPool>) -> Self {
        Self { sleep: None, timers }
    }

    /// Ready once `at` is reached; otherwise wakes the task then.
    pub(crate) fn poll(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = match &mut self.sleep {
            Some(sleep) => sleep,
            None => {
                self.timers = self.timers.take().filter(TimerPool::is_current_runtime);
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
            // The deadline was set by an earlier exchange, which has ended.
            sleep.as_mut().reset(at);
            return sleep.as_mut().poll(context);
        }
        Poll::Ready(())
    }
}

impl TimerPool {
    /// Creates an empty pool for the current runtime.
    pub(crate) fn new() -> Self {
        Self { runtime: Handle::current().id(), kept: Arc::default() }
    }

    /// Returns the output of `work`, or `None` after `limit`.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (at, mut timer, mut work) = (Instant::now() + limit, PooledTimer::new(Some(self.clone())), pin!(work));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => timer.poll(at, context).map(|()| None),
        })
        .await
    }

    fn is_current_runtime(&self) -> bool {
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
