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

/// Number of items per page.
pub(super) const PAGE_ITEMS: usize = 500;
/// Maximum number of cached lists, over all snapshots and callers.
const MAX_CACHED_LISTS: usize = 64;
/// Maximum size of the cached lists, because a server may change a long list all the time.
const MAX_CACHED_BYTES: usize = 32 * 1024 * 1024;

/// Page cache of one service.
pub(super) struct Pages {
    sealer: Arc<Sealer>,
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
    servers: VisibleServers,
}

/// Content of a sealed list cursor.
#[derive(Serialize, Deserialize)]
struct Cursor {
    caller: String,
    revision: u64,
    kind: u8,
    page: usize,
}

impl Pages {
    pub(super) fn new(sealer: Arc<Sealer>) -> Self {
        Self { sealer, cache: Mutex::default() }
    }

    /// The page at `cursor`, or the first. `hint` applies to the current snapshot.
    pub(super) fn page(
        &self,
        catalog: &Arc<Catalog>,
        wanted: &ListRequest,
        hint: CacheHint,
        cursor: Option<&Raw>,
    ) -> Result<Raw, RpcError> {
        let (kind, client) = (wanted.kind, &*wanted.client);
        let (revision, page) = match cursor {
            None => (catalog.revision(), 0),
            Some(cursor) => self.open_cursor(cursor, client, kind)?,
        };
        let current = revision == catalog.revision();
        let key = Key { revision, kind: kind_number(kind), servers: client.servers.clone() };
        let list = self
            .cached(&key)
            .or_else(|| current.then(|| self.insert(PreparedList { pages: prepare_pages(catalog, wanted), key })));
        let list = list.ok_or_else(|| invalid("the list has changed; start again without a cursor"))?;
        let items = list.pages.get(page).ok_or_else(|| invalid("the cursor is past the end of the list"))?;
        let next = (page + 1 < list.pages.len()).then(|| self.cursor(client, &list.key, page + 1)).transpose()?;
        let hint = CacheHint {
            // An outdated snapshot must not be cached.
            ttl: if current { hint.ttl } else { Duration::ZERO },
            // A cursor belongs to one caller, so only a list of one page can be shared.
            scope: if list.pages.len() == 1 { hint.scope } else { CacheScope::Private },
        };
        Ok(page_result(kind, items, next.as_deref(), hint))
    }

    fn open_cursor(&self, cursor: &Raw, client: &Client, kind: ItemKind) -> Result<(u64, usize), RpcError> {
        let unknown = || invalid("invalid cursor for this list");
        let text = cursor.as_str().ok_or_else(unknown)?;
        let content = self.sealer.open(Purpose::Cursor, &text).ok_or_else(unknown)?;
        let cursor: Cursor = serde_json::from_slice(&content).map_err(|_| unknown())?;
        let valid = *cursor.caller == *client.identity && cursor.kind == kind_number(kind);
        if valid { Ok((cursor.revision, cursor.page)) } else { Err(unknown()) }
    }

    fn cursor(&self, client: &Client, key: &Key, page: usize) -> Result<String, RpcError> {
        let cursor = Cursor { caller: client.identity.to_string(), revision: key.revision, kind: key.kind, page };
        let internal = |problem: &dyn fmt::Display| RpcError::new(RpcError::INTERNAL, &problem.to_string());
        let text = serde_json::to_vec(&cursor).map_err(|error| internal(&error))?;
        self.sealer.seal(Purpose::Cursor, &text).map_err(|error| internal(&error))
    }

