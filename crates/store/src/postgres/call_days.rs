//! Calls of each day against limits: exact for all processes that use one database, under an advisory lock of the transaction.

use std::{collections::BTreeMap, time::SystemTime};

use toolway_host::policy::{DayTaken, DayUse};
use uuid::Uuid;

use super::{
    batch::Filling,
    pipeline::{Value, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    call_days::{day_number, taken},
};

/// Notes the call at each of its counts and counts it, if all have room and it has taken nothing before: all or none.
const TAKE: &str = "\
    WITH wanted AS (SELECT * FROM unnest($3::text[], $4::bigint[]) AS wanted (count, most)), \
    taken AS (\
        INSERT INTO call_day_uses (call, count, day) SELECT $1, count, $2 FROM wanted \
        WHERE NOT EXISTS (SELECT 1 FROM call_day_uses WHERE call = $1) AND NOT EXISTS ( \
            SELECT 1 FROM wanted AS every JOIN call_days ON call_days.count = every.count AND call_days.day = $2 \
            WHERE call_days.calls >= every.most) \
        RETURNING count, day) \
    INSERT INTO call_days (count, day, calls) SELECT count, day, 1 FROM taken \
    ON CONFLICT (count, day) DO UPDATE SET calls = call_days.calls + 1";

const GIVE_BACK: &str = "\
    WITH used AS (DELETE FROM call_day_uses WHERE call = $1 RETURNING count, day) \
    UPDATE call_days SET calls = calls - 1 FROM used \
    WHERE 0 < call_days.calls AND used.count = call_days.count AND used.day = call_days.day";

/// Takes a call, if there is room.
pub(super) async fn take<'a>(filling: &mut Filling<'a>, wanted: &'a DayUse) -> Result<(), StoreError> {
    let day = day_number(wanted.at);
    // What can no longer be given back: a call of that day would have run for a whole day.
    filling.send("DELETE FROM call_day_uses WHERE day < $1", vec![Box::new(day - 1)]).await?;
    let keys: Vec<String> = wanted.counts.iter().map(|count| text(&count.key).into_owned()).collect();
    let most: Vec<i64> = wanted.counts.iter().map(|count| i64::from(count.most)).collect();
    let values: Vec<Value<'a>> = vec![Box::new(wanted.call), Box::new(day), Box::new(keys), Box::new(most)];
    filling.send(TAKE, values).await
}

/// Gives back what a call took.
pub(super) async fn give_back(filling: &mut Filling<'_>, call: Uuid) -> Result<(), StoreError> {
    filling.send(GIVE_BACK, vec![Box::new(call)]).await
}

impl PostgresReader {
    pub(crate) async fn day_taken(&self, wanted: &DayUse) -> Result<DayTaken, StoreError> {
        let rows = self.rows("SELECT 1 FROM call_day_uses WHERE call = $1 LIMIT 1", &[Box::new(wanted.call)]).await?;
        if !rows.is_empty() {
            return Ok(DayTaken::Granted);
        }
        Ok(taken(wanted, &self.calls_of_day(wanted.at).await?))
    }

    pub(crate) async fn calls_of_day(&self, at: SystemTime) -> Result<BTreeMap<String, u64>, StoreError> {
        let sql = "SELECT count, calls FROM call_days WHERE day = $1 AND 0 < calls";
        let rows = self.rows(sql, &[Box::new(day_number(at))]).await?;
        let used = |row: &tokio_postgres::Row| {
            let calls: i64 = row.try_get(1)?;
            Ok((row.try_get(0)?, u64::try_from(calls).unwrap_or_default()))
        };
        rows.iter().map(used).collect()
    }
}
