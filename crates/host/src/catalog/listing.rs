//! What one server lists, and how it is asked: only for what it declared, within bounds, item by item.
//!
//! A malformed item is set aside and hides none of the others; a list that the server refuses is set aside as a
//! whole and hides none of its other lists. Public names are no business of a listing.

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
        item::{Malformed, Prompt, Resource, Template, Tool},
        result::{CacheHint, CacheScope},
    },
    notice::List,
    up::{self, Peer},
};

use super::{
    ItemKind, SetAside,
    entry::{Listed, Offered},
    filter::{Filter, Switch},
};

/// Everything one server lists, as it came.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Its tools, in its order.
    pub tools: Vec<Listed<Tool>>,
    /// Its resources.
    pub resources: Vec<Listed<Resource>>,
    /// Its resource templates.
    pub templates: Vec<Listed<Template>>,
    /// Its prompts.
    pub prompts: Vec<Listed<Prompt>>,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// What it declared.
    pub capabilities: ServerCapabilities,
    /// How long each kind keeps, where it was heard from the server.
    pub keeps: BTreeMap<ItemKind, Keeps>,
    /// What could not be read, and why.
    pub set_aside: Vec<Unlisted>,
}

/// How long a list keeps that was heard then.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    /// What the server said.
    pub said: CacheHint,
    /// When.
    pub heard: Instant,
}

/// Something of a listing that cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// What it is.
    pub kind: ItemKind,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// A lower-case fragment.
    pub reason: String,
    /// Where the whole list cannot be had: why, as a word for programs.
    pub failed: Option<&'static str>,
}

/// More items than this that cannot be read are counted, not described.
const DESCRIBED: usize = 100;
/// Longer instructions are cut: they would be repeated to every model.
const INSTRUCTIONS: usize = 64 * 1024;

/// A server that wants to be asked more often than this is asked this often.
const SHORTEST: Duration = Duration::from_secs(1);
/// A server that says it never changes is asked once a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

// === impl Listing ===

impl Listing {
    /// A listing of a server that offers nothing.
    pub fn empty() -> Self {
        Self {
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            instructions: None,
            capabilities: ServerCapabilities(Raw::empty_object()),
            keeps: BTreeMap::new(),
            set_aside: Vec::new(),
        }
    }

    /// Asks a server for everything it declared and the filter does not switch off, all lists side by side.
    ///
    /// A list that the server refuses or gets wrong is set aside; the error is a connection that is gone.
    pub async fn take(peer: &Peer, filter: &Filter) -> Result<Self, WireError> {
        Self::take_some(peer, filter, |_| true).await
    }

    /// The same, of the kinds that are wanted.
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

    /// The same listing with one list asked again, after the server said that it changed or its time was up.
    ///
    /// Any failure is an error here: what was listed before is better than nothing.
    pub async fn again(&self, peer: &Peer, filter: &Filter, list: List) -> Result<Self, WireError> {
        let mut listing = Self { instructions: None, ..self.clone() };
        listing.instructions = instructions(peer);
        match list {
            List::Tools if listing.asks(filter, ItemKind::Tool) => {
                listing.tools = listing.accept(Part::whole(peer.list_tools().await?));
            }
            List::Prompts if listing.asks(filter, ItemKind::Prompt) => {
                listing.prompts = listing.accept(Part::whole(peer.list_prompts().await?));
            }
            List::Resources if listing.asks(filter, ItemKind::Resource) => {
                let (resources, templates) =
                    futures_util::join!(peer.list_resources(), part(Some(peer.list_templates())));
                listing.resources = listing.accept(Part::whole(resources?));
                listing.templates = listing.accept(templates?);
            }
            List::Tools | List::Prompts | List::Resources => {}
        }
        Ok(listing)
    }

    /// The same listing with one list of another.
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

    /// How long a kind may be answered from here before the server is asked again; `None` until it says so itself.
    pub fn keeps_for(&self, kind: ItemKind) -> Option<Duration> {
        let said = self.keeps.get(&kind)?.said.keeps;
        (!said.is_zero()).then(|| said.clamp(SHORTEST, LONGEST))
    }

    /// How long a kind keeps from now on, and for whom; none where nothing of that kind is asked for.
    pub(crate) fn keeps_now(&self, filter: &Filter, kind: ItemKind, now: Instant) -> Option<CacheHint> {
        let unknown = CacheHint { keeps: Duration::ZERO, scope: CacheScope::Private };
        let left = |keeps: &Keeps| CacheHint {
            keeps: keeps.said.keeps.saturating_sub(now.saturating_duration_since(keeps.heard)),
            scope: keeps.said.scope,
        };
        self.asks(filter, kind).then(|| self.keeps.get(&kind).map_or(unknown, left))
    }

    /// Whether both list the same, byte for byte and in the same order.
    pub(crate) fn lists_the_same(&self, other: &Self) -> bool {
        are_same(&self.tools, &other.tools)
            && are_same(&self.resources, &other.resources)
            && are_same(&self.templates, &other.templates)
            && are_same(&self.prompts, &other.prompts)
    }

    /// This listing with the difference that there is between `theirs` and what was listed `beside` it.
    pub(crate) fn differing_as(&self, theirs: &Self, beside: &Self) -> Self {
        Self {
            tools: differing(&self.tools, &theirs.tools, &beside.tools),
            resources: differing(&self.resources, &theirs.resources, &beside.resources),
            templates: differing(&self.templates, &theirs.templates, &beside.templates),
            prompts: differing(&self.prompts, &theirs.prompts, &beside.prompts),
            ..self.clone()
        }
    }

    /// How many items it holds.
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

