//! Counts and latency histograms per minute and per hour, so that statistics need not read calls.

use super::{
    batch::Filling,
    pipeline::{Conditions, Value, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    rollup::{BUCKETS, Pending, Rollup, RollupFilter, RollupKey, Span, ToolStats},
};

/// Adds the counts of a batch to those of both tables.
pub(super) async fn write(filling: &mut Filling<'_>, pending: &Pending<'_>) -> Result<(), StoreError> {
    for (key, rollup) in pending.counts() {
        filling.send(&upsert(Span::Minute), values(key, rollup)).await?;
    }
    for (key, rollup) in &pending.by_hour() {
        filling.send(&upsert(Span::Hour), values(key, rollup)).await?;
    }
    Ok(())
}

fn values(key: &RollupKey<'_>, rollup: &Rollup) -> Vec<Value<'static>> {
    let mut values: Vec<Value<'static>> = vec![Box::new(key.minute)];
    let texts = [&*key.server, &*key.tool, &*key.caller, key.state];
    texts.into_iter().for_each(|value| values.push(Box::new(text(value).into_owned())));
    let numbers = [rollup.calls, rollup.duration].into_iter().chain(rollup.buckets);
    numbers.for_each(|number| values.push(Box::new(number)));
    values
}

fn upsert(span: Span) -> String {
    let marks: Vec<String> = (1..=7 + BUCKETS).map(|mark| format!("${mark}")).collect();
    let columns = ["calls", "duration"].into_iter().map(str::to_owned).chain((0..BUCKETS).map(|b| format!("b{b}")));
    let sums: Vec<String> = columns.map(|column| format!("{column} = kept.{column} + excluded.{column}")).collect();
    format!(
        "INSERT INTO {} AS kept VALUES ({}) ON CONFLICT (minute, server, tool, caller, state) DO UPDATE SET {}",
        span.table(),
        marks.join(", "),
        sums.join(", ")
    )
}

impl PostgresReader {
    pub(crate) async fn stats(&self, filter: &RollupFilter) -> Result<Vec<ToolStats>, StoreError> {
        let since = Span::Minute.start_of(filter.since);
        // The first hour may have begun before `since`.
        let whole = Span::Hour.first_within(since);
        let mut conditions = Conditions::default();
        let texts = [("server = ?", &filter.server), ("tool = ?", &filter.tool), ("caller = ?", &filter.caller)];
        texts.into_iter().filter_map(|(term, value)| Some((term, value.as_deref()?))).for_each(|(term, value)| {
            conditions.add(term, text(value));
        });
        let since = conditions.mark(since);
        let whole = conditions.mark(whole);
        let matches = conditions.sql();
        let buckets: Vec<String> = (0..BUCKETS).map(|b| format!("sum(b{b})::bigint")).collect();
        let sql = format!(
            "SELECT server, tool, sum(CASE state WHEN 'succeeded' THEN 0 ELSE calls END)::bigint, sum(calls)::bigint, \
             sum(duration)::bigint, {} FROM (\
             SELECT * FROM rollups WHERE minute >= {since} AND minute < {whole} AND {matches} UNION ALL \
             SELECT * FROM rollups_hourly WHERE minute >= {whole} AND {matches}) AS counted \
             GROUP BY server, tool ORDER BY sum(calls) DESC, server, tool",
            buckets.join(", ")
        );
        let rows = self.rows(&sql, &conditions.values).await?;
        let stats = rows.iter().map(|row| {
            let mut total = Rollup { calls: row.try_get(3)?, duration: row.try_get(4)?, ..Rollup::default() };
            for (index, bucket) in total.buckets.iter_mut().enumerate() {
                *bucket = row.try_get(5 + index)?;
            }
            Ok(ToolStats { server: row.try_get(0)?, tool: row.try_get(1)?, unsuccessful: row.try_get(2)?, total })
        });
        stats.collect()
    }
}
