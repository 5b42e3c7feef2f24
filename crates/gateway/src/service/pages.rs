//! Listings in prepared pages: made once for each snapshot of the catalog and each set of servers somebody sees.
//!
//! A cursor is sealed and bound to its caller, its list and its snapshot. Whoever pages through a list sees one snapshot
//! to the end, as long as that is kept; then they are told to begin again.

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
    call::Visible,
    catalog::{
        Catalog, ItemKind,
        entry::{Entry, Offered},
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
    annotation::{self, Shown},
    icons, invalid,
    lists::ListFor,
    uris::Uris,
};
use crate::access::Client;

/// Items of one page.
pub(super) const PAGE: usize = 500;
/// Lists that are kept: of several snapshots, for several callers …
const KEPT: usize = 64;
/// … and their bytes: a server that changes a long list all the time makes no more of them than this.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// The pages of one service.
pub(super) struct Pages {
    sealer: Arc<Sealer>,
    // Nothing awaits under this lock.
    made: Mutex<VecDeque<Arc<PreparedList>>>,
}

/// One list, cut into pages.
struct PreparedList {
    key: Key,
    pages: Vec<Raw>,
}

/// Which list it is.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    revision: u64,
    kind: u8,
    servers: Visible,
}

/// Where somebody is in a list.
#[derive(Serialize, Deserialize)]
struct Cursor {
    caller: String,
    revision: u64,
    kind: u8,
    page: usize,
}

impl Pages {
    pub(super) fn new(sealer: Arc<Sealer>) -> Self {
        Self { sealer, made: Mutex::default() }
    }

    /// The page a cursor stands for, or the first; `keeps` is said of what is listed now.
    pub(super) fn page(
        &self,
        catalog: &Arc<Catalog>,
        wanted: &ListFor,
        keeps: CacheHint,
        cursor: Option<&Raw>,
    ) -> Result<Raw, RpcError> {
        let (kind, client) = (wanted.kind, &*wanted.client);
        let (revision, page) = match cursor {
            None => (catalog.revision(), 0),
            Some(cursor) => self.at(cursor, client, kind)?,
        };
        let current = revision == catalog.revision();
        let key = Key { revision, kind: number(kind), servers: client.servers.clone() };
        let list = self
            .kept(&key)
            .or_else(|| current.then(|| self.keep(PreparedList { pages: prepared(catalog, wanted), key })));
        let list = list.ok_or_else(|| invalid("this list has changed since; begin again without a cursor"))?;
        let items = list.pages.get(page).ok_or_else(|| invalid("there is no such page"))?;
        let next = (page + 1 < list.pages.len()).then(|| self.cursor(client, &list.key, page + 1)).transpose()?;
        let keeps = CacheHint {
            // What is not listed like this any more does not keep at all.
            keeps: if current { keeps.keeps } else { Duration::ZERO },
            // A place in a list is its caller's, so that only a list of one page is for all.
            scope: if list.pages.len() == 1 { keeps.scope } else { CacheScope::Private },
        };
        Ok(assembled(kind, items, next.as_deref(), keeps))
    }

    fn at(&self, cursor: &Raw, client: &Client, kind: ItemKind) -> Result<(u64, usize), RpcError> {
        let unknown = || invalid("this cursor was not given to you for this list");
        let text = cursor.as_str().ok_or_else(unknown)?;
        let content = self.sealer.open(Purpose::Cursor, &text).ok_or_else(unknown)?;
        let cursor: Cursor = serde_json::from_slice(&content).map_err(|_| unknown())?;
        let good = *cursor.caller == *client.identity && cursor.kind == number(kind);
        if good { Ok((cursor.revision, cursor.page)) } else { Err(unknown()) }
    }

    fn cursor(&self, client: &Client, key: &Key, page: usize) -> Result<String, RpcError> {
        let cursor = Cursor { caller: client.identity.to_string(), revision: key.revision, kind: key.kind, page };
        let internal = |problem: &dyn fmt::Display| RpcError::new(RpcError::INTERNAL, &problem.to_string());
        let text = serde_json::to_vec(&cursor).map_err(|error| internal(&error))?;
        self.sealer.seal(Purpose::Cursor, &text).map_err(|error| internal(&error))
    }

    fn kept(&self, key: &Key) -> Option<Arc<PreparedList>> {
        self.made.lock().iter().find(|list| list.key == *key).cloned()
    }

