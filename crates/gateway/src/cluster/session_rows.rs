//! The rows of client sessions, between the port of the store and that of `wire`. A row names the fingerprint of the client's
//! key, so that a later client of the same name does not get the session.

use std::{fmt, sync::Arc, time::Duration};

use toolway_host::{
    cluster::{ClientSessionChanges, ClientSessionLimits, ClientSessionRow, ClientSessionStore},
    record::RecordsError,
};
use toolway_wire::down::{
    SessionChanges, SessionReply, SessionRow, SessionRows, SessionRowsUnavailable, SubscriptionChange,
};
use uuid::Uuid;

use crate::access::Access;

/// The sessions of the clients of this gateway, in the store of its cluster.
pub struct ClusterSessions {
    store: Arc<dyn ClientSessionStore>,
    access: Arc<Access>,
    limits: ClientSessionLimits,
}

// === impl ClusterSessions ===

impl ClusterSessions {
    /// Sessions in this store, of clients with these keys.
    pub fn new(store: Arc<dyn ClientSessionStore>, access: Arc<Access>, limits: ClientSessionLimits) -> Self {
        Self { store, access, limits }
    }

    /// The fingerprint of a client's key; `None` once the key is revoked.
    fn key(&self, principal: &str) -> Option<String> {
        self.access.client(principal).map(|client| client.identity.to_string())
    }
}

impl SessionRows for ClusterSessions {
    fn begin(&self, id: &str, row: SessionRow) -> SessionReply<'_, ()> {
        let id = row_id(id);
        Box::pin(async move {
            let row = stored(row, self)?;
            self.store.begin(id?, row, self.limits).await.map_err(|error| unavailable(&error))
        })
    }

    fn find(&self, id: &str, idle: Duration) -> SessionReply<'_, Option<SessionRow>> {
        let id = row_id(id);
        Box::pin(async move {
            let found = self.store.find(id?, idle).await.map_err(|error| unavailable(&error))?;
            let own = found.filter(|row| self.key(&row.principal).is_some_and(|key| key == row.key));
            Ok(own.and_then(rebuilt))
        })
    }

    fn change(&self, id: &str, changes: SessionChanges) -> SessionReply<'_, bool> {
        let id = row_id(id);
        let SessionChanges { log_level, subscriptions } = changes;
        let mut stored =
            ClientSessionChanges { log_level: log_level.map(|level| level.as_str().to_owned()), ..Default::default() };
        for (uri, change) in subscriptions {
            match change {
                SubscriptionChange::Added => stored.subscribed.push(uri),
                SubscriptionChange::Removed => stored.unsubscribed.push(uri),
            }
        }
        Box::pin(async move { self.store.change(id?, stored).await.map_err(|error| unavailable(&error)) })
    }

    fn end(&self, id: &str) -> SessionReply<'_, ()> {
        let id = row_id(id);
        Box::pin(async move { self.store.end(id?).await.map_err(|error| unavailable(&error)) })
    }
}

impl fmt::Debug for ClusterSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSessions").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The id of a row, which `wire` makes of 128 bits.
fn row_id(id: &str) -> Result<Uuid, SessionRowsUnavailable> {
    id.parse().map_err(|_| SessionRowsUnavailable)
}

fn stored(row: SessionRow, sessions: &ClusterSessions) -> Result<ClientSessionRow, SessionRowsUnavailable> {
    Ok(ClientSessionRow {
        key: sessions.key(&row.principal).ok_or(SessionRowsUnavailable)?,
        principal: row.principal.to_string(),
        revision: row.revision.as_str().to_owned(),
        capabilities: row.capabilities,
        log_level: row.log_level.map(|level| level.as_str().to_owned()),
        subscriptions: row.subscriptions,
    })
}

/// The row as this release reads it; `None` if it does not know the revision of the session.
fn rebuilt(row: ClientSessionRow) -> Option<SessionRow> {
    Some(SessionRow {
        principal: row.principal.into(),
        revision: row.revision.parse().ok()?,
        capabilities: row.capabilities,
        log_level: row.log_level.and_then(|level| level.parse().ok()),
        subscriptions: row.subscriptions,
    })
}

fn unavailable(error: &RecordsError) -> SessionRowsUnavailable {
    tracing::error!(%error, "the sessions of the cluster cannot be read or written");
    SessionRowsUnavailable
}
