//! Sessions that HTTP servers issued, as the store of sessions of the host.

use futures_util::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension, Row, params};
use toolway_host::{
    connection::{ClaimedSession, SessionOwner, SessionStore, StoredSession},
    record::RecordsError,
};
use uuid::Uuid;

use crate::{SqliteReader, Store, StoreError, store::Freshness, time};

/// Sessions that are kept of one owner. Further ones were lost with their connections.
pub(crate) const PER_OWNER: i64 = 16;
/// Microseconds after which a session that no process uses is forgotten: 30 days.
pub(crate) const FORGOTTEN_AFTER: i64 = 30 * 24 * 60 * 60 * 1_000_000;

/// A change of the stored sessions.
#[derive(Clone, Debug)]
pub(crate) enum SessionChange {
    Put {
        slot: Uuid,
        owner: SessionOwner,
        session: StoredSession,
    },
    Claim {
        owner: SessionOwner,
        claim: Uuid,
    },
    Release(Uuid),
    Remove(Uuid),
    /// Removes all sessions of a caller.
    RemoveCaller(String),
}

impl SessionChange {
    pub(crate) fn apply(&self, connection: &Connection, run: Uuid) -> Result<(), StoreError> {
        match self {
            Self::Put { slot, owner, session } => put(connection, run, *slot, owner, session)?,
            Self::Claim { owner, claim } => take(connection, run, owner, *claim)?,
            Self::Release(slot) => {
                connection.execute("UPDATE sessions SET run = NULL, claim = NULL WHERE slot = ?", [slot])?;
            }
            Self::Remove(slot) => {
                connection.execute("DELETE FROM sessions WHERE slot = ?", [slot])?;
            }
            Self::RemoveCaller(caller) => {
                connection.execute("DELETE FROM sessions WHERE caller = ?", [caller])?;
            }
        }
        Ok(())
    }

    /// About the bytes that it adds to the database.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put { session, .. } => session.hello.len(),
            _ => 0,
        }
    }
}

fn put(
    connection: &Connection,
    run: Uuid,
    slot: Uuid,
    owner: &SessionOwner,
    session: &StoredSession,
) -> Result<(), StoreError> {
    let SessionOwner { server, caller, profile, entry } = owner;
    connection.execute(
        "INSERT OR REPLACE INTO sessions VALUES (?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            slot,
            run,
            time::now(),
            server.as_str(),
            caller,
            profile,
            entry,
            session.id,
            session.revision,
            session.hello,
        ],
    )?;
    connection.execute(
        "DELETE FROM sessions WHERE server = ?1 AND caller = ?2 AND profile = ?3 AND slot NOT IN \
         (SELECT slot FROM sessions WHERE server = ?1 AND caller = ?2 AND profile = ?3 ORDER BY updated_at DESC LIMIT ?4)",
        params![server.as_str(), caller, profile, PER_OWNER],
    )?;
    connection.execute(
        "DELETE FROM sessions WHERE updated_at < ? AND (run IS NULL OR run NOT IN (SELECT id FROM runs))",
        [time::now() - FORGOTTEN_AFTER],
    )?;
    Ok(())
}

/// Marks the newest unused session of an owner, and removes unused ones that were issued under another entry.
fn take(connection: &Connection, run: Uuid, owner: &SessionOwner, claim: Uuid) -> Result<(), StoreError> {
    let SessionOwner { server, caller, profile, entry } = owner;
    connection.execute(
        "DELETE FROM sessions WHERE server = ? AND caller = ? AND profile = ? AND entry != ? \
         AND (run IS NULL OR run NOT IN (SELECT id FROM runs))",
        params![server.as_str(), caller, profile, entry],
    )?;
    connection.execute(
        "UPDATE sessions SET run = ?1, claim = ?2 WHERE slot = (SELECT slot FROM sessions \
         WHERE server = ?3 AND caller = ?4 AND profile = ?5 AND entry = ?6 \
         AND (run IS NULL OR run NOT IN (SELECT id FROM runs)) ORDER BY updated_at DESC LIMIT 1)",
        params![run, claim, server.as_str(), caller, profile, entry],
    )?;
    Ok(())
}

impl SqliteReader {
    /// The session that was marked with `claim`.
    pub(crate) fn claimed_session(&self, claim: Uuid) -> Result<Option<ClaimedSession>, StoreError> {
        let query = "SELECT slot, session_id, revision, hello FROM sessions WHERE claim = ?";
        Ok(self.connection.query_row(query, [claim], row).optional()?)
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<ClaimedSession> {
    let session = StoredSession { id: row.get(1)?, revision: row.get(2)?, hello: row.get(3)? };
    Ok(ClaimedSession { slot: row.get(0)?, session })
}

impl Store {
    /// Removes the sessions of a caller, such as a client whose key was revoked.
    pub fn remove_sessions_of(&self, caller: String) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.change_session(SessionChange::RemoveCaller(caller))
    }

    fn changed(&self, change: SessionChange) -> BoxFuture<'static, Result<(), RecordsError>> {
        let changed = self.change_session(change);
        Box::pin(async move { Ok(changed.await?) })
    }
}

impl SessionStore for Store {
    fn put(&self, slot: Uuid, owner: SessionOwner, session: StoredSession) -> BoxFuture<'_, Result<(), RecordsError>> {
        self.changed(SessionChange::Put { slot, owner, session })
    }

    fn claim(&self, owner: SessionOwner) -> BoxFuture<'_, Result<Option<ClaimedSession>, RecordsError>> {
        let claim = Uuid::now_v7();
        let marked = self.changed(SessionChange::Claim { owner, claim });
        Box::pin(async move {
            marked.await?;
            Ok(self.query(Freshness::Committed, move |reader| reader.claimed_session(claim)).await?)
        })
    }

    fn release(&self, slot: Uuid) -> BoxFuture<'_, Result<(), RecordsError>> {
        self.changed(SessionChange::Release(slot))
    }

    fn remove(&self, slot: Uuid) -> BoxFuture<'_, Result<(), RecordsError>> {
        self.changed(SessionChange::Remove(slot))
    }
}
