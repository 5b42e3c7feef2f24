//! The listing of one server: requests only the lists it declared, within bounds, and reads them item by item.
//!
//! A malformed item is set aside and does not affect the others. A list that the server refuses is set aside as a whole
//! and does not affect its other lists. A listing has no public names.

mod difference;
mod part;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use toolway_wire::{
    budget::Charge,
    error::WireError,
    json::Raw,
    message::{
        ServerCapabilities,
        item::{Prompt, Resource, Template, Tool},
        result::{CacheHint, CacheScope},
    },
    notice::List,
    up::Peer,
};

use self::part::{ListPart, part};
use super::{
    ItemKind,
    entry::{CatalogItem, ListedItem},
    filter::{Filter, Switch},
    listing_table::{ListingCharge, ServerListings},
};

/// Everything that one server lists, unchanged.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Tools, in the order of the server.
    pub tools: Vec<ListedItem<Tool>>,
    /// Resources, in the order of the server.
    pub resources: Vec<ListedItem<Resource>>,
    /// Resource templates, in the order of the server.
    pub templates: Vec<ListedItem<Template>>,
    /// Prompts, in the order of the server.
    pub prompts: Vec<ListedItem<Prompt>>,
    /// Usage instructions of the server.
    pub instructions: Option<String>,
    /// Capabilities that the server declared.
    pub capabilities: ServerCapabilities,
    /// Cache hints by kind; empty for a stored listing.
    pub cache_hints: BTreeMap<ItemKind, ReceivedCacheHint>,
    /// Items and lists that could not be read.
    pub set_aside: Vec<UnreadableItem>,
    /// The charge for the lists.
    pub charge: ListingCharge,
}

/// A cache hint and when it was received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedCacheHint {
    /// Cache hint of the server.
    pub hint: CacheHint,
    /// Time of the response.
    pub received_at: Instant,
}

/// An item or list that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableItem {
    /// Kind of the item or list.
    pub kind: ItemKind,
    /// Name of the item, if it has one.
    pub name: Option<String>,
    /// Lower-case phrase without full stop.
    pub reason: String,
    /// Error code, if the whole list could not be read.
    pub failed: Option<&'static str>,
}

/// Code of [`WireError::TooLarge`].
const TOO_LARGE: &str = "too_large";
/// Maximum length of instructions in bytes. They are sent to every model.
const INSTRUCTIONS: usize = 64 * 1024;

/// Minimum refresh interval.
const SHORTEST: Duration = Duration::from_secs(1);
/// Maximum refresh interval.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

// === impl Listing ===

impl Listing {
    /// Creates the listing of a server that offers nothing.
    pub fn empty() -> Self {
        Self {
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            instructions: None,
            capabilities: ServerCapabilities(Raw::empty_object()),
            cache_hints: BTreeMap::new(),
            set_aside: Vec::new(),
            charge: ListingCharge::default(),
        }
    }

    /// Requests all lists that a server declared and the filter does not disable, concurrently.
    ///
    /// A list that the server refuses, or that is invalid, is set aside. An error means that the connection failed.
    pub async fn take(peer: &Peer, filter: &Filter) -> Result<Self, WireError> {
        Self::take_some(peer, filter, |_| true, &ServerListings::unlimited()).await
    }

    /// Like [`Listing::take`], for the wanted kinds only. The items are kept in `listings`.
    pub(crate) async fn take_some(
        peer: &Peer,
        filter: &Filter,
        wanted: impl Fn(ItemKind) -> bool,
        listings: &ServerListings,
    ) -> Result<Self, WireError> {
        let mut listing = Self::of_profile(peer);
        let asks = |kind| wanted(kind) && listing.asks(filter, kind);
        let (tools, resources, templates, prompts) = futures_util::join!(
            part(asks(ItemKind::Tool).then(|| peer.list_tools()), listings),
            part(asks(ItemKind::Resource).then(|| peer.list_resources()), listings),
            part(asks(ItemKind::Template).then(|| peer.list_templates()), listings),
            part(asks(ItemKind::Prompt).then(|| peer.list_prompts()), listings),
        );
        listing.tools = listing.accept(tools?);
        listing.resources = listing.accept(resources?);
        listing.templates = listing.accept(templates?);
        listing.prompts = listing.accept(prompts?);
        Ok(listing)
    }

    /// Returns this listing with one list requested again, after it changed or expired.
    ///
    /// Any failure is an error, so that the caller keeps the previous listing.
    pub async fn again(&self, peer: &Peer, filter: &Filter, list: List) -> Result<Self, WireError> {
        self.again_in(peer, filter, list, &ServerListings::unlimited()).await
    }

