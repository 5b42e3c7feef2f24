//! What was seen of one server, as digests: whether a tool or prompt is still the same.

use std::collections::HashMap;

use super::SeenItem;
use crate::catalog::ItemKind;

/// The digest of one definition that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenDigest {
    /// What it is of.
    pub item: SeenItem,
    /// The digest.
    pub digest: String,
}

/// The digests of everything that was seen of one server.
#[derive(Debug, Default)]
pub(crate) struct SeenServer {
    entry: Option<String>,
    instructions: Option<String>,
    shared: HashMap<(ItemKind, String), String>,
    /// Digests as single clients saw them, with the client.
    own: HashMap<(ItemKind, String), Vec<OwnDigest>>,
    /// Whether no further definition of the server is kept.
    is_full: bool,
}

#[derive(Debug)]
struct OwnDigest {
    caller: String,
    digest: String,
}

/// How a definition compares with what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Nothing of its kind was seen of this server, or nothing of the own tools of this client.
    First,
    Same,
    Changed,
    /// The server did not have it before.
    New,
}

impl SeenServer {
    pub(crate) fn new(seen: Vec<SeenDigest>) -> Self {
        let mut known = Self { is_full: super::MAX_ITEMS <= seen.len(), ..Self::default() };
        for SeenDigest { item, digest } in seen {
            match item {
                SeenItem::Entry => known.entry = Some(digest),
                SeenItem::Instructions => known.instructions = Some(digest),
                SeenItem::Shared { kind, name } => drop(known.shared.insert((kind, name), digest)),
                SeenItem::Own { kind, name, caller } => {
                    known.own.entry((kind, name)).or_default().push(OwnDigest { caller, digest });
                }
            }
        }
        known
    }

    /// How the entry of the server compares.
    pub(crate) fn entry(&self, digest: &str) -> Sight {
        Self::one(self.entry.as_deref(), digest)
    }

    fn one(known: Option<&str>, digest: &str) -> Sight {
        match known {
            None => Sight::First,
            Some(known) if known == digest => Sight::Same,
            Some(_) => Sight::Changed,
        }
    }

    /// How a definition compares.
    pub(crate) fn item(&self, item: &SeenItem, digest: &str) -> Sight {
        match item {
            SeenItem::Entry => self.entry(digest),
            SeenItem::Instructions => Self::one(self.instructions.as_deref(), digest),
            SeenItem::Shared { kind, name } => match self.shared.get(&(*kind, name.clone())) {
                Some(known) if known == digest => Sight::Same,
                Some(_) => Sight::Changed,
                // Further ones cannot be kept, so that no later change of them would be found.
                None if self.is_full => Sight::Changed,
                None if !self.shared.keys().any(|(known, _)| known == kind) => Sight::First,
                None => Sight::New,
            },
            SeenItem::Own { kind, name, caller } => self.own_by(*kind, name, digest, |known| known == caller),
        }
    }

    /// How a definition that only some clients see compares with what any of them saw.
    pub(crate) fn of_any_client(&self, kind: ItemKind, name: &str, digest: &str) -> Sight {
        self.own_by(kind, name, digest, |_| true)
    }

