//! Publishes the catalog: merges the listings of all servers into throttled snapshots and stores each listing on disk.
//!
//! At start the stored listings are offered at once, and verified when the server is listed. Merging and disk access
//! run on blocking threads and delay no request. What policy hides is left out of every snapshot (`hiding.rs`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    select,
    sync::{Notify, Semaphore, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolway_config::ServerName;
use toolway_wire::budget::Charge;

use super::hiding::{GuardedListing, Hiding};
use crate::{
    catalog::{
        Catalog, Filter, Freshness, Listing, Naming, Offer,
        diff::Diff,
        guard::Hides,
        listing_cache::{CallerView, ListingCache},
        listing_table::{Audience, ListingTable},
        merge,
        throttle::{Announce, Throttle},
    },
    connection::{CapabilityProfile, CatalogSink, Lists, WantedServer, WantedSet},
    event::{EventSender, StateEvent},
};

/// Publishes catalog snapshots. Shared by supervisors, which report listings, and readers.
pub(crate) struct CatalogPublisher {
    // Nothing awaits under this lock.
    offers: Mutex<Offers>,
    snapshot: watch::Sender<Arc<Catalog>>,
    changed: Notify,
    revision: AtomicU64,
    /// Allows one merge at a time, so that a snapshot is never replaced by an older one.
    merging: Semaphore,
    cache: Option<ListingCache>,
    listings: ListingTable,
    events: EventSender,
    /// Writes of stored listings that are in progress.
    writes: TaskTracker,
    // Nothing awaits under this lock.
    views: Mutex<Views>,
    hiding: Hiding,
}

/// Which servers list something else to clients with certain capabilities, as far as that is stored.
#[derive(Default)]
struct Views {
    own: BTreeMap<ServerName, BTreeSet<String>>,
    /// The definition under which the listing of a server is stored.
    definitions: BTreeMap<ServerName, String>,
}

/// What is stored of a server.
struct Stored {
    server: Arc<WantedServer>,
    definition: String,
    listing: Arc<Listing>,
    own_views: BTreeSet<String>,
}

#[derive(Clone, Default)]
struct Offers {
    of: BTreeMap<ServerName, Offer>,
    /// How the servers are reached.
    wanted: BTreeMap<ServerName, Arc<WantedServer>>,
    naming: Naming,
}

impl CatalogPublisher {
    pub(crate) fn new(
        cache: Option<ListingCache>,
        events: EventSender,
        listings: ListingTable,
        hiding: Hiding,
    ) -> Arc<Self> {
        Arc::new(Self {
            offers: Mutex::default(),
            snapshot: watch::Sender::new(Arc::new(Catalog::empty())),
            changed: Notify::new(),
            revision: AtomicU64::new(0),
            merging: Semaphore::new(1),
            cache,
            listings,
            events,
            writes: TaskTracker::new(),
            views: Mutex::default(),
            hiding,
        })
    }

    /// Sets what policy hides, and publishes soon if that hides or shows anything.
    pub(crate) fn set_hides(&self, hides: Hides) {
        let was_on = self.hiding.is_on();
        self.hiding.set(hides);
        if was_on || self.hiding.is_on() {
            self.changed.notify_one();
        }
    }

    /// Publishes soon if policy hides anything: what was seen has changed.
    pub(crate) fn compare_again(&self) {
        if self.hiding.is_on() {
            self.changed.notify_one();
        }
    }

    /// Where the listings of all servers are kept.
    pub(crate) fn listings(&self) -> &ListingTable {
        &self.listings
    }

    /// Returns the current snapshot.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// Watches the current snapshot and its successors.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Catalog>> {
        self.snapshot.subscribe()
    }

    /// Returns an unused revision number.
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sets the naming scheme of the next snapshots.
    pub(crate) fn set_naming(&self, naming: Naming) {
        let before = std::mem::replace(&mut self.offers.lock().naming, naming);
        if before != naming {
            self.changed.notify_one();
        }
    }

    /// Publishes a snapshot without throttling, unless the current one already contains these listings.
    pub(crate) async fn publish_listings(&self, listings: &[(&ServerName, Arc<Listing>)]) {
        let shown = |catalog: &Catalog| {
            let is_in = |(server, listing): &(&ServerName, Arc<Listing>)| {
                catalog.listing_of(server).is_some_and(|known| Arc::ptr_eq(known, listing))
            };
            listings.iter().all(is_in)
        };
        let Ok(_turn) = self.merging.acquire().await else { return };
        if !shown(&self.catalog()) {
            self.merge_now().await;
        }
    }

    /// Loads the stored listings of these servers from disk.
    pub(crate) async fn load_cached(self: &Arc<Self>, servers: &WantedSet) {
        let Some(cache) = self.cache.clone() else { return };
        let wanted: Vec<_> =
            servers.values().filter_map(|server| Some((Arc::clone(server), server.definition()?))).collect();
        let listings = self.listings.clone();
        let read = move || {
            let keep = |server: &WantedServer, listing: Listing| {
                let listings = listings.of(&server.name);
                listings.listing(listings.stored(listing)?, Audience::Everyone)
            };
            let recall = |(server, definition): (Arc<WantedServer>, String)| {
                let stored = cache.load(&server.name, &definition).map_err(|error| error.to_string());
                let kept = stored.and_then(|stored| {
                    stored.map(|stored| keep(&server, stored)).transpose().map_err(|error| error.to_string())
                });
                match kept {
                    Ok(listing) => {
                        let (listing, own_views) = (listing?, cache.own_views(&server.name, &definition));
                        Some(Stored { server, definition, listing, own_views })
                    }
                    Err(error) => {
                        tracing::warn!(%error, "ignoring the stored listing of a server");
                        None
                    }
                }
            };
            wanted.into_iter().filter_map(recall).collect::<Vec<_>>()
        };
        for stored in tokio::task::spawn_blocking(read).await.unwrap_or_default() {
            let Stored { server, definition, listing, own_views } = stored;
            {
                let mut views = self.views.lock();
                views.own.insert(server.name.clone(), own_views);
                views.definitions.insert(server.name.clone(), definition);
            }
            let filter = Arc::clone(&server.filter);
            let offer = Offer { listing, filter, freshness: Freshness::Unverified, guard: None };
            let mut offers = self.offers.lock();
            // A listing received in the meantime is newer.
            offers.of.entry(server.name.clone()).or_insert(offer);
            offers.wanted.entry(server.name.clone()).or_insert(server);
        }
    }

    /// Whether this server listed something else to clients of this profile when it last did so.
    pub(crate) fn had_own_view(&self, server: &ServerName, profile: CapabilityProfile) -> bool {
        self.views.lock().own.get(server).is_some_and(|own| own.contains(&word(profile)))
    }

    /// Publishes a snapshot now.
    pub(crate) async fn publish(&self) {
        if let Ok(_turn) = self.merging.acquire().await {
            self.merge_now().await;
        }
    }

    /// Merges and publishes. The caller holds the permit of `merging`.
    async fn merge_now(&self) {
        let mut offers = self.offers.lock().clone();
        if self.hiding.is_on() {
            self.guard(&mut offers).await;
        }
        let revision = self.next_revision();
        let (before, memory) = (self.catalog(), self.listings.memory().clone());
        let made = tokio::task::spawn_blocking(move || {
            // Its entries are charged with the listings.
            let catalog = merge(&offers.of, offers.naming, revision).charged(Charge::default(), &memory);
            let catalog = Arc::new(catalog);
            let diff = Arc::new(Diff::between(&before, &catalog));
            (catalog, diff)
        });
        match made.await {
            Ok((catalog, diff)) => {
                self.snapshot.send_replace(Arc::clone(&catalog));
                if !diff.changes.is_empty() {
                    self.events.send_state(|| StateEvent::Catalog { catalog, diff });
                }
            }
            // The program is ending, the catalog has no reader left.
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "cannot merge the catalog; the previous one stays in use"),
        }
    }

    /// Adds the guards of what policy hides.
    async fn guard(&self, offers: &mut Offers) {
        let listing_of = |(server, wanted): (&ServerName, &Arc<WantedServer>)| {
            let listing = Arc::clone(&offers.of.get(server)?.listing);
            Some((server.clone(), GuardedListing { wanted: Arc::clone(wanted), listing }))
        };
        let guarded: BTreeMap<_, _> = offers.wanted.iter().filter_map(listing_of).collect();
        for (server, guard) in self.hiding.guards(&guarded).await {
            if let Some(offer) = offers.of.get_mut(&server) {
                offer.guard = Some(guard);
            }
        }
    }

    /// Publishes after changes, throttled: the first change at once, those shortly after it together.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut throttle = Throttle::default();
        loop {
            let now = select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => throttle.changed(Instant::now()) == Announce::Now,
                () = throttle.due() => throttle.release(Instant::now()),
            };
            if now {
                self.publish().await;
            }
        }
    }

    /// Waits until all pending writes of listings are done.
    pub(crate) async fn wait_for_listing_cache(&self) {
        self.writes.close();
        self.writes.wait().await;
        self.writes.reopen();
    }

    fn store_listing(&self, server: &WantedServer, listing: Arc<Listing>) {
        let (Some(cache), Some(definition)) = (self.cache.clone(), server.definition()) else { return };
        let (name, lists) = (server.name.clone(), server.lists);
        self.views.lock().definitions.insert(name.clone(), definition.clone());
        self.writes.spawn_blocking(move || {
            // A partial listing replaces only its own kind in the stored one.
            let listing = match (lists, cache.load(&name, &definition)) {
                (Lists::Only(kind), Ok(Some(before))) => Arc::new(before.with(kind, &listing)),
                _ => listing,
            };
            if let Err(error) = cache.store(&name, &definition, &listing) {
                tracing::warn!(server = %name, %error, "cannot store the listing of the server for the next start");
            }
        });
    }
}

