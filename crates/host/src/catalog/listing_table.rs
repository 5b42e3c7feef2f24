//! Shares what servers list: equal items, and equal listings, are kept once over all profiles and connections of a server.
//!
//! An item is copied out of the page it arrived in, so that it keeps nothing else alive, and holds the charge for itself;
//! a listing holds the charge for its lists. Both are charged to the share of their server. The table has weak
//! references only: what no connection lists any more is released. A listing that does not fit the budget is refused,
//! and the one before stays in use.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use toolway_config::ServerName;
use toolway_wire::{
    budget::{Charge, Kept, MemoryBudget, OverBudget},
    message::item::{Prompt, Resource, Template, Tool},
};

use super::{
    ItemKind, Listing,
    entry::{CatalogItem, Entry, ListedItem},
    fingerprint::Fingerprint,
    name::PublicName,
};

/// What all servers of a host list. Cheap to clone; the default is unlimited.
#[derive(Clone, Default)]
pub(crate) struct ListingTable {
    shared: Arc<Tables>,
    memory: MemoryBudget,
}

/// The part of the table for one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerListings {
    shared: Arc<Tables>,
    memory: MemoryBudget,
    server: Option<ServerName>,
}

/// The charge that a listing holds. Clones of a listing share it.
#[derive(Clone, Debug, Default)]
pub struct ListingCharge(
    #[expect(dead_code, reason = "released with the last copy of the listing")] Option<Arc<(Charge, Charge)>>,
);

/// What a listing is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// All callers: its items become entries of the shared catalog.
    Everyone,
    /// The callers of one profile or connection. Their catalogs are charged where they are kept.
    SomeCallers,
}

/// The tables. Nothing awaits under their locks.
#[derive(Default)]
pub(crate) struct Tables {
    tools: Mutex<ItemTable<Tool>>,
    resources: Mutex<ItemTable<Resource>>,
    templates: Mutex<ItemTable<Template>>,
    prompts: Mutex<ItemTable<Prompt>>,
    listings: Mutex<HashMap<Option<ServerName>, Vec<Weak<Listing>>>>,
}

/// Items of one kind by the digest of their server and text.
pub(crate) struct ItemTable<T> {
    items: HashMap<Digest, KnownItem<T>>,
    /// At this number of entries, those of released items are removed.
    prune_at: usize,
}

struct KnownItem<T> {
    item: Weak<T>,
    fingerprint: Fingerprint,
}

type Digest = [u8; 32];

/// Bytes of an item besides its text and what it owns: allocations, and its place in the table.
const ITEM_COST: usize = 256;
/// Entries of a table that are never pruned.
const LEAST_ENTRIES: usize = 1_024;

// === impl ListingTable ===

impl ListingTable {
    pub(crate) fn new(memory: MemoryBudget) -> Self {
        Self { shared: Arc::default(), memory }
    }

    /// The budget of all listings.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// The listings of one server.
    pub(crate) fn of(&self, server: &ServerName) -> ServerListings {
        let memory = self.memory.of_server(server.as_str());
        ServerListings { shared: Arc::clone(&self.shared), memory, server: Some(server.clone()) }
    }
}

// === impl ServerListings ===

impl ServerListings {
    /// Listings that are neither shared nor charged.
    pub(crate) fn unlimited() -> Self {
        Self { shared: Arc::default(), memory: MemoryBudget::default(), server: None }
    }

    /// Keeps items that were received. `reading` is the charge for them so far; what they own leaves it.
    pub(crate) fn items<T: SharedItem>(
        &self,
        items: Vec<T>,
        reading: &mut Charge,
    ) -> Result<Vec<ListedItem<T>>, OverBudget> {
        let mut kept = Vec::with_capacity(items.len());
        for item in items {
            let owned = item.owned_bytes();
            reading.shrink(owned);
            kept.push(self.item(item, owned)?);
        }
        Ok(kept)
    }

    fn item<T: SharedItem>(&self, item: T, owned: usize) -> Result<ListedItem<T>, OverBudget> {
        let digest = self.digest(&item);
        if let Some(known) = T::table(&self.shared).lock().find(&digest) {
            return Ok(known);
        }
        let charge = self.memory.keeping(Kept::Listing).charge(item.raw().as_bytes().len() + owned + ITEM_COST)?;
        let copy = item.raw().kept(charge);
        let listed = ListedItem::new(item.moved(copy));
        T::table(&self.shared).lock().insert(digest, &listed);
        Ok(listed)
    }

    /// Keeps the items of a listing that was read from disk.
    pub(crate) fn stored(&self, listing: Listing) -> Result<Listing, OverBudget> {
        Ok(Listing {
            tools: self.again(&listing.tools)?,
            resources: self.again(&listing.resources)?,
            templates: self.again(&listing.templates)?,
            prompts: self.again(&listing.prompts)?,
            ..listing
        })
    }

    fn again<T: SharedItem>(&self, listed: &[ListedItem<T>]) -> Result<Vec<ListedItem<T>>, OverBudget> {
        listed.iter().map(|listed| self.item(T::clone(&listed.item), listed.item.owned_bytes())).collect()
    }

