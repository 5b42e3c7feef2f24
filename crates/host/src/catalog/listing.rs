//! The listing of one server: requests only the lists it declared, within bounds, and reads them item by item.
//!
//! A malformed item is set aside and does not affect the others. A list that the server refuses is set aside as a whole
//! and does not affect its other lists. A listing has no public names.

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    json::Raw,
    message::{
        ServerCapabilities,
        item::{MalformedItem, Prompt, Resource, Template, Tool},
        result::{CacheHint, CacheScope},
    },
    notice::List,
    up::{self, Peer},
};

use super::{
    ItemKind, SetAsideItem,
    entry::{CatalogItem, ListedItem},
    filter::{Filter, Switch},
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

/// Maximum number of unreadable items that are described. Further ones are only counted.
const DESCRIBED: usize = 100;
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
        }
    }

    /// Requests all lists that a server declared and the filter does not disable, concurrently.
    ///
    /// A list that the server refuses, or that is invalid, is set aside. An error means that the connection failed.
    pub async fn take(peer: &Peer, filter: &Filter) -> Result<Self, WireError> {
        Self::take_some(peer, filter, |_| true).await
    }

    /// Like [`Listing::take`], for the wanted kinds only.
    pub(crate) async fn take_some(
        peer: &Peer,
        filter: &Filter,
        wanted: impl Fn(ItemKind) -> bool,
    ) -> Result<Self, WireError> {
        let mut listing = Self::of_profile(peer);
        let asks = |kind| wanted(kind) && listing.asks(filter, kind);
        let (tools, resources, templates, prompts) = futures_util::join!(
            part(asks(ItemKind::Tool).then(|| peer.list_tools())),
            part(asks(ItemKind::Resource).then(|| peer.list_resources())),
            part(asks(ItemKind::Template).then(|| peer.list_templates())),
            part(asks(ItemKind::Prompt).then(|| peer.list_prompts())),
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
        let mut listing = Self { instructions: None, ..self.clone() };
        listing.instructions = instructions(peer);
        match list {
            List::Tools if listing.asks(filter, ItemKind::Tool) => {
                listing.tools = listing.accept(ListPart::whole(peer.list_tools().await?));
            }
            List::Prompts if listing.asks(filter, ItemKind::Prompt) => {
                listing.prompts = listing.accept(ListPart::whole(peer.list_prompts().await?));
            }
            List::Resources if listing.asks(filter, ItemKind::Resource) => {
                let (resources, templates) =
                    futures_util::join!(peer.list_resources(), part(Some(peer.list_templates())));
                listing.resources = listing.accept(ListPart::whole(resources?));
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

    /// Whether both list the same items, byte for byte and in the same order.
    pub(crate) fn lists_the_same(&self, other: &Self) -> bool {
        are_same(&self.tools, &other.tools)
            && are_same(&self.resources, &other.resources)
            && are_same(&self.templates, &other.templates)
            && are_same(&self.prompts, &other.prompts)
    }

    /// Applies the difference between `base` and `theirs`, which were listed at the same time, to this listing.
    pub(crate) fn differing_as(&self, theirs: &Self, base: &Self) -> Self {
        Self {
            tools: differing(&self.tools, &theirs.tools, &base.tools),
            resources: differing(&self.resources, &theirs.resources, &base.resources),
            templates: differing(&self.templates, &theirs.templates, &base.templates),
            prompts: differing(&self.prompts, &theirs.prompts, &base.prompts),
            ..self.clone()
        }
    }

    /// Number of items of all kinds.
    pub fn count(&self) -> usize {
        self.tools.len() + self.resources.len() + self.templates.len() + self.prompts.len()
    }

    fn of_profile(peer: &Peer) -> Self {
        let capabilities = peer.profile().capabilities.clone();
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

fn is_same<T: CatalogItem>(one: &ListedItem<T>, other: &ListedItem<T>) -> bool {
    Arc::ptr_eq(&one.item, &other.item) || one.item.raw().as_bytes() == other.item.raw().as_bytes()
}

fn are_same<T: CatalogItem>(one: &[ListedItem<T>], other: &[ListedItem<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
}

/// Three-way merge: applies to `now` the removals, changes and additions that lead from `base` to `theirs`.
fn differing<T: CatalogItem>(
    now: &[ListedItem<T>],
    theirs: &[ListedItem<T>],
    base: &[ListedItem<T>],
) -> Vec<ListedItem<T>> {
    fn by_name<T: CatalogItem>(list: &[ListedItem<T>]) -> HashMap<&str, &ListedItem<T>> {
        list.iter().map(|listed| (listed.item.raw_name(), listed)).collect()
    }
    let (known, mine, others) = (by_name(now), by_name(theirs), by_name(base));
    let fitted = |listed: &ListedItem<T>| {
        let name = listed.item.raw_name();
        match (mine.get(name), others.get(name)) {
            (None, Some(_)) => None,
            (Some(mine), Some(other)) if is_same(listed, other) => Some(ListedItem::clone(mine)),
            _ => Some(listed.clone()),
        }
    };
    let is_only_theirs = |listed: &&ListedItem<T>| {
        let name = listed.item.raw_name();
        !others.contains_key(name) && !known.contains_key(name)
    };
    now.iter().filter_map(fitted).chain(theirs.iter().filter(is_only_theirs).cloned()).collect()
}

/// Result of one list request.
struct ListPart<T> {
    items: Vec<ListedItem<T>>,
    cache_hint: Option<CacheHint>,
    set_aside: Vec<UnreadableItem>,
}

/// Waits for one list; empty if it is not requested.
async fn part<T: CatalogItem>(
    asked: Option<impl Future<Output = Result<up::Listing<T>, WireError>>>,
) -> Result<ListPart<T>, WireError> {
    let Some(asked) = asked else { return Ok(ListPart::nothing()) };
    match asked.await {
        Ok(listed) => Ok(ListPart::whole(listed)),
        Err(error) if ends_everything(&error) => Err(error),
        Err(error) => Ok(ListPart::refused(&error)),
    }
}

// === impl ListPart ===

impl<T: CatalogItem> ListPart<T> {
    fn nothing() -> Self {
        Self { items: Vec::new(), cache_hint: None, set_aside: Vec::new() }
    }

    fn whole(listed: up::Listing<T>) -> Self {
        let mut set_aside: Vec<_> =
            listed.malformed.iter().take(DESCRIBED).map(UnreadableItem::malformed::<T>).collect();
        if DESCRIBED < listed.malformed.len() {
            let reason = format!("{} more items are invalid", listed.malformed.len() - DESCRIBED);
            set_aside.push(UnreadableItem { kind: T::KIND, name: None, reason, failed: None });
        }
        Self {
            items: listed.items.into_iter().map(ListedItem::new).collect(),
            cache_hint: Some(listed.cache),
            set_aside,
        }
    }

    fn refused(error: &WireError) -> Self {
        // Many servers with resources have no templates and answer with an error.
        let expected = T::KIND == ItemKind::Template && matches!(error, WireError::Refused(_));
        let reason = format!("cannot list the {}s of this server: {error}", T::KIND);
        let set_aside =
            (!expected).then_some(UnreadableItem { kind: T::KIND, name: None, reason, failed: Some(error.code()) });
        Self { set_aside: set_aside.into_iter().collect(), ..Self::nothing() }
    }
}

/// Whether an error affects the whole connection, so that requesting other lists is pointless.
fn ends_everything(error: &WireError) -> bool {
    match error {
        WireError::Refused(_)
        | WireError::Protocol(_)
        | WireError::TooLarge { .. }
        | WireError::TimedOut { .. }
        | WireError::Status { .. }
        | WireError::Unsupported(_) => false,
        WireError::Unreachable { .. }
        | WireError::Ended(_)
        | WireError::Unauthorized { .. }
        | WireError::NoToken(_)
        | WireError::Vault(_)
        | WireError::Redirect { .. }
        | WireError::Overloaded { .. }
        | WireError::OverBudget(_)
        | WireError::NoCommonRevision { .. }
        | WireError::Handshake(_) => true,
    }
}

fn instructions(peer: &Peer) -> Option<String> {
    let text = peer.profile().instructions.as_deref()?;
    Some(text[..text.floor_char_boundary(INSTRUCTIONS)].to_owned())
}

// === impl UnreadableItem ===

impl UnreadableItem {
    fn malformed<T: CatalogItem>(item: &MalformedItem) -> Self {
        let [name, uri] = item.raw.fields(["name", "uri"]);
        let name = name.or(uri).and_then(|name| name.as_str().map(|name| name.chars().take(200).collect()));
        Self { kind: T::KIND, name, reason: item.to_string(), failed: None }
    }

    pub(super) fn of(&self, server: &ServerName) -> SetAsideItem {
        let Self { kind, name, reason, failed: _ } = self.clone();
        SetAsideItem { server: server.clone(), kind, name, reason }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use toolway_wire::message::result::{CacheHint, CacheScope};

    use super::{ItemKind, LONGEST, Listing, ReceivedCacheHint, SHORTEST};

    #[test]
    fn refresh_interval_follows_the_cache_hint_within_bounds() {
        for (said, expected) in [
            (Duration::ZERO, None),
            (Duration::from_millis(1), Some(SHORTEST)),
            (Duration::from_secs(60), Some(Duration::from_secs(60))),
            (Duration::MAX, Some(LONGEST)),
        ] {
            let mut listing = Listing::empty();
            let said = CacheHint { ttl: said, scope: CacheScope::Private };
            listing.cache_hints.insert(ItemKind::Tool, ReceivedCacheHint { hint: said, received_at: Instant::now() });
            assert_eq!(listing.refresh_interval(ItemKind::Tool), expected);
            assert_eq!(listing.refresh_interval(ItemKind::Prompt), None);
        }
    }
}
