//! A histogram of durations that is counted without a lock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::scrape::Durations;

/// Durations by upper bound, and their sum.
#[derive(Debug, Default)]
pub(super) struct DurationCounts {
    /// Counts for each of [`BOUNDS`]; the last is unbounded.
    counts: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

/// Upper bounds in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0];

impl DurationCounts {
    pub(super) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bound = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bound].fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// How many were observed.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn read(&self) -> Durations {
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        Durations {
            seconds: Duration::from_micros(self.microseconds.load(Ordering::Relaxed)).as_secs_f64(),
            buckets: bounds.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect(),
        }
    }
}
