//! Tests of list pages.

use std::sync::Arc;

use toolway_wire::{
    budget::MemoryBudget, down::Caller, json::Raw, message::ClientCapabilities, revision::Revision, seal::Sealer,
};

use super::{Key, MAX_CACHED_BYTES, MAX_CACHED_LISTS, Pages, PreparedList, VisibleServers, cut};

/// Bytes of one page.
const PAGE_BYTES: usize = 1024;

fn caller() -> Caller {
    let (revision, capabilities) = (Revision::NEWEST_MODERN, ClientCapabilities::none());
    Caller { revision, capabilities, info: None, principal: Arc::from("a"), session: None }
}

#[test]
fn pages_are_cut_by_items_and_by_bytes() {
    let items = |count: usize| vec![Raw::of("12345678"); count];
    let lengths = |pages: Vec<Raw>| pages.iter().map(|page| page.elements().len()).collect::<Vec<_>>();
    assert_eq!(lengths(cut(&items(5), 2, 1_000)), [2, 2, 1]);
    assert_eq!(lengths(cut(&items(5), 10, 33)), [3, 2], "eleven bytes each, with a comma");
    assert_eq!(lengths(cut(&items(2), 10, 1)), [1, 1], "a larger item is alone");
    assert_eq!(lengths(cut(&[], 10, 1)), [0]);
}

fn cached_after(pages: &Pages, lists: u64, length: usize) -> usize {
    let page = Raw::of(&"x".repeat(PAGE_BYTES - 2));
    for revision in 0..lists {
        let pages_of_it = vec![page.clone(); length];
        pages.insert(PreparedList {
            key: Key { revision, kind: 0, dialect: caller().list_dialect(), servers: VisibleServers::All },
            pages: pages_of_it,
        });
    }
    pages.cache.lock().len()
}

#[test]
fn cache_is_bounded_by_number_and_size() {
    let pages = || Pages::new(Arc::new(Sealer::with_random_key().unwrap()), 10, &MemoryBudget::default());
    assert_eq!(cached_after(&pages(), 100, 1), MAX_CACHED_LISTS);
    assert_eq!(cached_after(&pages(), 10, MAX_CACHED_BYTES / PAGE_BYTES / 4 + 1), 3);
    assert_eq!(cached_after(&pages(), 3, MAX_CACHED_BYTES / PAGE_BYTES + 1), 1, "the newest stays");
}
