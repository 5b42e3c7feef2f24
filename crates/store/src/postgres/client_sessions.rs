//! Sessions of clients that any gateway of a cluster rebuilds.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_postgres::Object;
use futures_util::future::{BoxFuture, FutureExt};
use toolway_host::cluster::{
    ClientSessionChanges, ClientSessionLimits, ClientSessionReply, ClientSessionRow, ClientSessionStore,
};
use uuid::Uuid;

use super::{
    database::Database,
    members::session_key,
    pipeline::{self, Value, limit, maybe, text},
};
use crate::{StoreError, time};

/// Idle sessions that the beginning of another one removes.
const IDLE: i64 = 100;

/// The port for rows of sessions.
#[derive(Clone)]
pub(crate) struct PostgresClientSessions {
    database: Arc<Database>,
}

struct Beginning {
    id: Uuid,
    row: ClientSessionRow,
    limits: ClientSessionLimits,
}

struct Changing {
    id: Uuid,
    changes: ClientSessionChanges,
}

/// A session, and how long it may be idle in microseconds.
struct Finding {
    id: Uuid,
    idle: i64,
}

impl PostgresClientSessions {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    fn reply<A: Send + 'static, T: Send + 'static>(
        &self,
        asked: A,
        act: for<'c> fn(&'c Object, A) -> BoxFuture<'c, Result<T, StoreError>>,
    ) -> ClientSessionReply<'static, T> {
        let reply = self.database.transact(asked, act);
        Box::pin(async move { Ok(reply.await?) })
    }
}

impl ClientSessionStore for PostgresClientSessions {
    fn begin(&self, id: Uuid, row: ClientSessionRow, limits: ClientSessionLimits) -> ClientSessionReply<'_, ()> {
        self.reply(Beginning { id, row, limits }, |client, beginning| begin(client, beginning).boxed())
    }

    fn find(&self, id: Uuid, idle: Duration) -> ClientSessionReply<'_, Option<ClientSessionRow>> {
        self.reply(Finding { id, idle: time::duration(idle) }, |client, finding| find(client, finding).boxed())
    }

    fn change(&self, id: Uuid, changes: ClientSessionChanges) -> ClientSessionReply<'_, bool> {
        self.reply(Changing { id, changes }, |client, changing| change(client, changing).boxed())
    }

    fn end(&self, id: Uuid) -> ClientSessionReply<'_, ()> {
        self.reply(id, |client, id| end(client, id).boxed())
    }
}

impl fmt::Debug for PostgresClientSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresClientSessions").field("place", self.database.place()).finish_non_exhaustive()
    }
}

async fn begin(client: &Object, beginning: Beginning) -> Result<(), StoreError> {
    let Beginning { id, row, limits } = beginning;
    let sql = "INSERT INTO client_sessions (id, principal, key, revision, capabilities, log_level, subscriptions, began_at, \
               seen_at) VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), clock_timestamp())";
    let subscriptions: Vec<_> = row.subscriptions.iter().map(|uri| text(uri)).collect();
    let values: Vec<Value<'_>> = vec![
        Box::new(id),
        Box::new(text(&row.principal)),
        Box::new(text(&row.key)),
        Box::new(text(&row.revision)),
        Box::new(text(&row.capabilities)),
        Box::new(maybe(row.log_level.as_deref())),
        Box::new(subscriptions),
    ];
    pipeline::execute(client, sql, values).await?;
    let idle = "DELETE FROM client_sessions WHERE id IN (SELECT id FROM client_sessions \
                WHERE seen_at < clock_timestamp() - $1::bigint * interval '1 microsecond' \
                ORDER BY seen_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id";
    remove(client, idle, &[Box::new(time::duration(limits.idle)), Box::new(IDLE)]).await?;
    let excess = "DELETE FROM client_sessions WHERE id IN (SELECT id FROM client_sessions \
                  WHERE principal = $1 AND id <> $2 ORDER BY seen_at DESC OFFSET $3) RETURNING id";
    let others = limit(limits.per_principal.saturating_sub(1));
    remove(client, excess, &[Box::new(text(&row.principal)), Box::new(id), Box::new(others)]).await
}

async fn find(client: &Object, finding: Finding) -> Result<Option<ClientSessionRow>, StoreError> {
    let sql = "UPDATE client_sessions SET seen_at = clock_timestamp() \
               WHERE id = $1 AND clock_timestamp() - $2::bigint * interval '1 microsecond' < seen_at \
               RETURNING principal, key, revision, capabilities, log_level, subscriptions";
    let rows = pipeline::rows(client, sql, &[Box::new(finding.id), Box::new(finding.idle)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(ClientSessionRow {
        principal: row.try_get(0)?,
        key: row.try_get(1)?,
        revision: row.try_get(2)?,
        capabilities: row.try_get(3)?,
        log_level: row.try_get(4)?,
        subscriptions: row.try_get::<_, Vec<String>>(5)?.into_iter().collect(),
    }))
}

async fn change(client: &Object, changing: Changing) -> Result<bool, StoreError> {
    let ClientSessionChanges { log_level, subscribed, unsubscribed } = &changing.changes;
    let texts = |uris: &[String]| uris.iter().map(|uri| text(uri).into_owned()).collect::<Vec<_>>();
    // What another gateway writes at the same time is kept: the row is read again when it is locked.
    let sql = "UPDATE client_sessions SET seen_at = clock_timestamp(), log_level = coalesce($2, log_level), \
               subscriptions = ARRAY(SELECT unnest(subscriptions || $3) EXCEPT SELECT unnest($4::text[])) WHERE id = $1";
    let values: Vec<Value<'_>> = vec![
        Box::new(changing.id),
        Box::new(maybe(log_level.as_deref())),
        Box::new(texts(subscribed)),
        Box::new(texts(unsubscribed)),
    ];
    Ok(0 < pipeline::execute(client, sql, values).await?)
}

async fn end(client: &Object, id: Uuid) -> Result<(), StoreError> {
    remove(client, "DELETE FROM client_sessions WHERE id = $1 RETURNING id", &[Box::new(id)]).await
}

/// Removes rows, and frees the homes of their sessions.
async fn remove(client: &Object, sql: &str, values: &[Value<'_>]) -> Result<(), StoreError> {
    let rows = pipeline::rows(client, sql, values).await?;
    let keys = rows.iter().map(|row| Ok(session_key(row.try_get(0)?))).collect::<Result<Vec<_>, StoreError>>()?;
    if !keys.is_empty() {
        pipeline::execute(client, "DELETE FROM leases WHERE key = ANY($1)", vec![Box::new(keys)]).await?;
    }
    Ok(())
}
