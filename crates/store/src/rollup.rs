//! Per-minute counts and latency histograms, so that plots need not read calls.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params_from_iter, types::Value};

use crate::{
    Reader, StoreError,
    calls::{CallRow, CallState},
    time::Micros,
};

/// Buckets of a latency histogram.
pub const BUCKETS: usize = 16;

/// Upper bounds of the buckets in microseconds: 100 µs, doubled or so up to 1 minute; the last bucket has no bound.
pub const BOUNDS: [i64; BUCKETS - 1] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000, 15_000_000,
    60_000_000,
];

const MINUTE: i64 = 60_000_000;

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
pub struct RollupKey {
    /// Start of the minute.
    pub minute: Micros,
    /// Server name, empty if none was found.
    pub server: String,
    /// Public tool name, empty for other kinds.
    pub tool: String,
    /// `kind[:name]` of the caller.
    pub caller: String,
    /// State in which they ended.
    pub state: String,
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
#[derive(Debug, Default)]
pub(crate) struct Pending(BTreeMap<RollupKey, Rollup>);

impl Pending {
    pub(crate) fn count(&mut self, call: &CallRow) {
        let Some(duration) = call.duration else { return };
        let key = RollupKey {
            minute: call.started_at.saturating_add(duration) / MINUTE * MINUTE,
            server: call.server.clone().unwrap_or_default(),
            tool: call.tool.clone().unwrap_or_default(),
            caller: call.caller.clone(),
            state: call.state.as_str().to_owned(),
        };
        self.0.entry(key).or_default().count(duration);
    }

    pub(crate) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let sums: Vec<String> = (0..BUCKETS).map(|b| format!("b{b} = b{b} + excluded.b{b}")).collect();
        let mut statement = connection.prepare_cached(&format!(
            "INSERT INTO rollups VALUES ({}) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, \
             duration = duration + excluded.duration, {}",
            vec!["?"; 7 + BUCKETS].join(", "),
            sums.join(", ")
        ))?;
        for (key, rollup) in &self.0 {
            let mut values: Vec<Value> = vec![key.minute.into()];
            values.extend([&key.server, &key.tool, &key.caller, &key.state].map(|text| Value::from(text.clone())));
            values.extend([rollup.calls, rollup.duration].map(Value::from));
            values.extend(rollup.buckets.map(Value::from));
            statement.execute(params_from_iter(values))?;
        }
        Ok(())
    }
}

impl Reader {
    /// Rollups that match, oldest first.
    pub fn rollups(&self, filter: &RollupFilter) -> Result<Vec<(RollupKey, Rollup)>, StoreError> {
        let mut conditions = vec!["minute >= ?"];
        let mut values: Vec<Value> = vec![(filter.since / MINUTE * MINUTE).into()];
        for (condition, value) in
            [("server = ?", &filter.server), ("tool = ?", &filter.tool), ("caller = ?", &filter.caller)]
        {
            if let Some(value) = value {
                conditions.push(condition);
                values.push(value.clone().into());
            }
        }
        let sql = format!("SELECT * FROM rollups WHERE {} ORDER BY minute", conditions.join(" AND "));
        self.rows(&sql, params_from_iter(values), row)
    }

    /// Statistics by tool, busiest first.
    pub fn stats(&self, filter: &RollupFilter) -> Result<Vec<ToolStats>, StoreError> {
        let mut tools: BTreeMap<(String, String), ToolStats> = BTreeMap::new();
        for (key, rollup) in self.rollups(filter)? {
            let stats = tools.entry((key.server.clone(), key.tool.clone())).or_insert_with(|| ToolStats {
                server: key.server,
                tool: key.tool,
                total: Rollup::default(),
                unsuccessful: 0,
            });
            stats.total.add(&rollup);
            if key.state != CallState::Succeeded.as_str() {
                stats.unsuccessful += rollup.calls;
            }
        }
        let mut stats: Vec<_> = tools.into_values().collect();
        stats.sort_by_key(|stats| std::cmp::Reverse(stats.total.calls));
        Ok(stats)
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<(RollupKey, Rollup)> {
    let key = RollupKey {
        minute: row.get(0)?,
        server: row.get(1)?,
        tool: row.get(2)?,
        caller: row.get(3)?,
        state: row.get(4)?,
    };
    let mut rollup = Rollup { calls: row.get(5)?, duration: row.get(6)?, ..Rollup::default() };
    for (index, bucket) in rollup.buckets.iter_mut().enumerate() {
        *bucket = row.get(7 + index)?;
    }
    Ok((key, rollup))
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
