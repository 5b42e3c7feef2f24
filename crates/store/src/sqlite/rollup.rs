//! Counts and latency histograms per minute and per hour, so that statistics need not read calls.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use rusqlite::{Connection, Row, params_from_iter, types::Value};

use crate::{SqliteReader, StoreError, calls::CallRow, time::Micros};

/// Buckets of a latency histogram.
pub const BUCKETS: usize = 16;

/// Upper bounds of the buckets in microseconds: 100 µs, doubled or so up to 1 minute; the last bucket has no bound.
pub const BOUNDS: [i64; BUCKETS - 1] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000, 15_000_000,
    60_000_000,
];

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// Length of the spans that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// One minute.
    Minute,
    /// One hour.
    Hour,
}

/// Calls of one kind in one span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Number of calls.
    pub calls: i64,
    /// Sum of their durations in microseconds.
    pub duration: i64,
    /// Calls by duration, see [`BOUNDS`].
    pub buckets: [i64; BUCKETS],
}

/// What the calls of a rollup have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RollupKey<'a> {
    pub(crate) minute: Micros,
    pub(crate) server: Cow<'a, str>,
    pub(crate) tool: Cow<'a, str>,
    pub(crate) caller: Cow<'a, str>,
    pub(crate) state: &'static str,
}

/// Which rollups to return. Absent members match all.
#[derive(Clone, Debug, Default)]
pub struct RollupFilter {
    /// At this time or later.
    pub since: Micros,
    /// Server name.
    pub server: Option<String>,
    /// Public tool name.
    pub tool: Option<String>,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
}

/// One line of statistics: calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolStats {
    /// Server name, empty if none was found.
    pub server: String,
    /// Public tool name, empty for other kinds.
    pub tool: String,
    /// All calls.
    pub total: Rollup,
    /// Calls that ended in another state than `succeeded`.
    pub unsuccessful: i64,
}

impl Rollup {
    /// Counts one call.
    pub(crate) fn count(&mut self, duration: i64) {
        self.calls += 1;
        self.duration = self.duration.saturating_add(duration);
        self.buckets[BOUNDS.partition_point(|bound| *bound < duration)] += 1;
    }

    /// Adds the calls of another rollup.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.duration = self.duration.saturating_add(other.duration);
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
    }

    /// Upper bound in microseconds of the bucket in which the given share (0 to 1) of the calls ends. `None` without
    /// calls, or if that bucket has no bound.
    pub fn quantile(&self, share: f64) -> Option<i64> {
        if self.calls == 0 {
            return None;
        }
        let mut left = share * self.calls as f64;
        let bucket = self.buckets.iter().position(|calls| {
            left -= *calls as f64;
            left <= 0.0
        });
        BOUNDS.get(bucket?).copied()
    }
}

/// The rollups of one batch of writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending<'a>(BTreeMap<RollupKey<'a>, Rollup>);

impl<'a> Pending<'a> {
    pub(crate) fn count(&mut self, call: &'a CallRow) {
        let (Some(duration), Some(ended_at)) = (call.duration, call.ended_at()) else { return };
        let text = |text: &'a Option<String>| Cow::Borrowed(text.as_deref().unwrap_or_default());
        let (server, tool) = (text(&call.server), text(&call.tool));
        let minute = Span::Minute.start_of(ended_at);
        let key = RollupKey { minute, server, tool, caller: Cow::Borrowed(&call.caller), state: call.state.as_str() };
        self.0.entry(key).or_default().count(duration);
    }

    /// Counts a call that is not kept.
    pub(crate) fn count_owned(&mut self, call: CallRow) {
        let (Some(duration), Some(ended_at)) = (call.duration, call.ended_at()) else { return };
        let text = |text: Option<String>| Cow::Owned(text.unwrap_or_default());
        let (server, tool) = (text(call.server), text(call.tool));
        let minute = Span::Minute.start_of(ended_at);
        let key = RollupKey { minute, server, tool, caller: Cow::Owned(call.caller), state: call.state.as_str() };
        self.0.entry(key).or_default().count(duration);
    }

    /// Adds the counts of other writes.
    pub(crate) fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(key, rollup)| self.0.entry(key).or_default().add(&rollup));
    }

    /// Forgets counts of the oldest minutes beyond a number. Returns how many calls are no longer counted.
    pub(crate) fn bound(&mut self, most: usize) -> i64 {
        let mut forgotten = 0;
        while most < self.0.len() {
            forgotten += self.0.pop_first().map_or(0, |(_, rollup)| rollup.calls);
        }
        forgotten
    }

    /// The counts per minute.
    pub(crate) fn counts(&self) -> &BTreeMap<RollupKey<'a>, Rollup> {
        &self.0
    }

    /// The same counts per hour.
    pub(crate) fn by_hour(&self) -> BTreeMap<RollupKey<'a>, Rollup> {
        let mut hours: BTreeMap<RollupKey<'a>, Rollup> = BTreeMap::new();
        for (key, rollup) in &self.0 {
            let hour = RollupKey { minute: Span::Hour.start_of(key.minute), ..key.clone() };
            hours.entry(hour).or_default().add(rollup);
        }
        hours
    }

    pub(crate) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        add(connection, Span::Minute, &self.0)?;
        add(connection, Span::Hour, &self.by_hour())
    }
}

