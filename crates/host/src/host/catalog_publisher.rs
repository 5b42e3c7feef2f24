//! Keeps the catalog: what each server lists becomes one snapshot after another, paced, and a copy on disk.
//!
//! What a server listed last is offered at once at a start and verified when the server is heard. Merging and the disk
//! are work for threads that may wait; nobody waits for either.

use std::{
    collections::BTreeMap,
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

use crate::{
    catalog::{
        Catalog, Filter, Freshness, Listing, Naming, Offer,
        copy::DiskCopy,
        diff::Diff,
        merge,
        pace::{Announce, Pace},
    },
    connection::{Cataloguing, Lists, WantedServer, WantedSet},
    event::{Events, HostEvent},
};

/// Keeps the catalog. Shared by whoever lists and whoever reads.
pub(crate) struct Cataloguer {
    // Nothing awaits under this lock.
    offers: Mutex<Offers>,
    snapshot: watch::Sender<Arc<Catalog>>,
    changed: Notify,
    revision: AtomicU64,
    /// One merge at a time, so that a snapshot never gives way to an older one.
    merging: Semaphore,
    copy: Option<DiskCopy>,
    events: Events,
    /// Copies that are being written.
    copies: TaskTracker,
}

#[derive(Clone, Default)]
struct Offers {
    of: BTreeMap<ServerName, Offer>,
    naming: Naming,
}

impl Cataloguer {
    pub(crate) fn new(copy: Option<DiskCopy>, events: Events) -> Arc<Self> {
        Arc::new(Self {
            offers: Mutex::default(),
            snapshot: watch::Sender::new(Arc::new(Catalog::empty())),
            changed: Notify::new(),
            revision: AtomicU64::new(0),
            merging: Semaphore::new(1),
            copy,
            events,
            copies: TaskTracker::new(),
        })
    }

    /// The snapshot of this moment.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// This snapshot and all that follow.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Catalog>> {
        self.snapshot.subscribe()
    }

    /// A number that no snapshot has yet.
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How names are made from now on.
    pub(crate) fn name(&self, naming: Naming) {
        let before = std::mem::replace(&mut self.offers.lock().naming, naming);
        if before != naming {
            self.changed.notify_one();
        }
    }

    /// Makes a snapshot unless what these servers listed is in the last one: whoever asks waits for no pace.
    pub(crate) async fn show(&self, listings: &[(&ServerName, Arc<Listing>)]) {
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

    /// What was listed when these servers were last heard, read from disk.
    pub(crate) async fn recall(self: &Arc<Self>, servers: &WantedSet) {
        let Some(copy) = self.copy.clone() else { return };
        let wanted: Vec<_> =
            servers.values().filter_map(|server| Some((Arc::clone(server), server.definition()?))).collect();
        let read = move || {
            let recall =
                |(server, definition): (Arc<WantedServer>, String)| match copy.recall(&server.name, &definition) {
                    Ok(listing) => Some((server, listing?)),
                    Err(error) => {
                        tracing::warn!(%error, "the copy of a server's listing is not used");
                        None
                    }
                };
            wanted.into_iter().filter_map(recall).collect::<Vec<_>>()
        };
        for (server, listing) in tokio::task::spawn_blocking(read).await.unwrap_or_default() {
            let offer = Offer {
                listing: Arc::new(listing),
                filter: Arc::clone(&server.filter),
                freshness: Freshness::Unverified,
            };
            // A server that was heard meanwhile knows better.
            self.offers.lock().of.entry(server.name.clone()).or_insert(offer);
        }
    }

    /// Makes a snapshot now.
    pub(crate) async fn publish(&self) {
        if let Ok(_turn) = self.merging.acquire().await {
            self.merge_now().await;
        }
    }

    /// Only for whoever has the turn.
    async fn merge_now(&self) {
        let offers = self.offers.lock().clone();
        let revision = self.next_revision();
        let before = self.catalog();
        let made = tokio::task::spawn_blocking(move || {
            let catalog = Arc::new(merge(&offers.of, offers.naming, revision));
            let diff = Arc::new(Diff::between(&before, &catalog));
            (catalog, diff)
        });
        match made.await {
            Ok((catalog, diff)) => {
                self.snapshot.send_replace(Arc::clone(&catalog));
                if !diff.changes.is_empty() {
                    self.events.tell(|| HostEvent::Catalog { catalog, diff });
                }
            }
            Err(error) => tracing::error!(%error, "the catalog could not be merged; the last one stands"),
        }
    }

    /// Makes a snapshot after each change: the first at once, those within a moment after it as one more.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut pace = Pace::default();
        loop {
            let now = select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => pace.changed(Instant::now()) == Announce::Now,
                () = pace.due() => pace.release(Instant::now()),
            };
            if now {
                self.publish().await;
            }
        }
    }

    /// Waits until the copies that are being written are.
    pub(crate) async fn copied(&self) {
        self.copies.close();
        self.copies.wait().await;
        self.copies.reopen();
    }

    fn keep_copy(&self, server: &WantedServer, listing: Arc<Listing>) {
        let (Some(copy), Some(definition)) = (self.copy.clone(), server.definition()) else { return };
        let (name, lists) = (server.name.clone(), server.lists);
        self.copies.spawn_blocking(move || {
            // One list alone takes its place among those that are known.
            let listing = match (lists, copy.recall(&name, &definition)) {
                (Lists::Only(kind), Ok(Some(before))) => Arc::new(before.with(kind, &listing)),
                _ => listing,
            };
            if let Err(error) = copy.keep(&name, &definition, &listing) {
                tracing::warn!(server = %name, %error, "what it lists is not kept for the next start");
            }
        });
    }
}

impl Cataloguing for Cataloguer {
    fn listed(&self, server: &WantedServer, listing: Arc<Listing>) {
        let offer =
            Offer { listing: Arc::clone(&listing), filter: Arc::clone(&server.filter), freshness: Freshness::Verified };
        self.offers.lock().of.insert(server.name.clone(), offer);
        self.changed.notify_one();
        self.keep_copy(server, listing);
    }

    fn filtered(&self, server: &ServerName, filter: &Arc<Filter>) {
        if let Some(offer) = self.offers.lock().of.get_mut(server) {
            offer.filter = Arc::clone(filter);
        }
        self.changed.notify_one();
    }

    fn withdrawn(&self, server: &ServerName) {
        if self.offers.lock().of.remove(server).is_some() {
            self.changed.notify_one();
        }
    }
}