    /// Keeps a listing whose items are kept already. An equal one is shared.
    pub(crate) fn listing(&self, mut listing: Listing, audience: Audience) -> Result<Arc<Listing>, OverBudget> {
        if let Some(known) = self.known(&listing, audience) {
            return Ok(known);
        }
        let lists = self.memory.keeping(Kept::Listing).charge(listing.own_bytes())?;
        let entries = match audience {
            Audience::Everyone => listing.entry_bytes(),
            Audience::SomeCallers => 0,
        };
        let entries = self.memory.keeping(Kept::Catalog).charge(entries)?;
        listing.charge = ListingCharge(Some(Arc::new((lists, entries))));
        let listing = Arc::new(listing);
        let mut listings = self.shared.listings.lock();
        listings.retain(|_, kept| {
            kept.retain(|listing| 0 < listing.strong_count());
            !kept.is_empty()
        });
        listings.entry(self.server.clone()).or_default().push(Arc::downgrade(&listing));
        Ok(listing)
    }

    /// A listing for callers that equals this one. The shared listing is always a new one: it replaces the one before.
    fn known(&self, listing: &Listing, audience: Audience) -> Option<Arc<Listing>> {
        if audience == Audience::Everyone || !listing.is_timeless() {
            return None;
        }
        let listings = self.shared.listings.lock();
        listings.get(&self.server)?.iter().filter_map(Weak::upgrade).find(|known| known.equals(listing))
    }

    fn digest<T: CatalogItem>(&self, item: &T) -> Digest {
        let mut context = Context::new(&SHA256);
        context.update(self.server.as_ref().map_or("", ServerName::as_str).as_bytes());
        context.update(&[0]);
        context.update(item.raw().as_bytes());
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }
}

/// An item that is kept in a table.
pub(crate) trait SharedItem: CatalogItem {
    /// The table of its kind.
    fn table(shared: &Tables) -> &Mutex<ItemTable<Self>>;
}

impl SharedItem for Tool {
    fn table(shared: &Tables) -> &Mutex<ItemTable<Self>> {
        &shared.tools
    }
}

impl SharedItem for Resource {
    fn table(shared: &Tables) -> &Mutex<ItemTable<Self>> {
        &shared.resources
    }
}

impl SharedItem for Template {
    fn table(shared: &Tables) -> &Mutex<ItemTable<Self>> {
        &shared.templates
    }
}

impl SharedItem for Prompt {
    fn table(shared: &Tables) -> &Mutex<ItemTable<Self>> {
        &shared.prompts
    }
}

// === impl ItemTable ===

impl<T: CatalogItem> ItemTable<T> {
    fn find(&self, digest: &Digest) -> Option<ListedItem<T>> {
        let known = self.items.get(digest)?;
        Some(ListedItem { item: known.item.upgrade()?, fingerprint: known.fingerprint })
    }

    fn insert(&mut self, digest: Digest, listed: &ListedItem<T>) {
        if self.prune_at <= self.items.len() {
            self.items.retain(|_, known| 0 < known.item.strong_count());
            self.prune_at = (2 * self.items.len()).max(LEAST_ENTRIES);
        }
        let known = KnownItem { item: Arc::downgrade(&listed.item), fingerprint: listed.fingerprint };
        self.items.insert(digest, known);
    }
}

impl<T> Default for ItemTable<T> {
    fn default() -> Self {
        Self { items: HashMap::new(), prune_at: LEAST_ENTRIES }
    }
}

// === impl Listing ===

impl Listing {
    /// Bytes of the listing itself, without its items.
    fn own_bytes(&self) -> usize {
        let lists = self.count() * size_of::<ListedItem<Tool>>();
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let unreadable = self.set_aside.iter().map(|item| size_of_val(item) + text(&item.name) + item.reason.len());
        let declared = self.capabilities.0.as_bytes().len();
        size_of::<Self>() + lists + text(&self.instructions) + declared + unreadable.sum::<usize>()
    }

    /// Bytes of the catalog entries made of it.
    pub(crate) fn entry_bytes(&self) -> usize {
        fn of<T: CatalogItem>(items: &[ListedItem<T>]) -> usize {
            // The name of the item stands in its origin, and again in its public name beside the name of the server.
            items.iter().map(|listed| ENTRY_COST + 2 * listed.item.raw_name().len()).sum()
        }
        of(&self.tools) + of(&self.resources) + of(&self.templates) + of(&self.prompts)
    }

    /// Whether no list has a time to live, which would begin at another moment for an equal listing.
    fn is_timeless(&self) -> bool {
        ItemKind::ALL.into_iter().all(|kind| self.refresh_interval(kind).is_none())
    }

    fn equals(&self, other: &Self) -> bool {
        self.is_timeless()
            && self.lists_the_same(other)
            && self.instructions == other.instructions
            && self.capabilities.0 == other.capabilities.0
            && self.set_aside == other.set_aside
    }
}

/// Bytes of a catalog entry besides its names: the entry, its places in two indexes, and allocations.
const ENTRY_COST: usize = size_of::<Entry<Tool, PublicName>>() + 2 * size_of::<u32>() + 128;

impl fmt::Debug for ListingTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingTable").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerListings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerListings").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
