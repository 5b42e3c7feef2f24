//! Waiting for the first listings of servers.

use std::{future::Future, sync::Arc, time::Duration};

use toolway_config::{ServerName, server::Start};

use super::{Host, Inner};
use crate::{
    call::CallerContext,
    connection::{Connection, ListingLookup, Phase, ServerStatus, pool::RequestOrigin},
};

impl Host {
    /// Waits, at most for `patience`, until every server that starts at once was listed or has failed. Returns the
    /// servers that are not ready.
    pub async fn wait_until_listed(&self, patience: Duration) -> Vec<ServerStatus> {
        let at_once = |connection: &Connection| connection.wanted().start == Start::AtOnce;
        let connections: Vec<_> = self.connections().into_iter().filter(at_once).collect();
        // Servers that are late are reported by their status.
        drop(tokio::time::timeout(patience, wait_for_all(&connections)).await);
        self.inner.publish_listings(&connections).await;
        let absent = |status: &ServerStatus| !matches!(status.phase, Phase::Ready | Phase::Disabled);
        connections.iter().map(Connection::status).filter(absent).collect()
    }

    /// Whether the catalog lacks the listing of an enabled server among these.
    pub fn lacks_listing_of_any(&self, of: impl Fn(&ServerName) -> bool) -> bool {
        let catalog = self.catalog();
        let lacks = |connection: &Connection| {
            of(connection.name()) && catalog.listing_of(connection.name()).is_none() && !connection.is_disabled()
        };
        self.connections().iter().any(lacks)
    }

    /// Waits, at most for `patience`, for two kinds of listings: those of servers that are being connected for the
    /// first time and have no stored listing, and caller-specific ones that are not known yet. First listings received
    /// meanwhile are published without throttling. Returns `None` if there is nothing to wait for.
    pub fn wait_for_first_listings(
        &self,
        caller_context: CallerContext,
        of: impl Fn(&ServerName) -> bool,
        patience: Duration,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let catalog = self.catalog();
        let unknown = |connection: &Connection| {
            catalog.listing_of(connection.name()).is_none() && (connection.is_beginning() || connection.has_listing())
        };
        let mut connections = self.connections();
        connections.retain(|connection| of(connection.name()));
        let (beginning, known): (Vec<_>, Vec<_>) = connections.into_iter().partition(unknown);
        let asker = RequestOrigin::of(&caller_context);
        let unheard: Vec<_> = known.into_iter().filter(|connection| connection.needs_discovery(asker)).collect();
        let inner = Arc::clone(&self.inner);
        (!beginning.is_empty() || !unheard.is_empty()).then_some(async move {
            let own =
                unheard.into_iter().map(|connection| inner.load_caller_listing(connection, caller_context.clone()));
            let all = futures_util::future::join(wait_for_all(&beginning), futures_util::future::join_all(own));
            drop(tokio::time::timeout(patience, all).await);
            inner.publish_listings(&beginning).await;
        })
    }
}

impl Inner {
    /// Requests the lists that a server offers this caller, and continues if the waiting request is dropped. One task
    /// does so for all callers of a profile and the others wait for it, so there are no more tasks than profiles.
    async fn load_caller_listing(&self, connection: Connection, caller_context: CallerContext) {
        let trying = match connection.listing_lookup(RequestOrigin::of(&caller_context)) {
            ListingLookup::Known => return,
            ListingLookup::InProgress(key) => return connection.wait_for_discovery(&key).await,
            ListingLookup::Ours(trying) => trying,
        };
        let (stop, patience) = (self.stop.clone(), self.slots.patience());
        let hearing = self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection.discover_listing(RequestOrigin::of(&caller_context), patience, trying) => {}
            }
        });
        // After a panic the listing stays unknown.
        drop(hearing.await);
    }
}

async fn wait_for_all(connections: &[Connection]) {
    let heard = connections.iter().map(|connection| async move {
        connection.wait_until_settled().await;
        connection.wait_for_listing().await;
    });
    futures_util::future::join_all(heard).await;
}
