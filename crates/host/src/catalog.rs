//! The catalog: what all servers offer at one moment.
//!
//! A [`Catalog`] is an immutable snapshot, built by [`merge`](merge::merge) from one [`Listing`] per server; readers
//! hold an `Arc`. [`listing`] requests the lists of a server, [`diff`] compares two snapshots, [`throttle`] limits how
//! often changes are announced, [`listing_cache`] stores listings for the next start, and [`listing_table`] shares and
//! charges what is listed. Nothing here holds a connection.

pub mod diff;
pub mod entry;
mod entry_index;
pub mod filter;
pub mod fingerprint;
pub mod guard;
pub mod listing;
pub mod listing_cache;
pub(crate) mod listing_table;
pub mod merge;
pub mod name;
mod route;
pub mod search;
pub mod skills;
mod template;
#[cfg(test)]
mod test_catalog;
pub mod throttle;
pub mod uri;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use toolway_config::ServerName;
use toolway_wire::{
    budget::{Charge, MemoryBudget},
    message::{
        item::{Prompt, Resource, Template, Tool},
        result::{CacheHint, CacheScope},
    },
};

pub use self::{
    diff::Diff,
    entry::{Entry, PromptEntry, ResourceEntry, TemplateEntry, ToolEntry},
    filter::Filter,
    fingerprint::Fingerprint,
    guard::HiddenItem,
    listing::Listing,
    listing_cache::ListingCache,
    listing_table::ListingCharge,
    merge::{Freshness, Offer, merge},
    name::{Naming, Origin, PublicName},
    route::NoOwner,
    uri::PublicUri,
};
use self::{entry_index::EntryIndex, template::Matcher};

/// Snapshot of what all servers offer.
#[derive(Debug)]
pub struct Catalog {
    revision: u64,
    naming: Naming,
    servers: BTreeMap<ServerName, Offer>,
    tools: EntryIndex<Tool, PublicName>,
    prompts: EntryIndex<Prompt, PublicName>,
    resources: EntryIndex<Resource, PublicUri>,
    templates: EntryIndex<Template, PublicUri>,
    conflicts: Vec<Conflict>,
    set_aside: Vec<SetAsideItem>,
    /// In the order of kinds, servers and their lists.
    hidden: Vec<HiddenItem>,
    /// Parsed URI templates by position, built on first use.
    matchers: OnceLock<Vec<(usize, Matcher)>>,
    /// Search indexes of tools and of resources, built on first use.
    index: search::KeptIndex,
    resource_index: search::KeptIndex,
    /// Charge for the entries of a caller's catalog; those of the shared one are charged with their listings.
    _charge: Charge,
}

/// The four kinds of items that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemKind {
    /// Tool, which can be called.
    Tool,
    /// Resource, which can be read.
    Resource,
    /// Template of resource URIs.
    Template,
    /// Prompt, which can be rendered with arguments.
    Prompt,
}

/// A name that several items want, and the public names they got instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Kind of the items.
    pub kind: ItemKind,
    /// The name they want.
    pub wanted: String,
    /// Each item with its public name, in order of the servers.
    pub claims: Vec<(Origin, String)>,
}

/// An item that a server lists and the catalog does not offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideItem {
    /// Server that lists the item.
    pub server: ServerName,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Name or URI of the item, if it has one.
    pub name: Option<String>,
    /// Why it is not offered: a lower-case phrase without full stop.
    pub reason: String,
}

// === impl Catalog ===

impl Catalog {
    /// Creates a catalog without servers.
    pub fn empty() -> Self {
        merge(&BTreeMap::new(), Naming::default(), 0)
    }

    /// Revision number, which increases with each snapshot of a host.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Naming scheme of public names.
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// Returns a catalog with other listings for these servers, under another revision.
    pub(crate) fn with(&self, listings: &[(ServerName, Arc<Listing>)], revision: u64) -> Self {
        let mut offers = self.servers.clone();
        for (server, listing) in listings {
            if let Some(offer) = offers.get_mut(server) {
                offer.guard = offer.guard.as_ref().map(|guard| guard.of_some_clients(&offer.listing));
                offer.listing = Arc::clone(listing);
            }
        }
        merge(&offers, self.naming, revision)
    }

    /// This catalog with a charge for its entries, and a budget for its search index.
    #[must_use]
    pub(crate) fn charged(self, charge: Charge, memory: &MemoryBudget) -> Self {
        let new = || search::KeptIndex::new(memory);
        Self { _charge: charge, index: new(), resource_index: new(), ..self }
    }