    /// Like [`Listing::again`]. The items are kept in `listings`.
    pub(crate) async fn again_in(
        &self,
        peer: &Peer,
        filter: &Filter,
        list: List,
        listings: &ServerListings,
    ) -> Result<Self, WireError> {
        let mut listing = Self { instructions: None, ..self.clone() };
        listing.instructions = instructions(peer);
        match list {
            List::Tools if listing.asks(filter, ItemKind::Tool) => {
                listing.tools = listing.accept(ListPart::whole(peer.list_tools().await?, listings)?);
            }
            List::Prompts if listing.asks(filter, ItemKind::Prompt) => {
                listing.prompts = listing.accept(ListPart::whole(peer.list_prompts().await?, listings)?);
            }
            List::Resources if listing.asks(filter, ItemKind::Resource) => {
                let (resources, templates) =
                    futures_util::join!(peer.list_resources(), part(Some(peer.list_templates()), listings));
                listing.resources = listing.accept(ListPart::whole(resources?, listings)?);
                listing.templates = listing.accept(templates?);
            }
            List::Tools | List::Prompts | List::Resources => {}
        }
        Ok(listing)
    }

    /// Returns this listing with one list of another.
    #[must_use]
    pub(crate) fn with(self, kind: ItemKind, other: &Self) -> Self {
        let mut listing = Self { instructions: other.instructions.clone(), ..self };
        listing.capabilities = other.capabilities.clone();
        match kind {
            ItemKind::Tool => listing.tools.clone_from(&other.tools),
            ItemKind::Resource => listing.resources.clone_from(&other.resources),
            ItemKind::Template => listing.templates.clone_from(&other.templates),
            ItemKind::Prompt => listing.prompts.clone_from(&other.prompts),
        }
        listing
    }

    /// Whether one of its lists was too large to be read.
    pub(crate) fn is_too_large(&self) -> bool {
        self.set_aside.iter().any(|item| item.failed == Some(TOO_LARGE))
    }

    /// Returns this listing with the lists of `before` for those that were too large to be read.
    #[must_use]
    pub(crate) fn with_lists_before(self, before: &Self) -> Self {
        let too_large = |item: &UnreadableItem| item.failed == Some(TOO_LARGE);
        let kinds: Vec<ItemKind> = self.set_aside.iter().filter(|item| too_large(item)).map(|item| item.kind).collect();
        let (instructions, capabilities) = (self.instructions.clone(), self.capabilities.clone());
        let listing = kinds.into_iter().fold(self, |listing, kind| listing.with(kind, before));
        Self { instructions, capabilities, ..listing }
    }

    /// Time after which a list should be requested again; `None` if the server relies on change notifications.
    pub fn refresh_interval(&self, kind: ItemKind) -> Option<Duration> {
        let said = self.cache_hints.get(&kind)?.hint.ttl;
        (!said.is_zero()).then(|| said.clamp(SHORTEST, LONGEST))
    }

    /// Cache hint with the remaining lifetime; `None` if lists of this kind are not requested.
    pub(crate) fn remaining_cache_hint(&self, filter: &Filter, kind: ItemKind, now: Instant) -> Option<CacheHint> {
        let unknown = CacheHint { ttl: Duration::ZERO, scope: CacheScope::Private };
        let left = |received: &ReceivedCacheHint| CacheHint {
            ttl: received.hint.ttl.saturating_sub(now.saturating_duration_since(received.received_at)),
            scope: received.hint.scope,
        };
        self.asks(filter, kind).then(|| self.cache_hints.get(&kind).map_or(unknown, left))
    }

    /// Number of items of all kinds.
    pub fn count(&self) -> usize {
        self.tools.len() + self.resources.len() + self.templates.len() + self.prompts.len()
    }

    fn of_profile(peer: &Peer) -> Self {
        // A copy: the handshake result that it is a part of ends with the connection.
        let capabilities = ServerCapabilities(peer.profile().capabilities.0.kept(Charge::default()));
        Self { instructions: instructions(peer), capabilities, ..Self::empty() }
    }

    fn asks(&self, filter: &Filter, kind: ItemKind) -> bool {
        let capability = match kind {
            ItemKind::Tool => "tools",
            ItemKind::Resource | ItemKind::Template => "resources",
            ItemKind::Prompt => "prompts",
        };
        filter.switch(kind) == Switch::On && self.capabilities.has(capability)
    }

    /// Takes the result of one list request; replaces the metadata of that kind.
    fn accept<T: CatalogItem>(&mut self, part: ListPart<T>) -> Vec<ListedItem<T>> {
        self.set_aside.retain(|item| item.kind != T::KIND);
        self.set_aside.extend(part.set_aside);
        self.cache_hints.remove(&T::KIND);
        let received_at = Instant::now();
        self.cache_hints.extend(part.cache_hint.map(|hint| (T::KIND, ReceivedCacheHint { hint, received_at })));
        part.items
    }
}

fn instructions(peer: &Peer) -> Option<String> {
    let text = peer.profile().instructions.as_deref()?;
    Some(text[..text.floor_char_boundary(INSTRUCTIONS)].to_owned())
}

#[cfg(test)]
mod tests;
