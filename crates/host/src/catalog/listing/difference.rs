//! Comparison of listings: whether two are equal, and how a profile's listing differs from the shared one.

use std::{collections::HashMap, sync::Arc};

use super::Listing;
use crate::catalog::entry::{CatalogItem, ListedItem};

impl Listing {
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
