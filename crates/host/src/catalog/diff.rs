//! Differences between two catalogs, by kind and server.
//!
//! Entries are matched by public name. An unchanged entry costs a pointer comparison; an entry that was listed again
//! costs a comparison of fingerprints and bytes. Nothing is parsed again.

use std::{cmp::Ordering, sync::Arc};

use toolway_config::ServerName;

use super::{
    Catalog, ItemKind,
    entry::{CatalogItem, Entry},
    entry_index::EntryIndex,
};

/// Differences, ordered by kind and public name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// All changed entries.
    pub changes: Vec<Change>,
}

/// A changed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Kind of the entry.
    pub kind: ItemKind,
    /// Server of the entry.
    pub server: ServerName,
    /// Public name or URI.
    pub public: String,
    /// Kind of change.
    pub change: ChangeKind,
}

/// Kind of change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The entry is new.
    Added,
    /// The entry was removed.
    Removed,
    /// The fingerprint changed, so an earlier acceptance no longer applies.
    Redefined,
    /// Something outside the fingerprint changed: an icon, the order of keys.
    Retouched,
}

// === impl Diff ===

impl Diff {
    /// Compares two catalogs.
    pub fn between(old: &Catalog, new: &Catalog) -> Self {
        let mut diff = Self::default();
        diff.compare(&old.tools, &new.tools);
        diff.compare(&old.resources, &new.resources);
        diff.compare(&old.templates, &new.templates);
        diff.compare(&old.prompts, &new.prompts);
        diff
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether anything of a kind changed.
    pub fn touches(&self, kind: ItemKind) -> bool {
        self.changes.iter().any(|change| change.kind == kind)
    }

    /// Changed entries of one server.
    pub fn of<'a>(&'a self, server: &'a ServerName) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(move |change| change.server == *server)
    }

    /// Number of entries with this kind of change.
    pub fn count(&self, change: ChangeKind) -> usize {
        self.changes.iter().filter(|entry| entry.change == change).count()
    }

    /// Walks both indexes in the order of public names.
    fn compare<T: CatalogItem, K: AsRef<str>>(&mut self, old: &EntryIndex<T, K>, new: &EntryIndex<T, K>) {
        let (mut before, mut after) = (old.by_public().peekable(), new.by_public().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => one.public.as_ref().cmp(other.public.as_ref()),
            };
            let gone = before.next_if(|_| order != Ordering::Greater);
            let come = after.next_if(|_| order != Ordering::Less);
            self.judge(gone, come);
        }
    }

    fn judge<T: CatalogItem, K: AsRef<str>>(&mut self, gone: Option<&Entry<T, K>>, come: Option<&Entry<T, K>>) {
        match (gone, come) {
            (Some(old), Some(new)) if old.origin == new.origin => {
                let change = difference(old, new);
                self.changes.extend(change.map(|change| changed(new, change)));
            }
            // A name with another origin is a different item, even if both look alike.
            (gone, come) => {
                self.changes.extend(gone.map(|entry| changed(entry, ChangeKind::Removed)));
                self.changes.extend(come.map(|entry| changed(entry, ChangeKind::Added)));
            }
        }
    }
}

fn difference<T: CatalogItem, K>(old: &Entry<T, K>, new: &Entry<T, K>) -> Option<ChangeKind> {
    if Arc::ptr_eq(&old.item, &new.item) {
        return None;
    }
    if old.fingerprint != new.fingerprint {
        return Some(ChangeKind::Redefined);
    }
    (old.item.raw() != new.item.raw()).then_some(ChangeKind::Retouched)
}

fn changed<T: CatalogItem, K: AsRef<str>>(entry: &Entry<T, K>, change: ChangeKind) -> Change {
    let public = entry.public.as_ref().to_owned();
    Change { kind: T::KIND, server: entry.origin.server.clone(), public, change }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ChangeKind, Diff, ItemKind};
    use crate::catalog::test_catalog::CatalogBuilder;

    fn said(old: &CatalogBuilder, new: &CatalogBuilder) -> Vec<(String, ChangeKind)> {
        let diff = Diff::between(&old.merge(), &new.merge());
        diff.changes.into_iter().map(|change| (change.public, change.change)).collect()
    }

    #[test]
    fn added_and_removed_entries_are_reported() {
        let old = CatalogBuilder::default().named("a", &["x", "y"]).named("gone", &["z"]);
        let new = CatalogBuilder::default().named("a", &["y", "w"]).prompts("b", &["p"]);
        let diff = Diff::between(&old.merge(), &new.merge());
        assert_eq!(
            said(&old, &new),
            [
                ("a__w".to_owned(), ChangeKind::Added),
                ("a__x".to_owned(), ChangeKind::Removed),
                ("gone__z".to_owned(), ChangeKind::Removed),
                ("b__p".to_owned(), ChangeKind::Added),
            ]
        );
        assert_eq!(diff.of(&"a".parse().unwrap()).count(), 2);
        assert_eq!((diff.count(ChangeKind::Added), diff.count(ChangeKind::Removed)), (2, 2));
        assert!(diff.touches(ItemKind::Prompt) && !diff.touches(ItemKind::Resource));
    }

    #[test]
    fn changed_definition_differs_from_a_change_of_other_members() {
        let old = CatalogBuilder::default().tools("a", &[json!({ "name": "x", "description": "Reads" })]);
        let redefined =
            CatalogBuilder::default().tools("a", &[json!({ "name": "x", "description": "Reads and mails" })]);
        let titled =
            CatalogBuilder::default().tools("a", &[json!({ "name": "x", "description": "Reads", "title": "X" })]);
        let with_icons =
            CatalogBuilder::default().tools("a", &[json!({ "name": "x", "description": "Reads", "icons": [] })]);
        let listed_again = CatalogBuilder::default().tools("a", &[json!({ "name": "x", "description": "Reads" })]);
        assert_eq!(said(&old, &redefined), [("a__x".to_owned(), ChangeKind::Redefined)]);
        assert_eq!(said(&old, &titled), [("a__x".to_owned(), ChangeKind::Redefined)]);
        assert_eq!(said(&old, &with_icons), [("a__x".to_owned(), ChangeKind::Retouched)]);
        assert_eq!(said(&old, &listed_again), []);
    }

    #[test]
    fn name_with_another_origin_is_removed_and_added() {
        let (old, new) = (
            CatalogBuilder::default().resources("a", &["r://1"]),
            CatalogBuilder::default().resources("b", &["r://1"]),
        );
        assert_eq!(
            said(&old, &new),
            [("r://1".to_owned(), ChangeKind::Removed), ("r://1".to_owned(), ChangeKind::Added)]
        );
    }
}