impl CatalogSink for CatalogPublisher {
    fn set_listing(&self, server: &WantedServer, listing: Arc<Listing>) {
        let filter = Arc::clone(&server.filter);
        let offer = Offer { listing: Arc::clone(&listing), filter, freshness: Freshness::Verified, guard: None };
        {
            let mut offers = self.offers.lock();
            offers.of.insert(server.name.clone(), offer);
            offers.wanted.insert(server.name.clone(), Arc::new(server.clone()));
        }
        self.changed.notify_one();
        self.store_listing(server, listing);
    }

    fn set_view(&self, server: &ServerName, profile: CapabilityProfile, view: CallerView) {
        let (server, capabilities) = (server.clone(), word(profile));
        let definition = {
            let mut views = self.views.lock();
            let own = views.own.entry(server.clone()).or_default();
            match view {
                CallerView::Own => own.insert(capabilities.clone()),
                CallerView::Shared => own.remove(&capabilities),
            };
            views.definitions.get(&server).cloned()
        };
        let (Some(cache), Some(definition)) = (self.cache.clone(), definition) else { return };
        self.writes.spawn_blocking(move || {
            if let Err(error) = cache.store_view(&server, &definition, &capabilities, view) {
                tracing::warn!(%server, %error, "cannot store what the server lists to some clients for the next start");
            }
        });
    }

    fn set_filter(&self, server: &ServerName, filter: &Arc<Filter>) {
        if let Some(offer) = self.offers.lock().of.get_mut(server) {
            offer.filter = Arc::clone(filter);
        }
        self.changed.notify_one();
    }

    fn remove(&self, server: &ServerName) {
        {
            let mut views = self.views.lock();
            views.own.remove(server);
            views.definitions.remove(server);
        }
        let mut offers = self.offers.lock();
        offers.wanted.remove(server);
        if offers.of.remove(server).is_some() {
            self.changed.notify_one();
        }
    }
}

/// A profile as it is stored.
fn word(profile: CapabilityProfile) -> String {
    profile.capabilities().0.to_string()
}
