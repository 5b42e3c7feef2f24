//! Calls within a day: the port that counts them, and a count in memory.
//!
//! A call takes one from each day count that concerns it, or none. All processes that use one implementation's store have one
//! count. A call that was not sent gives back what it took, to the day from which it took it.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::record::RecordsError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Counts the calls of each day, by UTC.
pub trait CallDays: Send + Sync {
    /// The time by which days begin.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Takes one call from all counts, if each has room. A call that has taken already takes nothing more. Submits its
    /// write before it returns.
    fn take(&self, wanted: DayUse) -> BoxFuture<'static, Result<DayTaken, RecordsError>>;

    /// Gives back what a call took. Submits its write before it returns.
    fn give_back(&self, call: Uuid);

    /// Calls of the day at `at`, by count, for the counts that have any.
    fn used(&self, at: SystemTime) -> BoxFuture<'static, Result<BTreeMap<String, u64>, RecordsError>>;
}

/// A call that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayUse {
    /// Id of the call.
    pub call: Uuid,
    /// The time, which decides the day.
    pub at: SystemTime,
    /// The counts that concern it.
    pub counts: Vec<DayCount>,
}

/// A count and its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayCount {
    /// Name of the count.
    pub key: String,
    /// Calls that it has room for.
    pub most: u32,
}

/// Whether a call has room in all counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DayTaken {
    /// It has.
    Granted,
    /// This count has none; nothing was taken.
    Exceeded(String),
}

/// Counts in memory, for hosts without a store: they begin anew with the process.
#[derive(Debug, Default)]
pub struct MemoryCallDays {
    // Nothing awaits under this lock.
    days: Mutex<Days>,
}

#[derive(Debug, Default)]
struct Days {
    counts: BTreeMap<String, Counted>,
    /// The day of the last call.
    today: u64,
    /// What calls of the last two days took.
    calls: HashMap<Uuid, (u64, Vec<String>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    day: u64,
    calls: u64,
}

/// The number of a day since 1970, by UTC.
pub fn day_of(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY.as_secs()
}

/// How long until the next day begins.
pub fn until_next_day(at: SystemTime) -> Duration {
    let next = DAY.saturating_mul(u32::try_from(day_of(at) + 1).unwrap_or(u32::MAX));
    next.saturating_sub(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

// === impl MemoryCallDays ===

impl CallDays for MemoryCallDays {
    fn take(&self, wanted: DayUse) -> BoxFuture<'static, Result<DayTaken, RecordsError>> {
        let taken = self.days.lock().take(wanted);
        Box::pin(async move { Ok(taken) })
    }

    fn give_back(&self, call: Uuid) {
        self.days.lock().give_back(call);
    }

    fn used(&self, at: SystemTime) -> BoxFuture<'static, Result<BTreeMap<String, u64>, RecordsError>> {
        let day = day_of(at);
        let days = self.days.lock();
        let of_day = days.counts.iter().filter(|(_, counted)| counted.day == day && 0 < counted.calls);
        let used = of_day.map(|(key, counted)| (key.clone(), counted.calls)).collect();
        Box::pin(async move { Ok(used) })
    }
}

impl Days {
    fn take(&mut self, wanted: DayUse) -> DayTaken {
        let day = day_of(wanted.at);
        if self.calls.contains_key(&wanted.call) {
            return DayTaken::Granted;
        }
        if self.today != day {
            self.today = day;
            self.calls.retain(|_, (of, _)| day <= of.saturating_add(1));
        }
        for DayCount { key, most } in &wanted.counts {
            if u64::from(*most) <= self.calls_on(key, day) {
                return DayTaken::Exceeded(key.clone());
            }
        }
        for DayCount { key, .. } in &wanted.counts {
            let calls = self.calls_on(key, day) + 1;
            self.counts.insert(key.clone(), Counted { day, calls });
        }
        self.calls.insert(wanted.call, (day, wanted.counts.into_iter().map(|count| count.key).collect()));
        DayTaken::Granted
    }

    fn give_back(&mut self, call: Uuid) {
        let Some((day, keys)) = self.calls.remove(&call) else { return };
        for key in keys {
            if let Some(counted) = self.counts.get_mut(&key).filter(|counted| counted.day == day) {
                counted.calls = counted.calls.saturating_sub(1);
            }
        }
    }

    fn calls_on(&self, key: &str, day: u64) -> u64 {
        self.counts.get(key).filter(|counted| counted.day == day).map_or(0, |counted| counted.calls)
    }
}
