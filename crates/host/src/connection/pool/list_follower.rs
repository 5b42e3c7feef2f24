//! What a server lists on caller connections: discovered on connect, and again when the server announces a change.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{
        Semaphore,
        broadcast::{self, error::RecvError},
    },
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
    catalog::{
        Filter, Listing,
        listing_cache::CallerView,
        listing_table::{Audience, ServerListings},
        throttle::WINDOW,
    },
};

/// Listing timeout on connect; afterwards the call is sent although the listing is unknown.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause of a connection whose listing did not fit the byte budget, whatever the server announces.
const OVER_BUDGET_PAUSE: Duration = Duration::from_secs(30);

/// A listing that takes longer than a call should wait.
pub(super) type ListingInProgress = BoxFuture<'static, Result<Arc<Listing>, WireError>>;

/// Reads the lists of a caller connection, few of a server at a time, and keeps them.
struct Lister {
    peer: Peer,
    listings: ServerListings,
    turns: Arc<Semaphore>,
}

/// Follows the lists of one caller connection.
struct ListFollower {
    server: ServerName,
    caller: Caller,
    lister: Lister,
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
    /// Whether the server is known to list anything else to some client than to all.
    pub(crate) fn has_own_listings(&self) -> bool {
        self.profile_listings.lock().is_any_different()
            || self.state.lock().entries.iter().any(|entry| entry.connection.listing.get().is_some())
    }

    /// The listing for this key; `None` if it equals `base`, the shared listing, or is not known.
    pub(crate) fn listing_of(&self, key: &CallerConnectionKey, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        let own = self.own_listing(key);
        let own = own.or_else(|| {
            self.profile_listings.lock().get(key.profile, base).filter(|_| key.profile != self.shared_profile())
        });
        own.filter(|own| !Arc::ptr_eq(own, base))
    }

    /// Whether the listing for this key is unknown and may be discovered now.
    pub(crate) fn may_discover(&self, key: &CallerConnectionKey) -> bool {
        key.profile != self.shared_profile()
            && self.own_listing(key).is_none()
            && self.profile_listings.lock().may_discover(key.profile, Instant::now())
    }

    /// Begins an attempt to find out the listing; `None` if another attempt for the profile is in progress.
    pub(crate) fn try_discovery(self: &Arc<Self>, key: &CallerConnectionKey) -> Option<ListingAttempt> {
        self.try_discovery_of(key.profile)
    }

    /// The same for all callers of a profile.
    pub(crate) fn try_discovery_of(self: &Arc<Self>, profile: CapabilityProfile) -> Option<ListingAttempt> {
        let begun = self.profile_listings.lock().begin_attempt(profile, Instant::now());
        begun.then(|| ListingAttempt { pool: Arc::clone(self), profile })
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
            shared.filter(|_| profile != self.shared_profile() && !self.profile_listings.lock().knows(profile))?;
        let lister = self.lister(peer);
        let mut listing: ListingInProgress = Box::pin(async move { lister.take().await });
        match tokio::time::timeout(LIST_TIMEOUT, &mut listing).await {
            Ok(Ok(listing)) => {
                let differs = self.profile_listings.lock().insert(profile, listing, &shared);
                let view = if differs { CallerView::Own } else { CallerView::Shared };
                self.context.catalog.set_view(&self.server, profile, view);
                if differs {
                    let change = CallerListChange { server: self.server.clone(), caller: None };
                    // There may be no receiver.
                    drop(self.context.caller_list_changes.send(change));
                }
                None
            }
            Ok(Err(error)) => {
                tracing::warn!(server = %self.server, %error, "cannot list for a caller; it sees the shared lists");
                None
            }
            Err(_) => Some(listing),
        }
    }

    fn lister(&self, peer: &Peer) -> Lister {
        Lister { peer: peer.clone(), listings: self.listings.clone(), turns: Arc::clone(&self.list_turns) }
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
            lister: self.lister(peer),
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
            self.take(late.await).await;
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
            let listed = match self.listing.get() {
                Some(known) => self.lister.again(&known, &changed).await,
                None => self.lister.take().await,
            };
            self.take(listed).await;
            tokio::time::sleep(WINDOW).await;
        }
    }

    /// Forwards a log message to the caller.
    fn forward(&self, notice: Notice) {
        let Notice::Log(params) = notice else { return };
        let (server, caller, session) = (self.server.clone(), self.caller.clone(), self.session.clone());
        // There may be no receiver.
        drop(self.logs.send(CallerLog { server, caller, session, params }));
    }

    /// Keeps a listing. After one that did not fit the byte budget, changes wait: the server might announce one at once.
    async fn take(&self, listing: Result<Arc<Listing>, WireError>) {
        match listing {
            Ok(listing) => {
                self.listing.set(listing);
                let (server, caller) = (self.server.clone(), Some(self.caller.clone()));
                // There may be no receiver.
                drop(self.changes.send(CallerListChange { server, caller }));
            }
            Err(error @ (WireError::OverBudget(_) | WireError::TooLarge { .. })) => {
                tracing::warn!(server = %self.server, caller = %self.caller, %error, "a list of a caller is not kept");
                tokio::time::sleep(OVER_BUDGET_PAUSE).await;
            }
            Err(error) => tracing::debug!(server = %self.server, %error, "cannot read a list of a caller"),
        }
    }
}

// === impl Lister ===

// Filters of the configuration are applied when the listing is shown.
impl Lister {
    async fn take(&self) -> Result<Arc<Listing>, WireError> {
        let _turn = self.turns.acquire().await;
        let listing = Listing::take_some(&self.peer, &Filter::default(), |_| true, &self.listings).await?;
        // The caller sees the shared lists rather than none.
        if listing.is_too_large() {
            return Err(self.peer.listing_too_large());
        }
        Ok(self.listings.listing(listing, Audience::SomeCallers)?)
    }

    async fn again(&self, known: &Arc<Listing>, changed: &[List]) -> Result<Arc<Listing>, WireError> {
        let _turn = self.turns.acquire().await;
        let mut listing = Listing::clone(known);
        for list in changed {
            listing = listing.again_in(&self.peer, &Filter::default(), *list, &self.listings).await?;
        }
        Ok(self.listings.listing(listing, Audience::SomeCallers)?)
    }
}
