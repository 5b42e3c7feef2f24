//! Answers of models to requests of servers: reserved, settled, and counted against quotas.

use std::time::Duration;

use rusqlite::{Connection, Row, ToSql, named_params};
pub use toolway_host::record::SamplingRow;
use toolway_host::sampling::{
    SamplingEnd, SamplingQuotas, SamplingUse,
    quota::{DAY, HOUR, LevelQuota, QuotaExceeded, QuotaLeft, QuotaLevel, QuotaLimit, Reservation},
};
use uuid::Uuid;

use crate::{
    SqliteReader, StoreError,
    time::{self, Micros},
};

/// A reservation to write.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    pub(crate) wanted: SamplingUse,
    pub(crate) quotas: SamplingQuotas,
}

impl Reserve {
    /// What became of a reservation, from what the levels with a quota count after it.
    pub(crate) fn became(&self, is_granted: bool, counted: &[(Counted, LevelQuota)]) -> Reservation {
        let Self { wanted, quotas } = self;
        let mut left = Vec::new();
        for (counted, quota) in counted {
            if let (false, Some(exceeded)) = (is_granted, counted.exceeded(*quota, wanted.tokens)) {
                return Reservation::Exceeded(exceeded);
            }
            left.push(counted.left(*quota));
        }
        if is_granted {
            return Reservation::Granted(left);
        }
        // There was no room when it was written, and there is now.
        let limited = quotas.levels().into_iter().find(|(_, quota)| *quota != LevelQuota::default());
        let (level, quota) = limited.unwrap_or((QuotaLevel::Top, LevelQuota::default()));
        let limit = match (quota.requests_per_hour, quota.tokens_per_day) {
            (Some(requests), _) => QuotaLimit::RequestsPerHour(requests),
            (None, tokens) => QuotaLimit::TokensPerDay(tokens.unwrap_or_default()),
        };
        Reservation::Exceeded(QuotaExceeded { level, limit, ends_at: Some(time::system_time(time::now())) })
    }
}

/// Adds the request if every quota has room for it. One statement, so that no other process counts in between; a moment in
/// the future, by a clock that was set back, counts too.
const RESERVE: &str = "\
    INSERT INTO sampling (id, at, call, server, caller, model, reason, tokens) \
    SELECT :id, :at, :call, :server, :caller, :model, :reason, :tokens WHERE \
        (:top_requests IS NULL OR \
            (SELECT count(*) FROM sampling WHERE at > :hour) < :top_requests) AND \
        (:top_tokens IS NULL OR \
            (SELECT coalesce(sum(tokens), 0) FROM sampling WHERE at > :day) + :tokens <= :top_tokens) AND \
        (:server_requests IS NULL OR \
            (SELECT count(*) FROM sampling WHERE at > :hour AND server = :server) < :server_requests) AND \
        (:server_tokens IS NULL OR \
            (SELECT coalesce(sum(tokens), 0) FROM sampling WHERE at > :day AND server = :server) + :tokens \
                <= :server_tokens) AND \
        (:client_requests IS NULL OR \
            (SELECT count(*) FROM sampling WHERE at > :hour AND caller = :caller) < :client_requests) AND \
        (:client_tokens IS NULL OR \
            (SELECT coalesce(sum(tokens), 0) FROM sampling WHERE at > :day AND caller = :caller) + :tokens \
                <= :client_tokens)";

/// Writes a reservation, if there is room.
pub(crate) fn reserve(connection: &Connection, reserve: &Reserve) -> Result<(), StoreError> {
    let Reserve { wanted, quotas } = reserve;
    let at = time::micros(wanted.at);
    connection.prepare_cached(RESERVE)?.execute(named_params! {
        ":id": wanted.id,
        ":at": at,
        ":call": wanted.call.map(|call| call.uuid()),
        ":server": wanted.server.as_str(),
        ":caller": wanted.caller,
        ":model": wanted.model,
        ":reason": wanted.reason,
        ":tokens": tokens(wanted.tokens),
        ":hour": before(at, HOUR),
        ":day": before(at, DAY),
        ":top_requests": quotas.top.requests_per_hour,
        ":top_tokens": quotas.top.tokens_per_day,
        ":server_requests": quotas.server.requests_per_hour,
        ":server_tokens": quotas.server.tokens_per_day,
        ":client_requests": quotas.client.requests_per_hour,
        ":client_tokens": quotas.client.tokens_per_day,
    })?;
    Ok(())
}

/// Ends a reservation.
pub(crate) fn settle(connection: &Connection, id: Uuid, end: &SamplingEnd) -> Result<(), StoreError> {
    match end {
        SamplingEnd::NotSent => connection.prepare_cached("DELETE FROM sampling WHERE id = ?")?.execute([id])?,
        SamplingEnd::Sent { tokens: used, outcome } => {
            let (input, output) = used.map(|used| (tokens(used.input), tokens(used.output))).unzip();
            let sum = input.zip(output).map(|(input, output)| input.saturating_add(output));
            let update = "UPDATE sampling SET tokens = coalesce(:sum, tokens), input_tokens = :input, \
                          output_tokens = :output, outcome = :outcome WHERE id = :id";
            connection.prepare_cached(update)?.execute(named_params! {
                ":sum": sum, ":input": input, ":output": output, ":outcome": outcome, ":id": id,
            })?
        }
    };
    Ok(())
}

