//! Merges the listings of all servers into a catalog, with name conflicts and items that are set aside.
//!
//! The result depends on the inputs only: servers are ordered by name, items as listed by their server. Merging does no
//! I/O.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use toolway_config::ServerName;
use toolway_wire::budget::Charge;

use super::{
    Catalog, Conflict, ItemKind, SetAsideItem,
    entry::{CatalogItem, Entry, ListedItem},
    entry_index::EntryIndex,
    filter::{Filter, Switch},
    guard::{DefinitionGuard, HiddenItem},
    listing::Listing,
    name::{self, Naming, Origin, PublicName},
    search::KeptIndex,
    uri::{self, PublicUri},
};

/// The input of one server to a catalog.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Listing of the server.
    pub listing: Arc<Listing>,
    /// Filter of the server's entry.
    pub filter: Arc<Filter>,
    /// Source of the listing.
    pub freshness: Freshness,
    /// What is hidden because it is not what was seen first; `None`: nothing is.
    pub guard: Option<DefinitionGuard>,
}

/// Source of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Received from the server since the host started.
    Verified,
    /// Read from disk; the server was not listed yet.
    Unverified,
}

/// Maximum length of a name or URI in bytes. Items with longer ones are set aside.
pub const LONGEST_RAW_NAME: usize = 8 * 1024;

/// Builds a catalog from the listings of all servers.
pub fn merge(offers: &BTreeMap<ServerName, Offer>, naming: Naming, revision: u64) -> Catalog {
    let mut merge = Merge { naming, conflicts: Vec::new(), set_aside: Vec::new(), hidden: Vec::new() };
    for (server, offer) in offers {
        merge.set_aside.extend(offer.listing.set_aside.iter().map(|item| item.of(server)));
    }
    let tools = merge.merge_named(offers, |listing| &listing.tools);
    let prompts = merge.merge_named(offers, |listing| &listing.prompts);
    let resources = merge.merge_located(offers, |listing| &listing.resources);
    let templates = merge.merge_located(offers, |listing| &listing.templates);
    Catalog {
        revision,
        naming,
        servers: offers.clone(),
        tools,
        prompts,
        resources,
        templates,
        conflicts: merge.conflicts,
        set_aside: merge.set_aside,
        hidden: merge.hidden,
        matchers: OnceLock::new(),
        index: KeptIndex::default(),
        resource_index: KeptIndex::default(),
        _charge: Charge::default(),
    }
}

struct Merge {
    naming: Naming,
    conflicts: Vec<Conflict>,
    set_aside: Vec<SetAsideItem>,
    hidden: Vec<HiddenItem>,
}

/// An item to be offered.
type Admitted<T> = (Origin, ListedItem<T>);

// === impl Merge ===

impl Merge {
    /// Builds the index of a kind with public names.
    fn merge_named<T: CatalogItem>(
        &mut self,
        offers: &BTreeMap<ServerName, Offer>,
        list: impl Fn(&Listing) -> &Vec<ListedItem<T>>,
    ) -> EntryIndex<T, PublicName> {
        let (origins, items): (Vec<_>, Vec<_>) = self.admit(offers, list).into_iter().unzip();
        let names = name::assign(&origins, self.naming);
        self.note_renamed::<T>(&origins, &names);
        let owners = self.owners_of_taken(&origins, &names);
        let mut entries = Vec::with_capacity(origins.len());
        for ((origin, item), public) in origins.into_iter().zip(items).zip(names) {
            match (public, owners.get(&name::wanted(&origin, self.naming))) {
                (Some(public), _) => entries.push(entry(public, origin, item)),
                (None, Some(owner)) => {
                    let reason = format!("server `{owner}` offers this name, and `naming.prefix` is `never`");
                    self.leave_out::<T>(origin, &reason);
                }
                (None, None) => self.leave_out::<T>(origin, "its public name is taken by another item"),
            }
        }
        EntryIndex::new(entries)
    }

    /// Builds the index of a kind with public URIs.
    fn merge_located<T: CatalogItem>(
        &mut self,
        offers: &BTreeMap<ServerName, Offer>,
        list: impl Fn(&Listing) -> &Vec<ListedItem<T>>,
    ) -> EntryIndex<T, PublicUri> {
        let admitted = self.admit(offers, list);
        let mut owners: HashMap<&str, Vec<&Origin>> = HashMap::with_capacity(admitted.len());
        for (origin, _) in &admitted {
            owners.entry(&origin.raw_name).or_default().push(origin);
        }
        let public = |origin: &Origin| match owners.get(origin.raw_name.as_str()) {
            Some(owners) if 1 < owners.len() => PublicUri::owned(&origin.server, &origin.raw_name),
            _ => PublicUri::plain(&origin.raw_name),
        };
        let publics: Vec<_> = admitted.iter().map(|(origin, _)| public(origin)).collect();
        let claim = |origin: &&Origin| ((*origin).clone(), public(origin).to_string());
        let shared = owners.iter().filter(|(_, owners)| 1 < owners.len());
        let mut conflicts: Vec<_> = shared
            .map(|(uri, owners)| Conflict {
                kind: T::KIND,
                wanted: (*uri).to_owned(),
                claims: owners.iter().map(claim).collect(),
            })
            .collect();
        conflicts.sort_by(|one, other| one.wanted.cmp(&other.wanted));
        self.conflicts.extend(conflicts);
        let entries = admitted.into_iter().zip(publics).map(|((origin, item), public)| entry(public, origin, item));
        EntryIndex::new(entries.collect())
    }

