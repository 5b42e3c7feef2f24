//! What a server lists on caller connections: discovered on connect, and again when the server announces a change.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::Duration,
};
use tokio_util::task::AbortOnDropHandle;
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    notice::{List, Notice},
    up::Peer,
};

use super::{
    CallerListChange, CallerLog, ConnectionPool,
    caller_connection::{CallerConnection, CallerListing},
    key::{CallerConnectionKey, CapabilityProfile},
};
use crate::{
    call::Caller,
    catalog::{Filter, Listing, throttle::WINDOW},
};

/// Listing timeout on connect; afterwards the call is sent although the listing is unknown.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Items kept for all caller connections of one server; beyond it, callers see the shared listing.
const MAX_ITEMS: usize = 100_000;

/// A listing that takes longer than a call should wait.
pub(super) type ListingInProgress = BoxFuture<'static, Result<Listing, WireError>>;

/// Follows the lists of one caller connection.
struct ListFollower {
    server: ServerName,
    caller: Caller,
    peer: Peer,
    listing: Arc<CallerListing>,
    changes: broadcast::Sender<CallerListChange>,
    session: Option<Arc<str>>,
    logs: broadcast::Sender<CallerLog>,
}

/// An attempt to find out what a server lists to a profile. Dropping it ends the attempt and wakes those waiting for it.
pub(crate) struct ListingAttempt {
    pool: Arc<ConnectionPool>,
    profile: CapabilityProfile,
}

impl Drop for ListingAttempt {
    fn drop(&mut self) {
        self.pool.profile_listings.lock().end_attempt(self.profile);
        self.pool.discovered.notify_waiters();
    }
}

impl ConnectionPool {
    /// The listing for this key; `None` if it equals `base`, the shared listing, or is not known.
    pub(crate) fn listing_of(&self, key: &CallerConnectionKey, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        let own = self.own_listing(key);
        let own = own.or_else(|| {
            self.profile_listings.lock().get(key.profile, base).filter(|_| key.profile != self.shared_profile)
        });
        own.filter(|own| !Arc::ptr_eq(own, base))
    }

    /// Whether the listing for this key is unknown and may be discovered now.
    pub(crate) fn may_discover(&self, key: &CallerConnectionKey) -> bool {
        key.profile != self.shared_profile
            && self.own_listing(key).is_none()
            && self.profile_listings.lock().may_discover(key.profile, Instant::now())
    }

    /// Begins an attempt to find out the listing; `None` if another attempt for the profile is in progress.
    pub(crate) fn try_discovery(self: &Arc<Self>, key: &CallerConnectionKey) -> Option<ListingAttempt> {
        let begun = self.profile_listings.lock().begin_attempt(key.profile, Instant::now());
        begun.then(|| ListingAttempt { pool: Arc::clone(self), profile: key.profile })
    }

    /// Waits until the attempt in progress has ended.
    pub(crate) async fn wait_for_attempt(&self, key: &CallerConnectionKey) {
        loop {
            // Registered before the check, so that no notification is missed.
            let discovered = self.discovered.notified();
            if !self.profile_listings.lock().has_attempt(key.profile) {
                return;
            }
            discovered.await;
        }
    }

    /// The listing of the oldest connection of this key that has its own.
    fn own_listing(&self, key: &CallerConnectionKey) -> Option<Arc<Listing>> {
        let state = self.state.lock();
        let mut own = state.entries.iter().filter(|entry| entry.connection.key == *key && !entry.connection.is_gone());
        own.find_map(|entry| entry.connection.listing.get())
    }

    /// Finds out the listing of a profile, on a connection without any call yet. Returns the work if it takes too long: its
    /// result may depend on calls, so it belongs to this connection only.
    pub(super) async fn discover(
        &self,
        peer: &Peer,
        profile: CapabilityProfile,
        shared: Option<Arc<Listing>>,
    ) -> Option<ListingInProgress> {
        let shared =
            shared.filter(|_| profile != self.shared_profile && !self.profile_listings.lock().knows(profile))?;
        let peer = peer.clone();
        let mut listing: ListingInProgress = Box::pin(async move { Listing::take(&peer, &Filter::default()).await });
        match tokio::time::timeout(LIST_TIMEOUT, &mut listing).await {
            Ok(Ok(listing)) => {
                if self.profile_listings.lock().insert(profile, listing, &shared) {
                    let change = CallerListChange { server: self.server.clone(), caller: None };
                    // There may be no receiver.
                    drop(self.context.caller_list_changes.send(change));
                }
                None
            }
            Ok(Err(error)) => {
                tracing::debug!(server = %self.server, %error, "cannot list for a caller");
                None
            }
            Err(_) => Some(listing),
        }
    }

    /// Follows list changes on a connection until the handle is dropped.
    pub(super) fn follow(
        &self,
        peer: &Peer,
        connection: &CallerConnection,
        notices: broadcast::Receiver<Notice>,
        late: Option<ListingInProgress>,
    ) -> AbortOnDropHandle<()> {
        let follower = ListFollower {
            server: self.server.clone(),
            caller: connection.key.caller.clone(),
            peer: peer.clone(),
            listing: Arc::clone(&connection.listing),
            changes: self.context.caller_list_changes.clone(),
            session: connection.key.session.clone(),
            logs: self.context.caller_logs.clone(),
        };
        AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(follower.run(notices, late)))
    }
}

impl ListFollower {
    /// Handles the first change at once, and those that follow within the throttle window together.
    async fn run(self, mut notices: broadcast::Receiver<Notice>, late: Option<ListingInProgress>) {
        if let Some(late) = late {
            self.take(late.await);
        }
        loop {
            let mut changed = match notices.recv().await {
                Ok(Notice::Changed(list)) => vec![list],
                Ok(notice) => {
                    self.forward(notice);
                    continue;
                }
                Err(RecvError::Lagged(_)) => vec![List::Tools, List::Prompts, List::Resources],
                Err(RecvError::Closed) => return,
            };
            while let Ok(notice) = notices.try_recv() {
                match notice {
                    Notice::Changed(list) if changed.contains(&list) => {}
                    Notice::Changed(list) => changed.push(list),
                    other => self.forward(other),
                }
            }
            self.take(self.list(&changed).await);
            tokio::time::sleep(WINDOW).await;
        }
    }

    async fn list(&self, changed: &[List]) -> Result<Listing, WireError> {
        // Filters of the configuration are applied when the listing is shown.
        let everything = Filter::default();
        let Some(known) = self.listing.get() else { return Listing::take(&self.peer, &everything).await };
        let mut listing = Listing::clone(&known);
        for list in changed {
            listing = listing.again(&self.peer, &everything, *list).await?;
        }
        Ok(listing)
    }

    /// Forwards a log message to the caller.
    fn forward(&self, notice: Notice) {
        let Notice::Log(params) = notice else { return };
        let (server, caller, session) = (self.server.clone(), self.caller.clone(), self.session.clone());
        // There may be no receiver.
        drop(self.logs.send(CallerLog { server, caller, session, params }));
    }

    fn take(&self, listing: Result<Listing, WireError>) {
        match listing {
            Ok(listing) => self.keep(listing),
            Err(error) => tracing::debug!(server = %self.server, %error, "cannot read a list of a caller"),
        }
    }

    fn keep(&self, listing: Listing) {
        if !self.listing.keep(listing, MAX_ITEMS) {
            tracing::warn!(server = %self.server, "the list of a caller exceeds the limit of all caller lists and is not kept");
            return;
        }
        drop(self.changes.send(CallerListChange { server: self.server.clone(), caller: Some(self.caller.clone()) }));
    }
}
