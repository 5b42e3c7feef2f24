//! Sessions that HTTP servers issued.

use toolway_host::connection::{ClaimedSession, SessionOwner, StoredSession};
use uuid::Uuid;

use super::{
    batch::Filling,
    pipeline::{Value, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    sessions::{FORGOTTEN_AFTER, PER_OWNER, SessionChange},
    time,
};

/// Sessions that no process uses.
const UNUSED: &str = "(sessions.run IS NULL OR sessions.run NOT IN (SELECT id FROM runs WHERE ended_at IS NULL))";

/// Another process has claimed the session, after this one was taken for dead.
const CLAIMED: StoreError = StoreError::NotOwned("another process uses this session");

pub(super) async fn write<'a>(filling: &mut Filling<'a>, change: &'a SessionChange) -> Result<(), StoreError> {
    match change {
        SessionChange::Put { slot, owner, session } => put(filling, *slot, owner, session).await,
        SessionChange::Claim { owner, claim } => take(filling, owner, *claim).await,
        SessionChange::Release(slot) => {
            let sql = "UPDATE sessions SET run = NULL, claim = NULL WHERE slot = $1 AND run = $2";
            let run = filling.run;
            filling.send(sql, vec![Box::new(*slot), Box::new(run)]).await
        }
        SessionChange::Remove(slot) => {
            let sql = format!("DELETE FROM sessions WHERE slot = $1 AND (run = $2 OR {UNUSED})");
            let run = filling.run;
            filling.send(&sql, vec![Box::new(*slot), Box::new(run)]).await
        }
        SessionChange::RemoveCaller(caller) => {
            filling.send("DELETE FROM sessions WHERE caller = $1", vec![Box::new(text(caller))]).await
        }
    }
}

async fn put<'a>(
    filling: &mut Filling<'a>,
    slot: Uuid,
    owner: &'a SessionOwner,
    session: &'a StoredSession,
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO sessions (server, caller, profile, entry, slot, run, claim, updated_at, session_id, revision, \
               hello) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9, $10) ON CONFLICT (slot) DO UPDATE SET \
               run = excluded.run, claim = NULL, updated_at = excluded.updated_at, server = excluded.server, \
               caller = excluded.caller, profile = excluded.profile, entry = excluded.entry, \
               session_id = excluded.session_id, revision = excluded.revision, hello = excluded.hello \
               WHERE sessions.run = excluded.run OR {UNUSED}"
    );
    let run = filling.run;
    let mut values = of_owner(owner);
    values.push(Box::new(text(&owner.entry)));
    values.push(Box::new(slot));
    values.push(Box::new(run));
    values.push(Box::new(time::now()));
    let texts = [&session.id, &session.revision, &session.hello];
    texts.into_iter().for_each(|value| values.push(Box::new(text(value))));
    filling.require(&sql, values, CLAIMED).await?;
    let mut values = of_owner(owner);
    values.push(Box::new(PER_OWNER));
    let excess = "DELETE FROM sessions WHERE server = $1 AND caller = $2 AND profile = $3 AND slot NOT IN \
        (SELECT slot FROM sessions WHERE server = $1 AND caller = $2 AND profile = $3 ORDER BY updated_at DESC LIMIT $4)";
    filling.send(excess, values).await?;
    let forgotten = format!("DELETE FROM sessions WHERE updated_at < $1 AND {UNUSED}");
    filling.send(&forgotten, vec![Box::new(time::now() - FORGOTTEN_AFTER)]).await
}

/// Marks the newest unused session of an owner, and removes unused ones that were issued under another entry. A session that
/// another process is claiming is passed over.
async fn take<'a>(filling: &mut Filling<'a>, owner: &'a SessionOwner, claim: Uuid) -> Result<(), StoreError> {
    let mut values = of_owner(owner);
    values.push(Box::new(text(&owner.entry)));
    let others =
        format!("DELETE FROM sessions WHERE server = $1 AND caller = $2 AND profile = $3 AND entry <> $4 AND {UNUSED}");
    filling.send(&others, values).await?;
    let run = filling.run;
    let mut values = of_owner(owner);
    values.push(Box::new(text(&owner.entry)));
    values.push(Box::new(run));
    values.push(Box::new(claim));
    let mark = format!(
        "UPDATE sessions SET run = $5, claim = $6 WHERE slot = (SELECT slot FROM sessions \
         WHERE server = $1 AND caller = $2 AND profile = $3 AND entry = $4 AND {UNUSED} \
         ORDER BY updated_at DESC LIMIT 1 FOR UPDATE SKIP LOCKED)"
    );
    filling.send(&mark, values).await
}

/// The first three values of statements about the sessions of an owner.
fn of_owner(owner: &SessionOwner) -> Vec<Value<'_>> {
    vec![Box::new(owner.server.as_str()), Box::new(text(&owner.caller)), Box::new(text(&owner.profile))]
}

impl PostgresReader {
    pub(crate) async fn claimed_session(&self, claim: Uuid) -> Result<Option<ClaimedSession>, StoreError> {
        let sql = "SELECT slot, session_id, revision, hello FROM sessions WHERE claim = $1";
        let rows = self.rows(sql, &[Box::new(claim)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let session = StoredSession { id: row.try_get(1)?, revision: row.try_get(2)?, hello: row.try_get(3)? };
        Ok(Some(ClaimedSession { slot: row.try_get(0)?, session }))
    }
}
