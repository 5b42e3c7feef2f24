//! The clock on the heads of one connection's requests: one timer in the runtime's clockwork, used again for each.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

use crate::exchange::{PooledTimer, TimerPool};

/// The clock of one connection.
#[derive(Debug)]
pub(super) struct HeadClock(TimerPool);

/// The time that one head may take.
struct HeadTime {
    timer: PooledTimer,
    until: tokio::time::Instant,
}

impl HeadClock {
    /// One that runs on this runtime.
    pub(super) fn new() -> Self {
        Self(TimerPool::new())
    }
}

impl Timer for HeadClock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadTime { timer: PooledTimer::new(Some(self.0.clone())), until: deadline.into() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for HeadTime {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        self.timer.poll(until, context)
    }
}

impl Sleep for HeadTime {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::rt::Timer;
    use tokio::time::{Instant, sleep};

    use super::HeadClock;

    #[tokio::test(start_paused = true)]
    async fn each_head_has_its_time_and_one_that_comes_early_takes_nothing_from_the_next() {
        let (clock, began) = (HeadClock::new(), Instant::now());
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
