//! Cache of list pages, prepared once per catalog snapshot and set of visible servers.
//!
//! A cursor is sealed and bound to its caller, list and snapshot. A client that pages through a list sees one snapshot
//! until it is evicted from the cache; then it must start again.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use toolway_config::ServerName;
use toolway_host::{
    call::VisibleServers,
    catalog::{
        Catalog, ItemKind,
        entry::{CatalogItem, Entry},
    },
};
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    down::{ListDialect, ListPage},
    json::Raw,
    message::{
        RpcError,
        result::{CacheHint, CacheScope},
        splice::{self, Edit},
    },
    seal::{Purpose, Sealer},
};

use super::{
    Scope,
    annotation::{self, HeaderAnnotations},
    icons, invalid,
    lists::ListRequest,
    uris::UriMap,
};
use crate::access::Client;

/// Default maximum number of items per page. Many clients read only the first page.
pub(crate) const PAGE_ITEMS: usize = 10_000;
/// Maximum size of a page; a page has at least one item.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of cached lists, over all snapshots and callers.
const MAX_CACHED_LISTS: usize = 64;
/// Maximum size of the cached lists, because a server may change a long list all the time.
const MAX_CACHED_BYTES: usize = 32 * 1024 * 1024;

/// Page cache of one service.
pub(super) struct Pages {
    sealer: Arc<Sealer>,
    memory: MemoryBudget,
    page_items: usize,
    // Nothing awaits under this lock.
    cache: Mutex<VecDeque<Arc<PreparedList>>>,
}

/// One list, split into pages.
struct PreparedList {
    key: Key,
    pages: Vec<Raw>,
}

/// Cache key of a list.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    revision: u64,
    kind: u8,
    dialect: ListDialect,
    servers: VisibleServers,
}

/// Content of a sealed list cursor.
#[derive(Serialize, Deserialize)]
struct Cursor {
    caller: String,
    revision: u64,
    kind: u8,
    dialect: usize,
    page: usize,
}

impl Pages {
    /// Pages with at most `page_items` items.
    pub(super) fn new(sealer: Arc<Sealer>, page_items: usize, memory: &MemoryBudget) -> Self {
        let memory = memory.keeping(Kept::Page);
        Self { sealer, memory, page_items: page_items.max(1), cache: Mutex::default() }
    }

    /// An empty cache of pages with at most `page_items` items.
    pub(super) fn resized(&self, page_items: usize) -> Self {
        Self::new(Arc::clone(&self.sealer), page_items, &self.memory)
    }

    /// The page at the cursor, or the first. `hint` applies to the current snapshot.
    pub(super) fn page(
        &self,
        catalog: &Arc<Catalog>,
        wanted: &ListRequest,
        hint: CacheHint,
    ) -> Result<ListPage, RpcError> {
        let (kind, client) = (wanted.kind, &*wanted.client);
        let (revision, page) = match &wanted.cursor {
            None => (catalog.revision(), 0),
            Some(cursor) => self.open_cursor(cursor, wanted)?,
        };
        let current = revision == catalog.revision();
        let servers = client.servers.clone();
        let key = Key { revision, kind: kind_number(kind), dialect: wanted.dialect, servers };
        let list = match self.cached(&key) {
            Some(list) => list,
            None if current => {
                let pages = self.charged(prepare_pages(catalog, wanted, self.page_items), client)?;
                self.insert(PreparedList { pages, key })
            }
            None => return Err(invalid("the list has changed; start again without a cursor")),
        };
        let items = list.pages.get(page).ok_or_else(|| invalid("the cursor is past the end of the list"))?;
        let next = (page + 1 < list.pages.len()).then(|| self.cursor(client, &list.key, page + 1)).transpose()?;
        let hint = CacheHint {
            // An outdated snapshot must not be cached.
            ttl: if current { hint.ttl } else { Duration::ZERO },
            // A cursor belongs to one caller, so only a list of one page can be shared.
            scope: if list.pages.len() == 1 { hint.scope } else { CacheScope::Private },
        };
        Ok(ListPage { member: member(kind), items: items.clone(), next_cursor: next, hint })
    }

    fn open_cursor(&self, cursor: &Raw, wanted: &ListRequest) -> Result<(u64, usize), RpcError> {
        let unknown = || invalid("invalid cursor for this list");
        let text = cursor.as_str().ok_or_else(unknown)?;
        let content = self.sealer.open(Purpose::Cursor, &text).ok_or_else(unknown)?;
        let cursor: Cursor = serde_json::from_slice(&content).map_err(|_| unknown())?;
        let same_list = cursor.kind == kind_number(wanted.kind) && cursor.dialect == wanted.dialect.index();
        if same_list && *cursor.caller == *wanted.client.identity {
            Ok((cursor.revision, cursor.page))
        } else {
            Err(unknown())
        }
    }

    fn cursor(&self, client: &Client, key: &Key, page: usize) -> Result<String, RpcError> {
        let (caller, dialect) = (client.identity.to_string(), key.dialect.index());
        let cursor = Cursor { caller, revision: key.revision, kind: key.kind, dialect, page };
        let internal = |problem: &dyn fmt::Display| RpcError::new(RpcError::INTERNAL, &problem.to_string());
        let text = serde_json::to_vec(&cursor).map_err(|error| internal(&error))?;
        self.sealer.seal(Purpose::Cursor, &text).map_err(|error| internal(&error))
    }

