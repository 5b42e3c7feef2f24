//! Progress on its way to a caller: it only goes forward, and not more often than anybody can look.
//!
//! A burst passes at once; after it so many a second, of which the last one counts. What was held back is said before
//! the end.

use std::time::Duration;

use tokio::time::Instant;

use crate::json::Raw;

/// So many pass at once.
const BURST: u32 = 50;
/// After a burst, the next one passes after this long: twenty a second.
const PAUSE: Duration = Duration::from_millis(50);

/// The progress of one request.
#[derive(Debug)]
pub(super) struct Meter {
    /// The farthest so far, said or held back.
    reached: f64,
    /// Until when those that passed have used up the time; a burst ahead of it is allowed.
    used_until: Instant,
    held: Option<Raw>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { reached: f64::NEG_INFINITY, used_until: Instant::now(), held: None }
    }

    /// One more report: given back where it may be said now.
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

    /// Resolves when what is held back may be said; never where nothing is.
    pub(super) async fn due(&self) {
        match self.held {
            Some(_) => tokio::time::sleep_until(self.used_until - PAUSE * (BURST - 1)).await,
            None => std::future::pending().await,
        }
    }

    /// What was held back.
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

    use super::Meter;
    use crate::json::Raw;

    fn at(progress: f64) -> Raw {
        Raw::of(&json!({ "progress": progress }))
    }

    #[tokio::test(start_paused = true)]
    async fn progress_only_goes_forward() {
        let mut meter = Meter::new();
        let said = [1.0, 2.0, 2.0, 1.5, 3.0].map(|step| meter.take(at(step)).is_some());
        assert_eq!(said, [true, true, false, false, true]);
        assert!(
            meter.take(Raw::empty_object()).is_none() && meter.take(Raw::of(&json!({ "progress": "4" }))).is_none()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_twenty_a_second_the_last_of_them_counting() {
        let mut meter = Meter::new();
        let passed = (0..200).filter(|step| meter.take(at(f64::from(*step))).is_some()).count();
        assert_eq!(passed, 50);
        let before = Instant::now();
        meter.due().await;
        assert_eq!(before.elapsed(), Duration::from_millis(50));
        assert_eq!(meter.release().unwrap().to_string(), at(199.0).to_string());
        assert!(meter.release().is_none());
        let mut later = 0;
        for step in 200..300 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            later += usize::from(meter.take(at(f64::from(step))).is_some());
        }
        assert!((19..=21).contains(&later), "a second's worth: {later}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let passed = (300..500).filter(|step| meter.take(at(f64::from(*step))).is_some()).count();
        assert_eq!(passed, 50, "it has recovered");
    }
}
