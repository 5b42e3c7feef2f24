//! Caller-specific catalogs: the shared catalog, with the listings that differ for this caller.
//!
//! Almost all callers use the shared catalog itself. A differing snapshot is built once for all callers with the same
//! listings, cached within a limit on their number, and charged to the byte budget; without room the caller sees the
//! shared catalog.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use toolway_config::ServerName;
use toolway_wire::budget::Kept;

use super::{Host, Inner, first_listings::OWN_VIEW_WAIT};
use crate::{
    call::{Caller, CallerContext},
    catalog::{Catalog, Listing},
    connection::pool::RequestOrigin,
};

/// Cache of caller-specific catalogs, oldest first.
#[derive(Default)]
pub(crate) struct CallerCatalogs {
    /// Whether it is being found out what servers list to the user of this process.
    is_finding: AtomicBool,
    // Nothing awaits under this lock.
    made: Mutex<VecDeque<View>>,
}

struct View {
    /// Revision of the shared catalog it was built from.
    of: u64,
    own: Vec<OwnListing>,
    catalog: Arc<Catalog>,
}

/// The listing of a server that a view was built from.
struct OwnListing {
    server: ServerName,
    listing: Weak<Listing>,
    /// Whether the catalog of the view holds it, too.
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    InCatalog,
    Elsewhere,
}

/// Caller-specific listings.
type Own = Vec<(ServerName, Arc<Listing>)>;

/// Maximum number of cached catalogs.
const KEPT: usize = 64;

impl Host {
    /// Returns the current catalog of this caller.
    pub fn catalog_of(&self, caller_context: &CallerContext) -> Arc<Catalog> {
        self.inner.catalog_of(caller_context)
    }

    /// The catalog of calls that this process makes for its own user. In a gateway the shared connections declare nothing, so
    /// that a server lists less over them than to a client whose user answers: what it lists to one is found out in the
    /// background, and announced by [`Host::caller_list_changes`]. Elsewhere it is [`Host::catalog`].
    pub fn own_catalog(&self) -> Arc<Catalog> {
        let Some(context) = self.inner.own_context() else { return self.catalog() };
        self.inner.find_own_view(&context);
        self.inner.catalog_of(&context)
    }

    /// Returns the listing of one server for this caller; `None` if it is the shared one.
    pub fn caller_listing(&self, caller_context: &CallerContext, server: &ServerName) -> Option<Arc<Listing>> {
        let catalog = self.catalog();
        self.inner.connection(server)?.caller_listing(RequestOrigin::of(caller_context), catalog.listing_of(server)?)
    }
}

impl Inner {
    /// The current catalog of this caller.
    pub(crate) fn catalog_of(&self, caller_context: &CallerContext) -> Arc<Catalog> {
        let catalog = self.catalog_publisher.catalog();
        let own = self.caller_listings(&catalog, caller_context);
        if own.is_empty() { catalog } else { self.view(catalog, own) }
    }

    /// The user of a gateway's own process, who answers in the console; `None` if the shared connections declare that.
    pub(crate) fn own_context(&self) -> Option<CallerContext> {
        let capabilities = Some(self.context.undeclared_elicitation()?);
        Some(CallerContext { capabilities, ..CallerContext::from(&Caller::Console) })
    }

    /// Begins to find out what servers list to the user of this process, where that is not known.
    fn find_own_view(self: &Arc<Self>, context: &CallerContext) {
        let connections: Vec<_> = self.set.lock().connections().cloned().collect();
        let pending = self.own_view_pending(&connections, context);
        if pending.is_empty() || self.caller_catalogs.is_finding.swap(true, Ordering::SeqCst) {
            return;
        }
        let inner = Arc::clone(self);
        let context = context.clone();
        self.tasks.spawn(async move {
            inner.load_own_view(&pending, &context, OWN_VIEW_WAIT).await;
            inner.caller_catalogs.is_finding.store(false, Ordering::SeqCst);
        });
    }