    fn keep(&self, list: PreparedList) -> Arc<PreparedList> {
        let list = Arc::new(list);
        let mut made = self.made.lock();
        made.push_back(Arc::clone(&list));
        // The newest stays, however long it is: it is being read.
        while 1 < made.len() && (KEPT < made.len() || KEPT_BYTES < made.iter().map(|list| list.bytes()).sum()) {
            made.pop_front();
        }
        list
    }
}

impl PreparedList {
    fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.as_bytes().len()).sum()
    }
}

fn number(kind: ItemKind) -> u8 {
    match kind {
        ItemKind::Tool => 0,
        ItemKind::Resource => 1,
        ItemKind::Template => 2,
        ItemKind::Prompt => 3,
    }
}

/// What a list of this kind is called in its result.
fn member(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tools",
        ItemKind::Resource => "resources",
        ItemKind::Template => "resourceTemplates",
        ItemKind::Prompt => "prompts",
    }
}

fn assembled(kind: ItemKind, items: &Raw, next: Option<&str>, keeps: CacheHint) -> Raw {
    let next = next.map(Raw::of);
    let (hint, next) = (keeps.members(), next.iter().map(|next| ("nextCursor", next)));
    let hint = hint.iter().map(|(name, value)| (*name, value));
    splice::object([(member(kind), items)].into_iter().chain(next).chain(hint))
}

fn prepared(catalog: &Arc<Catalog>, wanted: &ListFor) -> Vec<Raw> {
    let as_it_came = |_: &ServerName, raw: &Raw| raw.clone();
    match wanted.kind {
        ItemKind::Tool => tools(catalog, wanted),
        ItemKind::Prompt => cut(catalog.prompts(), wanted, "name", as_it_came),
        ItemKind::Resource => cut(catalog.resources(), wanted, "uri", as_it_came),
        ItemKind::Template => cut(catalog.templates(), wanted, "uriTemplate", as_it_came),
    }
}

fn tools(catalog: &Arc<Catalog>, wanted: &ListFor) -> Vec<Raw> {
    if wanted.scope != Scope::All {
        return cut(catalog.tools(), wanted, "name", |_, raw| annotation::fitted(raw, Shown::Valid));
    }
    let uris = |(server, _): (&ServerName, _)| Some((server.clone(), Uris::of(catalog, server)?));
    let uris: BTreeMap<ServerName, Uris> = catalog.servers().filter_map(uris).collect();
    cut(catalog.tools(), wanted, "name", |server, raw| {
        let tool = annotation::fitted(raw, Shown::Never);
        uris.get(server).map_or_else(|| tool.clone(), |uris| uris.tool(&tool))
    })
}

/// The pages: each an array, each item under the name it has here and otherwise as it came. There is at least one.
fn cut<T: Offered, K: AsRef<str>>(
    entries: &[Entry<T, K>],
    wanted: &ListFor,
    key: &'static str,
    fit: impl Fn(&ServerName, &Raw) -> Raw,
) -> Vec<Raw> {
    let shown = |entry: &Entry<T, K>| {
        let (item, public) = (fit(&entry.origin.server, entry.item.raw()), entry.public.as_ref());
        let item = icons::fitted(&item);
        let renamed = wanted.scope == Scope::All && public != entry.origin.raw_name;
        if renamed { splice::edited(&item, &[Edit::Set(key, Raw::of(public))]) } else { item }
    };
    let items: Vec<Raw> = entries.iter().filter(|entry| wanted.shows(&entry.origin.server)).map(shown).collect();
    if items.is_empty() { vec![splice::array([])] } else { items.chunks(PAGE).map(splice::array).collect() }
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

    use super::{KEPT, KEPT_BYTES, Key, Pages, PreparedList, Visible};

    /// Bytes of one page.
    const PAGE: usize = 1024;

    fn kept(pages: &Pages, lists: u64, length: usize) -> usize {
        let page = Raw::of(&"x".repeat(PAGE - 2));
        for revision in 0..lists {
            let pages_of_it = vec![page.clone(); length];
            pages.keep(PreparedList { key: Key { revision, kind: 0, servers: Visible::All }, pages: pages_of_it });
        }
        pages.made.lock().len()
    }

    #[test]
    fn lists_are_kept_within_a_number_and_within_bytes() {
        let pages = || Pages::new(Arc::new(Sealer::generated().unwrap()));
        assert_eq!(kept(&pages(), 100, 1), KEPT);
        assert_eq!(kept(&pages(), 10, KEPT_BYTES / PAGE / 4 + 1), 3);
        assert_eq!(kept(&pages(), 3, KEPT_BYTES / PAGE + 1), 1, "the newest stays");
    }
}
