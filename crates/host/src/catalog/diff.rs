//! What changed between two catalogs, kind by kind and server by server.
//!
//! Entries are compared by public name. What did not move costs a pointer comparison, what was listed anew costs a
//! comparison of fingerprints and bytes; nothing is read again.

use std::{cmp::Ordering, sync::Arc};

use toolway_config::ServerName;

use super::{
    Catalog, ItemKind,
    entry::{Entry, Offered},
    shelf::Shelf,
};

/// What changed, in order of kinds and public names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Each change.
    pub changes: Vec<Change>,
}

/// One entry that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is.
    pub kind: ItemKind,
    /// Whose it is.
    pub server: ServerName,
    /// Its public name or URI.
    pub public: String,
    /// What happened to it.
    pub what: What,
}

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its fingerprint changed: a grant for it does not hold any longer.
    Redefined,
    /// Something about it changed that no grant is bound to: a title, an icon, the order of keys.
    Retouched,
}

// === impl Diff ===

impl Diff {
    /// What has to be said to whoever knows `old` and is given `new`.
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

    /// What changed of one server.
    pub fn of<'a>(&'a self, server: &'a ServerName) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(move |change| change.server == *server)
    }

    /// How many entries had this happen to them.
    pub fn count(&self, what: What) -> usize {
        self.changes.iter().filter(|change| change.what == what).count()
    }

    /// Walks both shelves by name, side by side.
    fn compare<T: Offered, K: AsRef<str>>(&mut self, old: &Shelf<T, K>, new: &Shelf<T, K>) {
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

    fn judge<T: Offered, K: AsRef<str>>(&mut self, gone: Option<&Entry<T, K>>, come: Option<&Entry<T, K>>) {
        match (gone, come) {
            (Some(old), Some(new)) if old.origin == new.origin => {
                let what = difference(old, new);
                self.changes.extend(what.map(|what| change(new, what)));
            }
            // A name that leads elsewhere is another thing, however alike they look.
            (gone, come) => {
                self.changes.extend(gone.map(|entry| change(entry, What::Removed)));
                self.changes.extend(come.map(|entry| change(entry, What::Added)));
            }
        }
    }
}

fn difference<T: Offered, K>(old: &Entry<T, K>, new: &Entry<T, K>) -> Option<What> {
    if Arc::ptr_eq(&old.item, &new.item) {
        return None;
    }
    if old.fingerprint != new.fingerprint {
        return Some(What::Redefined);
    }
    (old.item.raw() != new.item.raw()).then_some(What::Retouched)
}

fn change<T: Offered, K: AsRef<str>>(entry: &Entry<T, K>, what: What) -> Change {
    let public = entry.public.as_ref().to_owned();
    Change { kind: T::KIND, server: entry.origin.server.clone(), public, what }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Diff, ItemKind, What};
    use crate::catalog::sketch::Sketch;

    fn said(old: &Sketch, new: &Sketch) -> Vec<(String, What)> {
        let diff = Diff::between(&old.merge(), &new.merge());
        diff.changes.into_iter().map(|change| (change.public, change.what)).collect()
    }

    #[test]
    fn what_came_and_what_went_is_named() {
        let old = Sketch::default().named("a", &["x", "y"]).named("gone", &["z"]);
        let new = Sketch::default().named("a", &["y", "w"]).prompts("b", &["p"]);
        let diff = Diff::between(&old.merge(), &new.merge());
        assert_eq!(
            said(&old, &new),
            [
                ("a__w".to_owned(), What::Added),
                ("a__x".to_owned(), What::Removed),
                ("gone__z".to_owned(), What::Removed),
                ("b__p".to_owned(), What::Added),
            ]
        );
        assert_eq!(diff.of(&"a".parse().unwrap()).count(), 2);
        assert_eq!((diff.count(What::Added), diff.count(What::Removed)), (2, 2));
        assert!(diff.touches(ItemKind::Prompt) && !diff.touches(ItemKind::Resource));
    }

    #[test]
    fn a_new_definition_is_told_from_a_new_title() {
        let old = Sketch::default().tools("a", &[json!({ "name": "x", "description": "Reads" })]);
        let redefined = Sketch::default().tools("a", &[json!({ "name": "x", "description": "Reads and mails" })]);
        let titled = Sketch::default().tools("a", &[json!({ "name": "x", "description": "Reads", "title": "X" })]);
        let listed_again = Sketch::default().tools("a", &[json!({ "name": "x", "description": "Reads" })]);
        assert_eq!(said(&old, &redefined), [("a__x".to_owned(), What::Redefined)]);
        assert_eq!(said(&old, &titled), [("a__x".to_owned(), What::Retouched)]);
        assert_eq!(said(&old, &listed_again), []);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_another_thing() {
        let (old, new) = (Sketch::default().resources("a", &["r://1"]), Sketch::default().resources("b", &["r://1"]));
        assert_eq!(said(&old, &new), [("r://1".to_owned(), What::Removed), ("r://1".to_owned(), What::Added)]);
    }
}