    /// Takes one list in, in the place of what was known of that kind.
    fn accept<T: Offered>(&mut self, part: Part<T>) -> Vec<Listed<T>> {
        self.set_aside.retain(|item| item.kind != T::KIND);
        self.set_aside.extend(part.set_aside);
        self.keeps.remove(&T::KIND);
        let heard = Instant::now();
        self.keeps.extend(part.keeps.map(|said| (T::KIND, Keeps { said, heard })));
        part.items
    }
}

fn is_same<T: Offered>(one: &Listed<T>, other: &Listed<T>) -> bool {
    Arc::ptr_eq(&one.item, &other.item) || one.item.raw().as_bytes() == other.item.raw().as_bytes()
}

fn are_same<T: Offered>(one: &[Listed<T>], other: &[Listed<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
}

/// What is listed now, without what they were not listed, as they were listed it, and with what only they were.
fn differing<T: Offered>(now: &[Listed<T>], theirs: &[Listed<T>], beside: &[Listed<T>]) -> Vec<Listed<T>> {
    fn by_name<T: Offered>(list: &[Listed<T>]) -> HashMap<&str, &Listed<T>> {
        list.iter().map(|listed| (listed.item.raw_name(), listed)).collect()
    }
    let (known, mine, others) = (by_name(now), by_name(theirs), by_name(beside));
    let fitted = |listed: &Listed<T>| {
        let name = listed.item.raw_name();
        match (mine.get(name), others.get(name)) {
            (None, Some(_)) => None,
            (Some(mine), Some(other)) if is_same(listed, other) => Some(Listed::clone(mine)),
            _ => Some(listed.clone()),
        }
    };
    let is_only_theirs = |listed: &&Listed<T>| {
        let name = listed.item.raw_name();
        !others.contains_key(name) && !known.contains_key(name)
    };
    now.iter().filter_map(fitted).chain(theirs.iter().filter(is_only_theirs).cloned()).collect()
}

/// What came of asking for one list.
struct Part<T> {
    items: Vec<Listed<T>>,
    keeps: Option<CacheHint>,
    set_aside: Vec<Unlisted>,
}

/// Waits for one list, where it is asked for at all.
async fn part<T: Offered>(
    asked: Option<impl Future<Output = Result<up::Listing<T>, WireError>>>,
) -> Result<Part<T>, WireError> {
    let Some(asked) = asked else { return Ok(Part::nothing()) };
    match asked.await {
        Ok(listed) => Ok(Part::whole(listed)),
        Err(error) if ends_everything(&error) => Err(error),
        Err(error) => Ok(Part::refused(&error)),
    }
}

// === impl Part ===

impl<T: Offered> Part<T> {
    fn nothing() -> Self {
        Self { items: Vec::new(), keeps: None, set_aside: Vec::new() }
    }

    fn whole(listed: up::Listing<T>) -> Self {
        let mut set_aside: Vec<_> = listed.malformed.iter().take(DESCRIBED).map(Unlisted::malformed::<T>).collect();
        if DESCRIBED < listed.malformed.len() {
            let reason = format!("{} more cannot be read either", listed.malformed.len() - DESCRIBED);
            set_aside.push(Unlisted { kind: T::KIND, name: None, reason, failed: None });
        }
        Self { items: listed.items.into_iter().map(Listed::new).collect(), keeps: Some(listed.cache), set_aside }
    }

    fn refused(error: &WireError) -> Self {
        // Many servers with resources know no templates, and say so in this way.
        let expected = T::KIND == ItemKind::Template && matches!(error, WireError::Refused(_));
        let reason = format!("the {}s of this server cannot be listed: {error}", T::KIND);
        let set_aside =
            (!expected).then_some(Unlisted { kind: T::KIND, name: None, reason, failed: Some(error.code()) });
        Self { set_aside: set_aside.into_iter().collect(), ..Self::nothing() }
    }
}

/// Whether there is no point in asking for the other lists.
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
        | WireError::NoCommonRevision { .. }
        | WireError::Handshake(_) => true,
    }
}

fn instructions(peer: &Peer) -> Option<String> {
    let text = peer.profile().instructions.as_deref()?;
    Some(text[..text.floor_char_boundary(INSTRUCTIONS)].to_owned())
}

// === impl Unlisted ===

impl Unlisted {
    fn malformed<T: Offered>(item: &Malformed) -> Self {
        let [name, uri] = item.raw.fields(["name", "uri"]);
        let name = name.or(uri).and_then(|name| name.as_str().map(|name| name.chars().take(200).collect()));
        Self { kind: T::KIND, name, reason: item.to_string(), failed: None }
    }

    pub(super) fn of(&self, server: &ServerName) -> SetAside {
        let Self { kind, name, reason, failed: _ } = self.clone();
        SetAside { server: server.clone(), kind, name, reason }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use toolway_wire::message::result::{CacheHint, CacheScope};

    use super::{ItemKind, Keeps, LONGEST, Listing, SHORTEST};

    #[test]
    fn how_long_a_list_keeps_is_the_servers_to_say_within_reason() {
        for (said, expected) in [
            (Duration::ZERO, None),
            (Duration::from_millis(1), Some(SHORTEST)),
            (Duration::from_secs(60), Some(Duration::from_secs(60))),
            (Duration::MAX, Some(LONGEST)),
        ] {
            let mut listing = Listing::empty();
            let said = CacheHint { keeps: said, scope: CacheScope::Private };
            listing.keeps.insert(ItemKind::Tool, Keeps { said, heard: Instant::now() });
            assert_eq!(listing.keeps_for(ItemKind::Tool), expected);
            assert_eq!(listing.keeps_for(ItemKind::Prompt), None);
        }
    }
}
