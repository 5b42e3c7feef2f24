//! The catalog as one caller has it: everybody's, with what is listed to that caller alone in its place.
//!
//! For almost every caller that is everybody's catalog, and nothing is made. Where it is not, the snapshot is made once
//! for all who are listed the same, and kept within a number and a size.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolway_config::ServerName;

use super::{Host, Inner};
use crate::{
    call::OnBehalf,
    catalog::{Catalog, Listing},
    connection::lines::Asker,
};

/// The views there are, oldest first.
#[derive(Default)]
pub(crate) struct Views {
    // Nothing awaits under this lock.
    made: Mutex<VecDeque<View>>,
}

struct View {
    /// Of which catalog, and with which listings.
    of: u64,
    own: Own,
    catalog: Arc<Catalog>,
}

/// What is listed to a caller alone.
type Own = Vec<(ServerName, Arc<Listing>)>;

/// Views that are kept …
const KEPT: usize = 64;
/// … and items in all of them.
const KEPT_ITEMS: usize = 200_000;

impl Host {
    /// The snapshot of what is on offer to this caller, at this moment.
    pub fn catalog_of(&self, on_behalf: &OnBehalf) -> Arc<Catalog> {
        let catalog = self.catalog();
        let own = self.inner.own_listings(&catalog, on_behalf);
        if own.is_empty() { catalog } else { self.inner.view(catalog, own) }
    }

    /// What one server lists to this caller, where that is not what everybody is listed.
    pub fn own_listing(&self, on_behalf: &OnBehalf, server: &ServerName) -> Option<Arc<Listing>> {
        let catalog = self.catalog();
        self.inner.connection(server)?.own_listing(Asker::of(on_behalf), catalog.listing_of(server)?)
    }
}

impl Inner {
    fn own_listings(&self, catalog: &Catalog, on_behalf: &OnBehalf) -> Own {
        let asker = Asker::of(on_behalf);
        let own = |(server, offer): (&ServerName, &crate::catalog::Offer)| {
            let listing = self.connection(server)?.own_listing(asker, &offer.listing)?;
            Some((server.clone(), listing))
        };
        catalog.servers().filter_map(own).collect()
    }

    fn view(&self, catalog: Arc<Catalog>, own: Own) -> Arc<Catalog> {
        if let Some(known) = self.views.find(catalog.revision(), &own) {
            return known;
        }
        // A list of one's own may be the same as everybody's by now.
        let differs = |(server, own): &&(ServerName, Arc<Listing>)| {
            catalog.listing_of(server).is_some_and(|listed| !listed.lists_the_same(own))
        };
        let differing: Own = own.iter().filter(differs).cloned().collect();
        let of = catalog.revision();
        let catalog = if differing.is_empty() {
            catalog
        } else {
            Arc::new(catalog.with(&differing, self.cataloguer.next_revision()))
        };
        self.views.keep(View { of, own, catalog })
    }
}

impl Views {
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
        // The newest stays, however long it is: it is being read.
        while 1 < made.len() && (KEPT < made.len() || KEPT_ITEMS < made.iter().map(|view| view.catalog.count()).sum()) {
            made.pop_front();
        }
        catalog
    }
}
