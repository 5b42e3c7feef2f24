//! Many listings, one catalog. Conflicts and what is set aside are part of the result.
//!
//! The result depends on its inputs alone: servers in the order of their names, items in the order of their
//! server. Nothing is asked and nothing is waited for here.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use toolway_config::ServerName;

use super::{
    Catalog, Conflict, ItemKind, SetAside,
    entry::{Entry, Listed, Offered},
    filter::{Filter, Switch},
    listing::Listing,
    name::{self, Naming, Origin, PublicName},
    shelf::Shelf,
    uri::{self, PublicUri},
};

/// What one server brings into a catalog.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What it listed.
    pub listing: Arc<Listing>,
    /// What the operator left out of it.
    pub filter: Arc<Filter>,
    /// Where the listing comes from.
    pub freshness: Freshness,
}

/// Where a listing comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// From the server, since we started.
    Verified,
    /// From the copy on disk; the server has not been heard yet.
    Unverified,
}

/// A longer name or URI is nobody's: it would only be carried around.
pub const LONGEST_RAW_NAME: usize = 8 * 1024;

/// Makes a catalog of what all servers offer.
pub fn merge(offers: &BTreeMap<ServerName, Offer>, naming: Naming, revision: u64) -> Catalog {
    let mut merge = Merge { naming, conflicts: Vec::new(), set_aside: Vec::new() };
    for (server, offer) in offers {
        merge.set_aside.extend(offer.listing.set_aside.iter().map(|item| item.of(server)));
    }
    let tools = merge.named(offers, |listing| &listing.tools);
    let prompts = merge.named(offers, |listing| &listing.prompts);
    let resources = merge.located(offers, |listing| &listing.resources);
    let templates = merge.located(offers, |listing| &listing.templates);
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
        matchers: OnceLock::new(),
        index: OnceLock::new(),
        findings: OnceLock::new(),
    }
}

struct Merge {
    naming: Naming,
    conflicts: Vec<Conflict>,
    set_aside: Vec<SetAside>,
}

/// An item that may be offered.
type Admitted<T> = (Origin, Listed<T>);

// === impl Merge ===

impl Merge {
    /// The shelf of a kind that is called by name.
    fn named<T: Offered>(
        &mut self,
        offers: &BTreeMap<ServerName, Offer>,
        list: impl Fn(&Listing) -> &Vec<Listed<T>>,
    ) -> Shelf<T, PublicName> {
        let (origins, items): (Vec<_>, Vec<_>) = self.admit(offers, list).into_iter().unzip();
        let names = name::assign(&origins, self.naming);
        self.note_renamed::<T>(&origins, &names);
        let mut entries = Vec::with_capacity(origins.len());
        for ((origin, item), public) in origins.into_iter().zip(items).zip(names) {
            match public {
                Some(public) => entries.push(entry(public, origin, item)),
                None => self.leave_out::<T>(origin, "its public name is taken by another"),
            }
        }
        Shelf::new(entries)
    }

    /// The shelf of a kind that is found by its URI.
    fn located<T: Offered>(
        &mut self,
        offers: &BTreeMap<ServerName, Offer>,
        list: impl Fn(&Listing) -> &Vec<Listed<T>>,
    ) -> Shelf<T, PublicUri> {
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
        Shelf::new(entries.collect())
    }

    /// What each server may offer of one kind, in order.
    fn admit<T: Offered>(
        &mut self,
        offers: &BTreeMap<ServerName, Offer>,
        list: impl Fn(&Listing) -> &Vec<Listed<T>>,
    ) -> Vec<Admitted<T>> {
        let mut admitted = Vec::with_capacity(offers.values().map(|offer| list(&offer.listing).len()).sum());
        for (server, offer) in offers.iter().filter(|(_, offer)| offer.filter.switch(T::KIND) == Switch::On) {
            let mut seen = HashSet::new();
            for listed in list(&offer.listing) {
                let raw_name = listed.item.raw_name();
                let origin = Origin { server: server.clone(), raw_name: raw_name.to_owned() };
                match objection::<T>(&offer.filter, raw_name, &mut seen) {
                    None => admitted.push((origin, listed.clone())),
                    Some(reason) => self.leave_out::<T>(origin, &reason),
                }
            }
        }
        admitted
    }

    /// Says which items are not called what they would be if they were alone.
    fn note_renamed<T: Offered>(&mut self, origins: &[Origin], names: &[Option<PublicName>]) {
        if self.naming == Naming::Always {
            // A prefixed name depends on nothing but its origin.
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

    fn leave_out<T: Offered>(&mut self, origin: Origin, reason: &str) {
        let name = origin.raw_name.chars().take(200).collect();
        let reason = reason.to_owned();
        self.set_aside.push(SetAside { server: origin.server, kind: T::KIND, name: Some(name), reason });
    }
}

fn entry<T, K>(public: K, origin: Origin, listed: Listed<T>) -> Entry<T, K> {
    Entry { public, origin, item: listed.item, fingerprint: listed.fingerprint }
}

/// Why an item cannot be offered.
fn objection<'a, T: Offered>(filter: &Filter, raw_name: &'a str, seen: &mut HashSet<&'a str>) -> Option<String> {
    if raw_name.is_empty() {
        return Some(format!("a {} without a name cannot be asked for", T::KIND));
    }
    if LONGEST_RAW_NAME < raw_name.len() {
        return Some(format!("its name is longer than {LONGEST_RAW_NAME} bytes"));
    }
    if matches!(T::KIND, ItemKind::Resource | ItemKind::Template) && uri::is_ours(raw_name) {
        return Some("its URI begins as only ours do, and would be read as another server's".to_owned());
    }
    if !seen.insert(raw_name) {
        return Some("the server lists it twice; the first is offered".to_owned());
    }
    filter.objection(T::KIND, raw_name)
}

#[cfg(test)]
mod tests;
