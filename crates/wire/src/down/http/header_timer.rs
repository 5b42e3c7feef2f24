//! Timeout for request headers: one runtime timer per connection, reused for each request.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

use crate::exchange::{PooledTimer, TimerPool};

/// Header timer of one connection.
#[derive(Debug)]
pub(super) struct HeaderTimer(TimerPool);

/// The wait for one request's headers.
struct HeaderSleep {
    timer: PooledTimer,
    until: tokio::time::Instant,
}

impl HeaderTimer {
    /// A timer on the current runtime.
    pub(super) fn new() -> Self {
        Self(TimerPool::new())
    }
}

impl Timer for HeaderTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeaderSleep { timer: PooledTimer::new(Some(self.0.clone())), until: deadline.into() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for HeaderSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        self.timer.poll(until, context)
    }
}

impl Sleep for HeaderSleep {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::rt::Timer;
    use tokio::time::{Instant, sleep};

    use super::HeaderTimer;

    #[tokio::test(start_paused = true)]
    async fn each_request_has_the_full_header_timeout() {
        let (clock, began) = (HeaderTimer::new(), Instant::now());
        for _ in 0..3 {
            tokio::select! {
                () = clock.sleep(Duration::from_secs(30)) => panic!("it had come"),
                () = sleep(Duration::from_secs(20)) => {}
            }
        }
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(3 * 20 + 30));
    }
}