    fn caller_listings(&self, catalog: &Catalog, caller_context: &CallerContext) -> Own {
        let asker = RequestOrigin::of(caller_context);
        let own = |(server, offer): (&ServerName, &crate::catalog::Offer)| {
            let listing = self.connection(server)?.caller_listing(asker, &offer.listing)?;
            Some((server.clone(), listing))
        };
        catalog.servers().filter_map(own).collect()
    }

    fn view(&self, catalog: Arc<Catalog>, own: Own) -> Arc<Catalog> {
        if let Some(known) = self.caller_catalogs.find(catalog.revision(), &own) {
            return known;
        }
        // A caller-specific listing may equal the shared one by now.
        let differs = |(server, own): &&(ServerName, Arc<Listing>)| {
            catalog.listing_of(server).is_some_and(|listed| !listed.lists_the_same(own))
        };
        let differing: Own = own.iter().filter(differs).cloned().collect();
        let of = catalog.revision();
        let made = self.caller_catalog(&catalog, &differing);
        let place = match &made {
            Some(_) => Place::InCatalog,
            None => Place::Elsewhere,
        };
        let own_listing = |(server, listing): (ServerName, Arc<Listing>)| OwnListing {
            place: if differing.iter().any(|(other, _)| *other == server) { place } else { Place::Elsewhere },
            listing: Arc::downgrade(&listing),
            server,
        };
        let own = own.into_iter().map(own_listing).collect();
        self.caller_catalogs.keep(View { of, own, catalog: made.unwrap_or(catalog) })
    }

    /// Removes cached catalogs that no caller can see any more.
    pub(crate) fn remove_unused_catalogs(&self) {
        self.caller_catalogs.remove_unused(self.catalog_publisher.catalog().revision());
    }

    /// The catalog with these listings; `None` if there are none, or if it does not fit the byte budget: then the caller
    /// sees the shared one. It is charged to the server that differs most.
    fn caller_catalog(&self, catalog: &Catalog, differing: &Own) -> Option<Arc<Catalog>> {
        let (server, _) = differing.iter().max_by_key(|(_, listing)| listing.count())?;
        let bytes = catalog.entry_bytes() + differing.iter().map(|(_, own)| own.entry_bytes()).sum::<usize>();
        let memory = self.catalog_publisher.listings().memory().of_server(server.as_str());
        self.caller_catalogs.remove_unused(catalog.revision());
        let charge = memory.keeping(Kept::Catalog).charge(bytes);
        let charge = charge
            .inspect_err(|error| tracing::warn!(%server, %error, "a caller sees the shared lists instead of its own"));
        let revision = self.catalog_publisher.next_revision();
        Some(Arc::new(catalog.with(differing, revision).charged(charge.ok()?, &memory)))
    }
}

impl CallerCatalogs {
    fn find(&self, of: u64, own: &Own) -> Option<Arc<Catalog>> {
        let same = |known: &OwnListing, own: &(ServerName, Arc<Listing>)| {
            known.server == own.0 && known.listing.as_ptr() == Arc::as_ptr(&own.1)
        };
        let is_it = |view: &&View| {
            view.of == of
                && view.own.len() == own.len()
                && view.own.iter().zip(own).all(|(known, own)| same(known, own))
        };
        self.made.lock().iter().find(is_it).map(|view| Arc::clone(&view.catalog))
    }

    fn keep(&self, view: View) -> Arc<Catalog> {
        let catalog = Arc::clone(&view.catalog);
        let mut made = self.made.lock();
        made.push_back(view);
        while KEPT < made.len() {
            made.pop_front();
        }
        catalog
    }

    /// Removes the catalogs of earlier revisions, and those of listings that no connection has any more.
    pub(crate) fn remove_unused(&self, of: u64) {
        self.made.lock().retain(|view| view.of == of && view.own.iter().all(OwnListing::is_used));
    }
}

impl OwnListing {
    /// Whether a connection has the listing.
    fn is_used(&self) -> bool {
        let held_here = match self.place {
            Place::InCatalog => 1,
            Place::Elsewhere => 0,
        };
        held_here < self.listing.strong_count()
    }
}