    fn own_by(&self, kind: ItemKind, name: &str, digest: &str, is_meant: impl Fn(&str) -> bool) -> Sight {
        let key = (kind, name.to_owned());
        if self.shared.get(&key).is_some_and(|known| known == digest) {
            return Sight::Same;
        }
        let own = self.own.get(&key).map(Vec::as_slice).unwrap_or_default();
        let mut own = own.iter().filter(|own| is_meant(&own.caller)).peekable();
        if own.peek().is_some() {
            return if own.any(|own| own.digest == digest) { Sight::Same } else { Sight::Changed };
        }
        // What all saw under this name is what a client expects.
        if self.is_full || self.shared.contains_key(&key) {
            return Sight::Changed;
        }
        let is_one = |(known, seen): (&(ItemKind, String), &Vec<OwnDigest>)| {
            known.0 == kind && seen.iter().any(|own| is_meant(&own.caller))
        };
        if self.own.iter().any(is_one) { Sight::New } else { Sight::First }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(items: &[(SeenItem, &str)]) -> SeenServer {
        let digest =
            |(item, digest): &(SeenItem, &str)| SeenDigest { item: item.clone(), digest: (*digest).to_owned() };
        SeenServer::new(items.iter().map(digest).collect())
    }

    fn own(name: &str, caller: &str) -> SeenItem {
        SeenItem::Own { kind: ItemKind::Tool, name: name.into(), caller: caller.into() }
    }

    #[test]
    fn the_first_of_a_kind_is_a_first_sight_and_later_ones_are_new() {
        let known = seen(&[(SeenItem::Entry, "e"), (SeenItem::shared(ItemKind::Tool, "read"), "r")]);
        assert_eq!(known.item(&SeenItem::shared(ItemKind::Tool, "read"), "r"), Sight::Same);
        assert_eq!(known.item(&SeenItem::shared(ItemKind::Tool, "read"), "x"), Sight::Changed);
        assert_eq!(known.item(&SeenItem::shared(ItemKind::Tool, "write"), "w"), Sight::New);
        assert_eq!(known.item(&SeenItem::shared(ItemKind::Prompt, "read"), "r"), Sight::First);
        assert_eq!(known.entry("e"), Sight::Same);
        assert_eq!(known.entry("f"), Sight::Changed);
    }

    #[test]
    fn a_definition_that_cannot_be_kept_counts_as_changed() {
        let name = |number: usize| format!("tool{number}");
        let tools = |count: usize| (0..count).map(name).map(|name| SeenItem::shared(ItemKind::Tool, &name));
        let digest = |item| SeenDigest { item, digest: "d".to_owned() };
        let all_but_one = SeenServer::new(tools(super::super::MAX_ITEMS - 1).map(digest).collect());
        let last = SeenItem::shared(ItemKind::Tool, "last");
        assert_eq!(all_but_one.item(&last, "l"), Sight::New);
        let full = SeenServer::new(tools(super::super::MAX_ITEMS).map(digest).collect());
        assert_eq!(full.item(&SeenItem::shared(ItemKind::Tool, "tool7"), "d"), Sight::Same);
        assert_eq!(full.item(&last, "l"), Sight::Changed);
        assert_eq!(full.item(&SeenItem::shared(ItemKind::Prompt, "first"), "p"), Sight::Changed);
        assert_eq!(full.item(&own("last", "client:ada"), "l"), Sight::Changed);
        assert_eq!(full.of_any_client(ItemKind::Tool, "last", "l"), Sight::Changed);
        assert_eq!((full.entry("e"), full.item(&SeenItem::Instructions, "i")), (Sight::First, Sight::First));
    }

    #[test]
    fn what_one_client_sees_is_compared_with_what_it_saw_and_with_what_all_see() {
        let known = seen(&[(SeenItem::shared(ItemKind::Tool, "read"), "r"), (own("ask", "client:ada"), "a")]);
        assert_eq!(known.item(&own("read", "client:ada"), "r"), Sight::Same);
        assert_eq!(known.item(&own("ask", "client:ada"), "a"), Sight::Same);
        assert_eq!(known.item(&own("ask", "client:ada"), "b"), Sight::Changed);
        assert_eq!(known.item(&own("ask", "client:eve"), "b"), Sight::First);
        assert_eq!(known.item(&own("tell", "client:ada"), "t"), Sight::New);
        // One client alone is not shown something else than all have seen.
        assert_eq!(known.item(&own("read", "client:ada"), "x"), Sight::Changed);
        assert_eq!(known.of_any_client(ItemKind::Tool, "read", "x"), Sight::Changed);
        assert_eq!(known.of_any_client(ItemKind::Tool, "ask", "a"), Sight::Same);
        assert_eq!(known.of_any_client(ItemKind::Tool, "ask", "b"), Sight::Changed);
        // What one client accepted is not what all see.
        assert_eq!(known.item(&SeenItem::shared(ItemKind::Tool, "ask"), "a"), Sight::New);
    }
}