/// Adds counts to those of one table.
fn add(connection: &Connection, span: Span, counts: &BTreeMap<RollupKey<'_>, Rollup>) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(span.upsert())?;
    for (key, rollup) in counts {
        statement.raw_bind_parameter(1, key.minute)?;
        for (index, text) in [&*key.server, &*key.tool, &*key.caller, key.state].into_iter().enumerate() {
            statement.raw_bind_parameter(2 + index, text)?;
        }
        let numbers = [rollup.calls, rollup.duration].into_iter().chain(rollup.buckets);
        for (index, number) in numbers.enumerate() {
            statement.raw_bind_parameter(6 + index, number)?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}

fn upsert_into(table: &str) -> String {
    let marks = vec!["?"; 7 + BUCKETS].join(", ");
    let sums: Vec<String> = (0..BUCKETS).map(|b| format!("b{b} = b{b} + excluded.b{b}")).collect();
    format!(
        "INSERT INTO {table} VALUES ({marks}) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, \
         duration = duration + excluded.duration, {}",
        sums.join(", ")
    )
}

impl Span {
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Minute => "rollups",
            Self::Hour => "rollups_hourly",
        }
    }

    /// The statement that adds counts to those of the table. Every commit uses it, so it is composed once.
    fn upsert(self) -> &'static str {
        static MINUTE: LazyLock<String> = LazyLock::new(|| upsert_into(Span::Minute.table()));
        static HOUR: LazyLock<String> = LazyLock::new(|| upsert_into(Span::Hour.table()));
        match self {
            Self::Minute => &MINUTE,
            Self::Hour => &HOUR,
        }
    }

    /// Start of the first span that begins at a time or later.
    pub(crate) fn first_within(self, since: Micros) -> Micros {
        let length = match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
        };
        self.start_of(since.saturating_add(length - 1))
    }

    /// Start of the span that contains a time.
    pub(crate) fn start_of(self, at: Micros) -> Micros {
        let length = match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
        };
        at.div_euclid(length) * length
    }
}

impl SqliteReader {
    /// Statistics by tool, busiest first. Whole hours are read from the counts of hours.
    pub fn stats(&self, filter: &RollupFilter) -> Result<Vec<ToolStats>, StoreError> {
        let (conditions, values) = filter.conditions();
        let since = Span::Minute.start_of(filter.since);
        // The first hour may have begun before `since`.
        let whole = Span::Hour.first_within(since);
        let sql = format!(
            "SELECT server, tool, {SUMS} FROM (\
             SELECT * FROM rollups WHERE minute >= ? AND minute < ? {conditions} UNION ALL \
             SELECT * FROM rollups_hourly WHERE minute >= ? {conditions}) \
             GROUP BY server, tool ORDER BY sum(calls) DESC, server, tool"
        );
        let first = [Value::from(since), whole.into()].into_iter().chain(values.clone());
        let all = first.chain([whole.into()]).chain(values);
        self.rows(&sql, params_from_iter(all), |row| {
            let (server, tool) = (row.get(0)?, row.get(1)?);
            Ok(ToolStats { server, tool, unsuccessful: row.get(2)?, total: sums(row, 3)? })
        })
    }
}

/// The summed columns, in the order of [`sums`].
const SUMS: &str = "sum(iif(state = 'succeeded', 0, calls)), sum(calls), sum(duration), sum(b0), sum(b1), sum(b2), \
                    sum(b3), sum(b4), sum(b5), sum(b6), sum(b7), sum(b8), sum(b9), sum(b10), sum(b11), sum(b12), \
                    sum(b13), sum(b14), sum(b15)";

impl RollupFilter {
    /// Further conditions, each after an `AND`, and their values.
    fn conditions(&self) -> (String, Vec<Value>) {
        let wanted = [("server", &self.server), ("tool", &self.tool), ("caller", &self.caller)];
        let wanted = wanted.into_iter().filter_map(|(column, value)| Some((column, value.clone()?)));
        let (columns, values): (Vec<_>, Vec<_>) = wanted.unzip();
        let conditions: String = columns.iter().map(|column| format!(" AND {column} = ?")).collect();
        (conditions, values.into_iter().map(Value::from).collect())
    }
}

/// Calls, their duration and their buckets, from the given column on.
fn sums(row: &Row<'_>, first: usize) -> rusqlite::Result<Rollup> {
    let mut rollup = Rollup { calls: row.get(first)?, duration: row.get(first + 1)?, ..Rollup::default() };
    for (index, bucket) in rollup.buckets.iter_mut().enumerate() {
        *bucket = row.get(first + 2 + index)?;
    }
    Ok(rollup)
}

#[cfg(test)]
mod tests {
    use super::Rollup;

    #[test]
    fn quantiles_are_upper_bounds_of_buckets() {
        let mut rollup = Rollup::default();
        assert_eq!(rollup.quantile(0.5), None);
        (0..90).for_each(|_| rollup.count(80));
        (0..10).for_each(|_| rollup.count(4_000));
        assert_eq!(rollup.quantile(0.5), Some(100));
        assert_eq!(rollup.quantile(0.95), Some(5_000));
        rollup.count(3_600_000_000);
        assert_eq!(rollup.quantile(1.0), None);
    }
}