/// Removes what counts no more and belongs to no call that is kept.
pub(crate) fn prune(connection: &Connection, before: Micros) -> Result<(), StoreError> {
    let remove = "DELETE FROM sampling WHERE at < ? AND (call IS NULL OR call NOT IN (SELECT id FROM calls))";
    connection.prepare_cached(remove)?.execute([before.min(self::before(time::now(), DAY))])?;
    Ok(())
}

impl SqliteReader {
    /// What became of a reservation: what is left after it, or which quota had no room.
    pub(crate) fn reservation(&self, reserve: &Reserve) -> Result<Reservation, StoreError> {
        let Reserve { wanted, quotas } = reserve;
        let exists = "SELECT EXISTS (SELECT 1 FROM sampling WHERE id = ?)";
        let is_granted = self.connection.query_row(exists, [wanted.id], |row| row.get(0))?;
        let levels = quotas.levels().into_iter().filter(|(_, quota)| *quota != LevelQuota::default());
        let counted: Result<Vec<_>, StoreError> =
            levels.map(|(level, quota)| Ok((Counted::read(self, level, wanted)?, quota))).collect();
        Ok(reserve.became(is_granted, &counted?))
    }

    /// What models answered in a call, oldest first.
    pub fn sampling_of(&self, call: Uuid) -> Result<Vec<SamplingRow>, StoreError> {
        let query = "SELECT id, at, server, model, reason, tokens, input_tokens, output_tokens, outcome \
                     FROM sampling WHERE call = ? ORDER BY id";
        self.rows(query, [call], row)
    }
}

/// The requests that a level counts, oldest first: time and tokens.
pub(crate) struct Counted {
    pub(crate) level: QuotaLevel,
    /// When the window of the last request begins.
    pub(crate) at: Micros,
    pub(crate) rows: Vec<CountedUse>,
}

pub(crate) struct CountedUse {
    pub(crate) at: Micros,
    pub(crate) tokens: i64,
}

impl Counted {
    fn read(reader: &SqliteReader, level: QuotaLevel, wanted: &SamplingUse) -> Result<Self, StoreError> {
        let at = time::micros(wanted.at);
        let day = before(at, DAY);
        let server = wanted.server.as_str();
        let (of_level, key): (_, &dyn ToSql) = match level {
            QuotaLevel::Top => ("?2 IS NOT NULL", &""),
            QuotaLevel::Server => ("server = ?2", &server),
            QuotaLevel::Client => ("caller = ?2", &wanted.caller),
        };
        let query = format!("SELECT at, tokens FROM sampling WHERE at > ?1 AND {of_level} ORDER BY at");
        let counted = |row: &Row<'_>| Ok(CountedUse { at: row.get(0)?, tokens: row.get(1)? });
        let rows = reader.rows(&query, rusqlite::params![day, key], counted)?;
        Ok(Self { level, at, rows })
    }

    fn of_hour(&self) -> impl DoubleEndedIterator<Item = &CountedUse> {
        let hour = before(self.at, HOUR);
        self.rows.iter().filter(move |used| hour < used.at)
    }

    fn tokens(&self) -> i64 {
        self.rows.iter().map(|used| used.tokens).sum()
    }

    fn left(&self, quota: LevelQuota) -> QuotaLeft {
        let requests =
            quota.requests_per_hour.map(|most| u64::from(most).saturating_sub(self.of_hour().count() as u64));
        let used = u64::try_from(self.tokens()).unwrap_or_default();
        QuotaLeft {
            level: self.level,
            requests,
            tokens: quota.tokens_per_day.map(|most| u64::from(most).saturating_sub(used)),
        }
    }

    /// The quota without room for a request of so many tokens, and when it has some.
    fn exceeded(&self, quota: LevelQuota, wanted: u64) -> Option<QuotaExceeded> {
        if let Some(most) = quota.requests_per_hour.filter(|most| *most as usize <= self.of_hour().count()) {
            // The request that has to leave the hour.
            let last = self.of_hour().rev().nth(most.saturating_sub(1) as usize);
            let ends_at = last.map(|used| time::system_time(used.at) + HOUR);
            return Some(QuotaExceeded { level: self.level, limit: QuotaLimit::RequestsPerHour(most), ends_at });
        }
        let most = quota.tokens_per_day?;
        let wanted = tokens(wanted);
        let mut sum = self.tokens();
        if sum.saturating_add(wanted) <= i64::from(most) {
            return None;
        }
        let leaves_room = |used: &&CountedUse| {
            sum -= used.tokens;
            sum.saturating_add(wanted) <= i64::from(most)
        };
        let ends_at = self.rows.iter().find(leaves_room).map(|used| time::system_time(used.at) + DAY);
        Some(QuotaExceeded { level: self.level, limit: QuotaLimit::TokensPerDay(most), ends_at })
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<SamplingRow> {
    Ok(SamplingRow {
        id: row.get(0)?,
        at: row.get(1)?,
        server: row.get(2)?,
        model: row.get(3)?,
        reason: row.get(4)?,
        tokens: row.get(5)?,
        input_tokens: row.get(6)?,
        output_tokens: row.get(7)?,
        outcome: row.get(8)?,
    })
}

pub(crate) fn before(at: Micros, window: Duration) -> Micros {
    at.saturating_sub(time::duration(window))
}

pub(crate) fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
