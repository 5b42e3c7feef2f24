//! Calls of each day against limits: exact for all processes that use one file, also if one is killed.
//!
//! A call takes from all its counts in one statement, or from none. What it took is kept by call until the next day has ended:
//! a call that is not sent gives it back to the day from which it took it.

use std::{collections::BTreeMap, time::SystemTime};

use rusqlite::{Connection, named_params};
use toolway_host::policy::{DayCount, DayTaken, DayUse, limit::days::day_of};
use uuid::Uuid;

use crate::{SqliteReader, StoreError};

/// Notes the call at each of its counts, if all have room and it has taken nothing before. One statement, so that no other
/// process counts in between. The condition is the same for every row: all or none.
const TAKE: &str = "\
    INSERT INTO call_day_uses (call, count, day) \
    SELECT :call, wanted.value ->> 'count', :day FROM json_each(:counts) AS wanted \
    WHERE NOT EXISTS (SELECT 1 FROM call_day_uses WHERE call = :call) AND NOT EXISTS ( \
        SELECT 1 FROM json_each(:counts) AS every \
        JOIN call_days ON call_days.count = every.value ->> 'count' AND call_days.day = :day \
        WHERE call_days.calls >= every.value ->> 'most')";
/// Counts what was noted. In the transaction of [`TAKE`].
const COUNT: &str = "\
    INSERT INTO call_days (count, day, calls) SELECT count, day, 1 FROM call_day_uses WHERE call = ? \
    ON CONFLICT (count, day) DO UPDATE SET calls = calls + 1";
const UNCOUNT: &str = "\
    UPDATE call_days SET calls = calls - 1 WHERE 0 < calls AND EXISTS ( \
        SELECT 1 FROM call_day_uses AS used \
        WHERE used.call = ? AND used.count = call_days.count AND used.day = call_days.day)";

/// Takes a call, if there is room.
pub(crate) fn take(connection: &Connection, wanted: &DayUse) -> Result<(), StoreError> {
    let day = day_number(wanted.at);
    // What can no longer be given back: a call of that day would have run for a whole day.
    connection.prepare_cached("DELETE FROM call_day_uses WHERE day < ?")?.execute([day - 1])?;
    let taken = connection.prepare_cached(TAKE)?.execute(named_params! {
        ":call": wanted.call,
        ":day": day,
        ":counts": counts(wanted),
    })?;
    if 0 < taken {
        connection.prepare_cached(COUNT)?.execute([wanted.call])?;
    }
    Ok(())
}

/// Gives back what a call took.
pub(crate) fn give_back(connection: &Connection, call: Uuid) -> Result<(), StoreError> {
    connection.prepare_cached(UNCOUNT)?.execute([call])?;
    connection.prepare_cached("DELETE FROM call_day_uses WHERE call = ?")?.execute([call])?;
    Ok(())
}

/// Removes the counts of days that have ended.
pub(crate) fn prune(connection: &Connection, now: SystemTime) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM call_days WHERE day < ?")?.execute([day_number(now) - 1])?;
    Ok(())
}

impl SqliteReader {
    /// What became of a call that was to be taken.
    pub(crate) fn day_taken(&self, wanted: &DayUse) -> Result<DayTaken, StoreError> {
        let exists = "SELECT EXISTS (SELECT 1 FROM call_day_uses WHERE call = ?)";
        if self.connection.query_row(exists, [wanted.call], |row| row.get(0))? {
            return Ok(DayTaken::Granted);
        }
        Ok(taken(wanted, &self.calls_of_day(wanted.at)?))
    }

    /// Calls of the day at `at`, by count.
    pub fn calls_of_day(&self, at: SystemTime) -> Result<BTreeMap<String, u64>, StoreError> {
        let query = "SELECT count, calls FROM call_days WHERE day = ? AND 0 < calls";
        let rows = self.rows(query, [day_number(at)], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
        Ok(rows.into_iter().map(|(count, calls)| (count, u64::try_from(calls).unwrap_or_default())).collect())
    }
}

/// What became of a call that took nothing.
pub(crate) fn taken(wanted: &DayUse, used: &BTreeMap<String, u64>) -> DayTaken {
    let is_full = |count: &&DayCount| used.get(&count.key).is_some_and(|calls| u64::from(count.most) <= *calls);
    // There was no room when it was written, and there may be now: it is refused all the same.
    let full = wanted.counts.iter().find(is_full).or(wanted.counts.first());
    full.map_or(DayTaken::Granted, |count| DayTaken::Exceeded(count.key.clone()))
}

fn counts(wanted: &DayUse) -> String {
    let counts = wanted.counts.iter().map(|count| serde_json::json!({ "count": count.key, "most": count.most }));
    serde_json::Value::Array(counts.collect()).to_string()
}

pub(crate) fn day_number(at: SystemTime) -> i64 {
    i64::try_from(day_of(at)).unwrap_or(i64::MAX)
}
