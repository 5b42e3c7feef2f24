//! Answers of models to requests of servers: reserved under an advisory lock of the transaction, settled, and counted.

use tokio_postgres::Row;
use toolway_host::sampling::{
    SamplingEnd, SamplingUse,
    quota::{DAY, HOUR, LevelQuota, QuotaLevel, Reservation},
};
use uuid::Uuid;

use super::{
    batch::Filling,
    pipeline::{Value, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    sampling::{Counted, CountedUse, Reserve, SamplingRow, before, tokens},
    time,
};

/// Adds the request if every quota has room for it; a moment in the future, by a clock that was set back, counts too.
const RESERVE: &str = "\
    INSERT INTO sampling (id, at, call, server, caller, model, reason, tokens) \
    SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE \
        ($11::bigint IS NULL OR (SELECT count(*) FROM sampling WHERE at > $9) < $11) AND \
        ($12::bigint IS NULL OR (SELECT coalesce(sum(tokens), 0)::bigint FROM sampling WHERE at > $10) + $8 <= $12) AND \
        ($13::bigint IS NULL OR (SELECT count(*) FROM sampling WHERE at > $9 AND server = $4) < $13) AND \
        ($14::bigint IS NULL OR \
            (SELECT coalesce(sum(tokens), 0)::bigint FROM sampling WHERE at > $10 AND server = $4) + $8 <= $14) AND \
        ($15::bigint IS NULL OR (SELECT count(*) FROM sampling WHERE at > $9 AND caller = $5) < $15) AND \
        ($16::bigint IS NULL OR \
            (SELECT coalesce(sum(tokens), 0)::bigint FROM sampling WHERE at > $10 AND caller = $5) + $8 <= $16)";

/// Writes a reservation, if there is room.
pub(super) async fn reserve<'a>(filling: &mut Filling<'a>, reserve: &'a Reserve) -> Result<(), StoreError> {
    let Reserve { wanted, quotas } = reserve;
    let at = time::micros(wanted.at);
    let most = |limit: Option<u32>| Box::new(limit.map(i64::from));
    let values: Vec<Value<'a>> = vec![
        Box::new(wanted.id),
        Box::new(at),
        Box::new(wanted.call.map(|call| call.uuid())),
        Box::new(wanted.server.as_str()),
        Box::new(text(&wanted.caller)),
        Box::new(text(&wanted.model)),
        Box::new(text(&wanted.reason)),
        Box::new(tokens(wanted.tokens)),
        Box::new(before(at, HOUR)),
        Box::new(before(at, DAY)),
        most(quotas.top.requests_per_hour),
        most(quotas.top.tokens_per_day),
        most(quotas.server.requests_per_hour),
        most(quotas.server.tokens_per_day),
        most(quotas.client.requests_per_hour),
        most(quotas.client.tokens_per_day),
    ];
    filling.send(RESERVE, values).await
}

/// Ends a reservation.
pub(super) async fn settle<'a>(filling: &mut Filling<'a>, id: Uuid, end: &'a SamplingEnd) -> Result<(), StoreError> {
    let SamplingEnd::Sent { tokens: used, outcome } = end else {
        return filling.send("DELETE FROM sampling WHERE id = $1", vec![Box::new(id)]).await;
    };
    let (input, output) = used.map(|used| (tokens(used.input), tokens(used.output))).unzip();
    let sum = input.zip(output).map(|(input, output)| input.saturating_add(output));
    let sql = "UPDATE sampling SET tokens = coalesce($1, tokens), input_tokens = $2, output_tokens = $3, outcome = $4 \
               WHERE id = $5";
    let values: Vec<Value<'a>> =
        vec![Box::new(sum), Box::new(input), Box::new(output), Box::new(text(outcome)), Box::new(id)];
    filling.send(sql, values).await
}

impl PostgresReader {
    pub(crate) async fn reservation(&self, reserve: &Reserve) -> Result<Reservation, StoreError> {
        let rows = self.rows("SELECT 1 FROM sampling WHERE id = $1", &[Box::new(reserve.wanted.id)]).await?;
        let mut counted = Vec::new();
        for (level, quota) in reserve.quotas.levels() {
            if quota != LevelQuota::default() {
                counted.push((self.counted(level, &reserve.wanted).await?, quota));
            }
        }
        Ok(reserve.became(!rows.is_empty(), &counted))
    }

    async fn counted(&self, level: QuotaLevel, wanted: &SamplingUse) -> Result<Counted, StoreError> {
        let at = time::micros(wanted.at);
        let (of_level, key) = match level {
            QuotaLevel::Top => ("$2::text IS NOT NULL", ""),
            QuotaLevel::Server => ("server = $2", wanted.server.as_str()),
            QuotaLevel::Client => ("caller = $2", wanted.caller.as_str()),
        };
        let sql = format!("SELECT at, tokens FROM sampling WHERE at > $1 AND {of_level} ORDER BY at");
        let rows = self.rows(&sql, &[Box::new(before(at, DAY)), Box::new(text(key))]).await?;
        let counted = |row: &Row| Ok(CountedUse { at: row.try_get(0)?, tokens: row.try_get(1)? });
        let rows: Result<Vec<_>, StoreError> = rows.iter().map(counted).collect();
        Ok(Counted { level, at, rows: rows? })
    }

    pub(crate) async fn sampling_of(&self, call: Uuid) -> Result<Vec<SamplingRow>, StoreError> {
        let sql = "SELECT id, at, server, model, reason, tokens, input_tokens, output_tokens, outcome \
                   FROM sampling WHERE call = $1 ORDER BY id";
        self.rows(sql, &[Box::new(call)]).await?.iter().map(row).collect()
    }
}

fn row(row: &Row) -> Result<SamplingRow, StoreError> {
    Ok(SamplingRow {
        id: row.try_get(0)?,
        at: row.try_get(1)?,
        server: row.try_get(2)?,
        model: row.try_get(3)?,
        reason: row.try_get(4)?,
        tokens: row.try_get(5)?,
        input_tokens: row.try_get(6)?,
        output_tokens: row.try_get(7)?,
        outcome: row.try_get(8)?,
    })
}
