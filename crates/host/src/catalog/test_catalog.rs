//! Builder of catalogs for the tests of this module.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use toolway_config::ServerName;
use toolway_wire::{json::Raw, message::ServerCapabilities};

use super::{
    Catalog, Filter, Freshness, Listing, Naming, Offer,
    entry::{CatalogItem, ListedItem},
    merge,
};

/// Servers with their listings.
#[derive(Clone, Default)]
pub(super) struct CatalogBuilder {
    pub(super) offers: BTreeMap<ServerName, Offer>,
}

impl CatalogBuilder {
    pub(super) fn tools(self, server: &str, tools: &[Value]) -> Self {
        self.change(server, |listing| listing.tools = listed(tools))
    }

    /// Adds tools that have a name only.
    pub(super) fn named(self, server: &str, names: &[&str]) -> Self {
        let tools: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        self.tools(server, &tools)
    }

    pub(super) fn prompts(self, server: &str, names: &[&str]) -> Self {
        let prompts: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        self.change(server, |listing| listing.prompts = listed(&prompts))
    }

    pub(super) fn resources(self, server: &str, uris: &[&str]) -> Self {
        let resources: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": uri })).collect();
        self.change(server, |listing| listing.resources = listed(&resources))
    }

    pub(super) fn templates(self, server: &str, templates: &[&str]) -> Self {
        let templates: Vec<_> = templates.iter().map(|uri| json!({ "uriTemplate": uri, "name": uri })).collect();
        self.change(server, |listing| listing.templates = listed(&templates))
    }

    pub(super) fn filter(mut self, server: &str, filter: Filter) -> Self {
        self.offer(server).filter = Arc::new(filter);
        self
    }

    pub(super) fn merge(&self) -> Catalog {
        self.merge_with(Naming::Always)
    }

    pub(super) fn merge_with(&self, naming: Naming) -> Catalog {
        merge(&self.offers, naming, 1)
    }

    pub(super) fn change(mut self, server: &str, change: impl FnOnce(&mut Listing)) -> Self {
        change(Arc::make_mut(&mut self.offer(server).listing));
        self
    }

    fn offer(&mut self, server: &str) -> &mut Offer {
        self.offers.entry(server.parse().unwrap()).or_insert_with(|| {
            let declared = json!({ "tools": {}, "resources": {}, "prompts": {} });
            let listing = Listing { capabilities: ServerCapabilities(Raw::of(&declared)), ..Listing::empty() };
            Offer { listing: Arc::new(listing), filter: Arc::default(), freshness: Freshness::Verified, guard: None }
        })
    }
}

pub(super) fn listed<T: CatalogItem>(items: &[Value]) -> Vec<ListedItem<T>> {
    items.iter().map(|item| ListedItem::new(T::view(&Raw::of(item)).unwrap())).collect()
}

/// The public names of all tools.
pub(super) fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().iter().map(|entry| entry.public.as_str()).collect()
}
