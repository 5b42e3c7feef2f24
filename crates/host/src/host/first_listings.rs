//! Waiting for the first listings of servers.

use std::{future::Future, sync::Arc, time::Duration};

use toolway_config::{ServerName, server::Start};

use super::{Host, Inner};
use crate::{
    call::CallerContext,
    catalog::Catalog,
    connection::{Connection, ListingLookup, Phase, ServerStatus, pool::RequestOrigin},
};

/// How long the first list of a caller waits for what servers list to its capabilities: about as long as most programs
/// take to start, and well below the start-up timeouts of clients.
pub(super) const OWN_VIEW_WAIT: Duration = Duration::from_secs(5);

/// How long a list waits for listings that are not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstListingWait {
    /// For servers that are being connected for the first time and have no stored listing.
    pub listings: Duration,
    /// For what servers list to the capabilities of the caller.
    pub own_view: Duration,
}

impl FirstListingWait {
    /// This long for listings, and the usual time for the view of the caller.
    pub fn of_listings(listings: Duration) -> Self {
        Self { listings, own_view: OWN_VIEW_WAIT }
    }

    /// The same time for both.
    pub fn of_both(patience: Duration) -> Self {
        Self { listings: patience, own_view: patience }
    }
}

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

    /// Waits, at most for `patience`, until the first listings that are being read are complete, so that they are stored for
    /// the next start. Servers that are still being connected are not waited for.
    pub async fn finish_first_listings(&self, patience: Duration) {
        let mut connections = self.connections();
        connections.retain(Connection::is_being_listed);
        // What is not complete by then is read again at the next start.
        drop(tokio::time::timeout(patience, wait_for_all(&connections)).await);
    }

    /// Waits for two kinds of listings: those of servers that are being connected for the first time and have no stored
    /// listing, and caller-specific ones that are not known yet. A server with a stored listing that is still being
    /// connected is waited for only if it had something else for such callers; else its view is found out in the background.
    /// First listings received meanwhile are published without throttling. Returns `None` if there is nothing to wait for.
    pub fn wait_for_first_listings(
        &self,
        caller_context: CallerContext,
        of: impl Fn(&ServerName) -> bool,
        patience: FirstListingWait,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let catalog = self.catalog();
        let unknown = |connection: &Connection| {
            catalog.listing_of(connection.name()).is_none() && (connection.is_beginning() || connection.has_listing())
        };
        let mut connections = self.connections();
        connections.retain(|connection| of(connection.name()));
        let mut own_view = self.inner.own_view_pending(&connections, &caller_context);
        own_view.retain(|connection| self.inner.awaits_own_view(connection, &caller_context, &catalog));
        connections.retain(unknown);
        let inner = Arc::clone(&self.inner);
        (!connections.is_empty() || !own_view.is_empty()).then_some(async move {
            let beginning = tokio::time::timeout(patience.listings, wait_for_all(&connections));
            let viewing = inner.load_own_view(&own_view, &caller_context, patience.own_view);
            // Servers that are late cause a `list_changed` notification.
            drop(futures_util::future::join(beginning, viewing).await);
            connections.extend(own_view);
            inner.publish_listings(&connections).await;
        })
    }
}

impl Inner {
    /// Waits, at most [`OWN_VIEW_WAIT`], until what these servers list to this caller is known.
    pub(crate) async fn wait_for_own_view(&self, caller_context: &CallerContext, of: impl Fn(&ServerName) -> bool) {
        let mut connections: Vec<_> = self.set.lock().connections().cloned().collect();
        connections.retain(|connection| of(connection.name()));
        let pending = self.own_view_pending(&connections, caller_context);
        if !pending.is_empty() {
            self.load_own_view(&pending, caller_context, OWN_VIEW_WAIT).await;
            self.publish_listings(&pending).await;
        }
    }

    /// The servers that may list something else to this caller, which is not known yet: because they are being connected,
    /// or because no caller with the same capabilities has connected so far.
    pub(super) fn own_view_pending(
        &self,
        connections: &[Connection],
        caller_context: &CallerContext,
    ) -> Vec<Connection> {
        let asker = RequestOrigin::of(caller_context);
        let pending = |connection: &&Connection| {
            connection.may_list_differently(asker) && (connection.is_beginning() || connection.needs_discovery(asker))
        };
        connections.iter().filter(pending).cloned().collect()
    }

    /// Whether a list waits for what this server lists to the caller. If not, that is found out in the background.
    fn awaits_own_view(&self, connection: &Connection, caller_context: &CallerContext, catalog: &Catalog) -> bool {
        let origin = RequestOrigin::of(caller_context);
        let is_stored = connection.is_beginning() && catalog.listing_of(connection.name()).is_some();
        if !is_stored || self.catalog_publisher.had_own_view(connection.name(), connection.told(origin).profile()) {
            return true;
        }
        if let Some(attempt) = connection.begin_discovery(origin) {
            let (connection, caller_context) = (connection.clone(), caller_context.clone());
            let (stop, patience) = (self.stop.clone(), self.slots.patience());
            self.tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = connection.discover_once_listed(RequestOrigin::of(&caller_context), patience, attempt) => {}
                }
            });
        }
        false
    }

    pub(super) async fn load_own_view(
        &self,
        pending: &[Connection],
        caller_context: &CallerContext,
        patience: Duration,
    ) {
        let each = pending.iter().map(|connection| async move {
            wait_for_all(std::slice::from_ref(connection)).await;
            self.load_caller_listing(connection.clone(), caller_context.clone()).await;
        });
        // A listing that is late is loaded in the background.
        drop(tokio::time::timeout(patience, futures_util::future::join_all(each)).await);
    }

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