    /// Returns the items of one kind to be offered, in order.
    fn admit<T: CatalogItem>(
        &mut self,
        offers: &BTreeMap<ServerName, Offer>,
        list: impl Fn(&Listing) -> &Vec<ListedItem<T>>,
    ) -> Vec<Admitted<T>> {
        let mut admitted = Vec::with_capacity(offers.values().map(|offer| list(&offer.listing).len()).sum());
        for (server, offer) in offers.iter().filter(|(_, offer)| offer.filter.switch(T::KIND) == Switch::On) {
            let mut seen = HashSet::new();
            for listed in list(&offer.listing) {
                let raw_name = listed.item.raw_name();
                let origin = Origin { server: server.clone(), raw_name: raw_name.to_owned() };
                let guarded = || offer.guard.as_ref()?.objection(T::KIND, raw_name, listed.fingerprint);
                match objection::<T>(&offer.filter, raw_name, &mut seen) {
                    Some(reason) => self.leave_out::<T>(origin, &reason),
                    None => match guarded() {
                        Some(reason) => self.hidden.push(HiddenItem { kind: T::KIND, origin, reason }),
                        None => admitted.push((origin, listed.clone())),
                    },
                }
            }
        }
        admitted
    }

    /// Records items that did not get the name they want.
    fn note_renamed<T: CatalogItem>(&mut self, origins: &[Origin], names: &[Option<PublicName>]) {
        if self.naming == Naming::Always {
            // A prefixed name depends on its origin only.
            return;
        }
        let mut wanting: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, origin) in origins.iter().enumerate() {
            wanting.entry(name::wanted(origin, self.naming)).or_default().push(index);
        }
        for (wanted, group) in wanting {
            let renamed = |index: &usize| names[*index].as_ref().is_some_and(|name| name.as_str() != wanted);
            if group.iter().any(renamed) {
                let claim = |index: &usize| Some((origins[*index].clone(), names[*index].as_ref()?.to_string()));
                let claims = group.iter().filter_map(claim).collect();
                self.conflicts.push(Conflict { kind: T::KIND, wanted, claims });
            }
        }
    }

    /// Without prefixes: the server whose item has a name that another one wants too.
    fn owners_of_taken(&self, origins: &[Origin], names: &[Option<PublicName>]) -> HashMap<String, ServerName> {
        if self.naming != Naming::Never || names.iter().all(Option::is_some) {
            return HashMap::new();
        }
        let named = origins.iter().zip(names);
        named.filter_map(|(origin, name)| Some((name.as_ref()?.to_string(), origin.server.clone()))).collect()
    }

    fn leave_out<T: CatalogItem>(&mut self, origin: Origin, reason: &str) {
        let name = origin.raw_name.chars().take(200).collect();
        let reason = reason.to_owned();
        self.set_aside.push(SetAsideItem { server: origin.server, kind: T::KIND, name: Some(name), reason });
    }
}

fn entry<T, K>(public: K, origin: Origin, listed: ListedItem<T>) -> Entry<T, K> {
    Entry { public, origin, item: listed.item, fingerprint: listed.fingerprint }
}

/// Returns the reason why an item cannot be offered.
fn objection<'a, T: CatalogItem>(filter: &Filter, raw_name: &'a str, seen: &mut HashSet<&'a str>) -> Option<String> {
    if raw_name.is_empty() {
        return Some(format!("the {} has no name", T::KIND));
    }
    if LONGEST_RAW_NAME < raw_name.len() {
        return Some(format!("its name is longer than {LONGEST_RAW_NAME} bytes"));
    }
    if matches!(T::KIND, ItemKind::Resource | ItemKind::Template) && uri::is_ours(raw_name) {
        return Some("its URI begins with the reserved `toolway+`".to_owned());
    }
    if !seen.insert(raw_name) {
        return Some("duplicate; only the first is offered".to_owned());
    }
    filter.objection(T::KIND, raw_name)
}

#[cfg(test)]
mod tests;
