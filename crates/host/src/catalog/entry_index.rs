//! Index of all entries of one kind: in order, by public name, by server, and by server and raw name.
//!
//! The index holds positions instead of copies of names, because large catalogs are rebuilt often.

use std::{collections::BTreeMap, ops::Range};

use toolway_config::ServerName;

use super::entry::Entry;

#[derive(Debug)]
pub(super) struct EntryIndex<T, K> {
    entries: Vec<Entry<T, K>>,
    by_public: Vec<u32>,
    by_raw: Vec<u32>,
    servers: BTreeMap<ServerName, Range<usize>>,
}

impl<T, K: AsRef<str>> EntryIndex<T, K> {
    /// Builds the index. The entries of each server must be adjacent.
    pub(super) fn new(entries: Vec<Entry<T, K>>) -> Self {
        let mut servers: BTreeMap<ServerName, Range<usize>> = BTreeMap::new();
        for group in entries.chunk_by(|one, other| one.origin.server == other.origin.server) {
            let from = servers.values().map(|range| range.end).max().unwrap_or_default();
            servers.insert(group[0].origin.server.clone(), from..from + group.len());
        }
        let positions = || (0..u32::try_from(entries.len()).unwrap_or(u32::MAX)).collect::<Vec<_>>();
        let (mut by_public, mut by_raw) = (positions(), positions());
        by_public.sort_unstable_by(|one, other| text(&entries, *one).cmp(text(&entries, *other)));
        by_raw.sort_unstable_by(|one, other| entries[*one as usize].origin.cmp(&entries[*other as usize].origin));
        Self { entries, by_public, by_raw, servers }
    }

    pub(super) fn all(&self) -> &[Entry<T, K>] {
        &self.entries
    }

    /// Entries in the order of their public names.
    pub(super) fn by_public(&self) -> impl Iterator<Item = &Entry<T, K>> {
        self.by_public.iter().map(|at| &self.entries[*at as usize])
    }

    pub(super) fn of(&self, server: &ServerName) -> &[Entry<T, K>] {
        self.servers.get(server).map_or(&[], |range| &self.entries[range.clone()])
    }

    pub(super) fn find(&self, public: &str) -> Option<&Entry<T, K>> {
        let found = self.by_public.binary_search_by(|at| text(&self.entries, *at).cmp(public)).ok()?;
        self.entries.get(self.by_public[found] as usize)
    }

    pub(super) fn at(&self, server: &ServerName, raw_name: &str) -> Option<&Entry<T, K>> {
        let order = |at: &u32| {
            let origin = &self.entries[*at as usize].origin;
            (&origin.server, origin.raw_name.as_str()).cmp(&(server, raw_name))
        };
        let found = self.by_raw.binary_search_by(order).ok()?;
        self.entries.get(self.by_raw[found] as usize)
    }
}

fn text<T, K: AsRef<str>>(entries: &[Entry<T, K>], at: u32) -> &str {
    entries[at as usize].public.as_ref()
}