    fn cached(&self, key: &Key) -> Option<Arc<PreparedList>> {
        self.cache.lock().iter().find(|list| list.key == *key).cloned()
    }

    /// Pages that hold a charge for themselves, also after they left the cache. Older lists make room first; without
    /// room the request is refused.
    fn charged(&self, pages: Vec<Raw>, client: &Client) -> Result<Vec<Raw>, RpcError> {
        let bytes = pages.iter().map(|page| page.as_bytes().len()).sum();
        let share = self.memory.of_principal(&client.name);
        let charge = loop {
            match share.charge(bytes) {
                Ok(charge) => break Arc::new(charge),
                Err(error) if self.cache.lock().pop_front().is_none() => {
                    return Err(RpcError::new(RpcError::INTERNAL, &error.to_string()));
                }
                Err(_) => {}
            }
        };
        Ok(pages.into_iter().map(|page| page.holding(&charge)).collect())
    }

    fn insert(&self, list: PreparedList) -> Arc<PreparedList> {
        let list = Arc::new(list);
        let mut cache = self.cache.lock();
        cache.push_back(Arc::clone(&list));
        // The newest list stays, whatever its size, because it is being read.
        while 1 < cache.len()
            && (MAX_CACHED_LISTS < cache.len() || MAX_CACHED_BYTES < cache.iter().map(|list| list.bytes()).sum())
        {
            cache.pop_front();
        }
        list
    }
}

impl PreparedList {
    fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.as_bytes().len()).sum()
    }
}

fn kind_number(kind: ItemKind) -> u8 {
    match kind {
        ItemKind::Tool => 0,
        ItemKind::Resource => 1,
        ItemKind::Template => 2,
        ItemKind::Prompt => 3,
    }
}

/// Member name of the list in its result.
fn member(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tools",
        ItemKind::Resource => "resources",
        ItemKind::Template => "resourceTemplates",
        ItemKind::Prompt => "prompts",
    }
}

/// Splits a list into pages, at least one. Each page is a JSON array of items.
fn prepare_pages(catalog: &Arc<Catalog>, wanted: &ListRequest, page_items: usize) -> Vec<Raw> {
    let unchanged = |_: &ServerName, raw: &Raw| raw.clone();
    let items = match wanted.kind {
        ItemKind::Tool => tools(catalog, wanted),
        ItemKind::Prompt => visible(catalog.prompts(), wanted, "name", unchanged),
        ItemKind::Resource => visible(catalog.resources(), wanted, "uri", unchanged),
        ItemKind::Template => visible(catalog.templates(), wanted, "uriTemplate", unchanged),
    };
    cut(&items, page_items, PAGE_BYTES)
}

fn cut(mut items: &[Raw], page_items: usize, page_bytes: usize) -> Vec<Raw> {
    let mut pages = Vec::new();
    while !items.is_empty() || pages.is_empty() {
        let mut bytes = 0;
        let fits = |item: &&Raw| {
            bytes += item.as_bytes().len() + 1;
            bytes <= page_bytes
        };
        let length = items.iter().take(page_items).take_while(fits).count().max(1).min(items.len());
        let (page, rest) = items.split_at(length);
        pages.push(splice::array(page));
        items = rest;
    }
    pages
}

fn tools(catalog: &Arc<Catalog>, wanted: &ListRequest) -> Vec<Raw> {
    if wanted.scope != Scope::All {
        return visible(catalog.tools(), wanted, "name", |_, raw| {
            annotation::filter_headers(raw, HeaderAnnotations::KeepValid)
        });
    }
    let uris = |(server, _): (&ServerName, _)| Some((server.clone(), UriMap::of(catalog, server)?));
    let uris: BTreeMap<ServerName, UriMap> = catalog.servers().filter_map(uris).collect();
    visible(catalog.tools(), wanted, "name", |server, raw| {
        let tool = annotation::filter_headers(raw, HeaderAnnotations::Remove);
        uris.get(server).map_or_else(|| tool.clone(), |uris| uris.tool(&tool))
    })
}

/// The visible items under their public names and in the dialect of the client, otherwise unchanged.
fn visible<T: CatalogItem, K: AsRef<str>>(
    entries: &[Entry<T, K>],
    wanted: &ListRequest,
    key: &'static str,
    fit: impl Fn(&ServerName, &Raw) -> Raw,
) -> Vec<Raw> {
    let shown = |entry: &Entry<T, K>| {
        let (item, public) = (fit(&entry.origin.server, entry.item.raw()), entry.public.as_ref());
        let item = icons::keep_embedded(&item);
        let renamed = wanted.scope == Scope::All && public != entry.origin.raw_name;
        let item = if renamed { splice::edited(&item, &[Edit::Set(key, Raw::of(public))]) } else { item };
        wanted.dialect.adapt(member(wanted.kind), &item)
    };
    entries.iter().filter(|entry| wanted.shows_item(&entry.origin)).map(shown).collect()
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}

#[cfg(test)]
mod tests;
