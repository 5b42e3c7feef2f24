//! Rate limit for progress notifications: values only increase.
//!
//! A burst passes at once, after it 20 per second; only the newest of the held ones is sent. A held notification is
//! sent before the response.

use std::time::Duration;

use tokio::time::Instant;

use crate::json::Raw;

/// Notifications that may pass at once.
const BURST: u32 = 50;
/// Interval between notifications after a burst: 20 per second.
const PAUSE: Duration = Duration::from_millis(50);

/// Progress limiter of one request.
#[derive(Debug)]
pub(super) struct ProgressLimiter {
    /// The highest value so far, sent or held.
    reached: f64,
    /// Time that passed notifications have used up; may be ahead of now by a burst.
    used_until: Instant,
    held: Option<Raw>,
}

impl ProgressLimiter {
    pub(super) fn new() -> Self {
        Self { reached: f64::NEG_INFINITY, used_until: Instant::now(), held: None }
    }

    /// Takes a notification; returns it if it may be sent now.
    pub(super) fn take(&mut self, params: Raw) -> Option<Raw> {
        let progress = params.get("progress").and_then(|progress| progress.as_f64())?;
        if progress <= self.reached {
            return None;
        }
        self.reached = progress;
        let now = Instant::now();
        self.used_until = self.used_until.max(now);
        if now + PAUSE * BURST <= self.used_until {
            self.held = Some(params);
            return None;
        }
        self.used_until += PAUSE;
        self.held = None;
        Some(params)
    }

    /// Resolves when the held notification may be sent; never if none is held.
    pub(super) async fn due(&self) {
        match self.held {
            Some(_) => tokio::time::sleep_until(self.used_until - PAUSE * (BURST - 1)).await,
            None => std::future::pending().await,
        }
    }

    /// Takes the held notification.
    pub(super) fn release(&mut self) -> Option<Raw> {
        let held = self.held.take()?;
        self.used_until += PAUSE;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::Instant;

    use super::ProgressLimiter;
    use crate::json::Raw;

    fn at(progress: f64) -> Raw {
        Raw::of(&json!({ "progress": progress }))
    }

    #[tokio::test(start_paused = true)]
    async fn progress_only_increases() {
        let mut limiter = ProgressLimiter::new();
        let said = [1.0, 2.0, 2.0, 1.5, 3.0].map(|step| limiter.take(at(step)).is_some());
        assert_eq!(said, [true, true, false, false, true]);
        assert!(
            limiter.take(Raw::empty_object()).is_none() && limiter.take(Raw::of(&json!({ "progress": "4" }))).is_none()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn burst_passes_then_twenty_per_second_newest_wins() {
        let mut limiter = ProgressLimiter::new();
        let passed = (0..200).filter(|step| limiter.take(at(f64::from(*step))).is_some()).count();
        assert_eq!(passed, 50);
        let before = Instant::now();
        limiter.due().await;
        assert_eq!(before.elapsed(), Duration::from_millis(50));
        assert_eq!(limiter.release().unwrap().to_string(), at(199.0).to_string());
        assert!(limiter.release().is_none());
        let mut later = 0;
        for step in 200..300 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            later += usize::from(limiter.take(at(f64::from(step))).is_some());
        }
        assert!((19..=21).contains(&later), "a second's worth: {later}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let passed = (300..500).filter(|step| limiter.take(at(f64::from(*step))).is_some()).count();
        assert_eq!(passed, 50, "it has recovered");
    }
}
