//! Caller-specific catalogs: the shared catalog, with the listings that differ for this caller.
//!
//! Almost all callers use the shared catalog itself. A differing snapshot is built once for all callers with the same
//! listings, and cached within limits on number and size.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolway_config::ServerName;

use super::{Host, Inner};
use crate::{
    call::CallerContext,
    catalog::{Catalog, Listing},
    connection::pool::RequestOrigin,
};

/// Cache of caller-specific catalogs, oldest first.
#[derive(Default)]
pub(crate) struct CallerCatalogs {
    // Nothing awaits under this lock.
    made: Mutex<VecDeque<View>>,
}

struct View {
    /// Revision of the shared catalog it was built from.
    of: u64,
    own: Own,
    catalog: Arc<Catalog>,
}

/// Caller-specific listings.
type Own = Vec<(ServerName, Arc<Listing>)>;

/// Maximum number of cached catalogs.
const KEPT: usize = 64;
/// Maximum number of items in all cached catalogs.
const KEPT_ITEMS: usize = 200_000;

impl Host {
    /// Returns the current catalog of this caller.
    pub fn catalog_of(&self, caller_context: &CallerContext) -> Arc<Catalog> {
        self.inner.catalog_of(caller_context)
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
        let catalog = if differing.is_empty() {
            catalog
        } else {
            Arc::new(catalog.with(&differing, self.catalog_publisher.next_revision()))
        };
        self.caller_catalogs.keep(View { of, own, catalog })
    }
}

impl CallerCatalogs {
    fn find(&self, of: u64, own: &Own) -> Option<Arc<Catalog>> {
        let same = |known: &(ServerName, Arc<Listing>), own: &(ServerName, Arc<Listing>)| {
            known.0 == own.0 && Arc::ptr_eq(&known.1, &own.1)
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
        // The newest view stays whatever its size: it is in use.
        while 1 < made.len() && (KEPT < made.len() || KEPT_ITEMS < made.iter().map(|view| view.catalog.count()).sum()) {
            made.pop_front();
        }
        catalog
    }
}
