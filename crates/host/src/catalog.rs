//! Everything all servers offer, at one moment.
//!
//! A [`Catalog`] is an immutable snapshot. It is made by [`merge`](merge::merge) from one [`Listing`] per server and
//! never changes afterwards: whoever answers from it holds an `Arc` and is never half-way between two versions.
//! What a server offers is asked in [`listing`], what changed between two snapshots is said by [`diff`], how fast
//! that is told by [`pace`], and the copy that is offered at the next start is kept by [`copy`]. Nothing here holds a
//! connection.

pub mod copy;
pub mod diff;
pub mod entry;
pub mod filter;
pub mod fingerprint;
pub mod lint;
pub mod listing;
pub mod merge;
pub mod name;
pub mod pace;
mod route;
pub mod search;
mod shelf;
#[cfg(test)]
mod sketch;
mod template;
pub mod uri;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use toolway_config::ServerName;
use toolway_wire::message::{
    item::{Prompt, Resource, Template, Tool},
    result::{CacheHint, CacheScope},
};

pub use self::{
    copy::DiskCopy,
    diff::Diff,
    entry::{Entry, PromptEntry, ResourceEntry, TemplateEntry, ToolEntry},
    filter::Filter,
    fingerprint::Fingerprint,
    listing::Listing,
    merge::{Freshness, Offer, merge},
    name::{Naming, Origin, PublicName},
    route::NoOwner,
    uri::PublicUri,
};
use self::{shelf::Shelf, template::Matcher};

/// What all servers offer, at one moment.
#[derive(Debug)]
pub struct Catalog {
    revision: u64,
    naming: Naming,
    servers: BTreeMap<ServerName, Offer>,
    tools: Shelf<Tool, PublicName>,
    prompts: Shelf<Prompt, PublicName>,
    resources: Shelf<Resource, PublicUri>,
    templates: Shelf<Template, PublicUri>,
    conflicts: Vec<Conflict>,
    set_aside: Vec<SetAside>,
    /// The templates as they are compared with URIs, read when the first one is.
    matchers: OnceLock<Vec<(usize, Matcher)>>,
    /// Built when the first search needs it.
    index: OnceLock<search::Index>,
    /// Looked for when somebody wants to know.
    findings: OnceLock<Vec<lint::Finding>>,
}

/// The four kinds of things a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemKind {
    /// Something that can be called.
    Tool,
    /// Something that can be read.
    Resource,
    /// A family of things that can be read.
    Template,
    /// Something that can be asked for.
    Prompt,
}

/// Several items wanted one name; this says what each of them is called instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What they are.
    pub kind: ItemKind,
    /// What they would have been called.
    pub wanted: String,
    /// Each of them and its public name, in order of the servers.
    pub claims: Vec<(Origin, String)>,
}

/// Something a server lists that is not offered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Whose it is.
    pub server: ServerName,
    /// What it is.
    pub kind: ItemKind,
    /// Its name or URI, where it has one.
    pub name: Option<String>,
    /// A lower-case fragment.
    pub reason: String,
}

// === impl Catalog ===

impl Catalog {
    /// A catalog without any server, before the first one is known.
    pub fn empty() -> Self {
        merge(&BTreeMap::new(), Naming::default(), 0)
    }

    /// Counts up with each snapshot of one host; a request names the one it was chosen from.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How its names are made.
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// The same with other listings of these servers, under a number of its own.
    pub(crate) fn with(&self, listings: &[(ServerName, Arc<Listing>)], revision: u64) -> Self {
        let mut offers = self.servers.clone();
        for (server, listing) in listings {
            if let Some(offer) = offers.get_mut(server) {
                offer.listing = Arc::clone(listing);
            }
        }
        merge(&offers, self.naming, revision)
    }

    /// The tool of this name.
    pub fn find_tool(&self, name: &PublicName) -> Option<&ToolEntry> {
        self.tools.find(name.as_str())
    }

    /// The prompt of this name.
    pub fn find_prompt(&self, name: &PublicName) -> Option<&PromptEntry> {
        self.prompts.find(name.as_str())
    }

    /// All tools, by server and then in the server's order.
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

    /// The servers this was made from, with what each listed.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerName, &Offer)> {
        self.servers.iter()
    }

    /// What one server listed, before filters and names.
    pub fn listing_of(&self, server: &ServerName) -> Option<&Arc<Listing>> {
        self.servers.get(server).map(|offer| &offer.listing)
    }

    /// Whether what is offered of a server was heard from the server itself since we started.
    pub fn freshness_of(&self, server: &ServerName) -> Option<Freshness> {
        self.servers.get(server).map(|offer| offer.freshness)
    }

    /// How long the lists of one kind of these servers keep together from now on, and for whom: as long as the one that
    /// keeps the least, and for all only where each does. Nothing is known to keep of a server that was not heard since
    /// we started, or of none at all.
    pub fn keeps(&self, kind: ItemKind, of: impl Fn(&ServerName) -> bool, now: Instant) -> CacheHint {
        let nothing = CacheHint { keeps: Duration::ZERO, scope: CacheScope::Private };
        let hint = |offer: &Offer| match offer.freshness {
            Freshness::Verified => offer.listing.keeps_now(&offer.filter, kind, now),
            Freshness::Unverified => Some(nothing),
        };
        let hints = self.servers.iter().filter(|(server, _)| of(server)).filter_map(|(_, offer)| hint(offer));
        let both = |one: CacheHint, other: CacheHint| CacheHint {
            keeps: one.keeps.min(other.keeps),
            scope: if one.scope == other.scope { one.scope } else { CacheScope::Private },
        };
        hints.reduce(both).unwrap_or(nothing)
    }

    /// How many items are on offer.
    pub(crate) fn count(&self) -> usize {
        self.tools().len() + self.prompts().len() + self.resources().len() + self.templates().len()
    }

    /// Names that several items wanted.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// What is listed and not offered, and why.
    pub fn set_aside(&self) -> &[SetAside] {
        &self.set_aside
    }
}

// === impl ItemKind ===

impl ItemKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Resource, Self::Template, Self::Prompt];

    /// The word for one of them.
    pub fn word(self) -> &'static str {
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
        f.write_str(self.word())
    }
}

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} `{name}` of `{}`: {}", self.kind, self.server, self.reason),
            None => write!(f, "a {} of `{}`: {}", self.kind, self.server, self.reason),
        }
    }
}