    fn cached(&self, key: &Key) -> Option<Arc<PreparedList>> {
        self.cache.lock().iter().find(|list| list.key == *key).cloned()
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

fn page_result(kind: ItemKind, items: &Raw, next: Option<&str>, hint: CacheHint) -> Raw {
    let next = next.map(Raw::of);
    let (hint, next) = (hint.members(), next.iter().map(|next| ("nextCursor", next)));
    let hint = hint.iter().map(|(name, value)| (*name, value));
    splice::object([(member(kind), items)].into_iter().chain(next).chain(hint))
}

fn prepare_pages(catalog: &Arc<Catalog>, wanted: &ListRequest) -> Vec<Raw> {
    let unchanged = |_: &ServerName, raw: &Raw| raw.clone();
    match wanted.kind {
        ItemKind::Tool => tools(catalog, wanted),
        ItemKind::Prompt => cut(catalog.prompts(), wanted, "name", unchanged),
        ItemKind::Resource => cut(catalog.resources(), wanted, "uri", unchanged),
        ItemKind::Template => cut(catalog.templates(), wanted, "uriTemplate", unchanged),
    }
}

fn tools(catalog: &Arc<Catalog>, wanted: &ListRequest) -> Vec<Raw> {
    if wanted.scope != Scope::All {
        return cut(catalog.tools(), wanted, "name", |_, raw| {
            annotation::filter_headers(raw, HeaderAnnotations::KeepValid)
        });
    }
    let uris = |(server, _): (&ServerName, _)| Some((server.clone(), UriMap::of(catalog, server)?));
    let uris: BTreeMap<ServerName, UriMap> = catalog.servers().filter_map(uris).collect();
    cut(catalog.tools(), wanted, "name", |server, raw| {
        let tool = annotation::filter_headers(raw, HeaderAnnotations::Remove);
        uris.get(server).map_or_else(|| tool.clone(), |uris| uris.tool(&tool))
    })
}

/// Splits the visible entries into pages, at least one. Each page is a JSON array of items under their public names,
/// otherwise unchanged.
fn cut<T: CatalogItem, K: AsRef<str>>(
    entries: &[Entry<T, K>],
    wanted: &ListRequest,
    key: &'static str,
    fit: impl Fn(&ServerName, &Raw) -> Raw,
) -> Vec<Raw> {
    let shown = |entry: &Entry<T, K>| {
        let (item, public) = (fit(&entry.origin.server, entry.item.raw()), entry.public.as_ref());
        let item = icons::keep_embedded(&item);
        let renamed = wanted.scope == Scope::All && public != entry.origin.raw_name;
        if renamed { splice::edited(&item, &[Edit::Set(key, Raw::of(public))]) } else { item }
    };
    let items: Vec<Raw> = entries.iter().filter(|entry| wanted.shows(&entry.origin.server)).map(shown).collect();
    if items.is_empty() { vec![splice::array([])] } else { items.chunks(PAGE_ITEMS).map(splice::array).collect() }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolway_wire::{json::Raw, seal::Sealer};

    use super::{Key, MAX_CACHED_BYTES, MAX_CACHED_LISTS, Pages, PreparedList, VisibleServers};

    /// Bytes of one page.
    const PAGE_BYTES: usize = 1024;

    fn cached_after(pages: &Pages, lists: u64, length: usize) -> usize {
        let page = Raw::of(&"x".repeat(PAGE_BYTES - 2));
        for revision in 0..lists {
            let pages_of_it = vec![page.clone(); length];
            pages.insert(PreparedList {
                key: Key { revision, kind: 0, servers: VisibleServers::All },
                pages: pages_of_it,
            });
        }
        pages.cache.lock().len()
    }

    #[test]
    fn cache_is_bounded_by_number_and_size() {
        let pages = || Pages::new(Arc::new(Sealer::with_random_key().unwrap()));
        assert_eq!(cached_after(&pages(), 100, 1), MAX_CACHED_LISTS);
        assert_eq!(cached_after(&pages(), 10, MAX_CACHED_BYTES / PAGE_BYTES / 4 + 1), 3);
        assert_eq!(cached_after(&pages(), 3, MAX_CACHED_BYTES / PAGE_BYTES + 1), 1, "the newest stays");
    }
}