    /// Bytes of its entries.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.servers.values().map(|offer| offer.listing.entry_bytes()).sum()
    }

    /// Finds a tool by its public name.
    pub fn find_tool(&self, name: &PublicName) -> Option<&ToolEntry> {
        self.tools.find(name.as_str())
    }

    /// Finds a prompt by its public name.
    pub fn find_prompt(&self, name: &PublicName) -> Option<&PromptEntry> {
        self.prompts.find(name.as_str())
    }

    /// All tools, by server, then in the order of the server.
    pub fn tools(&self) -> &[ToolEntry] {
        self.tools.all()
    }

    /// All prompts, in the same order.
    pub fn prompts(&self) -> &[PromptEntry] {
        self.prompts.all()
    }

    /// All resources, in the same order.
    pub fn resources(&self) -> &[ResourceEntry] {
        self.resources.all()
    }

    /// All resource templates, in the same order.
    pub fn templates(&self) -> &[TemplateEntry] {
        self.templates.all()
    }

    /// The tools of one server, in its order.
    pub fn tools_of(&self, server: &ServerName) -> &[ToolEntry] {
        self.tools.of(server)
    }

    /// The prompts of one server, in its order.
    pub fn prompts_of(&self, server: &ServerName) -> &[PromptEntry] {
        self.prompts.of(server)
    }

    /// The resources of one server, in its order.
    pub fn resources_of(&self, server: &ServerName) -> &[ResourceEntry] {
        self.resources.of(server)
    }

    /// The templates of one server, in its order.
    pub fn templates_of(&self, server: &ServerName) -> &[TemplateEntry] {
        self.templates.of(server)
    }

    /// A tool of one server by the name the server gave it.
    pub fn tool_at(&self, server: &ServerName, raw_name: &str) -> Option<&ToolEntry> {
        self.tools.at(server, raw_name)
    }

    /// A prompt of one server by the name the server gave it.
    pub fn prompt_at(&self, server: &ServerName, raw_name: &str) -> Option<&PromptEntry> {
        self.prompts.at(server, raw_name)
    }

    /// The servers of this catalog, with their listings.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerName, &Offer)> {
        self.servers.iter()
    }

    /// The listing of one server, before filtering and naming.
    pub fn listing_of(&self, server: &ServerName) -> Option<&Arc<Listing>> {
        self.servers.get(server).map(|offer| &offer.listing)
    }

    /// Whether the listing of a server was received since the host started.
    pub fn freshness_of(&self, server: &ServerName) -> Option<Freshness> {
        self.servers.get(server).map(|offer| offer.freshness)
    }

    /// Combined cache hint for the lists of one kind of these servers: the shortest remaining lifetime, and public only
    /// if all are public. The lifetime is zero if a listing was not received since the host started, or if no server
    /// matches.
    pub fn cache_hint(&self, kind: ItemKind, of: impl Fn(&ServerName) -> bool, now: Instant) -> CacheHint {
        let nothing = CacheHint { ttl: Duration::ZERO, scope: CacheScope::Private };
        let hint = |offer: &Offer| match offer.freshness {
            Freshness::Verified => offer.listing.remaining_cache_hint(&offer.filter, kind, now),
            Freshness::Unverified => Some(nothing),
        };
        let hints = self.servers.iter().filter(|(server, _)| of(server)).filter_map(|(_, offer)| hint(offer));
        let both = |one: CacheHint, other: CacheHint| CacheHint {
            ttl: one.ttl.min(other.ttl),
            scope: if one.scope == other.scope { one.scope } else { CacheScope::Private },
        };
        hints.reduce(both).unwrap_or(nothing)
    }

    /// Names that several items want.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Items that are listed but not offered.
    pub fn set_aside(&self) -> &[SetAsideItem] {
        &self.set_aside
    }

    /// Items that are not offered because their definitions are not what was seen first.
    pub fn hidden(&self) -> &[HiddenItem] {
        &self.hidden
    }

    /// A hidden item by the name the server gave it.
    pub fn hidden_at(&self, kind: ItemKind, server: &ServerName, raw_name: &str) -> Option<&HiddenItem> {
        let is_it =
            |item: &&HiddenItem| item.kind == kind && item.origin.server == *server && item.origin.raw_name == raw_name;
        self.hidden.iter().find(is_it)
    }
}

// === impl ItemKind ===

impl ItemKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Resource, Self::Template, Self::Prompt];

    /// Singular noun for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Template => "resource template",
            Self::Prompt => "prompt",
        }
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SetAsideItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} `{name}` of `{}`: {}", self.kind, self.server, self.reason),
            None => write!(f, "a {} of `{}`: {}", self.kind, self.server, self.reason),
        }
    }
}
