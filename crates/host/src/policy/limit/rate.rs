//! A rate of calls: a bucket as the `governor` crate counts it, from which calls can be given back.
//!
//! A bucket is full at the beginning and refills evenly within a minute. All buckets that concern a call are under one lock,
//! so that a call takes one of each or none. That is why the state is a value here, and `governor` computes the next one.

use std::{cell::Cell, num::NonZeroU32, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{NotKeyed, StateStore},
};

/// Calls within a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    per_minute: NonZeroU32,
    /// When the bucket will be full; `None`: it is.
    full_at: Option<Duration>,
}

/// The state during one computation.
#[derive(Debug)]
struct Bucket(Cell<Option<Nanos>>);

/// A clock that begins at zero and is set before its use.
#[derive(Debug, Default)]
struct SetClock(Cell<Duration>);

const MINUTE: Duration = Duration::from_secs(60);

impl Rate {
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        Self { per_minute, full_at: None }
    }

    /// The same bucket with another number of calls: those that were taken count on.
    pub(super) fn changed(self, per_minute: NonZeroU32, now: Duration) -> Self {
        if self.per_minute == per_minute {
            return self;
        }
        let used = self.used(now).min(per_minute.get());
        let full_at = now.saturating_add(interval(per_minute).saturating_mul(used));
        Self { per_minute, full_at: (0 < used).then_some(full_at) }
    }

    pub(super) fn most(self) -> u32 {
        self.per_minute.get()
    }

    /// The bucket without one more call. Without room, how long until there is some.
    pub(super) fn take(self, now: Duration) -> Result<Self, Duration> {
        let bucket = Bucket(Cell::new(self.full_at.map(Nanos::from)));
        let quota = Quota::per_minute(self.per_minute);
        let limiter = RateLimiter::<_, _, _, NoOpMiddleware<Duration>>::new(quota, bucket, SetClock::default());
        limiter.clock().0.set(now);
        limiter.check().map_err(|until| until.wait_time_from(now))?;
        Ok(Self { full_at: limiter.into_state_store().0.get().map(Duration::from), ..self })
    }

    /// The bucket with one call given back.
    pub(super) fn given_back(self) -> Self {
        let full_at = self.full_at.map(|at| at.saturating_sub(interval(self.per_minute)));
        Self { full_at, ..self }
    }

    /// Calls for which there is no room now, of those that a full bucket has room for.
    pub(super) fn used(self, now: Duration) -> u32 {
        let full_in = self.full_at.unwrap_or_default().saturating_sub(now);
        let used = full_in.as_nanos().div_ceil(interval(self.per_minute).as_nanos().max(1));
        u32::try_from(used).unwrap_or(u32::MAX).min(self.per_minute.get())
    }
}

/// The time in which the bucket refills by one call.
fn interval(per_minute: NonZeroU32) -> Duration {
    MINUTE / per_minute.get()
}

impl StateStore for Bucket {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _key: &NotKeyed, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (outcome, next) = measure(self.0.get())?;
        self.0.set(Some(next));
        Ok(outcome)
    }
}

impl Clock for SetClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

    use super::Rate;

    fn number(per_minute: u32) -> NonZeroU32 {
        NonZeroU32::new(per_minute).unwrap()
    }

    /// Takes calls until there is no room: how many, and how long until there is some.
    fn drain(mut rate: Rate, now: Duration) -> (Rate, u32, Duration) {
        for taken in 0.. {
            match rate.take(now) {
                Ok(next) => rate = next,
                Err(wait) => return (rate, taken, wait),
            }
        }
        unreachable!("a bucket ends")
    }

    #[test]
    fn a_bucket_is_full_at_first_and_refills_evenly() {
        let begin = Duration::from_secs(1_000);
        let (rate, taken, wait) = drain(Rate::new(number(50)), begin);
        assert_eq!((taken, wait, rate.used(begin)), (50, Duration::from_millis(1_200), 50));
        let (rate, taken, _) = drain(rate, begin + Duration::from_millis(1_199));
        assert_eq!(taken, 0);
        let (rate, taken, wait) = drain(rate, begin + Duration::from_millis(2_400));
        assert_eq!((taken, wait), (2, Duration::from_millis(1_200)));
        let (_, taken, _) = drain(rate, begin + Duration::from_secs(120));
        assert_eq!(taken, 50, "never more than its size");
    }

    #[test]
    fn a_call_that_is_given_back_leaves_room_for_one() {
        let begin = Duration::from_secs(7);
        let (rate, ..) = drain(Rate::new(number(3)), begin);
        assert_eq!(drain(rate.given_back(), begin).1, 1);
        assert_eq!(drain(Rate::new(number(3)).take(begin).unwrap().given_back(), begin).1, 3);
        let much_later = begin + Duration::from_secs(600);
        assert_eq!(drain(rate.given_back(), much_later).1, 3, "what was refilled meanwhile is not given back twice");
    }

    #[test]
    fn a_changed_number_keeps_what_was_taken() {
        let now = Duration::from_secs(5);
        let (mut rate, ..) = drain(Rate::new(number(10)), now);
        rate = rate.changed(number(12), now);
        assert_eq!((rate.used(now), drain(rate, now).1), (10, 2));
        assert_eq!(drain(rate.changed(number(4), now), now).1, 0);
        assert_eq!(drain(Rate::new(number(10)).changed(number(4), now), now).1, 4);
    }
}
